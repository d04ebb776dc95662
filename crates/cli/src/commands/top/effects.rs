//! The work that keys start, beside the view: inspecting, trimming, recording.

use crate::terminal;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use unbloat_heap::{Options, inspect_all, trim};
use unbloat_process::{Pid, signal};
use unbloat_report::inspect::{Detail, text};
use unbloat_report::style::Style;
use unbloat_top::{Answer, Effect, State};

/// Time for a thread of the process to be at a safe point for a trim.
const TRIM: Duration = Duration::from_secs(5);
/// Time for a recording to complete its file.
const COMPLETE: Duration = Duration::from_secs(10);

/// Everything in progress.
#[derive(Debug)]
pub(super) struct Effects {
    sender: Sender<Answer>,
    answers: Receiver<Answer>,
    recording: Option<Recording>,
}

#[derive(Debug)]
struct Recording {
    child: Child,
    file: PathBuf,
}

impl Effects {
    pub(super) fn new() -> Self {
        let (sender, answers) = channel();
        Effects { sender, answers, recording: None }
    }

    /// Returns the next result.
    pub(super) fn answer(&mut self) -> Option<Answer> {
        if let Some(recording) = &mut self.recording
            && let Ok(Some(status)) = recording.child.try_wait()
        {
            let file = recording.file.display();
            let message = match status.success() {
                true => format!("the recording is complete: unbloat show {file}"),
                false => {
                    format!("the recording has ended with {status}: {}", last_words(&mut recording.child))
                }
            };
            self.recording = None;
            self.send(Answer::Recording(None));
            self.send(Answer::Message(message));
        }
        self.answers.try_recv().ok()
    }

    pub(super) fn begin(&mut self, effect: Effect, state: &State) {
        match effect {
            Effect::Inspect(pid) => self.beside(move || inspected(pid)),
            Effect::Trim(pid) => self.beside(move || trimmed(pid)),
            Effect::Record(pid) => self.record(pid, state),
            Effect::EndRecording => self.interrupt(),
            Effect::Quit => {}
        }
    }

    /// Does something in a thread of its own.
    fn beside(&self, work: impl FnOnce() -> Answer + Send + 'static) {
        let sender = self.sender.clone();
        // After the end of the view nobody waits for the answer.
        std::thread::spawn(move || drop(sender.send(work())));
    }

    fn send(&self, answer: Answer) {
        // The other end is our own.
        let _ = self.sender.send(answer);
    }

    fn record(&mut self, pid: Pid, state: &State) {
        let seen = state.snapshot.processes.values().find(|seen| seen.id.pid == pid);
        let name = seen.map_or_else(|| pid.to_string(), |seen| seen.role.name.clone());
        let file = crate::commands::record::default_path(&name);
        match start_recording(pid, &file) {
            Ok(child) => {
                self.send(Answer::Recording(Some(file.display().to_string())));
                self.recording = Some(Recording { child, file });
            }
            Err(error) => self.send(Answer::Message(format!("cannot record {pid}: {error}"))),
        }
    }

    /// Asks the recording to end; [`Self::answer`] tells that it has.
    fn interrupt(&self) {
        if let Some(recording) = &self.recording
            && let Err(error) = signal::interrupt(Pid(recording.child.id().cast_signed()))
        {
            self.send(Answer::Message(error.to_string()));
        }
    }

    /// Ends the recording and waits until its file is complete.
    pub(super) fn end(mut self) {
        self.interrupt();
        let Some(recording) = &mut self.recording else { return };
        let begun = Instant::now();
        while matches!(recording.child.try_wait(), Ok(None)) && begun.elapsed() < COMPLETE {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn start_recording(pid: Pid, file: &std::path::Path) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(["record", "--quiet", "--pid", &pid.to_string(), "--output"])
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
}

/// Returns the first line that a recording has written to stderr.
fn last_words(child: &mut Child) -> String {
    let said = child.stderr.take().and_then(|stderr| std::io::read_to_string(stderr).ok());
    said.unwrap_or_default().lines().next().unwrap_or("no reason given").to_owned()
}

fn style() -> Style {
    // The view wraps nothing, and has its own idea of color.
    Style { width: terminal::size().0.max(40), color: false }
}

fn inspected(pid: Pid) -> Answer {
    let inspection = inspect_all(&[pid], &Options::default());
    match inspection.failures.first() {
        Some(failure) => Answer::Message(failure.note.text.clone()),
        None => {
            Answer::Text { title: format!("inspect {pid}"), text: text(&inspection, Detail::Every, &style()) }
        }
    }
}

fn trimmed(pid: Pid) -> Answer {
    let options = trim::Options { dry_run: false, timeout: TRIM, trusted: false };
    match trim::trim(pid, &options) {
        Ok(trim) => {
            Answer::Text { title: format!("trim {pid}"), text: unbloat_report::trim::text(&trim, &style()) }
        }
        Err(error) => Answer::Message(error.to_string()),
    }
}
