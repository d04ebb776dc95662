//! The columns of figures.

use std::cmp::Ordering;
use unbloat_heap::Iec;
use unbloat_record::monitor::Seen;

/// A column by which the view can be sorted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Column {
    /// Proportional bytes; resident ones where they cannot be read.
    #[default]
    Pss,
    /// Cached + trimmable + stranded.
    Bloat,
    /// Resident − bloat.
    Floor,
    /// Change of PSS since the last look.
    Growth,
    /// Memory that is not shared with the parent any more.
    Unshared,
}

impl Column {
    /// All columns, from left to right.
    pub const ALL: [Column; 5] =
        [Column::Pss, Column::Bloat, Column::Floor, Column::Growth, Column::Unshared];

    /// The head of the column.
    #[must_use]
    pub fn head(self) -> &'static str {
        match self {
            Column::Pss => "PSS",
            Column::Bloat => "BLOAT",
            Column::Floor => "FLOOR",
            Column::Growth => "GROWTH",
            Column::Unshared => "UNSHARED",
        }
    }

    /// The width of the column, with the space before it.
    #[must_use]
    pub fn width(self) -> usize {
        match self {
            Column::Growth => 10,
            Column::Pss | Column::Bloat | Column::Floor | Column::Unshared => 9,
        }
    }

    /// Returns the next column, after the last one the first.
    #[must_use]
    pub fn next(self) -> Self {
        let at = Column::ALL.iter().position(|&column| column == self).unwrap_or(0);
        Column::ALL[(at + 1) % Column::ALL.len()]
    }

    /// Returns a process's bytes; `None` if they are not known. `base` is its PSS at the last look.
    #[must_use]
    pub fn bytes(self, seen: &Seen, base: Option<u64>) -> Option<i64> {
        let report = seen.look.as_ref().map(|look| &look.value.report);
        let bytes = match self {
            Column::Pss => Some(size(seen)),
            Column::Bloat => report.and_then(|report| report.bloat_bytes()),
            Column::Floor => report.and_then(|report| report.floor_bytes()),
            Column::Growth => return Some(signed(seen.memory?.value.pss_bytes) - signed(base?)),
            Column::Unshared => seen.look.as_ref().and_then(|look| Some(look.value.sharing?.unshared_bytes)),
        };
        bytes.map(signed)
    }

    /// Returns the text of a figure, which leaves a space in the width up to a TiB.
    #[must_use]
    pub fn text(self, bytes: Option<i64>) -> String {
        let Some(bytes) = bytes else { return "–".into() };
        let size = Iec(bytes.unsigned_abs()).to_string();
        match (self, bytes.cmp(&0)) {
            (Column::Growth, Ordering::Greater) => format!("+{size}"),
            (Column::Growth, Ordering::Less) => format!("-{size}"),
            _ => size,
        }
    }
}

/// Returns the proportional bytes of a process, or the resident ones where they are not known.
#[must_use]
pub fn size(seen: &Seen) -> u64 {
    seen.memory.map_or(seen.rss_bytes.value, |memory| memory.value.pss_bytes)
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short_and_growth_has_a_sign() {
        assert_eq!(Column::Growth.text(Some(1 << 20)), "+1.00 MiB");
        assert_eq!(Column::Growth.text(Some(-(3 << 30))), "-3.00 GiB");
        assert_eq!(Column::Growth.text(Some(0)), Column::Pss.text(Some(0)));
        assert_eq!(Column::Pss.text(None), "–");
        for bytes in [1023, 1023 << 10, 999 << 20, 1023 << 30] {
            for column in Column::ALL {
                assert!(column.text(Some(bytes)).len() < column.width(), "{}", column.text(Some(bytes)));
            }
        }
    }

    #[test]
    fn each_column_has_its_turn() {
        let turns: Vec<_> =
            std::iter::successors(Some(Column::Pss), |column| Some(column.next())).take(6).collect();
        assert_eq!(turns[..5], Column::ALL);
        assert_eq!(turns[5], Column::Pss);
    }
}
