//! Ruby's entry into the library: `Init_libunbloat`, called by `require`.

use crate::collector::{self, Moment};
use crate::line::Line;
use crate::ruby::{self, Postpone, Ruby};
use crate::settings::{self, Settings};
use crate::sys;
use crate::{allocator, forks, inheritance, module, page, worker};
use core::ffi::c_void;
use core::fmt::Write as _;
use core::sync::atomic::{AtomicBool, Ordering};
use unbloat_contract::{Part, Reason, Text, Trim, Word};

static STARTED: AtomicBool = AtomicBool::new(false);

/// Ruby's entry into the extension. Called with the GVL, while Ruby starts or at any later `require`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn Init_libunbloat() {
    if STARTED.swap(true, Ordering::AcqRel) {
        return;
    }
    let settings = Settings::read(|variable| sys::environment::<{ settings::NAME_BYTES }>(variable.c_name()));
    if settings.enabled
        && let Ok(ruby) = Ruby::find()
    {
        inheritance::settle(&ruby);
        if settings.only_inheritance {
            return;
        }
    }
    let mut notice = Line::<256>::new();
    start(&settings, &mut notice);
    page::set_text(Text::Notice, notice.as_str());
    page::flush();
    if settings.log {
        log(&settings, &notice);
    }
}

fn start(settings: &Settings, notice: &mut Line<256>) {
    // Text that does not fit the notice is left out.
    let ruby = match Ruby::find() {
        Ok(ruby) => ruby,
        Err(missing) => {
            page::set_reason(Reason::UnknownRuby);
            let _ = write!(
                notice,
                "this Ruby exports no {}, so the runtime does nothing; use CRuby 2.7 or later",
                missing.to_str().unwrap_or_default()
            );
            return;
        }
    };
    if module::is_defined(&ruby) {
        page::set_reason(Reason::SwitchedOff);
        let _ = notice.write_str("another copy of the runtime is already active in this process");
        return;
    }
    ruby::declare_ractor_safe();
    module::define(&ruby);
    if !settings.enabled {
        page::set_reason(Reason::SwitchedOff);
        return;
    }
    if let Some(variable) = settings.misunderstood {
        let _ = write!(
            notice,
            "{} has an invalid value, so its default applies; correct it and restart. ",
            variable.name()
        );
    }
    describe(settings);
    allocator::recognize(settings.threshold_bytes);
    if settings.trim == Trim::Off {
        page::set_reason(Reason::PolicyDoesNotTrim);
    } else if !allocator::is_known() {
        page::set_reason(Reason::UnknownAllocator);
    }
    worker::give_orders(worker::Orders::of(settings));
    forks::watch();
    page::publish();
    let moment = match settings.trim {
        Trim::Off | Trim::Adaptive => Moment::Mark,
        Trim::Major | Trim::Every => Moment::EndOfSweep,
    };
    let hearing = collector::counts(&ruby)
        && Postpone::prepare(begin).is_some_and(|job| collector::listen(&ruby, moment, job));
    page::set(Word::Hearing, u64::from(hearing));
    if !hearing {
        page::set_reason(Reason::UnknownRuby);
        let _ = notice.write_str(
            "this Ruby does not report its collections, so nothing is trimmed; use CRuby 2.7 or later",
        );
    }
    module::prepare_heap(&ruby, settings, notice);
}

/// The job requested by the first collection of a process. Runs on a Ruby thread, with the GVL, outside any
/// collection.
extern "C" fn begin(_data: *mut c_void) {
    collector::worker_comes();
    page::publish();
    forks::restore_background_threads();
    worker::start();
}

fn describe(settings: &Settings) {
    let mut trim = Line::<32>::new();
    // It fits: the longest word has eight letters.
    let _ = write!(trim, "{}={}", Part::Trim.word(), settings.trim.word());
    page::set_text(Text::Policy, settings.policy().unwrap_or(trim.as_str()));
    page::set_text(Text::Library, env!("CARGO_PKG_VERSION"));
    page::set_text(Text::Ruby, ruby::version().unwrap_or_default());
}

/// Prints the single line enabled by `UNBLOAT_LOG` to stderr.
fn log(settings: &Settings, notice: &Line<256>) {
    let mut line = Line::<512>::new();
    let state = if settings.enabled { settings.policy().unwrap_or("on") } else { "off" };
    let ruby = ruby::version().unwrap_or_default();
    // SAFETY: getpid only reads.
    let pid = unsafe { libc::getpid() };
    let _ = write!(line, "unbloat {}: {state} in {pid} (ruby {ruby})", env!("CARGO_PKG_VERSION"));
    if !notice.as_str().is_empty() {
        let _ = write!(line, "; {}", notice.as_str());
    }
    let _ = line.write_str("\n");
    sys::log(line.as_str());
}
