//! The IDs by which rows of a recording refer to each other.

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);
    )*};
}

ids! {
    /// A [`Process`](crate::Process).
    ProcessId
    /// A [`Run`](crate::Run).
    RunId
    /// A [`Variant`](crate::Variant).
    VariantId
    /// A block of runs.
    BlockId
    /// A [`Step`](crate::Step).
    StepId
}
