//! Quotes a text for each consumer, so that it reads back exactly as intended.
//!
//! | consumer | rules |
//! |---|---|
//! | shell | POSIX, "Shell Command Language", 2.2 |
//! | Dockerfile | `ENV`: words with `\` as escape, `$` replaced (Dockerfile reference, "Environment replacement"); `CMD`, `ENTRYPOINT`: a JSON array |
//! | systemd | systemd.syntax(7): C escapes in double quotes; systemd.unit(5): `%` is a specifier; systemd.service(5): `$` in command lines only |
//! | YAML | 1.2, 7.3.1; Kubernetes replaces `$(NAME)` and takes `$$` for `$` (`third_party/forked/golang/expansion/expand.go`) |

use super::Piece;
use std::fmt::Write as _;

/// A text that a consumer's syntax cannot express.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} contains {character}, which {consumer} cannot express: set it by other means")]
pub struct Unwritable {
    /// The text.
    pub text: String,
    /// The offending character.
    pub character: &'static str,
    /// The consumer that cannot express it.
    pub consumer: &'static str,
}

/// A quoted text, or the reason why there is none.
pub(super) type Quoted = Result<String, Unwritable>;

/// Returns whether a text needs no quotes anywhere except in YAML.
fn is_plain(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:=,+@".contains(&byte);
    !text.is_empty() && text.bytes().all(plain)
}

fn refuse(text: &str, character: &'static str, consumer: &'static str) -> Unwritable {
    Unwritable { text: text.to_owned(), character, consumer }
}

/// Quotes a word for a POSIX shell.
pub(super) fn shell(word: &str) -> Quoted {
    if is_plain(word) {
        return Ok(word.to_owned());
    }
    let quoted = shlex::try_quote(word).map_err(|_| refuse(word, "a zero byte", "a shell"))?;
    Ok(quoted.into_owned())
}

/// Quotes a word for a shell where everything is on one line. Foreman replaces `$NAME` even in quotes
/// (`expanded_command`, its `lib/foreman/process.rb`), so a `$` is quoted separately.
pub(super) fn procfile(word: &str) -> Quoted {
    if word.contains(['\n', '\r']) {
        return Err(refuse(word, "a line break", "a Procfile"));
    }
    Ok(shell(word)?.replace('$', "$''"))
}

/// Quotes a value of `ENV` in a Dockerfile.
pub(super) fn dockerfile(value: &str) -> Quoted {
    const CONSUMER: &str = "a Dockerfile";
    match value {
        _ if is_plain(value) => Ok(value.to_owned()),
        _ if value.contains(['\n', '\r']) => Err(refuse(value, "a line break", CONSUMER)),
        _ if value.contains('\0') => Err(refuse(value, "a zero byte", CONSUMER)),
        _ => Ok(format!("\"{}\"", value.replace('\\', r"\\").replace('"', "\\\"").replace('$', r"\$"))),
    }
}

/// Quotes a word of `CMD` in its shell form, which has to stay on its line.
pub(super) fn docker_shell(word: &str) -> Quoted {
    match word.contains(['\n', '\r']) {
        true => Err(refuse(word, "a line break", "a Dockerfile")),
        false => shell(word),
    }
}

/// Quotes a word of a unit's `Environment=`: a whole assignment.
pub(super) fn systemd_assignment(assignment: &str) -> Quoted {
    // `env_value_is_valid` (systemd, src/basic/env-util.c) accepts no control characters except these.
    let control = |c: char| c.is_control() && !"\t\n".contains(c);
    if assignment.contains(control) {
        return Err(refuse(assignment, "a control character", "a systemd unit"));
    }
    Ok(if is_plain(assignment) {
        assignment.to_owned()
    } else {
        format!("\"{}\"", systemd_escaped(assignment, false))
    })
}

/// Quotes a word of a unit's `ExecStart=`, made of literal texts and of variables that systemd replaces. One
/// pair of quotes surrounds everything, because systemd does not recognize quotes in the middle of a word.
pub(super) fn systemd_word(pieces: &[Piece]) -> Quoted {
    let mut word = String::new();
    let mut plain = !pieces.is_empty();
    for piece in pieces {
        match piece {
            Piece::Literal(text) if text.contains('\0') => {
                return Err(refuse(text, "a zero byte", "a systemd unit"));
            }
            Piece::Literal(text) => {
                plain &= is_plain(text);
                word.push_str(&systemd_escaped(text, true));
            }
            Piece::Variable(name) => write!(word, "${{{name}}}").unwrap_or_default(),
        }
    }
    Ok(if plain { word } else { format!("\"{word}\"") })
}

/// Escapes a text within systemd's double quotes.
fn systemd_escaped(text: &str, is_command: bool) -> String {
    let mut quoted = String::new();
    for c in text.chars() {
        match c {
            '\\' => quoted.push_str(r"\\"),
            '"' => quoted.push_str("\\\""),
            '%' => quoted.push_str("%%"),
            '$' if is_command => quoted.push_str("$$"),
            '\n' => quoted.push_str(r"\n"),
            '\t' => quoted.push_str(r"\t"),
            // Writing to a String cannot fail.
            c if c.is_ascii_control() => write!(quoted, r"\x{:02x}", u32::from(c)).unwrap_or_default(),
            c => quoted.push(c),
        }
    }
    quoted
}

/// Quotes a value for a Kubernetes manifest, in which nothing is replaced.
pub(super) fn kubernetes(value: &str) -> Quoted {
    if value.contains('\0') {
        return Err(refuse(value, "a zero byte", "an environment"));
    }
    Ok(yaml(&value.replace('$', "$$")))
}

/// Formats a scalar in YAML's double quotes.
pub(super) fn yaml(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        let code = u32::from(c);
        // Writing to a String cannot fail.
        match c {
            '\\' => quoted.push_str(r"\\"),
            '"' => quoted.push_str("\\\""),
            '\n' => quoted.push_str(r"\n"),
            '\t' => quoted.push_str(r"\t"),
            ' '..='~' => quoted.push(c),
            '\u{a1}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}'
                if !"\u{2028}\u{2029}".contains(c) =>
            {
                quoted.push(c);
            }
            _ if code <= 0xff => write!(quoted, r"\x{code:02x}").unwrap_or_default(),
            _ if code <= 0xffff => write!(quoted, r"\u{code:04x}").unwrap_or_default(),
            _ => write!(quoted, r"\U{code:08x}").unwrap_or_default(),
        }
    }
    quoted + "\""
}
