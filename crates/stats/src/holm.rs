//! Holm's correction: keeps the probability of *any* false difference among several comparisons at the level
//! of a single test (S. Holm, *Scand. J. Statist.* 6, 1979).

/// Returns the adjusted p values in the original order.
#[must_use]
pub fn adjust(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut adjusted = vec![0.0; p.len()];
    let mut largest: f64 = 0.0;
    for (rank, &index) in order.iter().enumerate() {
        largest = largest.max(p[index] * (p.len() - rank) as f64).min(1.0);
        adjusted[index] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::adjust;

    #[test]
    fn steps_down_and_never_decreases() {
        assert_eq!(adjust(&[0.01, 0.04, 0.03]), [0.03, 0.06, 0.06]);
        assert_eq!(adjust(&[0.5, 0.9]), [1.0, 1.0]);
        assert!(adjust(&[]).is_empty());
    }
}
