//! Keeps the policy's allocator out of all programs that the server starts, and restores it in every Ruby.
//!
//! `LD_PRELOAD` and `MALLOC_ARENA_MAX` reach every program that a server starts: `git`, `node`, a shell. Once
//! Ruby has started with them, the policy's entries have served their purpose and are removed from the
//! environment. `RUBYOPT` and our own variables stay; they cost other programs nothing. A descendant Ruby,
//! whatever is in between (a shell, foreman, `bundle exec`, Puma's restart, Spring), loads the runtime
//! through `RUBYOPT`, detects that its allocator is missing, and re-executes itself with it before any line
//! of its program has run.

use crate::allocator;
use crate::line::Line;
use crate::ruby::Ruby;
use crate::sys;
use core::ffi::{CStr, c_char};
use core::fmt::Write as _;
use unbloat_contract::Variable;
use unbloat_contract::text::{parts, split_once};

/// Maximum size of `LD_PRELOAD`. A longer one is left alone.
const LIST_BYTES: usize = 4096;
/// Maximum size of a command line.
const MAX_COMMAND_BYTES: usize = 2 << 20;
const MAX_WORDS: usize = 1 << 16;

const PRELOAD: &CStr = c"LD_PRELOAD";
const ARENA_MAX: &CStr = c"MALLOC_ARENA_MAX";

/// True while Ruby loads the libraries of `RUBYOPT` and `-r`: neither a program (`<main>`) nor a file being
/// loaded by one of them (`<top (required)>`) is on the stack, only frames of `require` and of Bundler's and
/// RubyGems' wrappers around it.
const BEFORE_THE_PROGRAM: &CStr = c"Thread.current == Thread.main && \
     (caller_locations(1) || []).none? { |frame| frame.base_label.start_with?('<') }";

/// Handles the environment inherited by this process. Call with the GVL, while the library is loaded. Does
/// not return if Ruby re-executes itself.
pub(crate) fn settle(ruby: &Ruby) {
    settle_arenas();
    let entry = sys::environment::<LIST_BYTES>(Variable::Preload.c_name());
    let Some(entry) = entry.filter(|entry| !entry.as_str().is_empty() && !entry.is_cut()) else { return };
    let list = sys::environment::<LIST_BYTES>(PRELOAD).unwrap_or_default();
    if list.is_cut() {
        return;
    }
    if items(list.as_str()).any(|item| item == entry.as_str()) {
        take_out(list.as_str(), entry.as_str());
    } else if may_restart() && ruby.holds(BEFORE_THE_PROGRAM) {
        restart(list.as_str(), entry.as_str());
    }
    finish_restart();
}

/// Handles the limit of arenas: either glibc has read it, or a descendant Ruby applies it now.
fn settle_arenas() {
    let Some(arenas) = sys::environment::<16>(Variable::Arenas.c_name()) else { return };
    match sys::environment::<16>(ARENA_MAX) {
        Some(theirs) if theirs.as_str() == arenas.as_str() => unset(ARENA_MAX),
        Some(_) => {}
        None => {
            if let Ok(limit) = arenas.as_str().parse() {
                allocator::limit_arenas(limit);
            }
        }
    }
}

/// Iterates over the items of `LD_PRELOAD` (ld.so(8)).
fn items(list: &str) -> impl Iterator<Item = &str> {
    parts(list, b" :").filter(|item| !item.is_empty())
}

/// Removes an entry from `LD_PRELOAD`, leaving the user's.
fn take_out(list: &str, entry: &str) {
    let mut rest = Line::<LIST_BYTES>::new();
    for item in items(list).filter(|item| *item != entry) {
        let separator = if rest.as_str().is_empty() { "" } else { ":" };
        // It fits, because the whole list does.
        let _ = write!(rest, "{separator}{item}");
    }
    if rest.as_str().is_empty() { unset(PRELOAD) } else { set(PRELOAD, &rest) }
}

/// Returns whether this process may re-execute itself: the dynamic linker will honor `LD_PRELOAD`, and it was
/// not tried before.
fn may_restart() -> bool {
    // SAFETY: getauxval only reads.
    let secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    let tried = sys::environment::<64>(Variable::Restarted.c_name());
    let tried = tried.is_some_and(|mark| {
        split_once(mark.as_str(), b':').is_some_and(|(pid, _)| pid == own_pid().as_str())
    });
    !secure && !tried
}

fn own_pid() -> Line<16> {
    let mut pid = Line::new();
    // SAFETY: getpid only reads. Ten digits fit.
    let _ = write!(pid, "{}", unsafe { libc::getpid() });
    pid
}

/// Finishes a re-execution: restores the process's name (`/proc/PID/comm`) and removes the mark.
fn finish_restart() {
    let Some(mark) = sys::environment::<64>(Variable::Restarted.c_name()) else { return };
    if let Some((pid, name)) = split_once(mark.as_str(), b':')
        && pid == own_pid().as_str()
    {
        let name = Line::<16>::of(name);
        // SAFETY: the name is a C string of at most 16 bytes.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    }
    unset(Variable::Restarted.c_name());
}

/// Re-executes this process's program with the entry at the front of `LD_PRELOAD`. Returns if that is
/// impossible, in which case nothing has changed.
fn restart(list: &str, entry: &str) {
    let Some(command) = Command::own() else { return };
    let mut program = [0_u8; LIST_BYTES];
    // SAFETY: the path is a C string and the buffer has the given length; its last byte stays zero.
    let length =
        unsafe { libc::readlink(c"/proc/self/exe".as_ptr(), program.as_mut_ptr().cast(), LIST_BYTES - 1) };
    let mut preload = Line::<{ 2 * LIST_BYTES }>::new();
    let mut mark = Line::<64>::new();
    let mut name = [0_u8; 16];
    // SAFETY: the kernel writes at most 16 bytes, including a zero byte.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let name = CStr::from_bytes_until_nul(&name).unwrap_or_default().to_str().unwrap_or_default();
    let separator = if list.is_empty() { "" } else { ":" };
    let fits = write!(preload, "{entry}{separator}{list}").is_ok()
        && write!(mark, "{}:{name}", own_pid().as_str()).is_ok();
    // A program that embeds Ruby has already done work of its own.
    let path = CStr::from_bytes_until_nul(&program).unwrap_or_default().to_str().unwrap_or_default();
    let is_ruby = parts(path, b"/").next_back().is_some_and(|name| name.starts_with("ruby"));
    if length <= 0 || !fits || !is_ruby {
        return;
    }
    set(PRELOAD, &preload);
    set(Variable::Restarted.c_name(), &mark);
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: the program's path is a C string, and both arrays end with a null pointer. Signals and
    // descriptors are as after any exec by Ruby itself.
    unsafe { libc::execve(program.as_ptr().cast(), command.words.cast_const(), environ) };
    unset(Variable::Restarted.c_name());
    if list.is_empty() { unset(PRELOAD) } else { set(PRELOAD, &Line::<LIST_BYTES>::of(list)) }
}

/// The command line of this process.
struct Command {
    text: *mut u8,
    words: *mut *const c_char,
}

impl Drop for Command {
    fn drop(&mut self) {
        // SAFETY: both were allocated by `Command::own`, or are null.
        unsafe {
            libc::free(self.text.cast());
            libc::free(self.words.cast());
        }
    }
}

impl Command {
    /// Reads the command line; `None` if it is unreadable, or would not mean the same a second time: `-C`
    /// changes the directory (ruby(1)), and the start of a script on standard input has already been consumed
    /// (`load_file_internal`, ruby.c of 2.7 to 3.4).
    fn own() -> Option<Self> {
        // SAFETY: plain allocations, checked below.
        let command = unsafe {
            Self {
                text: libc::calloc(MAX_COMMAND_BYTES, 1).cast(),
                words: libc::calloc(MAX_WORDS + 1, size_of::<*const c_char>()).cast(),
            }
        };
        if command.text.is_null() || command.words.is_null() {
            return None;
        }
        // SAFETY: the allocation has this many bytes, zeroed, and nothing else refers to it.
        let text = unsafe { core::slice::from_raw_parts_mut(command.text, MAX_COMMAND_BYTES) };
        let length = sys::read_whole_file(c"/proc/self/cmdline", text)?;
        let text = text.get(..length)?;
        let mut reader = Reader::Program;
        let mut has_script = false;
        for (count, word) in text.split_inclusive(|&byte| byte == 0).enumerate() {
            has_script |= reader.is_script(word);
            reader = reader.next(word)?;
            if count >= MAX_WORDS || word.last() != Some(&0) {
                return None;
            }
            // SAFETY: the index is below the number of words allocated.
            unsafe { *command.words.add(count) = word.as_ptr().cast() };
        }
        has_script.then_some(command)
    }
}

/// A reader of Ruby's command line, by the kind of word it expects next.
#[derive(Clone, Copy)]
enum Reader {
    /// The program.
    Program,
    /// An option or the script.
    Option,
    /// The value of an option.
    Value,
    /// The script, after `--`.
    Script,
    /// An argument of the script.
    Argument,
}

impl Reader {
    /// Options whose value is the rest of the word; for some of them it may be the next word (ruby(1)).
    const WITH_VALUE: &[u8] = b"rIeEWFKTxi0";
    const WITH_NEXT: &[u8] = b"rIeE";

    /// Returns whether a word names or contains the script.
    fn is_script(self, word: &[u8]) -> bool {
        let word = word.strip_suffix(b"\0").unwrap_or(word);
        match (self, word.strip_prefix(b"-")) {
            (Reader::Program | Reader::Value | Reader::Argument, _) => false,
            (Reader::Script, _) => word != b"-",
            (Reader::Option, None) => true,
            (Reader::Option, Some(letters)) => {
                let end = letters.iter().position(|letter| Self::WITH_VALUE.contains(letter));
                letters.first() != Some(&b'-') && end.and_then(|end| letters.get(end)) == Some(&b'e')
            }
        }
    }

    /// Reads a word; `None` for an option that changes the directory.
    fn next(self, word: &[u8]) -> Option<Self> {
        match self {
            Reader::Program | Reader::Value => Some(Reader::Option),
            Reader::Script | Reader::Argument => Some(Reader::Argument),
            Reader::Option => Self::after_option(word.strip_suffix(b"\0").unwrap_or(word)),
        }
    }

    fn after_option(word: &[u8]) -> Option<Self> {
        let Some(letters) = word.strip_prefix(b"-").filter(|letters| !letters.is_empty()) else {
            return Some(Reader::Argument);
        };
        if letters.first() == Some(&b'-') {
            return Some(if letters.len() == 1 { Reader::Script } else { Reader::Option });
        }
        let end = letters.iter().position(|letter| Self::WITH_VALUE.contains(letter));
        let flags = letters.get(..end.unwrap_or(letters.len())).unwrap_or_default();
        if flags.iter().any(|flag| b"CX".contains(flag)) {
            return None;
        }
        let takes_next = end.is_some_and(|end| {
            end.saturating_add(1) == letters.len()
                && letters.get(end).is_some_and(|letter| Self::WITH_NEXT.contains(letter))
        });
        Some(if takes_next { Reader::Value } else { Reader::Option })
    }
}

fn set<const N: usize>(name: &CStr, value: &Line<N>) {
    // SAFETY: both are C strings; this runs with the GVL, under which Ruby changes the environment.
    unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) };
}

fn unset(name: &CStr) {
    // SAFETY: as above.
    unsafe { libc::unsetenv(name.as_ptr()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> bool {
        words.iter().try_fold(Reader::Program, |reader, word| reader.next(word.as_bytes())).is_some()
    }

    #[test]
    fn an_option_that_changes_the_directory_is_told_from_a_word_of_the_script() {
        for again in [
            &["ruby", "puma", "-C", "config/puma.rb"][..],
            &["ruby", "-r", "Cfile", "-W0", "x.rb", "-C"],
            &["ruby", "-e", "C", "-rC", "-IC", "--", "-C"],
            &["ruby", "-", "-C"],
            &["ruby", "--enable=frozen-string-literal", "x", "-X"],
        ] {
            assert!(read(again), "{again:?}");
        }
        for never in
            [&["ruby", "-C", "dir", "x"][..], &["ruby", "-wCdir"], &["ruby", "-r", "x", "-Xdir", "y"]]
        {
            assert!(!read(never), "{never:?}");
        }
    }

    #[test]
    fn a_script_on_standard_input_is_told_from_others() {
        let has_script = |words: &[&str]| {
            let mut reader = Reader::Program;
            words.iter().any(|word| {
                let is_script = reader.is_script(word.as_bytes());
                reader = reader.next(word.as_bytes()).unwrap_or(Reader::Argument);
                is_script
            })
        };
        for script in [
            &["ruby", "x.rb"][..],
            &["ruby", "-W0", "-r", "a", "x"],
            &["ruby", "-we", "1"],
            &["ruby", "--", "x"],
        ] {
            assert!(has_script(script), "{script:?}");
        }
        for none in [
            &["ruby"][..],
            &["ruby", "-"],
            &["ruby", "-", "x"],
            &["ruby", "-r", "x"],
            &["ruby", "--version"],
            &["ruby", "-ruri"],
        ] {
            assert!(!has_script(none), "{none:?}");
        }
    }

    #[test]
    fn the_items_of_a_list_are_those_of_the_dynamic_linker() {
        assert!(items("/a.so:/b.so  c.so:").eq(["/a.so", "/b.so", "c.so"]));
        assert!(items("").next().is_none());
    }
}
