//! Style of terminal text: width and color, bars, wrapped paragraphs, numbers.

use unbloat_untrusted::visible;

/// Capabilities of the terminal (or file) that receives the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Columns to fill.
    pub width: usize,
    /// ANSI colors are allowed.
    pub color: bool,
}

impl Style {
    /// 80 columns without color, for files, pipes and tests.
    pub const PLAIN: Style = Style { width: 80, color: false };

    /// Colors `text`, if colors are allowed.
    #[must_use]
    pub fn paint(&self, ink: Ink, text: &str) -> String {
        if self.color && ink != Ink::None {
            format!("\x1b[{}m{text}\x1b[0m", ink.code())
        } else {
            text.to_owned()
        }
    }
}

/// A color or weight, one of the sixteen that every terminal theme defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// The terminal's default.
    None,
    /// Headings.
    Bold,
    /// Secondary text.
    Dim,
    /// Lines to copy, and memory that a trim returns.
    Green,
    /// Stranded memory, and failures.
    Red,
    /// Cached memory, and warnings.
    Yellow,
    /// Live memory.
    Blue,
    /// Ruby objects.
    Magenta,
    /// Ruby's free slots.
    BrightMagenta,
    /// Everything outside heaps.
    Gray,
}

impl Ink {
    fn code(self) -> &'static str {
        match self {
            Ink::None => "0",
            Ink::Bold => "1",
            Ink::Dim => "2",
            Ink::Green => "32",
            Ink::Red => "31",
            Ink::Yellow => "33",
            Ink::Blue => "34",
            Ink::Magenta => "35",
            Ink::BrightMagenta => "95",
            Ink::Gray => "90",
        }
    }
}

/// Divides `cells` among parts in proportion; each nonzero part gets at least one cell, and none is lost.
#[must_use]
pub fn apportion(parts: &[u64], cells: usize) -> Vec<usize> {
    let total: u64 = parts.iter().sum();
    if total == 0 {
        return vec![0; parts.len()];
    }
    let exact = |part: u64| part as f64 / total as f64 * cells as f64;
    let mut shares: Vec<usize> =
        parts.iter().map(|&part| if part == 0 { 0 } else { (exact(part) as usize).max(1) }).collect();
    // The rounding error goes to (or comes from) the part that is furthest from its due.
    loop {
        let sum: usize = shares.iter().sum();
        let gap = |i: &usize| exact(parts[*i]) - shares[*i] as f64;
        let candidates = (0..parts.len()).filter(|&i| parts[i] > 0);
        let chosen = match sum.cmp(&cells) {
            std::cmp::Ordering::Equal => return shares,
            std::cmp::Ordering::Less => candidates.max_by(|a, b| gap(a).total_cmp(&gap(b))),
            std::cmp::Ordering::Greater => {
                candidates.filter(|&i| shares[i] > 1).min_by(|a, b| gap(a).total_cmp(&gap(b)))
            }
        };
        // More parts than cells: one cell for every part is the best possible.
        let Some(chosen) = chosen else { return shares };
        if sum < cells { shares[chosen] += 1 } else { shares[chosen] -= 1 }
    }
}

/// Formats a horizontal bar of at most `cells` columns for `part` of `whole`, to an eighth of a column.
#[must_use]
pub fn bar(part: u64, whole: u64, cells: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if whole == 0 || part == 0 {
        return String::new();
    }
    let eighths = (part as f64 / whole as f64 * (cells * 8) as f64).round() as usize;
    let eighths = eighths.clamp(1, cells * 8);
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// Joins each number with its unit by a non-breaking space.
#[must_use]
pub fn bind_units(text: &str) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "%", "ms"];
    UNITS.iter().fold(text.to_owned(), |text, unit| {
        [" ", ".", ",", ")", ";", ":"]
            .iter()
            .fold(text, |text, end| text.replace(&format!(" {unit}{end}"), &format!("\u{a0}{unit}{end}")))
    })
}

/// Breaks a text at spaces into lines of at most `width` columns, each starting with `indent` spaces. A word
/// longer than a line gets its own line; a number and its unit stay together.
#[must_use]
pub fn wrap(text: &str, width: usize, indent: usize) -> String {
    let bound = bind_units(text);
    let options = textwrap::Options::new(width.saturating_sub(indent))
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .break_words(false)
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit);
    let lines = textwrap::wrap(bound.trim(), options);
    lines.iter().map(|line| format!("{:indent$}{}\n", "", line.replace('\u{a0}', " "))).collect()
}

/// Returns the visible form of a text in at most `width` columns, with its end replaced by `…` if it is
/// longer.
#[must_use]
pub fn clip(text: &str, width: usize) -> String {
    let shown = visible(text);
    if shown.chars().count() <= width {
        return shown;
    }
    shown.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// The line above the report on a process: its number and as much of its command as fits.
#[must_use]
pub(crate) fn title(pid: i32, command: &unbloat_untrusted::Untrusted, style: &Style) -> String {
    let command = clip(&command.shown(), style.width.saturating_sub(12));
    format!("{}\n", style.paint(Ink::Bold, &format!("{pid} {command}")))
}

/// Formats `1234567` as `1,234,567`.
#[must_use]
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut grouped = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats a share of a whole in percent: `38 %`, `0.4 %`, empty for zero.
#[must_use]
pub fn percent(part: u64, whole: u64) -> String {
    if part == 0 || whole == 0 {
        return String::new();
    }
    match part as f64 / whole as f64 * 100.0 {
        share if share < 0.05 => "<0.1 %".to_owned(),
        share if share < 9.95 => format!("{share:.1} %"),
        share => format!("{share:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_all_its_cells_and_every_part_shows() {
        assert_eq!(apportion(&[1, 0, 1000, 500], 10), [1, 0, 6, 3]);
        assert_eq!(apportion(&[1, 1, 1], 10).iter().sum::<usize>(), 10);
        assert_eq!(apportion(&[0, 0], 10), [0, 0]);
        assert_eq!(apportion(&[5; 12], 10), [1; 12]);
    }

    #[test]
    fn small_helpers() {
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!([0, 12, 999, 1_000].map(thousands), ["0", "12", "999", "1,000"]);
        assert_eq!(clip("abcdef", 4), "abc…");
        assert_eq!(clip("a\x1b[2Jb", 9), "a\u{fffd}[2Jb");
        assert_eq!(wrap("one two three", 9, 2), "  one two\n  three\n");
        assert_eq!(wrap("of 3 MiB in all", 7, 0), "of\n3 MiB\nin all\n");
        assert_eq!(bar(1, 1000, 4), "▏");
        assert_eq!(bar(1, 2, 4), "██");
        assert_eq!(percent(1, 100_000), "<0.1 %");
    }
}
