//! The words that `unbloat run` writes and the runtime reads: parts of a policy, their values, environment variables.

use core::ffi::CStr;

/// Defines an enum whose values are spelled as words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$value_doc])* $value,)*
        }

        impl $name {
            /// All values, in the order in which messages list them.
            pub const ALL: &'static [$name] = &[$($name::$value),*];

            /// The value's spelling.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $($name::$value => $word,)*
                }
            }

            /// The value that is spelled so.
            #[must_use]
            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.word() == word)
            }
        }
    };
}

words! {
    /// The parts that a policy consists of.
    Part {
        /// `allocator=WORD`: who serves `malloc`.
        Allocator = "allocator",
        /// `arenas=N`: at most N arenas in glibc.
        Arenas = "arenas",
        /// `trim=WORD`: which collections are followed by a trim.
        Trim = "trim",
        /// `compact=WORD`: when Ruby's heap is compacted.
        Compact = "compact",
        /// `warmup`: `Process.warmup` before the server forks.
        Warmup = "warmup",
    }
}

words! {
    /// The collections that are followed by a trim.
    Trim {
        /// None.
        Off = "off",
        /// Each full one.
        Major = "major",
        /// Each one.
        Every = "every",
        /// Those after which there is something to gain, within a budget.
        Adaptive = "adaptive",
    }
}

words! {
    /// The moments at which Ruby's heap is compacted.
    Compact {
        /// Never.
        Off = "off",
        /// Before the server forks (`GC.compact`).
        Boot = "boot",
        /// With every full collection (`GC.auto_compact`).
        Auto = "auto",
    }
}

/// Words that switch something off.
const OFF: [&str; 4] = ["0", "off", "false", "no"];
/// Words that switch something on.
const ON: [&str; 4] = ["1", "on", "true", "yes"];

/// The meaning of a switch's value; `None` for a word that is neither on nor off.
#[must_use]
pub fn switch(word: &str) -> Option<bool> {
    let on = ON.contains(&word);
    (on || OFF.contains(&word)).then_some(on)
}

/// Defines the variables with their C strings.
macro_rules! variables {
    ($($(#[$doc:meta])* $variable:ident = $name:literal,)*) => {
        /// A variable of Unbloat's own.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Variable {
            $($(#[$doc])* $variable,)*
        }

        impl Variable {
            /// All variables.
            pub const ALL: &'static [Variable] = &[$(Variable::$variable),*];

            /// The variable's name as C has it.
            #[must_use]
            pub const fn c_name(self) -> &'static CStr {
                match self {
                    $(Variable::$variable => $name,)*
                }
            }
        }
    };
}

variables! {
    /// `0` switches the runtime off.
    Enabled = c"UNBLOAT",
    /// The whole policy, spelled as `unbloat run --policy` takes it. Set by `unbloat run`.
    Policy = c"UNBLOAT_POLICY",
    /// A value of [`crate::Trim`]. Set by `unbloat run`.
    Trim = c"UNBLOAT_TRIM",
    /// A value of [`crate::Compact`]. Set by `unbloat run`.
    Compact = c"UNBLOAT_COMPACT",
    /// `1`: `Process.warmup` before the server forks. Set by `unbloat run`.
    Warmup = c"UNBLOAT_WARMUP",
    /// The entry of `LD_PRELOAD` that is the policy's allocator. Set by `unbloat run`.
    Preload = c"UNBLOAT_PRELOAD",
    /// The value of `MALLOC_ARENA_MAX` that is the policy's. Set by `unbloat run`.
    Arenas = c"UNBLOAT_ARENAS",
    /// `PID:NAME` while a Ruby starts itself again with the policy's allocator. Set by the runtime.
    Restarted = c"UNBLOAT_RESTARTED",
    /// Bytes of growth below which nothing is trimmed (suffix K, M, G).
    TrimGrowth = c"UNBLOAT_TRIM_GROWTH",
    /// Seconds from the end of a trim to the next.
    TrimInterval = c"UNBLOAT_TRIM_INTERVAL",
    /// Percent of a core for trims and their page faults.
    TrimBudget = c"UNBLOAT_TRIM_BUDGET",
    /// Seconds that a trim of a busy process may keep threads waiting; `off`: any.
    TrimMax = c"UNBLOAT_TRIM_MAX",
    /// glibc's trim and mmap thresholds are pinned at so many bytes; `off`: not pinned.
    TrimThreshold = c"UNBLOAT_TRIM_THRESHOLD",
    /// Seconds of idleness after which the rest is returned.
    Idle = c"UNBLOAT_IDLE",
    /// `1`: one line to stderr at start.
    Log = c"UNBLOAT_LOG",
    /// The policy of `unbloat run` and `unbloat env` without `--policy`.
    RunPolicy = c"UNBLOAT_RUN_POLICY",
    /// The directory that `unbloat install` filled.
    LibraryDirectory = c"UNBLOAT_LIBRARY_DIR",
}

impl Variable {
    /// The variables that `unbloat run` sets. A nested run starts without them.
    pub const OF_A_POLICY: [Variable; 6] = [
        Variable::Policy,
        Variable::Trim,
        Variable::Compact,
        Variable::Warmup,
        Variable::Preload,
        Variable::Arenas,
    ];

    /// The variable's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.c_name().to_str() {
            Ok(name) => name,
            Err(_) => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read_back() {
        for &trim in Trim::ALL {
            assert_eq!(Trim::parse(trim.word()), Some(trim));
        }
        for &compact in Compact::ALL {
            assert_eq!(Compact::parse(compact.word()), Some(compact));
        }
        for &part in Part::ALL {
            assert_eq!(Part::parse(part.word()), Some(part));
        }
        assert_eq!((Trim::parse("sometimes"), Trim::parse("")), (None, None));
    }

    #[test]
    fn a_switch_takes_the_usual_words() {
        assert_eq!((switch("0"), switch("yes"), switch("maybe")), (Some(false), Some(true), None));
    }

    #[test]
    fn names_are_unbloats_own_and_differ() {
        for (index, variable) in Variable::ALL.iter().enumerate() {
            assert!(variable.name().starts_with("UNBLOAT"), "{variable:?}");
            assert!(Variable::ALL.iter().skip(index + 1).all(|other| other.name() != variable.name()));
        }
    }
}
