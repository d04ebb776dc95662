//! Cells for CSV (RFC 4180).

use crate::visible;

/// Prefixes that spreadsheets interpret as a formula (OWASP, "CSV Injection").
const FORMULA: [char; 6] = ['=', '+', '-', '@', '|', '%'];

/// Formats a cell, always in quotes. One that a spreadsheet would evaluate gets a leading apostrophe, which
/// makes it text.
#[must_use]
pub fn cell(text: &str) -> String {
    let text = visible(text).replace('"', "\"\"");
    // Spreadsheets skip spaces before they look for a formula; a quote within the cell ends nothing but may
    // precede one.
    let computed = text.trim_start_matches(|c: char| c.is_whitespace() || c == '"').starts_with(FORMULA);
    format!("\"{}{text}\"", if computed { "'" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_text() {
        assert_eq!(cell("=1+1"), "\"'=1+1\"");
        for formula in ["+1", "-1", "@SUM(A1)", "\t=1", " =1", "\r=1", "|cmd", "%0A=1", "\"=1"] {
            assert!(cell(formula).starts_with("\"'"), "{formula:?}: {}", cell(formula));
        }
        assert_eq!(cell("puma -C config.rb"), "\"puma -C config.rb\"");
    }

    #[test]
    fn a_cell_stays_one_cell_of_one_line() {
        assert_eq!(cell("a\",\"b\r\nc"), "\"a\"\",\"\"b  c\"");
    }
}
