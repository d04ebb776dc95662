//! Lines that deploy variables and commands, each in the syntax of its target. The only writer of such lines.

mod quote;
#[cfg(test)]
mod tests;

use quote::Quoted;
pub use quote::Unwritable;

/// A deployment target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A POSIX shell.
    Shell,
    /// A Dockerfile.
    Dockerfile,
    /// A systemd unit.
    Systemd,
    /// A Procfile.
    Procfile,
    /// The command line of Heroku.
    Heroku,
    /// A container in a Kubernetes manifest.
    Kubernetes,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 6] = [
        Format::Shell,
        Format::Dockerfile,
        Format::Systemd,
        Format::Procfile,
        Format::Heroku,
        Format::Kubernetes,
    ];

    /// The name by which it is asked for.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::Shell => "shell",
            Format::Dockerfile => "dockerfile",
            Format::Systemd => "systemd",
            Format::Procfile => "procfile",
            Format::Heroku => "heroku",
            Format::Kubernetes => "kubernetes",
        }
    }

    /// The lines that it consists of.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Format::Shell => "`export` lines, for `eval \"$(unbloat env)\"`",
            Format::Dockerfile => "`ENV` lines of a Dockerfile",
            Format::Systemd => "`Environment=` lines of a systemd unit",
            Format::Procfile => "The words to put in front of a Procfile's command",
            Format::Heroku => "A `heroku config:set` command",
            Format::Kubernetes => "`env:` of a container in a Kubernetes manifest",
        }
    }
}

/// A piece of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text to be passed literally.
    Literal(String),
    /// A variable that the target replaces: `PORT`.
    Variable(&'static str),
}

/// A word of a command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Word(pub Vec<Piece>);

impl From<&str> for Word {
    fn from(text: &str) -> Self {
        Word(vec![Piece::Literal(text.to_owned())])
    }
}

impl From<String> for Word {
    fn from(text: String) -> Self {
        Word(vec![Piece::Literal(text)])
    }
}

impl Word {
    /// Creates a word from a text in which `placeholder` stands for a variable.
    #[must_use]
    pub fn with_variable(text: &str, placeholder: &str, variable: &'static str) -> Self {
        let mut pieces = Vec::new();
        for (index, literal) in text.split(placeholder).enumerate() {
            if index > 0 {
                pieces.push(Piece::Variable(variable));
            }
            if !literal.is_empty() {
                pieces.push(Piece::Literal(literal.to_owned()));
            }
        }
        Word(pieces)
    }

    fn has_variable(&self) -> bool {
        self.0.iter().any(|piece| matches!(piece, Piece::Variable(_)))
    }

    /// Formats the word for a shell, with literals quoted by `quote`.
    fn for_shell(&self, quote: fn(&str) -> Quoted) -> Quoted {
        if self.0.is_empty() {
            return quote("");
        }
        let mut word = String::new();
        for (index, piece) in self.0.iter().enumerate() {
            match piece {
                Piece::Literal(text) => word.push_str(&quote(text)?),
                Piece::Variable(name) if index + 1 == self.0.len() => word.push_str(&format!("${name}")),
                Piece::Variable(name) => word.push_str(&format!("${{{name}}}")),
            }
        }
        Ok(word)
    }

    fn literal(&self) -> String {
        let text = |piece: &Piece| match piece {
            Piece::Literal(text) => text.clone(),
            Piece::Variable(name) => format!("${name}"),
        };
        self.0.iter().map(text).collect()
    }
}

/// A server to be deployed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deployment {
    /// The name of the process in a Procfile; empty for other targets.
    pub process: &'static str,
    /// Required Debian packages.
    pub packages: Vec<String>,
    /// Variables to set.
    pub variables: Vec<(String, String)>,
    /// Words before the command and its variables: another Ruby.
    pub wrapper: Vec<String>,
    /// Words that start the command: `unbloat run --`.
    pub launcher: Vec<String>,
    /// The command.
    pub command: Vec<Word>,
    /// The command replaces the current one.
    pub is_new_command: bool,
}

impl Deployment {
    /// Returns the lines for a target. A line that its syntax cannot express is replaced by a comment.
    #[must_use]
    pub fn lines(&self, format: Format) -> Vec<String> {
        let or_comment = |line: Quoted| line.unwrap_or_else(|error| format!("# {error}"));
        match format {
            Format::Shell => vec![or_comment(self.command_line(quote::shell))],
            Format::Procfile => {
                let line = self.command_line(quote::procfile);
                vec![or_comment(line.map(|line| format!("{}: {line}", self.process)))]
            }
            Format::Dockerfile => self.dockerfile().into_iter().map(or_comment).collect(),
            Format::Systemd => self.unit().into_iter().map(or_comment).collect(),
            Format::Heroku => variables(format, &self.variables).into_iter().map(or_comment).collect(),
            Format::Kubernetes => self.manifest().into_iter().map(or_comment).collect(),
        }
    }

    /// Returns a single line with everything, since several would exclude each other. At the start of a
    /// shell's line assignments need no `env`.
    fn command_line(&self, quote: fn(&str) -> Quoted) -> Quoted {
        let literals = |words: &[String]| words.iter().map(|word| quote(word)).collect::<Vec<_>>();
        let assignments = self.variables.iter().map(|(name, value)| assignment(name, value, quote));
        let starts_line = self.wrapper.is_empty() && self.process.is_empty();
        let env = (!self.variables.is_empty() && !starts_line).then(|| Ok("env".to_owned()));
        let words = literals(&self.wrapper).into_iter().chain(env).chain(assignments);
        let words = words.chain(literals(&self.launcher));
        joined(words.chain(self.command.iter().map(|word| word.for_shell(quote))))
    }

    fn front(&self) -> Vec<String> {
        [&self.wrapper[..], &self.launcher].concat()
    }

    fn dockerfile(&self) -> Vec<Quoted> {
        let install = |package: &String| Ok(format!("RUN apt-get update && apt-get install -y {package}"));
        let mut lines: Vec<Quoted> = self.packages.iter().map(install).collect();
        lines.extend(variables(Format::Dockerfile, &self.variables));
        let front = self.front();
        lines.extend((!front.is_empty()).then(|| Ok(format!("ENTRYPOINT {}", json(&front)))));
        lines.extend(self.is_new_command.then(|| self.docker_command()));
        lines
    }

    /// Returns `CMD`, as an array, in which Docker replaces nothing, or as a line for the image's shell.
    fn docker_command(&self) -> Quoted {
        if !self.command.iter().any(Word::has_variable) {
            let words: Vec<String> = self.command.iter().map(Word::literal).collect();
            return Ok(format!("CMD {}", json(&words)));
        }
        let words = joined(self.command.iter().map(|word| word.for_shell(quote::docker_shell)))?;
        Ok(format!("CMD exec {words}"))
    }

    fn unit(&self) -> Vec<Quoted> {
        let mut lines = variables(Format::Systemd, &self.variables);
        let front = self.front();
        if !front.is_empty() || self.is_new_command {
            let words = front.into_iter().map(Word::from).chain(self.command.iter().cloned());
            let words = with_path(words.collect());
            lines.push(
                joined(words.iter().map(|word| quote::systemd_word(&word.0)))
                    .map(|line| format!("ExecStart={line}")),
            );
        }
        lines
    }

    fn manifest(&self) -> Vec<Quoted> {
        let mut lines = variables(Format::Kubernetes, &self.variables);
        let front = self.front();
        lines.extend((!front.is_empty()).then(|| Ok(format!("command: {}", yaml_list(&front)))));
        if self.is_new_command || !front.is_empty() {
            let word = |word: &Word| word.0.iter().map(kubernetes_piece).collect::<String>();
            let words: Vec<String> = self.command.iter().map(word).collect();
            let words: Vec<String> = words.iter().map(|word| quote::yaml(word)).collect();
            lines.push(Ok(format!("args: [{}]", words.join(", "))));
        }
        lines
    }
}

/// Returns the lines that set variables.
#[must_use]
pub fn variables(format: Format, set: &[(String, String)]) -> Vec<Quoted> {
    let lines =
        |line: &dyn Fn(&str, &str) -> Quoted| set.iter().map(|(name, value)| line(name, value)).collect();
    let in_one = |start: &str, quote: fn(&str) -> Quoted| {
        let words = joined(set.iter().map(|(name, value)| assignment(name, value, quote)));
        if set.is_empty() { Vec::new() } else { vec![words.map(|words| format!("{start} {words}"))] }
    };
    match format {
        Format::Shell => {
            lines(&|name, value| Ok(format!("export {}", assignment(name, value, quote::shell)?)))
        }
        Format::Dockerfile => {
            lines(&|name, value| Ok(format!("ENV {}", assignment(name, value, quote::dockerfile)?)))
        }
        Format::Systemd => lines(&|name, value| {
            Ok(format!("Environment={}", quote::systemd_assignment(&format!("{name}={value}"))?))
        }),
        Format::Procfile => in_one("env", quote::procfile),
        Format::Heroku => in_one("heroku config:set", quote::shell),
        Format::Kubernetes if set.is_empty() => Vec::new(),
        Format::Kubernetes => {
            let entry = |(name, value): &(String, String)| {
                Ok(format!("  - name: {name}\n    value: {}", quote::kubernetes(value)?))
            };
            [Ok("env:".to_owned())].into_iter().chain(set.iter().map(entry)).collect()
        }
    }
}

/// Returns the lines that remove variables, which only a shell has.
#[must_use]
pub fn removals(format: Format, unset: &[&str]) -> Vec<String> {
    match format {
        Format::Shell => unset.iter().map(|name| format!("unset {name}")).collect(),
        Format::Dockerfile | Format::Systemd | Format::Procfile | Format::Heroku | Format::Kubernetes => {
            Vec::new()
        }
    }
}

/// Formats a command line for a shell.
///
/// # Errors
/// [`Unwritable`]: a word contains a zero byte.
pub fn shell_line(words: &[String]) -> Result<String, Unwritable> {
    joined(words.iter().map(|word| quote::shell(word)))
}

fn assignment(name: &str, value: &str, quote: fn(&str) -> Quoted) -> Quoted {
    Ok(format!("{name}={}", if value.is_empty() { String::new() } else { quote(value)? }))
}

fn joined(words: impl Iterator<Item = Quoted>) -> Quoted {
    Ok(words.collect::<Result<Vec<String>, Unwritable>>()?.join(" "))
}

fn json(words: &[String]) -> String {
    serde_json::json!(words).to_string()
}

fn yaml_list(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quote::yaml(&word.replace('$', "$$"))).collect();
    format!("[{}]", words.join(", "))
}

fn kubernetes_piece(piece: &Piece) -> String {
    match piece {
        Piece::Literal(text) => text.replace('$', "$$"),
        Piece::Variable(name) => format!("$({name})"),
    }
}

/// Returns the words with the full path of their program, which systemd requires.
fn with_path(words: Vec<Word>) -> Vec<Word> {
    let first = words.first().map(Word::literal).unwrap_or_default();
    match first.as_str() {
        "unbloat" => {
            let rest = words.into_iter().skip(1);
            [Word::from("/usr/local/bin/unbloat")].into_iter().chain(rest).collect()
        }
        path if path.starts_with('/') => words,
        _ => [Word::from("/usr/bin/env")].into_iter().chain(words).collect(),
    }
}
