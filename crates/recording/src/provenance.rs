//! Names of facts about the origin of a recording's figures, the same for every command that writes the file.

macro_rules! keys {
    ($($(#[$doc:meta])* $key:ident = $name:literal $(formerly $former:literal)?;)*) => {
        /// The name of a fact.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Key {
            $($(#[$doc])* $key,)*
        }

        impl Key {
            /// All keys.
            pub const ALL: &[Key] = &[$(Key::$key,)*];

            /// The name in the file.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Key::$key => $name,)*
                }
            }

            /// Returns the key with that name, or with a name used by earlier versions.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($name $(| $former)? => Some(Key::$key),)*
                    _ => None,
                }
            }
        }
    };
}

keys! {
    // The machine and this build, in every file; in an experiment also for every run.
    /// Version of Unbloat.
    Unbloat = "unbloat";
    /// Build ID of the `unbloat` binary: the version alone does not distinguish two builds.
    UnbloatBuild = "unbloat_build";
    /// Release of the kernel.
    Kernel = "kernel";
    /// Name of the distribution.
    System = "system";
    /// Host name.
    Host = "host";
    /// Model of the processor.
    Processor = "processor" formerly "cpu";
    /// Number of processors that this process may use.
    Cores = "cores" formerly "cpus";
    /// Memory of the machine.
    Memory = "memory";
    /// Swap of the machine.
    Swap = "swap";
    /// `vm.swappiness`.
    Swappiness = "swappiness";
    /// Policy of transparent huge pages: `always`, `madvise` or `never`.
    TransparentHugepages = "transparent_hugepages" formerly "transparent_hugepage";

    // The recorded processes, and the mode of recording.
    /// The command or pattern, as the user wrote it.
    Command = "command";
    /// `a command`, `running processes`, or the other tool that recorded it.
    Recorded = "recorded";
    /// The program's file.
    Program = "program";
    /// The program's working directory.
    Directory = "directory";
    /// Seconds between samples.
    IntervalS = "interval_s";
    /// Minimum seconds between censuses.
    CensusIntervalS = "census_interval_s";
    /// Seconds between two looks at Rubies by class and gem, at least; `never` for none.
    ClassIntervalS = "class_interval_s";
    /// Share of one core that recording may use.
    Budget = "budget";
    /// Seconds after which the recording ends by itself.
    DurationS = "duration_s";
    /// `all`: the kernel reported every process. `looked for`: Unbloat scanned for them.
    ProcessesHeardOf = "processes_heard_of";

    // Load drivers and experiments.
    /// Settings of the load, as JSON.
    Load = "load";
    /// The experiment's plan, as TOML.
    Plan = "plan";
    /// Number of looks at the data.
    Looks = "looks";
    /// Number of a run among those of its variant and block.
    Replica = "replica";
    /// Number of earlier runs in the same slot that were disturbed.
    Repeat = "repeat";
    /// The open loop of an experiment's runs, as JSON.
    Calibration = "calibration";
    /// A proof that a run's variant was live.
    Proof = "proof";

    // The server's software, for a run of an experiment.
    /// Version of Ruby.
    Ruby = "ruby";
    /// Version of glibc.
    Glibc = "glibc";
    /// The allocator that serves malloc.
    Allocator = "allocator";
}

/// Returns the name of the fact for an environment variable.
#[must_use]
pub fn variable(name: &str) -> String {
    format!("env {name}")
}

/// Converts a fact to its current name and format of value, whichever version wrote it. Unknown facts are
/// unchanged.
#[must_use]
pub fn current(name: String, value: String) -> (String, String) {
    match Key::named(&name) {
        Some(Key::TransparentHugepages) => {
            let value = chosen(&value).map(str::to_owned).unwrap_or(value);
            (Key::TransparentHugepages.name().to_owned(), value)
        }
        Some(key) => (key.name().to_owned(), value),
        None => (name, value),
    }
}

/// Returns the bracketed choice of a kernel setting like `always [madvise] never`.
#[must_use]
pub fn chosen(setting: &str) -> Option<&str> {
    Some(setting.split_once('[')?.1.split_once(']')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_documented() {
        let reference = include_str!("../../../docs/reference/recording.md");
        for key in Key::ALL {
            assert_eq!(Key::named(key.name()), Some(*key), "{key:?}");
            assert!(reference.contains(&format!("| `{}` |", key.name())), "{key:?} is not in recording.md");
        }
    }

    #[test]
    fn facts_of_earlier_versions_have_todays_names() {
        let stored = |name: &str, value: &str| current(name.into(), value.into());
        let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(stored("cpu", "Xeon"), fact("processor", "Xeon"));
        assert_eq!(stored("cpus", "2"), fact("cores", "2"));
        let setting = "always [madvise] never";
        assert_eq!(stored("transparent_hugepage", setting), fact("transparent_hugepages", "madvise"));
        assert_eq!(stored("transparent_hugepages", "never"), fact("transparent_hugepages", "never"));
        assert_eq!(stored("env A", "2"), fact(&variable("A"), "2"));
    }
}
