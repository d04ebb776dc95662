//! Arenas of real processes, compared with the processes' own figures.
#![allow(clippy::unwrap_used, missing_docs)]

use unbloat_heap::allocators::glibc::survey::{Context, Survey};
use unbloat_heap::allocators::glibc::trim::Use;
use unbloat_heap::allocators::glibc::{Chunk, ChunkState, Glibc, Observer};
use unbloat_process::{LiveMemory, Maps, Pid, page_size};
use unbloat_test_support::{Compiler, Program, Target, c_program};

/// Adds up the chunks held by the program.
#[derive(Default)]
struct Live {
    chunks: u64,
    bytes: u64,
}

impl Observer for Live {
    fn chunk(&mut self, chunk: &Chunk) {
        if chunk.state == ChunkState::Live {
            self.chunks += 1;
            self.bytes += chunk.user().end - chunk.user().start;
        }
    }
}

fn survey(pid: i32) -> (Survey, Live) {
    let pid = Pid(pid);
    let maps = Maps::of(pid).unwrap();
    let glibc = Glibc::locate(pid, &maps).unwrap();
    let memory = LiveMemory::of(pid).unwrap();
    let mut live = Live::default();
    let threads = unbloat_process::threads(pid).unwrap();
    let context = Context { stop: None, maps: &maps, threads: &threads, claims: &[] };
    let survey = Survey::take(&glibc, &memory, context, &mut live).unwrap();
    (survey, live)
}

/// Returns the values of an attribute in the last element with these words in `malloc_info`'s text.
fn info(text: &str, words: &str, attribute: &str) -> u64 {
    let after = text.rsplit_once(words).unwrap().1;
    let value = after.split_once(&format!("{attribute}=\"")).unwrap().1;
    value.split_once('"').unwrap().0.parse().unwrap()
}

fn numbers(line: &str) -> Vec<u64> {
    line.split(' ').map(|n| n.parse().unwrap()).collect()
}

#[test]
fn free_and_system_bytes_equal_the_targets_own_and_trimmable_equals_the_drop() {
    let program = Program::build(Compiler::System, c_program("heap"), &[]);
    // The last argument controls the program break (see the program), so that the main arena has several
    // runs.
    for arguments in [
        ["3", "20000", "3000", "3", "2", ""],
        ["7", "9000", "9000", "20", "0", ""],
        ["1", "50000", "120", "2", "0", ""],
        ["1", "20000", "3000", "3", "2", "b"],
        ["1", "20000", "3000", "9", "0", "mbum"],
        ["2", "20000", "3000", "5", "1", "mb"],
    ] {
        let mut target = Target::start_ready(program.command().args(arguments));
        // malloc_info first: the stream it prints to is a block of memory itself, which is freed afterwards.
        let text = target.ask("info");
        let mallinfo = numbers(&target.ask("mallinfo"));
        let (survey, live) = survey(target.pid());
        assert_eq!(survey.notes, [], "{arguments:?}");
        let blocked = arguments[5].contains('b');
        assert_eq!(survey.arenas[0].spans.len() > 1, blocked, "{:?}", survey.arenas[0].spans);
        let total = survey.total();
        assert_eq!(total.resident(Use::Unsettled), 0);
        let system: u64 = survey.arenas.iter().map(|arena| arena.state.system_mem).sum();
        assert_eq!(system, info(&text, "<system type=\"current\"", "size"));
        let free = total.free_bytes + total.top_bytes;
        assert_eq!(free, mallinfo[1], "{arguments:?}");
        // malloc_info adds the flag bits of each free chunk's size: 1 (the chunk before is in use), 4 (not the main arena).
        let fastbins = r#"<total type="fast""#; // gone in 2.43
        let fast = if text.contains(fastbins) { info(&text, fastbins, "size") } else { 0 };
        let rest = info(&text, "<total type=\"rest\"", "size") + fast;
        let count = info(&text, "<total type=\"rest\"", "count");
        assert!(rest.abs_diff(free) <= 5 * count + 2048, "free {free}, malloc_info says {rest} in {count}");

        // The program's blocks, except those with their own mappings; libc itself holds a block per thread
        // and a few more.
        let held = numbers(&target.ask("live"));
        let mapped: u64 = arguments[4].parse().unwrap();
        let threads = survey.caches.threads.len() as u64;
        let libcs = live.chunks - (held[1] - mapped);
        assert!((threads - 1..threads + 4).contains(&libcs), "{libcs} blocks of libc for {threads} threads");
        assert!(survey.caches.threads.iter().all(|thread| thread.arena.is_some() && thread.cache.is_some()));
        assert!(survey.caches.threads[1..].iter().all(|thread| thread.stack.is_some()));

        let kib = numbers(&target.ask("trim"));
        let dropped = kib[0].saturating_sub(kib[1]) * 1024;
        let predicted = total.resident(Use::Trimmable);
        let tolerance = (dropped / 100).max(4 * page_size());
        assert!(predicted.abs_diff(dropped) <= tolerance, "predicted {predicted}, dropped {dropped}");
    }
}
