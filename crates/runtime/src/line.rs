//! A text of bounded size that is built in place, without an allocation.

use core::ffi::{CStr, c_char};
use unbloat_contract::text::cut;

/// A text built in place, truncated if it does not fit.
#[derive(Debug)]
pub(crate) struct Line<const N: usize> {
    bytes: [u8; N],
    length: usize,
    cut: bool,
}

impl<const N: usize> Line<N> {
    /// Creates an empty line.
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; N], length: 0, cut: false }
    }

    /// Creates a copy of a text, truncated if it does not fit.
    pub(crate) fn of(text: &str) -> Self {
        let mut line = Self::new();
        // An error means truncation, which `is_cut` reports as well.
        let _ = core::fmt::Write::write_str(&mut line, text);
        line
    }

    /// Returns whether something did not fit.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }

    /// Returns the text so far.
    pub(crate) fn as_str(&self) -> &str {
        core::str::from_utf8(self.bytes.get(..self.length).unwrap_or_default()).unwrap_or_default()
    }

    /// Returns the text as a C string; it is always zero-terminated.
    pub(crate) fn as_ptr(&self) -> *const c_char {
        self.bytes.as_ptr().cast()
    }

    /// Returns the same with a known length.
    pub(crate) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}

impl<const N: usize> Default for Line<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> AsRef<str> for Line<N> {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl<const N: usize> core::fmt::Write for Line<N> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        // One byte stays zero, for C.
        let free = if self.cut { 0 } else { N.saturating_sub(1).saturating_sub(self.length) };
        let part = cut(text, free);
        for (to, from) in self.bytes.iter_mut().skip(self.length).zip(part.bytes()) {
            *to = from;
        }
        self.length = self.length.saturating_add(part.len());
        if part.len() < text.len() {
            self.cut = true;
            return Err(core::fmt::Error);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::fmt::Write as _;

    #[test]
    fn a_line_is_cut_where_its_space_ends() {
        let mut line = Line::<5>::new();
        assert!(write!(line, "ab").is_ok());
        assert!(write!(line, "cdé").is_err());
        assert!(line.as_str() == "abcd");
        assert!(line.write_str("x").is_err());
    }
}
