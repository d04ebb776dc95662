//! Colors. Each has one name and one meaning on every page and in every chart, and one value each for light
//! and dark.
//!
//! A page receives them as custom properties with `light-dark()`, so a single property, `color-scheme`,
//! selects between the two. Colors with a meaning of their own are also classes that set `color`; style
//! sheets then use `currentColor`.

use crate::segment::Segment;
use std::fmt::Write as _;

/// The color of a drawn element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Color {
    /// The nth of the palette, wrapping around at its end.
    Nth(usize),
    /// Totals, controls, and everything else without its own color.
    Neutral,
    /// A part of memory, as in bars and on the heap map.
    Memory(Segment),
}

impl Color {
    /// Returns the color of an experiment's variant; the control is neutral.
    #[must_use]
    pub(crate) fn variant(index: usize) -> Self {
        index.checked_sub(1).map_or(Color::Neutral, Color::Nth)
    }

    /// Returns the class that sets it.
    #[must_use]
    pub(crate) fn class(self) -> &'static str {
        match self {
            Color::Nth(n) => SERIES.get(n % SERIES.len()).map_or(NEUTRAL.name, |tone| tone.name),
            Color::Neutral => NEUTRAL.name,
            Color::Memory(segment) => segment.key(),
        }
    }
}

/// A color in both schemes.
struct Tone {
    name: &'static str,
    light: &'static str,
    dark: &'static str,
}

const fn tone(name: &'static str, light: &'static str, dark: &'static str) -> Tone {
    Tone { name, light, dark }
}

/// Backgrounds, text and lines of pages and drawings.
const SURFACES: [Tone; 12] = [
    tone("paper", "#fbfbf9", "#14161b"),
    tone("card", "#ffffff", "#1b1e25"),
    tone("ink", "#1d2129", "#e6e8ec"),
    tone("quiet", "#616a7b", "#98a1b3"),
    tone("line", "#e2e4e8", "#2d323c"),
    tone("code", "#f1f2f4", "#262a33"),
    tone("absent", "#eceef1", "#20242c"),
    tone("good", "#1a7f45", "#4bc27a"),
    tone("bad", "#c2320a", "#ff6b35"),
    // Between stranded and live: pages of malloc that are a quarter, half, or three quarters full.
    tone("malloc-25", "#f0a37c", "#c0643f"),
    tone("malloc-50", "#d3c6cd", "#6f6672"),
    tone("malloc-75", "#7ea6de", "#4a76b8"),
];

/// Parts of memory: each [`Segment::key`], and the unused end of an arena, which only the heap map shows.
const MEMORY: [Tone; 9] = [
    tone("ruby-live", "#9c1457", "#f2559c"),
    tone("ruby-free", "#e9bcd2", "#6b3350"),
    tone("live", "#1f66c9", "#4a90f0"),
    tone("cached", "#e0a100", "#f0b92b"),
    tone("trimmable", "#2f9e57", "#4bc27a"),
    tone("stranded", "#d9480f", "#ff6b35"),
    tone("rest", "#a3abb8", "#5d6675"),
    tone("untold", "#6b4fa0", "#a58be0"),
    tone("top", "#b9d3d0", "#3d5a58"),
];

/// Colors distinguishable by most people, including those with red-green color blindness (the first eight
/// adapted from Okabe and Ito, "Color Universal Design", 2008).
const SERIES: [Tone; 9] = [
    tone("s0", "#0072b2", "#56b4e9"),
    tone("s1", "#d55e00", "#ff8c42"),
    tone("s2", "#009e73", "#2fd3a3"),
    tone("s3", "#b8568f", "#e7a3c6"),
    tone("s4", "#a87800", "#f0c94a"),
    tone("s5", "#6a51a3", "#a993e0"),
    tone("s6", "#8c564b", "#c49c94"),
    tone("s7", "#3f8f29", "#93d36f"),
    tone("s8", "#5a6f8f", "#8fb0d8"),
];

const NEUTRAL: Tone = tone("neutral", "#6f7682", "#9aa0aa");

fn classes() -> impl Iterator<Item = &'static Tone> {
    MEMORY.iter().chain(&SERIES).chain([&NEUTRAL])
}

fn tones() -> impl Iterator<Item = &'static Tone> {
    SURFACES.iter().chain(classes())
}

/// Returns the palette as a style sheet that adapts to the reader's scheme.
#[must_use]
pub(crate) fn style() -> String {
    let mut css = String::from(":root{color-scheme:light dark");
    for Tone { name, light, dark } in tones() {
        let _ = write!(css, ";--{name}:light-dark({light},{dark})");
    }
    css.push_str("}\n");
    for Tone { name, .. } in classes() {
        let _ = write!(css, ".{name}{{color:var(--{name})}}");
    }
    css.push('\n');
    css
}

/// Returns a style sheet with literal light colors, for programs without custom properties.
#[must_use]
pub(crate) fn spelled_out(css: &str) -> String {
    let mut plain = css.to_owned();
    for Tone { name, light, .. } in tones() {
        plain = plain.replace(&format!("var(--{name})"), light);
    }
    for Tone { name, light, .. } in classes() {
        let _ = write!(plain, ".{name}{{color:{light}}}");
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_color_that_can_be_named_is_in_the_palette() {
        let known: Vec<&str> = classes().map(|tone| tone.name).collect();
        let memory = Segment::ALL.map(Color::Memory);
        for color in memory.into_iter().chain((0..20).map(Color::variant)) {
            assert!(known.contains(&color.class()), "{color:?}");
        }
        assert_eq!(Color::variant(0), Color::Neutral);
        assert_ne!(Color::variant(1).class(), Color::variant(2).class());
    }

    #[test]
    fn each_name_occurs_once() {
        let mut names: Vec<&str> = tones().map(|tone| tone.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }

    /// WCAG 2.2: text needs a contrast of 4.5 with its background, graphics 3.
    #[test]
    fn text_and_series_stand_out_from_their_background() {
        for scheme in [|tone: &Tone| tone.light, |tone: &Tone| tone.dark] {
            let value = |name: &str| tones().find(|tone| tone.name == name).map(scheme).unwrap_or_default();
            for text in ["ink", "quiet", "good", "bad"] {
                for paper in ["paper", "card"] {
                    let contrast = contrast(value(text), value(paper));
                    assert!(contrast >= 4.5, "{text} on {paper}: {contrast:.2}");
                }
            }
            for series in SERIES.iter().chain([&NEUTRAL]) {
                let contrast = contrast(scheme(series), value("card"));
                assert!(contrast >= 3.0, "{}: {contrast:.2}", series.name);
            }
        }
    }

    /// WCAG 2.2, "contrast ratio" and "relative luminance".
    fn contrast(a: &str, b: &str) -> f64 {
        let luminance = |hex: &str| {
            let channel = |at: usize| {
                let value = hex.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
                let value = f64::from(value.unwrap_or_else(|| panic!("{hex} is no color"))) / 255.0;
                if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
        };
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }
}
