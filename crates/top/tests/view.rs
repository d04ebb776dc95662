//! The view on a terminal that is made up: what is drawn, and what keys do.
#![allow(clippy::unwrap_used)]

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use unbloat_heap::model::{Category, Census, ProcessReport, Sharing};
use unbloat_process::Pid;
use unbloat_record::monitor::{Cost, Identity, Look, Memory, Place, Role, Seen, Snapshot, Taken};
use unbloat_top::{Answer, Effect, State, draw};

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// A process with this PSS in MiB, and a third of it bloat.
fn seen(pid: i32, parent: i32, command: &str, mib: u64, looked_at: u64) -> Seen {
    let mut census = Census::of_walked_heap();
    census
        .add_all([(Category::MallocLive, (mib * 2 / 3) << 20), (Category::MallocStranded, (mib / 3) << 20)]);
    let report = ProcessReport {
        pid: Pid(pid),
        parent: Some(Pid(parent)),
        command: command.into(),
        rss_bytes: census.total(),
        pss_bytes: None,
        uss_bytes: None,
        swap_bytes: None,
        threads: 1,
        census,
        proportional: None,
        sharing: None,
        allocator: None,
        ruby: None,
        runtime: None,
        ownership: None,
        map: None,
        verdict: Vec::new(),
        notes: Vec::new(),
        stopped: Duration::ZERO,
        elapsed: Duration::ZERO,
    };
    let sharing = Some(Sharing { parent: Pid(parent), shared_bytes: 0, unshared_bytes: 5 << 20 });
    let look = Look {
        report,
        sharing: sharing.filter(|_| parent != 1),
        counters: None,
        limit_bytes: None,
        policy: (parent != 1).then(|| "lean,arenas=2".into()),
        not_live: if pid == 12 { vec!["no".into()] } else { Vec::new() },
        cpu_s: 0.0,
    };
    Seen {
        id: Identity { pid: Pid(pid), start_ticks: pid as u64 },
        parent: Pid(parent),
        command: command.into(),
        role: Role::of(command, ""),
        number: Role::of(command, "").index.unwrap_or(0),
        place: Place::default(),
        started_unix_s: 0.0,
        rss_bytes: Taken { at: at(1), value: mib << 20 },
        memory: Some(Taken { at: at(1), value: Memory { pss_bytes: mib << 20, uss_bytes: 0 } }),
        look: Some(Taken { at: at(looked_at), value: Arc::new(look) }),
        unread: BTreeSet::new(),
    }
}

fn snapshot(processes: impl IntoIterator<Item = Seen>) -> Arc<Snapshot> {
    let processes = processes.into_iter().map(|seen| (seen.id, seen)).collect();
    let cost = Cost { budget: 0.02, used: Some(0.004) };
    Arc::new(Snapshot { processes, listed: Some(at(2)), problem: None, cost })
}

/// A Puma of two workers, and a larger process without a look.
fn server() -> [Seen; 4] {
    let mut closed = seen(20, 1, "sidekiq 7.2.0 shop [0 of 5 busy]", 300, 1);
    (closed.look, closed.memory) = (None, None);
    [
        seen(10, 1, "puma 6.4.2 (tcp://0.0.0.0:9292) [shop]", 90, 1),
        seen(11, 10, "puma: cluster worker 0: 10 [shop]", 120, 1),
        seen(12, 10, "puma: cluster worker 1: 10 [shop]", 150, 1),
        closed,
    ]
}

fn state() -> State {
    let mut state = State::new(false);
    state.update(snapshot(server()));
    state
}

fn screen(state: &mut State, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(state, frame)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let row = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(row).collect::<Vec<_>>().join("\n")
}

fn press(state: &mut State, key: KeyCode) -> Option<Effect> {
    state.press(KeyEvent::new(key, KeyModifiers::NONE))
}

fn typed(state: &mut State, text: &str) {
    text.chars().for_each(|c| assert_eq!(press(state, KeyCode::Char(c)), None));
}

/// The selected PID.
fn selected(state: &State) -> i32 {
    state.selected.unwrap().pid.0
}

#[test]
fn the_list_in_80_columns() {
    let mut state = state();
    let grown = server().map(|mut seen| {
        seen.memory = seen.memory.map(|mut memory| {
            memory.value.pss_bytes += 3 << 20;
            memory
        });
        seen
    });
    state.update(snapshot(grown));
    insta::assert_snapshot!(screen(&mut state, 80, 12));
}

#[test]
fn help_and_question() {
    let mut state = state();
    press(&mut state, KeyCode::Char('?'));
    insta::assert_snapshot!("help", screen(&mut state, 80, 24));
    press(&mut state, KeyCode::Esc);
    press(&mut state, KeyCode::Char('t'));
    let screen = screen(&mut state, 80, 12);
    assert!(screen.ends_with("Trim 10: return its freed memory to the system? y/n"), "{screen}");
}

#[test]
fn any_size_can_be_drawn() {
    let mut state = state();
    for mode in [None, Some('?'), Some('/')] {
        mode.map(|key| press(&mut state, KeyCode::Char(key)));
        for (width, height) in [(1, 1), (3, 2), (10, 3), (40, 5), (300, 100)] {
            screen(&mut state, width, height);
        }
        press(&mut state, KeyCode::Esc);
    }
    // The selected process stays on the screen, however small.
    press(&mut state, KeyCode::End);
    assert!(screen(&mut state, 80, 4).contains("sidekiq"));
    assert!(!screen(&mut state, 80, 4).contains("worker"));
}

#[test]
fn trees_are_ordered_by_their_sums_and_lists_by_a_column() {
    let mut state = state();
    let pids = |state: &State| -> Vec<i32> {
        unbloat_top::rows::rows(state).iter().map(|row| row.seen.id.pid.0).collect()
    };
    // 360 MiB together, more than the other's 300.
    assert_eq!(pids(&state), [10, 12, 11, 20]);
    press(&mut state, KeyCode::Char('v'));
    assert_eq!(pids(&state), [20, 12, 11, 10]);
    press(&mut state, KeyCode::Char('s'));
    assert_eq!(pids(&state), [12, 11, 10, 20], "a bloat that is not known comes last");
}

#[test]
fn a_filter_is_typed_and_cleared() {
    let mut state = state();
    press(&mut state, KeyCode::Char('/'));
    typed(&mut state, "Workqr");
    assert!(screen(&mut state, 80, 12).contains("no command line contains that"));
    press(&mut state, KeyCode::Backspace);
    press(&mut state, KeyCode::Backspace);
    typed(&mut state, "er 1");
    press(&mut state, KeyCode::Enter);
    assert_eq!(selected(&state), 12);
    assert!(
        screen(&mut state, 80, 12).starts_with("1 process · PSS 150 MiB"),
        "{}",
        screen(&mut state, 80, 12)
    );
    press(&mut state, KeyCode::Esc);
    assert!(screen(&mut state, 80, 12).starts_with("4 processes"));
    assert_eq!(selected(&state), 12, "the selection stays");
}

#[test]
fn a_trim_needs_a_yes() {
    let mut state = state();
    press(&mut state, KeyCode::Down);
    press(&mut state, KeyCode::Char('t'));
    assert_eq!(press(&mut state, KeyCode::Enter), None);
    press(&mut state, KeyCode::Char('t'));
    assert_eq!(press(&mut state, KeyCode::Char('y')), Some(Effect::Trim(Pid(12))));
    // Its end before the answer leaves nothing to say yes to.
    press(&mut state, KeyCode::Char('t'));
    state.update(snapshot(server().into_iter().filter(|seen| seen.id.pid != Pid(12))));
    assert_eq!(press(&mut state, KeyCode::Char('y')), None);
}

#[test]
fn a_process_that_ends_leaves_the_selection_to_its_neighbor() {
    let mut state = state();
    press(&mut state, KeyCode::Down);
    press(&mut state, KeyCode::Down);
    state.update(snapshot(server().into_iter().filter(|seen| seen.id.pid != Pid(11))));
    assert_eq!(selected(&state), 12, "at the place of the one that has ended");
    state.update(snapshot([]));
    assert_eq!(state.selected, None);
    assert_eq!(press(&mut state, KeyCode::Enter), None);
    assert!(screen(&mut state, 80, 12).contains("no such process runs"));
}

#[test]
fn texts_are_scrolled_and_left() {
    let mut state = state();
    assert_eq!(press(&mut state, KeyCode::Enter), Some(Effect::Inspect(Pid(10))));
    let text = (0..30).map(|i| format!("line {i}\n")).collect();
    state.answer(Answer::Text { title: "inspect 10".into(), text });
    let shown = screen(&mut state, 80, 13);
    assert!(
        shown.starts_with("inspect 10\n\nline 0\n")
            && shown.contains("line 9\n")
            && !shown.contains("line 10"),
        "{shown}"
    );
    press(&mut state, KeyCode::End);
    press(&mut state, KeyCode::Down);
    assert!(screen(&mut state, 80, 13).contains("\n\nline 20\n"));
    press(&mut state, KeyCode::Char('q'));
    assert!(screen(&mut state, 80, 13).starts_with("4 processes"));
    assert_eq!(press(&mut state, KeyCode::Char('q')), Some(Effect::Quit));
}

#[test]
fn a_recording_is_started_shown_and_ended() {
    let mut state = state();
    assert_eq!(press(&mut state, KeyCode::Char('r')), Some(Effect::Record(Pid(10))));
    state.answer(Answer::Recording(Some("puma.unbloat".into())));
    assert!(screen(&mut state, 80, 12).lines().next().unwrap().contains("● puma.unbloat"));
    assert_eq!(press(&mut state, KeyCode::Char('r')), Some(Effect::EndRecording));
    state.answer(Answer::Recording(None));
    state.answer(Answer::Message("the recording is complete".into()));
    assert!(screen(&mut state, 80, 12).ends_with("the recording is complete"));
}

#[test]
fn a_hostile_title_draws_nothing_but_text() {
    let mut state = State::new(false);
    state.update(snapshot([seen(10, 1, "puma\u{1b}[2J\r\n\u{202e}x", 10, 1)]));
    let screen = screen(&mut state, 80, 6);
    assert!(
        !screen.contains('\u{1b}') && !screen.contains('\u{202e}') && screen.lines().count() == 6,
        "{screen}"
    );
}

#[test]
fn control_c_ends_in_every_mode() {
    let mut state = state();
    for key in [None, Some('/'), Some('?'), Some('t')] {
        key.map(|key| press(&mut state, KeyCode::Char(key)));
        let end = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(state.press(end), Some(Effect::Quit), "{key:?}");
        press(&mut state, KeyCode::Esc);
    }
}
