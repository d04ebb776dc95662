//! The vocabulary written by `unbloat run` and read by the runtime: parts of a policy, their values,
//! environment variables.

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
            /// All values, in the order used by messages.
            pub const ALL: &'static [$name] = &[$($name::$value),*];

            /// The value's spelling.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $($name::$value => $word,)*
                }
            }

            /// Returns the value with this spelling.
            #[must_use]
            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.word() == word)
            }
        }
    };
}

words! {
    /// The parts of a policy.
    Part {
        /// `allocator=WORD`: the allocator that serves `malloc`.
        Allocator = "allocator",
        /// `arenas=N`: at most N arenas in glibc.
        Arenas = "arenas",
        /// `trim=WORD`: the collections after which to trim.
        Trim = "trim",
        /// `compact=WORD`: the moments at which Ruby's heap is compacted.
        Compact = "compact",
        /// `warmup`: `Process.warmup` before the server forks.
        Warmup = "warmup",
    }
}

words! {
    /// The collections after which to trim.
    Trim {
        /// None.
        Off = "off",
        /// Every full one.
        Major = "major",
        /// Every one.
        Every = "every",
        /// Those with an expected gain, within a budget.
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

/// Parses a switch's value; `None` for a word that is neither on nor off.
#[must_use]
pub fn switch(word: &str) -> Option<bool> {
    let on = ON.contains(&word);
    (on || OFF.contains(&word)).then_some(on)
}

/// Defines the variables with their C strings.
macro_rules! variables {
    ($($(#[$doc:meta])* $variable:ident = $name:literal,)*) => {
        /// A variable of Unbloat.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Variable {
            $($(#[$doc])* $variable,)*
        }

        impl Variable {
            /// All variables.
            pub const ALL: &'static [Variable] = &[$(Variable::$variable),*];

            /// Returns the variable's name as a C string.
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
    /// The whole policy, in the spelling of `unbloat run --policy`. Set by `unbloat run`.
    Policy = c"UNBLOAT_POLICY",
    /// A value of [`crate::Trim`]. Set by `unbloat run`.
    Trim = c"UNBLOAT_TRIM",
    /// A value of [`crate::Compact`]. Set by `unbloat run`.
    Compact = c"UNBLOAT_COMPACT",
    /// `1`: `Process.warmup` before the server forks. Set by `unbloat run`.
    Warmup = c"UNBLOAT_WARMUP",
    /// The policy's entry in `LD_PRELOAD`. Set by `unbloat run`.
    Preload = c"UNBLOAT_PRELOAD",
    /// The policy's value of `MALLOC_ARENA_MAX`. Set by `unbloat run`.
    Arenas = c"UNBLOAT_ARENAS",
    /// `PID:NAME` while a Ruby re-executes itself with the policy's allocator. Set by the runtime.
    Restarted = c"UNBLOAT_RESTARTED",
    /// Bytes of growth below which nothing is trimmed (suffix K, M, G).
    TrimGrowth = c"UNBLOAT_TRIM_GROWTH",
    /// Seconds from the end of a trim to the next.
    TrimInterval = c"UNBLOAT_TRIM_INTERVAL",
    /// Percent of a core for trims and their page faults.
    TrimBudget = c"UNBLOAT_TRIM_BUDGET",
    /// Seconds for which a trim of a busy process may delay threads; `off`: no limit.
    TrimMax = c"UNBLOAT_TRIM_MAX",
    /// Number of bytes at which glibc's trim and mmap thresholds are pinned; `off`: not pinned.
    TrimThreshold = c"UNBLOAT_TRIM_THRESHOLD",
    /// Seconds of idleness after which the rest is returned.
    Idle = c"UNBLOAT_IDLE",
    /// `1`: one line to stderr at start.
    Log = c"UNBLOAT_LOG",
    /// The policy of `unbloat run` and `unbloat env` without `--policy`.
    RunPolicy = c"UNBLOAT_RUN_POLICY",
    /// The directory filled by `unbloat install`.
    LibraryDirectory = c"UNBLOAT_LIBRARY_DIR",
}

impl Variable {
    /// The variables set by `unbloat run`. A nested run starts without them.
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
