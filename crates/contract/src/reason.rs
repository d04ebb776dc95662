//! Reasons for which the runtime did nothing the last time it decided.

use core::fmt;

/// The outcome of the policy's last decision. The discriminant is what [`crate::Word::LastReason`] holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Reason {
    /// No garbage collection has been heard yet.
    NothingHeard = 0,
    /// It did act: the last decision was to trim.
    Trimmed = 1,
    /// Resident memory has not grown enough since the last trim.
    NoGrowth = 2,
    /// The minimum interval since the end of the last trim has not passed.
    TooSoon = 3,
    /// The processor budget for trimming is used up for now.
    CpuBudget = 4,
    /// The last trims returned too few bytes for the time they took.
    LowYield = 5,
    /// The program needed at once what the last trims returned.
    Refaulted = 6,
    /// The program is inside `Unbloat.suspend`.
    Suspended = 7,
    /// The process was just forked or is forking.
    Forking = 8,
    /// The collection was a minor one and the policy waits for a full one.
    MinorCollection = 9,
    /// The policy in force does not trim.
    PolicyDoesNotTrim = 10,
    /// The allocator in the process is not one that the runtime can trim.
    UnknownAllocator = 11,
    /// `UNBLOAT=0` is set.
    SwitchedOff = 12,
    /// This Ruby lacks a function that the runtime needs.
    UnknownRuby = 13,
    /// The runtime met a state that it does not know and stopped itself.
    InternalError = 14,
    /// A trim would keep threads of the busy process waiting for too long; it is left for when the process falls idle.
    TooLong = 15,
    /// The runtime's thread could not be started.
    NoThread = 16,
    /// A code that this version does not know.
    Unknown = u64::MAX,
}

impl Reason {
    /// The reason behind a code.
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

    /// The reason in words.
    pub fn text(self) -> &'static str {
        match self {
            Reason::NothingHeard => "no garbage collection has been heard yet",
            Reason::Trimmed => "trimmed",
            Reason::NoGrowth => "resident memory has not grown enough since the last trim",
            Reason::TooSoon => "the last trim was a moment ago",
            Reason::CpuBudget => "the processor budget for trimming is used up for now",
            Reason::LowYield => "the last trims returned too little for the time they took",
            Reason::Refaulted => "what the last trims returned was needed again at once",
            Reason::Suspended => "suspended by the program",
            Reason::Forking => "the process was forking",
            Reason::MinorCollection => "the collection was not a full one",
            Reason::PolicyDoesNotTrim => "the policy does not trim",
            Reason::UnknownAllocator => "the allocator in this process is not one that can be trimmed",
            Reason::SwitchedOff => "switched off by UNBLOAT=0",
            Reason::UnknownRuby => "this Ruby lacks a function that the runtime needs",
            Reason::InternalError => "the runtime stopped itself after an internal error",
            Reason::TooLong => {
                "a trim would keep busy threads waiting too long; it is left until the process is idle"
            }
            Reason::NoThread => "the runtime's thread could not be started; the next collection tries again",
            Reason::Unknown => "a reason that this version of unbloat does not know",
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
