//! jemalloc's size classes: 8, 16, 32, 48, 64, then four to each doubling.
//!
//! `src/sc.c` (`sc_boot`) and `include/jemalloc/internal/sc.h` of 5.2.1 to 5.3.1, with the quantum of 16
//! bytes that every 64-bit Linux build has (`LG_QUANTUM` 4). The table does not depend on the page size.

/// Number of size classes (`SC_NSIZES`); as an index it means "no class".
pub const CLASSES: usize = 232;

const SIZES: [u64; CLASSES] = sizes();

const fn sizes() -> [u64; CLASSES] {
    let mut sizes = [8; CLASSES];
    let mut i = 1;
    while i < CLASSES {
        sizes[i] = if i < 5 {
            16 * i as u64
        } else {
            let base = 64 << ((i - 5) / 4);
            base + base / 4 * ((i - 5) % 4 + 1) as u64
        };
        i += 1;
    }
    sizes
}

/// One size class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SizeClass(u8);

impl SizeClass {
    /// Returns the class with this index; `None` from [`CLASSES`] on.
    #[must_use]
    pub fn new(index: u64) -> Option<Self> {
        u8::try_from(index).ok().filter(|&index| usize::from(index) < CLASSES).map(SizeClass)
    }

    /// Returns the smallest class that holds `bytes`.
    #[must_use]
    pub fn holding(bytes: u64) -> Option<Self> {
        Self::new(SIZES.partition_point(|&size| size < bytes) as u64)
    }

    /// Its index (`szind`).
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Its size in bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        SIZES[self.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_the_manual() {
        let sizes = |indexes: std::ops::Range<usize>| &SIZES[indexes];
        assert_eq!(sizes(0..13), [8, 16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256]);
        assert_eq!(sizes(33..38), [10 << 10, 12 << 10, 14 << 10, 16 << 10, 20 << 10]);
        assert_eq!(SIZES[CLASSES - 1], 7 << 60); // SC_LARGE_MAXCLASS
        assert!(SIZES.is_sorted());
    }

    #[test]
    fn a_size_is_rounded_up_to_its_class() {
        let of = |bytes| SizeClass::holding(bytes).map(SizeClass::bytes);
        assert_eq!(
            [1, 8, 9, 65, 14 << 10, (14 << 10) + 1].map(of).map(Option::unwrap_or_default),
            [8, 8, 16, 80, 14 << 10, 16 << 10]
        );
        assert_eq!(of(u64::MAX), None);
        assert_eq!(SizeClass::new(232), None);
    }
}
