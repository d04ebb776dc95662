//! Steps that the gem takes to keep a worker's memory small. The status page keeps the last ones, with their times.

/// A step of the gem. The discriminant is its code on the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Step {
    /// Freed memory was given back to the kernel.
    Release = 1,
    /// A full collection while the process was idle, followed by a release.
    Collect = 2,
    /// The workers were asked to fork anew.
    Refork = 3,
    /// A worker was asked to end and to be replaced.
    Replace = 4,
}

impl Step {
    /// All steps, in the order in which a limit takes them.
    pub const ALL: [Step; 4] = [Step::Release, Step::Collect, Step::Refork, Step::Replace];

    /// Returns the step with this code.
    pub fn from_code(code: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|&step| step as u64 == code)
    }

    /// The step's name, as docs/guide/limit.md has it.
    pub const fn word(self) -> &'static str {
        match self {
            Step::Release => "release",
            Step::Collect => "collect",
            Step::Refork => "refork",
            Step::Replace => "replace",
        }
    }
}

/// A step with its place in the order of all steps of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakenStep {
    /// Number of steps that the process had taken before.
    pub number: u64,
    /// `CLOCK_MONOTONIC` nanoseconds at which it was taken.
    pub at_ns: u64,
    /// The step.
    pub step: Step,
}
