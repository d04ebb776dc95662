//! Draws the state. Two lines of head, the list or a text, one line of foot.

use crate::column::Column;
use crate::rows::{Row, rows};
use crate::state::{Mode, State};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use unbloat_heap::Iec;
use unbloat_record::monitor::Seen;

/// Lines of head and foot.
const HEAD: usize = 2;
const FOOT: usize = 1;
/// Columns of a PID, and of a policy with the space behind it.
const PID: usize = 7;
const POLICY: usize = 7;
/// Width from which there is room for whole titles.
const WIDE: usize = 100;
/// Columns by which a child stands to the right of its parent.
const INDENT: usize = 2;
/// Share of bloat from which a process stands out.
const STANDS_OUT: f64 = 0.25;

/// Draws the state into a frame of any size, and notes how many lines fit.
pub fn draw(state: &mut State, frame: &mut Frame<'_>) {
    let area = frame.area();
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    state.page = height.saturating_sub(HEAD + FOOT).max(1);
    let mut lines = match &state.mode {
        Mode::Text { title, lines, from } => text(state, title, lines, *from),
        Mode::List | Mode::Filter | Mode::Ask(_) => list(state, width),
    };
    lines.resize(state.page + HEAD, Line::default());
    lines.push(foot(state, width));
    for (y, line) in lines.into_iter().take(height).enumerate() {
        // Within the frame, as `y` is below its height.
        frame.render_widget(line, Rect { y: area.y + y as u16, height: 1, ..area });
    }
}

fn text<'a>(state: &State, title: &str, lines: &[String], from: usize) -> Vec<Line<'a>> {
    let shown = lines.iter().skip(from).take(state.page).map(|line| Line::raw(line.clone()));
    [Line::styled(title.to_owned(), Modifier::BOLD), Line::default()].into_iter().chain(shown).collect()
}

fn list<'a>(state: &State, width: usize) -> Vec<Line<'a>> {
    let rows = rows(state);
    let place = state.place();
    // The page in which the selected line is: no state, so a resize cannot lose it.
    let from = place - place % state.page;
    let shown = rows.iter().enumerate().skip(from).take(state.page);
    let mut lines = vec![summary(state, &rows), heads(state)];
    lines.extend(shown.map(|(i, row)| line(state, row, i == place, width)));
    if rows.is_empty() {
        lines.push(Line::raw(match (state.snapshot.listed, state.snapshot.processes.is_empty()) {
            (None, _) => "reading the list of processes …",
            (Some(_), true) => "no such process runs",
            (Some(_), false) => "no command line contains that; Esc shows all",
        }));
    }
    lines
}

/// The first line: sums over the processes that are shown.
fn summary<'a>(state: &State, rows: &[Row<'_>]) -> Line<'a> {
    if let Some(problem) = &state.snapshot.problem {
        return Line::raw(problem.clone());
    }
    let sum = |column: Column| {
        let known = rows.iter().filter_map(|row| column.bytes(row.seen, None));
        known.filter_map(|bytes| u64::try_from(bytes).ok()).fold(0, u64::saturating_add)
    };
    let looked = rows.iter().filter(|row| row.seen.look.is_some()).count();
    let mut parts = vec![
        format!("{} process{}", rows.len(), if rows.len() == 1 { "" } else { "es" }),
        format!("PSS {}", Iec(sum(Column::Pss))),
        format!("bloat {}", Iec(sum(Column::Bloat))),
    ];
    if looked < rows.len() {
        parts.push(format!("{looked} looked at"));
    }
    parts.extend(state.recording.as_ref().map(|file| format!("● {file}")));
    let used = state.snapshot.cost.used.map(|used| format!("uses {:.1} % of a core", used * 100.0));
    parts.extend(used);
    Line::styled(parts.join(" · "), Modifier::BOLD)
}

fn heads<'a>(state: &State) -> Line<'a> {
    let figures: String = Column::ALL
        .iter()
        .map(|&column| {
            let mark = if column == state.column { "▼" } else { "" };
            format!("{:>1$}", format!("{mark}{}", column.head()), column.width())
        })
        .collect();
    let style = if state.color {
        Style::new().fg(Color::Cyan)
    } else {
        Style::new().add_modifier(Modifier::UNDERLINED)
    };
    Line::styled(format!("{:>PID$}{figures} {:<POLICY$}COMMAND", "PID", "POLICY"), style)
}

fn line<'a>(state: &State, row: &Row<'_>, selected: bool, width: usize) -> Line<'a> {
    let seen = row.seen;
    let figures: String = Column::ALL
        .iter()
        .map(|&column| (column.text(column.bytes(seen, state.base(seen.id))), column.width()))
        .map(|(text, width)| format!("{text:>width$}"))
        .collect();
    let indent = " ".repeat(row.depth * INDENT);
    let text =
        format!("{:>PID$}{figures} {:<POLICY$}{indent}{}", seen.id.pid, policy(row), title(seen, width));
    let style = match selected {
        // Filled up to the edge, so that the bar is whole.
        true => return Line::styled(format!("{text:<width$}"), Modifier::REVERSED),
        false if state.color && stands_out(row) => Style::new().fg(Color::Yellow),
        false => Style::new(),
    };
    Line::styled(text, style)
}

/// Returns the title, or where there is no room for it the role, which says more than its first words.
fn title(seen: &Seen, width: usize) -> String {
    match seen.role.role {
        Some("worker") if width < WIDE => format!("{} worker {}", seen.role.name, seen.number),
        Some(role) if width < WIDE => format!("{} {role}", seen.role.name),
        _ => seen.command.shown(),
    }
}

fn stands_out(row: &Row<'_>) -> bool {
    let bloat = Column::Bloat.bytes(row.seen, None).unwrap_or(0) as f64;
    bloat > row.seen.rss_bytes.value as f64 * STANDS_OUT
}

/// Returns the policy in at most [`POLICY`] − 1 columns, with `!` if a part of it is not live.
fn policy(row: &Row<'_>) -> String {
    let Some(look) = row.seen.look.as_ref().map(|look| &look.value) else { return "–".into() };
    let Some(policy) = &look.policy else { return "–".into() };
    let mark = if look.not_live.is_empty() { "" } else { "!" };
    let cut: String = policy.shown().chars().take(POLICY - 1 - mark.len()).collect();
    cut + mark
}

fn foot<'a>(state: &State, width: usize) -> Line<'a> {
    let text = match &state.mode {
        Mode::Ask(pid) => format!("Trim {pid}: return its freed memory to the system? y/n"),
        Mode::Filter => format!("/{}▏", state.filter),
        Mode::Text { .. } => "↑ ↓ Page Up/Down  scroll   Esc  back".into(),
        Mode::List if !state.message.is_empty() => state.message.clone(),
        Mode::List if !state.filter.is_empty() => {
            format!("only /{}   Esc all   q quit   ? help", state.filter)
        }
        Mode::List if width < 76 => "⏎ inspect t trim r record s sort / filter q quit".into(),
        Mode::List => "⏎ inspect   t trim   r record   s sort   v tree   / filter   ? help   q quit".into(),
    };
    Line::raw(text)
}
