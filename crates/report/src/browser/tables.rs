//! Sortable tables.

use super::samples;
use super::tab::{Scheme, Tab, WIDE};

/// Clicks a heading of the arenas and returns the column, top to bottom.
fn sort_by(tab: &mut Tab, column: usize) -> Vec<String> {
    let n = column + 1;
    tab.press(&format!(".arenas th:nth-child({n}) button"));
    let cells = format!(
        "[...document.querySelectorAll('.arenas td:nth-child({n})')].map((c) => c.textContent).join()"
    );
    tab.text(&cells).split(',').map(str::to_owned).collect()
}

#[test]
fn a_heading_sorts_its_table_and_again_the_other_way_around() {
    let mut tab = Tab::open(&samples::inspected_one(), WIDE, Scheme::Light);
    let down = sort_by(&mut tab, 3);
    assert_eq!(
        down,
        ["27.0", "26.0", "25.0", "24.0", "23.0", "22.0", "21.0", "20.0"].map(|n| format!("{n} MiB"))
    );
    assert_eq!(tab.text("document.querySelector('.arenas [aria-sort]').textContent"), "live");
    let up = sort_by(&mut tab, 3);
    assert_eq!(up, down.into_iter().rev().collect::<Vec<_>>());
    let names = sort_by(&mut tab, 0);
    assert_eq!(names.last().map(String::as_str), Some("main"), "texts from a to z: {names:?}");
    assert_eq!(tab.number("document.querySelectorAll('.arenas [aria-sort]').length"), 1.0);
    assert_eq!(tab.number("document.querySelectorAll('.arenas tbody tr').length"), 8.0, "no row is lost");
}

#[test]
fn the_table_of_variants_sorts_by_the_figures_behind_the_ratios() {
    let page = samples::all().into_iter().find(|(name, _)| *name == "compare").map(|(_, page)| page);
    let mut tab = Tab::open(&page.unwrap_or_default(), WIDE, Scheme::Light);
    let first = "document.querySelector('.sortable tbody tr td').textContent";
    assert_eq!(tab.text(first), "glibc");
    tab.press(".sortable th:nth-child(3) button");
    assert_eq!(tab.text(first), "glibc", "it takes the most memory");
    tab.press(".sortable th:nth-child(3) button");
    assert!(tab.text(first).starts_with("jemalloc-with"), "and the other the least");
}
