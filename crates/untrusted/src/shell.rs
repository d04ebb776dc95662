//! Words for a POSIX shell.

/// Quotes a word so that a shell reads it as one word and expands nothing in it. `None` if no quoting makes
/// it safe to copy: a word cannot contain NUL, and control characters and those that reorder text act on the
/// terminal into which a line is pasted, or hide its meaning.
#[must_use]
pub fn quoted(word: &str) -> Option<String> {
    if crate::visible(word) != word {
        return None;
    }
    shlex::try_quote(word).ok().map(std::borrow::Cow::into_owned)
}

/// Formats a command from its words, each quoted. `None` without words, or if one of them cannot be quoted.
#[must_use]
pub fn line<'a>(words: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let quoted: Option<Vec<String>> = words.into_iter().map(quoted).collect();
    quoted.map(|words| words.join(" ")).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    #[test]
    fn ordinary_words_stay_readable() {
        assert_eq!(
            line(["bundle", "exec", "puma", "-C", "config/puma.rb"]).as_deref(),
            Some("bundle exec puma -C config/puma.rb")
        );
        assert_eq!(line(["sh", "-c", "a; b | c"]).as_deref(), Some("sh -c 'a; b | c'"));
        assert_eq!(line([]), None);
    }

    #[test]
    fn what_acts_on_the_terminal_is_never_advice() {
        for word in ["a\0b", "a\u{1b}[2Jb", "a\nrm -rf /", "a\u{202e}b"] {
            assert_eq!(line(["echo", word]), None, "{word:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Verified by a real shell.
        #[test]
        fn a_shell_reads_the_words_back(words in prop::collection::vec("[ -~]{0,12}|[a-zé日;|&$`'\"\\\\*?~#!(){}<>=-]{1,8}", 1..5)) {
            let line = line(words.iter().map(String::as_str)).unwrap();
            let script = format!("printf '%s\\0' {line}");
            let output = Command::new("sh").args(["-c", &script]).output().unwrap();
            let read: Vec<_> = output.stdout.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect();
            let expected: Vec<_> = words.iter().map(|word| word.as_bytes().to_vec()).chain([vec![]]).collect();
            prop_assert_eq!(read, expected, "{}", line);
        }
    }
}
