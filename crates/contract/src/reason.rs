//! Reasons why the runtime did nothing at its last decision.

use core::fmt;

/// The outcome of the policy's last decision. The discriminant is the value of [`crate::Word::LastReason`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Reason {
    /// No garbage collection has been observed yet.
    NothingHeard = 0,
    /// It did act: the last decision was to trim.
    Trimmed = 1,
    /// Resident memory has not grown enough since the last trim.
    NoGrowth = 2,
    /// The minimum interval since the end of the last trim has not passed.
    TooSoon = 3,
    /// The CPU budget for trimming is used up for now.
    CpuBudget = 4,
    /// The last trims returned too few bytes for the time they took.
    LowYield = 5,
    /// The program needed the memory of the last trims again at once.
    Refaulted = 6,
    /// The program is inside `Unbloat.suspend`.
    Suspended = 7,
    /// The process was just forked or is forking.
    Forking = 8,
    /// The collection was a minor one and the policy waits for a full one.
    MinorCollection = 9,
    /// The policy in force does not trim.
    PolicyDoesNotTrim = 10,
    /// The runtime cannot trim the allocator in the process.
    UnknownAllocator = 11,
    /// `UNBLOAT=0` is set.
    SwitchedOff = 12,
    /// This Ruby lacks a function required by the runtime.
    UnknownRuby = 13,
    /// The runtime encountered an unknown state and stopped itself.
    InternalError = 14,
    /// A trim would delay threads of the busy process for too long; it is postponed until the process is
    /// idle.
    TooLong = 15,
    /// The runtime's thread could not be started.
    NoThread = 16,
    /// A code unknown to this version.
    Unknown = u64::MAX,
}

impl Reason {
    /// Returns the reason with this code.
    pub fn from_code(code: u64) -> Self {
        const KNOWN: [Reason; 17] = [
            Reason::NothingHeard,
            Reason::Trimmed,
            Reason::NoGrowth,
            Reason::TooSoon,
            Reason::CpuBudget,
            Reason::LowYield,
            Reason::Refaulted,
            Reason::Suspended,
            Reason::Forking,
            Reason::MinorCollection,
            Reason::PolicyDoesNotTrim,
            Reason::UnknownAllocator,
            Reason::SwitchedOff,
            Reason::UnknownRuby,
            Reason::InternalError,
            Reason::TooLong,
            Reason::NoThread,
        ];
        KNOWN.into_iter().find(|&reason| reason as u64 == code).unwrap_or(Reason::Unknown)
    }

    /// Returns the reason in words.
    pub fn text(self) -> &'static str {
        match self {
            Reason::NothingHeard => "no garbage collection has run yet; the first decision follows one",
            Reason::Trimmed => "trimmed",
            Reason::NoGrowth => "resident memory has not grown enough since the last trim",
            Reason::TooSoon => {
                "the minimum interval since the last trim has not passed (UNBLOAT_TRIM_INTERVAL)"
            }
            Reason::CpuBudget => "trims have used up their share of the CPU for now (UNBLOAT_TRIM_BUDGET)",
            Reason::LowYield => "the last trims returned too little memory for the time they took",
            Reason::Refaulted => "the server soon needed the memory again that the last trims had returned",
            Reason::Suspended => "the program has suspended trimming (Unbloat.suspend)",
            Reason::Forking => "the process has just forked; trimming continues in a moment",
            Reason::MinorCollection => "the last collection was minor, and this policy trims after full ones",
            Reason::PolicyDoesNotTrim => "the policy does not trim; choose one that does, such as lean",
            Reason::UnknownAllocator => {
                "the runtime knows no way to trim this allocator; use glibc's malloc or jemalloc"
            }
            Reason::SwitchedOff => "switched off by UNBLOAT=0; unset it and restart the server",
            Reason::UnknownRuby => {
                "this Ruby lacks a function that the runtime needs; use CRuby 2.7 or later"
            }
            Reason::InternalError => {
                "the runtime stopped itself after an internal error; restart the server and report the error"
            }
            Reason::TooLong => {
                "a trim would delay busy threads for too long (UNBLOAT_TRIM_MAX); it waits until the process is idle"
            }
            Reason::NoThread => {
                "the runtime's thread could not be started (see ulimit -u); the next collection tries again"
            }
            Reason::Unknown => {
                "unknown to this version of unbloat; ask with the version that started the server"
            }
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_comes_back_as_its_reason() {
        for code in 0..17 {
            assert_eq!(Reason::from_code(code) as u64, code);
        }
        assert_eq!(Reason::from_code(17), Reason::Unknown);
    }
}
