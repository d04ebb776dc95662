//! The live view of a running recording: a few lines redrawn in place, or one line at a time.

use crate::segment::{Appearance as _, Segment};
use crate::style::{Ink, Style, apportion, clip};
use std::time::Duration;
use unbloat_heap::Iec;
use unbloat_record::Progress;

/// Returns the lines of the view, each at most `style.width` columns wide.
#[must_use]
pub fn lines(name: &str, progress: &Progress, style: &Style) -> Vec<String> {
    let width = style.width;
    let mut lines = vec![head(name, progress, style), now(progress, style)];
    if progress.history.len() > 1 && width > 20 {
        lines.push(curve(progress, style));
    }
    if let Some((pid, command, bytes)) = &progress.biggest {
        let size = Iec(*bytes).to_string();
        let columns = width.saturating_sub(9 + size.len() + 2);
        let text = clip(&format!("{pid} {command}"), columns);
        lines.push(format!(
            "{}  {text:columns$} {}",
            style.paint(Ink::Dim, "biggest"),
            style.paint(Ink::Bold, &size)
        ));
    }
    if !progress.census.is_empty() {
        lines.extend(made_of(progress, style));
    }
    lines
}

/// Returns one line for logs and pipes.
#[must_use]
pub fn line(progress: &Progress) -> String {
    let memory = progress
        .pss_bytes
        .map_or_else(|| format!("{} RSS", Iec(progress.rss_bytes)), |pss| format!("{} PSS", Iec(pss)));
    let growth = growth(progress).map_or_else(String::new, |growth| format!(", {growth}"));
    format!(
        "{}  {memory}{growth}, {}, {:.2} cores",
        clock(progress.elapsed),
        count(progress.processes, "process", "processes"),
        progress.cpu_cores
    )
}

/// Formats as `0:03:12`.
#[must_use]
pub fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

fn head(name: &str, progress: &Progress, style: &Style) -> String {
    let elapsed = progress.elapsed.as_secs_f64().max(1e-3);
    let cost =
        format!("{}  {:.1} % of a core", clock(progress.elapsed), progress.cost.cpu_s / elapsed * 100.0);
    let columns = style.width.saturating_sub(cost.len() + 11);
    let name = clip(name, columns);
    let recorded = style.paint(Ink::Bold, &format!("{name:columns$}"));
    format!("{}  {recorded}  {}", style.paint(Ink::Red, "● rec  ").trim_end(), style.paint(Ink::Dim, &cost))
}

fn growth(progress: &Progress) -> Option<String> {
    let per_minute = progress.growth_bytes_per_s()? * 60.0;
    let sign = if per_minute < 0.0 { '−' } else { '+' };
    Some(format!("{sign}{} a minute", Iec(per_minute.abs() as u64)))
}

fn now(progress: &Progress, style: &Style) -> String {
    let (bytes, kind) = progress.pss_bytes.map_or((progress.rss_bytes, "RSS"), |pss| (pss, "PSS"));
    let mut parts = vec![format!("{} {kind}", Iec(bytes))];
    parts.extend(growth(progress));
    parts.push(count(progress.processes, "process", "processes"));
    parts.push(format!("{:.2} cores", progress.cpu_cores));
    let text = clip(&parts.join("   "), style.width.saturating_sub(9));
    format!("{}   {text}", style.paint(Ink::Dim, "memory"))
}

/// Draws PSS over the last minutes, from zero, so that a flat line looks flat.
fn curve(progress: &Progress, style: &Style) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let cells = style.width - 9;
    let most = progress.history.iter().map(|&(_, bytes)| bytes).max().unwrap_or(1).max(1);
    let (from, to) = match (progress.history.front(), progress.history.back()) {
        (Some(&(from, _)), Some(&(to, _))) if to > from => (from, to),
        _ => return String::new(),
    };
    let mut columns = vec![None::<u64>; cells];
    for &(at, bytes) in &progress.history {
        let column = ((at - from) / (to - from) * (cells - 1) as f64) as usize;
        if let Some(cell) = columns.get_mut(column) {
            *cell = Some(cell.map_or(bytes, |known| known.max(bytes)));
        }
    }
    let mut last = 0;
    let drawn: String = columns
        .into_iter()
        .map(|cell| {
            last = cell.unwrap_or(last);
            let level = (last as f64 / most as f64 * 7.0).round() as usize;
            LEVELS.get(level).copied().unwrap_or('█')
        })
        .collect();
    format!("{}    {}", style.paint(Ink::Dim, "curve"), style.paint(Ink::Blue, &drawn))
}

/// Draws the last census as one bar, with its legend.
fn made_of(progress: &Progress, style: &Style) -> Vec<String> {
    let parts = Segment::recorded(&progress.census);
    let bytes: Vec<u64> = parts.iter().map(|(_, bytes)| *bytes).collect();
    let cells = apportion(&bytes, style.width.saturating_sub(9));
    let run = |((segment, _), cells): (&(Segment, u64), usize)| {
        style.paint(segment.ink(), &segment.cell(style).to_string().repeat(cells))
    };
    let bar: String = parts.iter().zip(cells).map(run).collect();
    let mut lines = vec![format!("{}  {bar}", style.paint(Ink::Dim, "made of"))];
    let (mut line, mut used) = (String::new(), 0);
    for (segment, bytes) in &parts {
        let text = format!("{} {}", segment.label(), Iec(*bytes));
        let length = text.chars().count() + 4;
        if used + length > style.width.saturating_sub(9) && used > 0 {
            lines.push(format!("         {}", line.trim_end()));
            (line, used) = (String::new(), 0);
        }
        let mark = if style.color { '■' } else { segment.cell(style) };
        line += &format!("{} {text}  ", style.paint(segment.ink(), &mark.to_string()));
        used += length;
    }
    lines.push(format!("         {}", line.trim_end()));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use unbloat_process::Pid;

    fn progress() -> Progress {
        let census = [
            ("ruby_live_string", 60 << 20),
            ("malloc_live", 90 << 20),
            ("malloc_stranded", 40 << 20),
            ("libraries_shared", 20 << 20),
        ];
        Progress {
            elapsed: Duration::from_secs(3725),
            processes: 5,
            rss_bytes: 400 << 20,
            pss_bytes: Some(212 << 20),
            cpu_cores: 1.37,
            history: (0..120).map(|i| (f64::from(i) * 5.0, (100 + i as u64) << 20)).collect(),
            biggest: Some((Pid(4711), "puma: cluster worker 0: 4700 [app]".into(), 80 << 20)),
            census: census.iter().map(|&(name, bytes)| (name.to_owned(), bytes)).collect(),
            ..Progress::default()
        }
    }

    fn visible(line: &str) -> usize {
        let mut length = 0;
        let mut escape = false;
        for c in line.chars() {
            match (escape, c) {
                (true, 'm') => escape = false,
                (true, _) => {}
                (false, '\x1b') => escape = true,
                (false, _) => length += 1,
            }
        }
        length
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in [40, 80, 133] {
            for line in lines("puma -C config/puma.rb", &progress(), &Style { width, color: true }) {
                assert!(visible(&line) <= width, "{width}: {line:?} has {}", visible(&line));
            }
        }
    }

    #[test]
    fn the_view_says_what_there_is() {
        insta::assert_snapshot!(lines("bundle exec puma", &progress(), &Style::PLAIN).join("\n"));
        insta::assert_snapshot!(line(&progress()));
        let early = Progress {
            pss_bytes: None,
            census: Default::default(),
            history: Default::default(),
            ..progress()
        };
        insta::assert_snapshot!(line(&early));
    }
}
