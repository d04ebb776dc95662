//! Faults of a run, counted by class, with one example of each in words.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// All faults of one class, displayed as `reset × 2: connection reset by peer`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The class.
    pub class: String,
    /// The number of occurrences.
    pub count: u64,
    /// One example in words.
    pub example: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {}: {}", self.class, self.count, self.example)
    }
}

/// Counts of faults by class. A class is a short `snake_case` name that scripts can rely on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    classes: BTreeMap<Cow<'static, str>, Counted>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Counted {
    count: u64,
    example: String,
}

impl Faults {
    /// Counts one fault; `example` describes it and is only called for the first of a class.
    pub fn add(&mut self, class: impl Into<Cow<'static, str>>, example: impl FnOnce() -> String) {
        self.classes
            .entry(class.into())
            .and_modify(|counted| counted.count += 1)
            .or_insert_with(|| Counted { count: 1, example: example() });
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (class, counted) in &other.classes {
            self.classes
                .entry(class.clone())
                .and_modify(|mine| mine.count += counted.count)
                .or_insert_with(|| counted.clone());
        }
    }

    /// Returns whether there were no faults.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// Returns the number of faults of all classes.
    pub fn total(&self) -> u64 {
        self.classes.values().map(|counted| counted.count).sum()
    }

    /// Returns the number of faults of one class.
    pub fn count(&self, class: &str) -> u64 {
        self.classes.get(class).map_or(0, |counted| counted.count)
    }

    /// Iterates over the classes with their counts and examples, in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = Fault> {
        self.classes.iter().map(|(class, Counted { count, example })| Fault {
            class: class.clone().into_owned(),
            count: *count,
            example: example.clone(),
        })
    }
}

/// As `class: count`.
impl Serialize for Faults {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.classes.iter().map(|(class, counted)| (class, counted.count)))
    }
}

/// A document has counts only, so the example of a class that was read back is empty.
impl<'de> Deserialize<'de> for Faults {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let counts = BTreeMap::<String, u64>::deserialize(deserializer)?;
        let counted = |(class, count)| (Cow::Owned(class), Counted { count, example: String::new() });
        Ok(Self { classes: counts.into_iter().map(counted).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_counted_by_class_and_keep_the_first_example() {
        let mut faults = Faults::default();
        faults.add("reset", || "first".to_owned());
        faults.add("reset", || "second".to_owned());
        let mut more = Faults::default();
        more.add(format!("upgrade_status_{}", 404), || "not found".to_owned());
        faults.merge(&more);
        let all: Vec<String> = faults.iter().map(|fault| fault.to_string()).collect();
        assert_eq!(all, ["reset × 2: first", "upgrade_status_404 × 1: not found"]);
        assert_eq!((faults.total(), faults.count("reset"), faults.count("tls")), (3, 2, 0));
    }
}
