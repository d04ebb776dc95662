//! Sorted chunk addresses, looked up in walk order.

/// Addresses of chunks that look in use but are not: in a thread cache, in a fastbin, or malloc's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marks(Vec<u64>);

impl Marks {
    /// Maximum number of addresses kept (32 MiB); the chunks of any more count as live.
    pub const MAX: usize = 4 << 20;

    /// Creates the set from addresses in any order.
    #[must_use]
    pub fn new(mut addresses: Vec<u64>) -> Self {
        addresses.sort_unstable();
        addresses.dedup();
        Marks(addresses)
    }

    /// The number of addresses.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The last address before `address`.
    #[must_use]
    pub fn last_before(&self, address: u64) -> Option<u64> {
        let after = self.0.partition_point(|&a| a < address);
        after.checked_sub(1).and_then(|i| self.0.get(i)).copied()
    }

    /// A cursor for a walk that starts at `address`.
    #[must_use]
    pub fn from(&self, address: u64) -> MarksCursor<'_> {
        MarksCursor { rest: &self.0[self.0.partition_point(|&a| a < address)..] }
    }
}

/// The marks ahead of a walk.
#[derive(Debug, Clone)]
pub struct MarksCursor<'a> {
    rest: &'a [u64],
}

impl MarksCursor<'_> {
    /// Returns whether `address` is marked. Addresses must be queried in ascending order.
    pub fn has(&mut self, address: u64) -> bool {
        while let Some((&first, rest)) = self.rest.split_first() {
            if first > address {
                return false;
            }
            self.rest = rest;
            if first == address {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookups_in_order() {
        let marks = Marks::new(vec![48, 16, 16, 96]);
        let mut cursor = marks.from(16);
        let found: Vec<u64> = (16..=96).step_by(16).filter(|&a| cursor.has(a)).collect();
        assert_eq!(found, [16, 48, 96]);
        assert_eq!((marks.last_before(48), marks.last_before(16)), (Some(16), None));
    }
}
