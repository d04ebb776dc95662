//! The state of the view. Pure: keys, snapshots and answers go in, effects come out.

use crate::column::{Column, size};
use crate::rows::rows;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;
use unbloat_process::Pid;
use unbloat_record::monitor::{Identity, Snapshot};

/// Something that the caller shall do. It gives back an [`Answer`] when it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Inspect a process and show the text.
    Inspect(Pid),
    /// Trim a process and show the result.
    Trim(Pid),
    /// Record a process and its descendants.
    Record(Pid),
    /// End the recording.
    EndRecording,
    /// End the view.
    Quit,
}

/// The result of an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A text to read.
    Text {
        /// Its title.
        title: String,
        /// Its lines.
        text: String,
    },
    /// A recording runs, or ran: the file. `None` once it has ended.
    Recording(Option<String>),
    /// A sentence for the last line: an error, or what was done.
    Message(String),
}

/// The part of the view that gets the keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Mode {
    /// The list.
    #[default]
    List,
    /// The filter is being typed.
    Filter,
    /// A text is shown.
    Text {
        /// Its title.
        title: String,
        /// Its lines.
        lines: Vec<String>,
        /// The first line that is shown.
        from: usize,
    },
    /// A trim needs a yes.
    Ask(Pid),
}

/// The state.
#[derive(Debug, Default)]
pub struct State {
    /// The latest readings.
    pub snapshot: Arc<Snapshot>,
    /// The column of the order.
    pub column: Column,
    /// Children below their parents.
    pub tree: bool,
    /// Text that a command line must contain, in any case of letters.
    pub filter: String,
    /// The selected process.
    pub selected: Option<Identity>,
    /// The part that gets the keys.
    pub mode: Mode,
    /// A sentence for the last line.
    pub message: String,
    /// The file of the recording that runs.
    pub recording: Option<String>,
    /// Colors may be shown.
    pub color: bool,
    /// Lines that fit between head and foot; set by each drawing.
    pub page: usize,
    /// The last look at each process: its time, and the PSS when it was first seen here.
    bases: BTreeMap<Identity, (SystemTime, u64)>,
}

impl State {
    /// Creates the view of a tree, without processes yet.
    #[must_use]
    pub fn new(color: bool) -> Self {
        State { tree: true, color, page: 1, ..State::default() }
    }

    /// Returns the PSS of a process at its last look, the base of its growth.
    #[must_use]
    pub fn base(&self, id: Identity) -> Option<u64> {
        self.bases.get(&id).map(|&(_, bytes)| bytes)
    }

    /// Shows newer readings.
    pub fn update(&mut self, snapshot: Arc<Snapshot>) {
        for seen in snapshot.processes.values() {
            let (Some(look), Some(_)) = (&seen.look, &seen.memory) else { continue };
            if self.bases.get(&seen.id).is_none_or(|&(at, _)| at != look.at) {
                self.bases.insert(seen.id, (look.at, size(seen)));
            }
        }
        self.bases.retain(|id, _| snapshot.processes.contains_key(id));
        let gone = self.selected.filter(|id| !snapshot.processes.contains_key(id));
        if gone.is_some() {
            // The neighbor takes its place, so that the selection stays where the eye is.
            let place = self.place();
            self.snapshot = snapshot;
            self.select(place);
        } else {
            self.snapshot = snapshot;
        }
        if self.selected.is_none() {
            self.select(0);
        }
        if let Mode::Ask(pid) = self.mode
            && !self.snapshot.processes.keys().any(|id| id.pid == pid)
        {
            (self.mode, self.message) = (Mode::List, format!("{pid} has ended; nothing was trimmed"));
        }
    }

    /// Takes the result of an effect.
    pub fn answer(&mut self, answer: Answer) {
        self.message.clear();
        match answer {
            Answer::Text { title, text } => {
                let lines = text.lines().map(str::to_owned).collect();
                self.mode = Mode::Text { title, lines, from: 0 };
            }
            Answer::Recording(file) => self.recording = file,
            Answer::Message(message) => self.message = message,
        }
    }

    /// Handles a key. Returns what the caller shall do.
    pub fn press(&mut self, key: KeyEvent) -> Option<Effect> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return matches!(key.code, KeyCode::Char('c' | 'd')).then_some(Effect::Quit);
        }
        match &self.mode {
            Mode::List => self.in_list(key.code),
            Mode::Filter => self.in_filter(key.code),
            Mode::Text { .. } => self.in_text(key.code),
            &Mode::Ask(pid) => {
                self.mode = Mode::List;
                if key.code == KeyCode::Char('y') {
                    self.message = format!("trimming {pid} …");
                    return Some(Effect::Trim(pid));
                }
                self.message = "nothing was trimmed".into();
                None
            }
        }
    }

    fn in_list(&mut self, key: KeyCode) -> Option<Effect> {
        self.message.clear();
        let place = self.place();
        match key {
            KeyCode::Char('q') => return Some(Effect::Quit),
            KeyCode::Up | KeyCode::Char('k') => self.select(place.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.select(place + 1),
            KeyCode::PageUp => self.select(place.saturating_sub(self.page)),
            KeyCode::PageDown => self.select(place + self.page),
            KeyCode::Home => self.select(0),
            KeyCode::End => self.select(usize::MAX),
            KeyCode::Char('s') => self.column = self.column.next(),
            KeyCode::Char('v') => self.tree = !self.tree,
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('?' | 'h') => self.mode = help(),
            KeyCode::Esc => {
                self.filter.clear();
                if self.selected.is_none() {
                    self.select(0);
                }
            }
            KeyCode::Char('r') if self.recording.is_some() => return Some(Effect::EndRecording),
            _ => return self.with_selected(key),
        }
        None
    }

    /// Handles the keys that are about the selected process.
    fn with_selected(&mut self, key: KeyCode) -> Option<Effect> {
        let pid = self.selected?.pid;
        match key {
            KeyCode::Enter => {
                self.message = format!("looking at {pid} …");
                Some(Effect::Inspect(pid))
            }
            KeyCode::Char('t') => {
                self.mode = Mode::Ask(pid);
                None
            }
            KeyCode::Char('r') => Some(Effect::Record(pid)),
            _ => None,
        }
    }

    fn in_filter(&mut self, key: KeyCode) -> Option<Effect> {
        match key {
            KeyCode::Char(c) => self.filter.push(c),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Enter => self.mode = Mode::List,
            KeyCode::Esc => {
                self.filter.clear();
                self.mode = Mode::List;
            }
            _ => {}
        }
        let place = self.place();
        self.select(place);
        None
    }

    fn in_text(&mut self, key: KeyCode) -> Option<Effect> {
        let page = self.page;
        let Mode::Text { lines, from, .. } = &mut self.mode else { return None };
        let last = lines.len().saturating_sub(page);
        *from = match key {
            KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q') => {
                self.mode = Mode::List;
                return None;
            }
            KeyCode::Up | KeyCode::Char('k') => from.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => (*from + 1).min(last),
            KeyCode::PageUp => from.saturating_sub(page),
            KeyCode::PageDown | KeyCode::Char(' ') => (*from + page).min(last),
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => *from,
        };
        None
    }

    /// Returns the place of the selected process in the list; 0 without one.
    #[must_use]
    pub fn place(&self) -> usize {
        rows(self).iter().position(|row| Some(row.seen.id) == self.selected).unwrap_or(0)
    }

    /// Selects the process at a place, or the last one.
    fn select(&mut self, place: usize) {
        let rows = rows(self);
        let last = rows.len().saturating_sub(1);
        self.selected = rows.get(place.min(last)).map(|row| row.seen.id);
    }
}

const HELP: &str = "\
Enter     inspect the process: where every byte is, and what to do about it
t         trim the process: return its freed memory (asks first)
r         record the process and its descendants; once more to end it
s         sort by the next column
v         as a tree, or flat
/         show only command lines that contain a text; Esc shows all again
j k ↓ ↑   next, previous; also Page Up, Page Down, Home, End
q         quit

PSS       proportional: a page that n processes share counts 1/n
BLOAT     freed and still resident: cached, trimmable, stranded
FLOOR     resident without bloat
GROWTH    change of PSS since the last look into the process
UNSHARED  inherited at the fork and written since by parent or child
POLICY    of `unbloat run`; with ! if a part of it is not live
–         not known, or not yet";

fn help() -> Mode {
    Mode::Text { title: "Keys and columns".into(), lines: HELP.lines().map(str::to_owned).collect(), from: 0 }
}
