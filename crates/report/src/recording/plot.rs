//! Charts of recordings.

use super::live::clock;
use crate::chart::scale::Unit;
use crate::chart::{Chart, Color, Panel, Series, Shape, VerticalMark};
use crate::segment::Segment;
use std::time::{Duration, UNIX_EPOCH};
use unbloat_heap::Iec;
use unbloat_recording::recording::{Counted, seconds};
use unbloat_recording::rising;
use unbloat_recording::rubies::{REST, RubyMoment};
use unbloat_recording::{Composition, Key, Label, Process, Recording, looks::Points};
use unbloat_untrusted::Untrusted;

/// The breakdown of memory in a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// One band per process.
    Process,
    /// One area per segment: live, stranded, Ruby objects, …
    Category,
    /// One area per class of live objects.
    Class,
    /// One area per gem and other origin of loaded code.
    Gem,
}

/// Number of moments on the horizontal axis of stacked areas.
const COLUMNS: usize = 1000;

/// Number of characters of a command that fit above a chart.
const TITLE_COLUMNS: usize = 90;

/// Number of processes, classes or gems with their own bands; the smaller ones share one.
const BANDS: usize = 8;

/// Draws memory and CPU of one recording, or of several overlaid.
#[must_use]
pub fn chart(recordings: &[Recording], by: By) -> Chart {
    match recordings {
        [one] => single(one, by),
        several => overlaid(several),
    }
}

fn single(recording: &Recording, by: By) -> Chart {
    match by {
        By::Process => {
            let (total, kind) = recording.memory();
            of_memory(recording, format!("Memory by process ({kind})"), bands(recording), (&total, kind))
        }
        By::Category => {
            let (total, kind) = recording.memory_as_in_census();
            let mut series = segments(recording);
            hold_the_only_census(&mut series, total.last().map_or(0.0, |&(x, _)| x));
            series.push(line(&format!("whole tree ({kind})"), Color::Neutral, total.clone()));
            of_memory(recording, format!("Composition of memory ({kind})"), series, (&total, kind))
        }
        By::Class | By::Gem => {
            let (title, moments) = match by {
                By::Gem => ("Loaded code by gem (each process in full)", &recording.rubies.code),
                _ => ("Live objects by class (each process in full)", &recording.rubies.classes),
            };
            let (total, kind) = recording.memory();
            of_memory(recording, title.to_owned(), labels(moments), (&total, kind))
        }
    }
}

/// Draws the parts of memory above CPU; `total` is for the subtitle.
fn of_memory(
    recording: &Recording,
    title: String,
    series: Vec<Series>,
    (total, kind): (&[(f64, f64)], Counted),
) -> Chart {
    let memory = Panel { title, y: Unit::Bytes, weight: 3.0, series };
    let cpu_series = line("CPU of all processes", Color::Neutral, recording.cpu());
    let cpu =
        Panel { title: "CPU (cores)".to_owned(), y: Unit::Cores, weight: 1.0, series: vec![cpu_series] };
    let marks = recording.marks.iter().map(|m| VerticalMark { x: seconds(m.time_ns), name: m.name.shown() });
    Chart {
        title: crate::style::clip(
            recording.fact(Key::Command).map_or(recording.name.as_str(), Untrusted::raw),
            TITLE_COLUMNS,
        ),
        subtitle: subtitle(recording, total, kind),
        x: Unit::Seconds,
        panels: vec![memory, cpu],
        marks: marks.collect(),
    }
}

/// Returns an area for each of the largest labels, the largest at the bottom, and one for everything else at the top.
fn labels(moments: &[RubyMoment]) -> Vec<Series> {
    let mut largest: Vec<(u64, &Label)> = rising::series(moments)
        .into_iter()
        .filter(|(label, _)| label.kind != *REST)
        .map(|(label, points)| (points.iter().map(|(_, amount)| amount.bytes).max().unwrap_or(0), label))
        .collect();
    largest.sort_by_key(|&(bytes, _)| std::cmp::Reverse(bytes));
    largest.truncate(BANDS);
    let bytes = |moment: &RubyMoment, label: &Label| moment.sums.get(label).map_or(0, |amount| amount.bytes);
    let stacked = |name: String, color, value: &dyn Fn(&RubyMoment) -> u64| Series {
        name,
        shape: Shape::Stacked,
        color,
        points: moments.iter().map(|moment| (moment.time_s, value(moment) as f64)).collect(),
    };
    let named = largest.iter().enumerate().map(|(n, (_, label))| {
        stacked(super::label::name(label), Color::Nth(n), &|moment: &RubyMoment| bytes(moment, label))
    });
    let mut series: Vec<Series> = named.collect();
    series.push(stacked("everything else".to_owned(), Color::Neutral, &|moment: &RubyMoment| {
        let shown: u64 = largest.iter().map(|(_, label)| bytes(moment, label)).sum();
        moment.total().bytes.saturating_sub(shown)
    }));
    hold_the_only_census(&mut series, moments.last().map_or(0.0, |moment| moment.time_s + 1.0));
    series
}

fn subtitle(recording: &Recording, total: &[(f64, f64)], kind: Counted) -> String {
    let mut facts = vec![date(recording.header.started_wall_ns)];
    facts.push(clock(Duration::from_secs_f64(recording.duration_s().max(0.0))));
    if let Some(most) = total.iter().map(|&(_, y)| y).reduce(f64::max) {
        facts.push(format!("at most {} {kind}", Iec(most as u64)));
    }
    if let Some(&(_, last)) = total.last() {
        facts.push(format!("{} at the end", Iec(last as u64)));
    }
    facts.extend(recording.processes.iter().find_map(|process| process.runtime.clone()));
    facts.join(" · ")
}

/// A moment in nanoseconds since 1970, as `2026-09-21 10:15:00 UTC`. A file from elsewhere may hold any number: one before 1970
/// is 1970.
pub(super) fn date(wall_ns: i64) -> String {
    let moment = UNIX_EPOCH + Duration::from_nanos(u64::try_from(wall_ns).unwrap_or(0));
    humantime::format_rfc3339_seconds(moment).to_string().replace('T', " ").replace('Z', " UTC")
}

fn overlaid(recordings: &[Recording]) -> Chart {
    let mut kinds = Vec::new();
    let mut memory = Vec::new();
    let mut cpu = Vec::new();
    for (n, recording) in recordings.iter().enumerate() {
        let (total, kind) = recording.memory();
        kinds.push(kind);
        memory.push(line(&recording.name, Color::Nth(n), total));
        cpu.push(line(&recording.name, Color::Nth(n), recording.cpu()));
    }
    let kind = if kinds.iter().all(|kind| *kind == Counted::Pss) {
        "PSS"
    } else {
        "PSS, where it was taken, else RSS"
    };
    Chart {
        title: format!("{} recordings", recordings.len()),
        subtitle: "Each from its own start".to_owned(),
        x: Unit::Seconds,
        panels: vec![
            Panel {
                title: format!("Memory of the whole tree ({kind})"),
                y: Unit::Bytes,
                weight: 3.0,
                series: memory,
            },
            Panel { title: "CPU (cores)".to_owned(), y: Unit::Cores, weight: 1.0, series: cpu },
        ],
        marks: Vec::new(),
    }
}

fn line(name: &str, color: Color, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.to_owned(), shape: Shape::Line, color, points }
}

/// Returns the segments of memory over time, in the order of [`Segment::STACKED`].
fn memory_by_segment(recording: &Recording) -> Vec<(Segment, Points)> {
    let over_time = |segment: Segment| {
        let censuses = recording.censuses.over_time.iter();
        censuses.map(|census| (census.time_s, bytes(segment, census).unwrap_or(f64::NAN))).collect()
    };
    Segment::STACKED.iter().map(|&segment| (segment, over_time(segment))).collect()
}

/// Bytes of a segment; `None` where a heap that was not walked may have some.
fn bytes(segment: Segment, census: &Composition) -> Option<f64> {
    let bytes = segment.recorded_bytes(&census.bytes);
    let of_malloc = segment == Segment::Live || segment.is_bloat();
    (bytes > 0 || !of_malloc || census.walked != Some(false)).then_some(bytes as f64)
}

fn segments(recording: &Recording) -> Vec<Series> {
    let all = memory_by_segment(recording).into_iter();
    all.filter(|(_, points)| points.iter().any(|&(_, y)| y > 0.0))
        .map(|(segment, points)| Series {
            name: segment.label().to_owned(),
            shape: Shape::Stacked,
            color: Color::Memory(segment),
            points,
        })
        .collect()
}

/// Extends a single census, which has no width, from its moment to the end of the recording.
fn hold_the_only_census(segments: &mut [Series], end: f64) {
    for segment in segments {
        if let [(_, bytes)] = segment.points[..] {
            segment.points.push((end, bytes));
        }
    }
}

fn bands(recording: &Recording) -> Vec<Series> {
    let (times, mut processes) = recording.memory_by_process(COLUMNS);
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    processes.sort_by(|a, b| most(&b.1).total_cmp(&most(&a.1)));
    let own = if processes.len() > BANDS { BANDS - 1 } else { processes.len() };
    let rest = processes.split_off(own);
    // In order of appearance, so that a master is below its workers.
    processes.sort_by_key(|(process, _)| process.id);
    let stacked = |name: String, color, values: Vec<f64>| Series {
        name,
        shape: Shape::Stacked,
        color,
        points: times.iter().copied().zip(values).collect(),
    };
    let mut series: Vec<Series> = Vec::new();
    if !rest.is_empty() {
        let sum =
            (0..times.len()).map(|i| rest.iter().filter_map(|(_, values)| values.get(i)).sum()).collect();
        series.push(stacked(format!("{} others", rest.len()), Color::Neutral, sum));
    }
    let named = processes.into_iter().enumerate();
    series.extend(named.map(|(n, (process, values))| stacked(name(process), Color::Nth(n), values)));
    series
}

fn name(process: &Process) -> String {
    format!("{} {}", process.pid, crate::style::clip(process.command.raw(), 48))
}

#[cfg(test)]
mod tests {
    use super::*;
    use unbloat_recording::rubies::Amount;

    #[test]
    fn a_census_alone_can_be_seen() {
        let stacked =
            |points| Series { name: String::new(), shape: Shape::Stacked, color: Color::Neutral, points };
        let mut one = [stacked(vec![(3.0, 7.0)])];
        hold_the_only_census(&mut one, 6.0);
        assert_eq!(one.map(|series| series.points), [vec![(3.0, 7.0), (6.0, 7.0)]]);
        let mut two = [stacked(vec![(3.0, 7.0), (4.0, 8.0)])];
        hold_the_only_census(&mut two, 6.0);
        assert_eq!(two.map(|series| series.points.len()), [2]);
    }

    #[test]
    fn classes_are_stacked_up_to_all_live_objects() {
        let amount = |bytes| Amount { objects: 1, bytes };
        let label = |name: &str| Label { kind: "class".into(), name: name.into(), version: None };
        let moment = |at: u64| RubyMoment {
            time_s: at as f64,
            sums: (0..12).map(|n| (label(&format!("C{n:02}")), amount(100 * n + at))).collect(),
        };
        let moments = [moment(0), moment(10)];
        let series = labels(&moments);
        assert_eq!((series.len(), series[0].name.as_str()), (BANDS + 1, "C11"));
        let sum = |at: usize| series.iter().map(|series| series.points[at].1).sum::<f64>();
        assert_eq!([sum(0), sum(1)], [6600.0, 6720.0]);
        assert_eq!(labels(&moments[..1])[0].points.len(), 2, "a single look is drawn, too");
    }

    #[test]
    fn dates_are_as_in_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(i64::MIN), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(i64::MAX), "2262-04-11 23:47:16 UTC");
        assert_eq!(date(951_782_400_000_000_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_795_257_368_386_049_467), "2026-11-21 10:36:08 UTC");
    }
}
