//! Notes: what an inspection could not tell, why, and what to do about it.

use serde::{Deserialize, Serialize};
use unbloat_process::Error;

/// Defines the codes. A row: documentation, code, name for scripts, next step.
macro_rules! note_codes {
    ($($(#[$doc:meta])+ $code:ident $name:literal $next_step:literal;)+) => {
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

            /// What the reader can do; empty where the note's own text says it or nothing can be done.
            #[must_use]
            pub fn next_step(self) -> &'static str {
                match self { $(NoteCode::$code => $next_step,)+ }
            }
        }
    };
}

note_codes! {
    /// The process has ended.
    Gone "gone" "";
    /// The kernel does not let us look.
    NotPermitted "not-permitted" "";
    /// Memory could not be read.
    Unreadable "unreadable" "";
    /// A file of `/proc` is not as documented.
    Malformed "malformed" "";
    /// The status page could not be read.
    StatusPage "status-page" "";
    /// A system call failed.
    Io "io" "";
    /// The kernel lacks what is needed.
    Absent "absent" "";
    /// A mapped file could not be read.
    Image "image" "";
    /// A list of `/proc` is longer than any program needs.
    TooMany "too-many" "";
    /// The process became another program meanwhile.
    Replaced "replaced" "";
    /// The look did not come to an end within its limits.
    GaveUp "gave-up" "";
    /// A kernel thread.
    KernelThread "kernel-thread" "";
    /// A zombie.
    Zombie "zombie" "";
    /// A 32-bit program.
    Program32Bit "program-32-bit" "";
    /// Only what `/proc` shows everyone.
    CountersOnly "counters-only" "";
    /// What the control group is charged.
    ControlGroup "cgroup" "";
    /// PSS and USS are missing.
    NoPss "no-pss" "";
    /// The kernel does not tell zero pages apart.
    ZeroPages "zero-pages" "Linux 6.7 or newer tells them apart.";
    /// The runtime's status page cannot be read.
    RuntimeUnreadable "runtime-unreadable" "`unbloat status` says more.";
    /// The live allocator is not known.
    AllocatorUnknown "allocator-unknown" "";
    /// The look reached its limit.
    LookLimited "look-limited" "The figures of the other parts hold.";
    /// glibc's malloc is there and cannot be read.
    GlibcUnreadable "glibc-unreadable" "Please report the version of this libc, so that it can be added.";
    /// The ring of arenas cannot be read.
    ArenasUnreadable "arenas-unreadable" "Look again; if it stays, please report the version of this libc.";
    /// Some arenas were not reached.
    ArenasIncomplete "arenas-incomplete" "Look again at a quieter moment, or with --stop.";
    /// An arena's heaps cannot be read.
    HeapsUnreadable "heaps-unreadable" "Look again at a quieter moment, or with --stop.";
    /// An arena's lock was held whenever the process was stopped.
    ArenaLocked "arena-locked" "Look again at a quieter moment.";
    /// An arena's lock cannot be read.
    ArenaLockUnknown "arena-lock-unknown" "Look again at a quieter moment.";
    /// A part of the main arena was not recognized.
    MainArenaIncomplete "main-arena-incomplete" "";
    /// A heap is damaged.
    HeapDamaged "heap-damaged" "Valgrind or AddressSanitizer finds where the program writes too far.";
    /// Chunks with mappings of their own are missing.
    MappedChunksIncomplete "mapped-chunks-incomplete" "";
    /// jemalloc's heap cannot be walked.
    JemallocUnreadable "jemalloc-unreadable" "Its release call still works: `unbloat trim`.";
    /// Blocks that only the thread caches of a forking process's other threads hold.
    CachesForgotten "caches-forgotten" "Preload the application in a master without running threads, or run under `unbloat run --policy lean`.";
    /// No page of Ruby's heap was found.
    RubyHeapNotFound "ruby-heap-not-found" "Look again once it has started.";
    /// This Ruby's layouts are not known.
    RubyLayoutUnknown "ruby-layout-unknown" "A newer Unbloat may know them.";
    /// Owners were sampled.
    RubyOwnersSampled "ruby-owners-sampled" "";
    /// Slots could not be read.
    RubySlotsUnread "ruby-slots-unread" "";
    /// Ruby pages vanished while they were read.
    RubyPagesVanished "ruby-pages-vanished" "Look again, or with --stop.";
}

impl NoteCode {
    /// The code of an error.
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
    /// What is missing, why, and what can be done.
    pub text: String,
}

impl Note {
    /// A note that says `what` is missing and why, and then the next step of its code.
    #[must_use]
    pub fn new(code: NoteCode, what: impl Into<String>) -> Self {
        let mut text = what.into();
        if !code.next_step().is_empty() {
            text.push(' ');
            text.push_str(code.next_step());
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
        for step in NoteCode::ALL.iter().map(|code| code.next_step()) {
            assert!(step.is_empty() || step.ends_with('.'), "{step}");
        }
        let note = Note::new(NoteCode::ZeroPages, "This kernel does not tell them apart.");
        assert_eq!(note.text, "This kernel does not tell them apart. Linux 6.7 or newer tells them apart.");
    }

    #[test]
    fn an_error_keeps_its_code() {
        let gone = Error::Gone { pid: unbloat_process::Pid(1) };
        assert_eq!(NoteCode::of(&gone).name(), gone.code());
    }
}
