//! p95 against the mean of the slowest tenth, on a server whose full collections delay broadcasts.

use crate::noise::normal;
use crate::repeated;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use unbloat_stats::decision::{Requirement, Rule};
use unbloat_stats::effort::noise_that_decides;
use unbloat_stats::looks::Looks;
use unbloat_stats::power::ALPHA;
use unbloat_stats::tail::{SLOWEST, tail_mean};

/// A run: broadcasts at a fixed rate, some of which fall into a full collection. A broadcast takes about 50
/// ms; during a collection, and while its queue drains, about twice as long.
struct Server {
    broadcasts: usize,
    collections_per_run: f64,
}

/// Number of broadcasts delayed by one full collection.
const HELD_UP: usize = 3;

impl Server {
    fn run(&self, random: &mut Xoshiro256PlusPlus) -> Vec<f64> {
        // Collections come at equal intervals; the run begins anywhere between two, and intervals vary by a
        // fifth.
        let interval = self.broadcasts as f64 / self.collections_per_run;
        let mut next = interval * random.random::<f64>();
        let mut held_up = vec![false; self.broadcasts];
        while next < self.broadcasts as f64 {
            let from = next as usize;
            held_up[from..(from + HELD_UP).min(self.broadcasts)].fill(true);
            next += interval * (1.0 + 0.2 * normal(random)).max(0.1);
        }
        let level = 0.05 * (0.03 * normal(random)).exp();
        let time = |is_held_up: bool, random: &mut _| {
            level * if is_held_up { 2.2 } else { 1.0 } * (0.1 * normal(random)).exp()
        };
        held_up.into_iter().map(|is_held_up| time(is_held_up, random)).collect()
    }

    /// Returns the standard deviations over runs of the logarithms of p95 and of the tail mean.
    fn noise(&self, random: &mut Xoshiro256PlusPlus) -> [f64; 2] {
        let runs: Vec<[f64; 2]> = (0..repeated(1_500))
            .map(|_| {
                let mut times = self.run(random);
                times.sort_by(f64::total_cmp);
                let p95 = times[(0.95 * times.len() as f64).ceil() as usize - 1];
                [p95.ln(), tail_mean(times.into_iter().map(|time| (time, 1)), SLOWEST).unwrap().ln()]
            })
            .collect();
        [0, 1].map(|measure| {
            let mean = runs.iter().map(|run| run[measure]).sum::<f64>() / runs.len() as f64;
            let squares: f64 = runs.iter().map(|run| (run[measure] - mean).powi(2)).sum();
            (squares / (runs.len() - 1) as f64).sqrt()
        })
    }
}

/// One in twenty broadcasts falls into a collection, the worst case for p95.
#[test]
fn the_tail_mean_varies_far_less_than_p95_on_a_bimodal_server() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(71);
    let mut ratios = Vec::new();
    for collections_per_run in [2.0, 4.0, 8.0, 16.0] {
        let broadcasts = (collections_per_run * 60.0) as usize;
        let [p95, tail] = Server { broadcasts, collections_per_run }.noise(&mut random);
        println!(
            "{collections_per_run:2} collections in {broadcasts:4} broadcasts: p95 {p95:.3}, tail mean {tail:.3}"
        );
        ratios.push((p95, tail));
    }
    // Independent collections: the tail mean's noise falls with the root of their number, down to the runs' own 3 %. A jump is a
    // jump, however long the run.
    let [(p95_short, tail_short), .., (p95_long, tail_long)] = ratios[..] else { panic!() };
    assert!(tail_long < (tail_short / 8f64.sqrt()).hypot(0.03) * 1.3, "{ratios:?}");
    assert!(p95_long > 0.8 * p95_short && p95_short > 1.5 * tail_short, "{ratios:?}");
    // From four collections a run on, ten blocks decide a margin of 10 %; of p95 they do not. A block's log ratio to two controls
    // varies by √1.5 of a run's.
    let rule = Rule { alpha: ALPHA, looks: Looks::Once, variants: 1, requirements: 3 };
    let allowed = noise_that_decides(&rule, Requirement::AtMost { limit: 1.1 }, 0.0, 10);
    assert!(
        ratios[1].1 * 1.5f64.sqrt() < allowed && allowed < ratios[1].0 * 1.5f64.sqrt(),
        "{allowed} {ratios:?}"
    );
}
