//! Pages by cause.

use crate::model::{Cause, CauseRow, Remedy};
use std::collections::{BTreeMap, HashMap};

/// Maximum number of distinct causes; what comes later counts towards its kind only.
const MAX_CAUSES: usize = 1 << 16;

/// Adds up words, page by page.
#[derive(Debug, Default)]
pub(super) struct Tally {
    index: HashMap<Cause, u32>,
    /// Shares of pages, in units of a page: of all pages, and of those without another cause.
    rows: Vec<(Cause, f64, u64)>,
    /// Pages that have causes of one remedy only, and the bytes on them that new objects would need elsewhere.
    by_remedy: BTreeMap<Remedy, (u64, u64)>,
    /// Words of the current page by cause.
    page: Vec<(u32, u32)>,
    /// Bytes of new objects on the current page.
    new_bytes: u64,
}

impl Tally {
    /// Counts a word of the current page.
    pub(super) fn word(&mut self, cause: &Cause) {
        let place = self.place(cause);
        match self.page.iter_mut().find(|(known, _)| *known == place) {
            Some((_, words)) => *words += 1,
            None => self.page.push((place, 1)),
        }
    }

    /// Counts a new object on the current page: elsewhere it would need memory as well.
    pub(super) fn new_object(&mut self, bytes: u64) {
        self.new_bytes += bytes;
    }

    fn place(&mut self, cause: &Cause) -> u32 {
        if let Some(&place) = self.index.get(cause) {
            return place;
        }
        if self.rows.len() >= MAX_CAUSES {
            let rest = Cause { name: Default::default(), ..super::plain(cause.kind) };
            if rest != *cause {
                return self.place(&rest);
            }
        }
        let place = self.rows.len() as u32;
        self.rows.push((cause.clone(), 0.0, 0));
        self.index.insert(cause.clone(), place);
        place
    }

    /// Ends the current page.
    pub(super) fn page(&mut self) {
        let page = std::mem::take(&mut self.page);
        let new_bytes = std::mem::take(&mut self.new_bytes);
        let all: u32 = page.iter().map(|(_, words)| words).sum();
        let mut remedies: Vec<Remedy> = Vec::new();
        for &(place, words) in &page {
            let Some((cause, share, alone)) = self.rows.get_mut(place as usize) else { continue };
            *share += f64::from(words) / f64::from(all);
            *alone += u64::from(page.len() == 1);
            remedies.push(cause.kind.remedy());
        }
        remedies.sort_unstable();
        remedies.dedup();
        if let [remedy] = remedies[..] {
            let (pages, needed) = self.by_remedy.entry(remedy).or_default();
            *pages += 1;
            *needed += new_bytes;
        }
        // Its memory serves the next page.
        self.page = page;
        self.page.clear();
    }

    /// Returns the causes, largest first, and the bytes by remedy.
    pub(super) fn finish(self, page_bytes: u64) -> (Vec<CauseRow>, Vec<(Remedy, u64)>) {
        let row = |(cause, share, alone): (Cause, f64, u64)| CauseRow {
            cause,
            bytes: (share * page_bytes as f64).round() as u64,
            alone_bytes: alone * page_bytes,
        };
        let mut rows: Vec<CauseRow> = self.rows.into_iter().map(row).collect();
        rows.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.cause.cmp(&b.cause)));
        let gain = |(remedy, (pages, needed)): (Remedy, (u64, u64))| {
            (remedy, (pages * page_bytes).saturating_sub(needed))
        };
        let mut by_remedy: Vec<(Remedy, u64)> = self.by_remedy.into_iter().map(gain).collect();
        by_remedy.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
        (rows, by_remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CauseKind;
    use crate::ruby::unshared::plain;

    #[test]
    fn a_page_with_two_causes_is_divided_by_words() {
        let mut tally = Tally::default();
        let (new, aged) = (plain(CauseKind::NewObjects), plain(CauseKind::AgedObjects));
        (0..3).for_each(|_| tally.word(&new));
        tally.word(&aged);
        tally.page();
        tally.word(&aged);
        tally.page();
        let (rows, by_remedy) = tally.finish(4096);
        let row = |cause: &Cause, bytes, alone_bytes| CauseRow { cause: cause.clone(), bytes, alone_bytes };
        assert_eq!(rows, [row(&aged, 5120, 4096), row(&new, 3072, 0)]);
        assert_eq!(by_remedy, [(Remedy::Age, 4096)]);
    }

    #[test]
    fn what_new_objects_need_elsewhere_is_no_gain() {
        let mut tally = Tally::default();
        tally.word(&plain(CauseKind::NewObjects));
        tally.new_object(3000);
        tally.page();
        tally.word(&plain(CauseKind::FreedSlots));
        tally.page();
        let (_, by_remedy) = tally.finish(4096);
        assert_eq!(by_remedy, [(Remedy::FillPages, 2 * 4096 - 3000)]);
    }
}
