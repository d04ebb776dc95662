//! Redraws lines at the same place of a terminal without flicker, leaving the text above untouched.
//!
//! Each line overwrites the previous one and clears the rest of its row, so nothing is ever blank in between;
//! a terminal with synchronized updates shows all changes at once.

use crate::terminal;
use console::{measure_text_width, truncate_str};
use std::fmt::Write as _;
use std::io::{self, Write};

/// Synchronized update: the terminal shows everything between the two at once.
const BEGIN: &str = "\x1b[?2026h";
const END: &str = "\x1b[?2026l";
/// Clears from the cursor to the end of its line (ECMA-48, EL).
const CLEAR_LINE: &str = "\x1b[K";
/// Clears from the cursor to the end of the screen (ECMA-48, ED).
const CLEAR_BELOW: &str = "\x1b[J";

/// A place on a terminal, starting at the cursor's position of the first drawing.
#[derive(Debug, Default)]
pub(crate) struct InPlace {
    /// Widths in columns of the lines drawn there.
    drawn: Vec<usize>,
}

impl InPlace {
    /// Replaces the drawn lines. Lines wider or higher than the terminal are clipped.
    pub(crate) fn draw(&mut self, terminal: &mut impl Write, lines: &[String]) -> io::Result<()> {
        let frame = self.frame(lines, terminal::size());
        terminal.write_all(frame.as_bytes())?;
        terminal.flush()
    }

    /// Returns the text that draws the lines on a terminal of this size.
    fn frame(&mut self, lines: &[String], (columns, rows): (usize, usize)) -> String {
        let mut frame = BEGIN.to_owned();
        // A terminal that has become narrower has wrapped the existing lines.
        let wrapped = self.drawn.iter().any(|&width| width > columns);
        let up: usize = self.drawn.iter().map(|width| width.div_ceil(columns).max(1)).sum();
        if up > 0 {
            // Moves the cursor up (ECMA-48, CUU). Writing to a string cannot fail.
            let _ = write!(frame, "\x1b[{up}A");
        }
        if wrapped {
            frame += "\r";
            frame += CLEAR_BELOW;
        }
        let lines = fitting(lines, columns, rows);
        for line in &lines {
            let _ = writeln!(frame, "\r{line}{CLEAR_LINE}");
        }
        frame += CLEAR_BELOW;
        frame += END;
        self.drawn = lines.iter().map(|line| measure_text_width(line)).collect();
        frame
    }
}

/// Returns the lines that fit, since the cursor cannot go back to lines that have scrolled off the top. The
/// row below the lines belongs to the cursor, and the last column stays free, because some terminals wrap
/// when it is written.
fn fitting(lines: &[String], columns: usize, rows: usize) -> Vec<String> {
    let most = rows.saturating_sub(1).max(1);
    let cut = |line: &str| truncate_str(line, columns.saturating_sub(1), "…").into_owned();
    if lines.len() <= most {
        return lines.iter().map(|line| cut(line)).collect();
    }
    let shown = most - 1;
    let more = format!("… {} more lines: enlarge the terminal", lines.len() - shown);
    lines.iter().take(shown).map(|line| cut(line)).chain([cut(&more)]).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn lines(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    /// Returns a frame without the marks of a synchronized update.
    fn frame(place: &mut InPlace, texts: &[&str], size: (usize, usize)) -> String {
        let frame = place.frame(&lines(texts), size);
        frame.strip_prefix("\x1b[?2026h").unwrap().strip_suffix("\x1b[?2026l").unwrap().to_owned()
    }

    #[test]
    fn lines_are_written_over_the_ones_before() {
        let mut place = InPlace::default();
        let first = frame(&mut place, &["one", "two", "three"], (80, 24));
        assert_eq!(first, "\rone\x1b[K\n\rtwo\x1b[K\n\rthree\x1b[K\n\x1b[J");
        // One line less: the leftover line is cleared.
        let second = frame(&mut place, &["1", "2"], (80, 24));
        assert_eq!(second, "\x1b[3A\r1\x1b[K\n\r2\x1b[K\n\x1b[J");
        assert!(frame(&mut place, &["1"], (80, 24)).starts_with("\x1b[2A"));
    }

    #[test]
    fn a_terminal_that_becomes_narrower_has_wrapped_the_lines() {
        let mut place = InPlace::default();
        frame(&mut place, &["\x1b[31m123456789\x1b[0m", "12345"], (20, 24));
        let narrow = frame(&mut place, &["\x1b[31m123456789\x1b[0m"], (4, 24));
        // Three rows and two; three columns of the new line fit.
        assert_eq!(narrow, "\x1b[5A\r\x1b[J\r\x1b[31m12…\x1b[0m\x1b[K\n\x1b[J");
    }

    #[test]
    fn what_is_higher_than_the_terminal_is_cut_and_said_so() {
        let texts = ["1", "2", "3", "4", "5"];
        assert_eq!(fitting(&lines(&texts), 80, 6).len(), 5);
        let cut = fitting(&lines(&texts), 80, 4);
        assert_eq!(cut, ["1", "2", "… 3 more lines: enlarge the terminal"]);
        assert_eq!(fitting(&lines(&texts), 80, 1).len(), 1);
    }
}
