//! Puma's command line: workers, threads and refork.
//!
//! Options as `puma/cli.rb` has them: `-w`/`--workers COUNT`, `-t`/`--threads INT` (`min:max`), and from Puma 5 on
//! `-f`/`--fork-worker[=REQUESTS]`. A start script with the same long options counts as well, because it passes them on.

/// Threads beyond which one Ruby process gains nothing, because they wait for its lock.
const MOST_THREADS: usize = 32;

/// A start command with known numbers of workers and threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster<'a> {
    words: &'a [String],
    workers: Number,
    threads: Number,
}

/// A number among the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Number {
    value: usize,
    /// Index of its word.
    at: usize,
    /// The word is `--option=VALUE`, not the value alone.
    is_joined: bool,
}

impl<'a> Cluster<'a> {
    /// Reads a start command; `None` if it does not name both numbers.
    #[must_use]
    pub fn of(words: &'a [String]) -> Option<Self> {
        let workers = number(words, ["-w", "--workers"])?;
        let threads = number(words, ["-t", "--threads"])?;
        (workers.value > 0 && threads.value > 0).then_some(Cluster { words, workers, threads })
    }

    /// Returns the number of workers, and of threads in each.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        (self.workers.value, self.threads.value)
    }

    /// Returns other numbers of workers and threads with the same product, fewer workers first.
    #[must_use]
    pub fn alike(&self) -> Vec<(usize, usize)> {
        let (workers, threads) = self.size();
        let all = workers * threads;
        let fits = |workers: &usize| all.is_multiple_of(*workers) && all / workers <= MOST_THREADS;
        let near = (1..=2 * workers).filter(|other| *other != workers && *other <= all);
        near.filter(fits).map(|workers| (workers, all / workers)).collect()
    }

    /// Returns the command with other numbers.
    #[must_use]
    pub fn with(&self, workers: usize, threads: usize) -> Vec<String> {
        let mut words = self.words.to_vec();
        for (number, value) in [(self.workers, workers), (self.threads, threads)] {
            let Some(word) = words.get_mut(number.at) else { continue };
            *word = match (number.is_joined, word.split_once('=')) {
                (true, Some((option, _))) => format!("{option}={value}"),
                (true, None) | (false, _) => value.to_string(),
            };
        }
        words
    }
}

/// Returns the command with workers that are reforked from a worker after this many requests; `None` if it
/// does not run Puma itself, or already has the option.
#[must_use]
pub fn refork(words: &[String], requests: usize) -> Option<Vec<String>> {
    let at = words.iter().position(|word| word.rsplit('/').next() == Some("puma"))?;
    let has = words.iter().any(|word| word == "-f" || word.starts_with("--fork-worker"));
    let is_cluster = number(words, ["-w", "--workers"]).is_none_or(|workers| workers.value > 1);
    (!has && is_cluster).then(|| {
        let mut words = words.to_vec();
        words.insert(at + 1, format!("--fork-worker={requests}"));
        words
    })
}

/// Finds the value of an option, the larger one of `min:max`.
fn number(words: &[String], names: [&str; 2]) -> Option<Number> {
    let largest = |text: &str| text.rsplit(':').next()?.parse().ok();
    words.iter().enumerate().find_map(|(at, word)| {
        if let Some((option, value)) = word.split_once('=') {
            let value = names.contains(&option).then(|| largest(value)).flatten()?;
            return Some(Number { value, at, is_joined: true });
        }
        let value = names.contains(&word.as_str()).then(|| words.get(at + 1)).flatten()?;
        Some(Number { value: largest(value)?, at: at + 1, is_joined: false })
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn workers_and_threads_are_read_and_replaced() {
        let line = words("bundle exec puma -w 2 -t 0:5 -b tcp://127.0.0.1:{port}");
        let cluster = Cluster::of(&line).unwrap();
        assert_eq!((cluster.size(), cluster.alike()), ((2, 5), vec![(1, 10)]));
        let one = cluster.with(1, 10).join(" ");
        assert_eq!(one, "bundle exec puma -w 1 -t 10 -b tcp://127.0.0.1:{port}");
        let script = words("apps/web/start --workers=4 --threads=4");
        let cluster = Cluster::of(&script).unwrap();
        assert_eq!(cluster.alike(), [(1, 16), (2, 8), (8, 2)]);
        assert_eq!(cluster.with(2, 8), ["apps/web/start", "--workers=2", "--threads=8"]);
    }

    #[test]
    fn a_command_without_numbers_has_none_to_change() {
        for line in ["puma -C config/puma.rb", "puma -w", "puma -w x -t 5", "puma -w 0 -t 5", ""] {
            assert_eq!(Cluster::of(&words(line)), None, "{line}");
        }
    }

    #[test]
    fn puma_itself_can_refork_its_workers() {
        let line = words("bundle exec puma -w 2 -t 5");
        let forks = refork(&line, 150).unwrap().join(" ");
        assert_eq!(forks, "bundle exec puma --fork-worker=150 -w 2 -t 5");
        for line in ["apps/web/start --workers 2", "puma --fork-worker", "puma -w 1", "sidekiq"] {
            assert_eq!(refork(&words(line), 150), None, "{line}");
        }
    }
}
