//! Notes: the limitations of an inspection, their reasons, and the next steps.

use serde::{Deserialize, Serialize};
use unbloat_process::Error;

/// The reader's next step after a limitation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    /// A sentence, which ends every note of the code.
    Do(&'static str),
    /// Named by the error that the note repeats.
    InError,
    /// None: the note says how things are, and nobody can change it.
    Nothing,
}

use NextStep::{Do, InError, Nothing};

/// Defines the codes. A row: documentation, code, name for scripts, next step.
macro_rules! note_codes {
    ($($(#[$doc:meta])+ $code:ident $name:literal $next_step:expr;)+) => {
        /// The kind of a limitation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum NoteCode {
            $($(#[$doc])+ $code,)+
        }

        impl NoteCode {
            /// All codes.
            pub const ALL: &[NoteCode] = &[$(NoteCode::$code),+];

            /// The identifier in JSON, for example `ruby-layout-unknown`. Stable.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(NoteCode::$code => $name,)+ }
            }

            /// The reader's next step.
            #[must_use]
            pub fn next_step(self) -> NextStep {
                match self { $(NoteCode::$code => $next_step,)+ }
            }
        }
    };
}

note_codes! {
    /// The process has ended.
    Gone "gone" InError;
    /// The kernel denied access.
    NotPermitted "not-permitted" InError;
    /// Memory could not be read.
    Unreadable "unreadable" InError;
    /// A file in `/proc` deviates from its documented format.
    Malformed "malformed" InError;
    /// The status page could not be read.
    StatusPage "status-page" InError;
    /// A system call failed.
    Io "io" Nothing;
    /// A page is not resident.
    Absent "absent" Nothing;
    /// A mapped file could not be read.
    Image "image" Nothing;
    /// A list in `/proc` is longer than any program needs.
    TooMany "too-many" InError;
    /// The process became another program meanwhile.
    Replaced "replaced" InError;
    /// The inspection did not finish within its limits.
    GaveUp "gave-up" InError;
    /// A kernel thread.
    KernelThread "kernel-thread" Nothing;
    /// A zombie.
    Zombie "zombie" Nothing;
    /// A 32-bit program.
    Program32Bit "program-32-bit" Nothing;
    /// Only what `/proc` shows everyone is available.
    CountersOnly "counters-only" Nothing;
    /// The memory charged to the control group.
    ControlGroup "cgroup" Nothing;
    /// PSS and USS are missing.
    NoPss "no-pss" InError;
    /// The kernel cannot identify zero pages.
    ZeroPages "zero-pages" Do("Linux 6.7 or newer distinguishes them.");
    /// The runtime's status page cannot be read.
    RuntimeUnreadable "runtime-unreadable" Do("`unbloat status` has details.");
    /// The live allocator is unknown.
    AllocatorUnknown "allocator-unknown" Do("Please report which one it is, so that it can be added.");
    /// glibc's malloc is present but cannot be read.
    GlibcUnreadable "glibc-unreadable" Do("Please report the version of this libc, so that it can be added.");
    /// The ring of arenas cannot be read.
    ArenasUnreadable "arenas-unreadable" Do("Try again; if it persists, please report the version of this \
        libc.");
    /// Some arenas were not reached.
    ArenasIncomplete "arenas-incomplete" Do("Try again at a quieter moment, or with --stop.");
    /// An arena's heaps cannot be read.
    HeapsUnreadable "heaps-unreadable" Do("Try again at a quieter moment, or with --stop.");
    /// An arena's lock was held at every stop of the process.
    ArenaLocked "arena-locked" Do("Try again at a quieter moment.");
    /// An arena's lock cannot be read.
    ArenaLockUnknown "arena-lock-unknown" Do("Try again at a quieter moment.");
    /// A part of the main arena was not recognized.
    MainArenaIncomplete "main-arena-incomplete" Do("Try again at a quieter moment, or with --stop.");
    /// A heap is damaged.
    HeapDamaged "heap-damaged" Do("Valgrind or AddressSanitizer can find the write out of bounds.");
    /// Some chunks with their own mappings are missing.
    MappedChunksIncomplete "mapped-chunks-incomplete" Nothing;
    /// jemalloc's heap cannot be walked.
    JemallocUnreadable "jemalloc-unreadable" Do("Its release call still works: `unbloat trim`.");
    /// Blocks left in the caches of a forking process's other threads.
    CachesForgotten "caches-forgotten" Do("Preload the application in a master without running threads, or run under `unbloat run --policy lean`.");
    /// No page of Ruby's heap was found.
    RubyHeapNotFound "ruby-heap-not-found" Do("Try again once it has started.");
    /// This Ruby's layouts are unknown.
    RubyLayoutUnknown "ruby-layout-unknown" Do("A newer Unbloat may know them.");
    /// This is no Ruby.
    NoRuby "no-ruby" Nothing;
    /// The names of classes cannot be read.
    RubyNamesUnknown "ruby-names-unknown" Do("A newer Unbloat may know them.");
    /// The references of this Ruby are not known.
    RubyReferencesUnknown "ruby-references-unknown" Do("A newer Unbloat may know them.");
    /// The owners of live memory are not told.
    OwnershipOmitted "ownership-omitted" Do("`unbloat inspect --whose` tells them all the same, if it can.");
    /// Owners were sampled.
    RubyOwnersSampled "ruby-owners-sampled" Nothing;
    /// Slots could not be read.
    RubySlotsUnread "ruby-slots-unread" Nothing;
    /// Ruby pages vanished while they were read.
    RubyPagesVanished "ruby-pages-vanished" Do("Try again, possibly with --stop.");
}

impl NoteCode {
    /// Returns the code of an error.
    #[must_use]
    pub fn of(error: &Error) -> Self {
        match error {
            Error::Gone { .. } => NoteCode::Gone,
            Error::NotPermitted { .. } => NoteCode::NotPermitted,
            Error::Unreadable { .. } => NoteCode::Unreadable,
            Error::Malformed { .. } => NoteCode::Malformed,
            Error::StatusPage { .. } => NoteCode::StatusPage,
            Error::Io { .. } => NoteCode::Io,
            Error::Absent { .. } => NoteCode::Absent,
            Error::Image(_) => NoteCode::Image,
            Error::TooMany { .. } => NoteCode::TooMany,
            Error::Replaced { .. } => NoteCode::Replaced,
            Error::GaveUp { .. } => NoteCode::GaveUp,
        }
    }
}

/// A limitation of one inspection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Its kind, which scripts can rely on.
    pub code: NoteCode,
    /// The limitation, its reason, and the next step.
    pub text: String,
}

impl Note {
    /// Creates a note that says `what` is missing and why, followed by the next step of its code.
    #[must_use]
    pub fn new(code: NoteCode, what: impl Into<String>) -> Self {
        let mut text = what.into();
        if let Do(step) = code.next_step() {
            text.push(' ');
            text.push_str(step);
        }
        Note { code, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_next_steps_are_sentences() {
        let names: BTreeSet<_> = NoteCode::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), NoteCode::ALL.len());
        for code in NoteCode::ALL {
            let step = code.next_step();
            assert!(!matches!(step, Do(text) if !text.ends_with('.')), "{step:?}");
        }
        let note = Note::new(NoteCode::ZeroPages, "This kernel does not tell them apart.");
        assert_eq!(note.text, "This kernel does not tell them apart. Linux 6.7 or newer distinguishes them.");
    }

    #[test]
    fn an_error_keeps_its_code() {
        let gone = Error::Gone { pid: unbloat_process::Pid(1) };
        assert_eq!(NoteCode::of(&gone).name(), gone.code());
    }
}
