//! The Ruby module `Unbloat`: `status`, `trim`, `suspend { }`, and the gem's marks (`mark_release`, …); and a
//! policy's settings for Ruby's own heap.

use crate::line::Line;
use crate::ruby::{Ruby, Value};
use crate::settings::Settings;
use crate::{page, sys, worker};
use core::ffi::{CStr, c_long, c_void};
use core::fmt::Write as _;
use unbloat_contract::{Compact, Snapshot, Step, Text, Word};

/// The numbers of `Unbloat.status` that are shown unchanged.
const NUMBERS: [(&CStr, Word); 10] = [
    (c"pid", Word::Pid),
    (c"gc_count", Word::GcCount),
    (c"gc_major_count", Word::GcMajorCount),
    (c"trims", Word::Trims),
    (c"idle_trims", Word::IdleTrims),
    (c"requested_trims", Word::RequestedTrims),
    (c"trim_returned_bytes", Word::TrimReturnedBytes),
    (c"refaults", Word::Refaults),
    (c"fork_generation", Word::ForkGeneration),
    (c"suspended", Word::Suspended),
];

/// Nanoseconds shown as seconds.
const SECONDS: [(&CStr, Word); 3] =
    [(c"trim_s", Word::TrimNs), (c"trim_max_s", Word::TrimMaxNs), (c"thread_cpu_s", Word::ThreadCpuNs)];

const TEXTS: [(&CStr, Text); 4] = [
    (c"policy", Text::Policy),
    (c"allocator", Text::Allocator),
    (c"library", Text::Library),
    (c"notice", Text::Notice),
];

/// The part that is easier to write in Ruby. `suspend` has to be undone whatever the block does, including
/// throw and raise.
const IN_RUBY: &CStr = c"
module Unbloat
  class << self
    def suspend
      raise ArgumentError, 'Unbloat.suspend needs a block' unless block_given?
      suspend_trimming
      begin
        yield
      ensure
        resume_trimming
      end
    end
    private :suspend_trimming, :resume_trimming
    private :mark_release, :mark_collect, :mark_refork, :mark_replace
  end
end
";

/// `GC.auto_compact`, if available.
const AUTO_COMPACT: &CStr =
    c"begin; GC.auto_compact = true; rescue NotImplementedError, NoMethodError; false; end";

/// Runs before each fork that Ruby makes for a worker, if the heap has grown since the last time.
/// `Process._fork` is Ruby's hook for this since 3.1; it covers `fork` and `IO.popen('-')`, but not
/// `Process.daemon` and `system`. A collector that does not count its live objects (`ArgumentError`) is not
/// prepared.
const BEFORE_FORK: &CStr = c"
module Unbloat
  module PrepareHeap
    @slots = 0
    def self.call
      slots = GC.stat(:heap_live_slots)
      return if slots < @slots * 5 / 4
      if WARMUP && Process.respond_to?(:warmup) then Process.warmup
      elsif GC.respond_to?(:compact) then GC.start; GC.compact
      end
      @slots = GC.stat(:heap_live_slots)
    rescue NotImplementedError, ArgumentError
      @slots = Float::INFINITY
    end
    def _fork
      PrepareHeap.call
      super
    end
  end
  private_constant :PrepareHeap, :WARMUP
end
Process.respond_to?(:_fork) && Process.singleton_class.prepend(Unbloat.const_get(:PrepareHeap))
";

/// Returns whether another copy of the library is active here: one of another version, in an `unbloat run`
/// inside another. The gem defines `status` as well, but only the library defines `suspend_trimming`.
pub(crate) fn is_defined(ruby: &Ruby) -> bool {
    ruby.holds(c"defined?(Unbloat) && Unbloat.respond_to?(:suspend_trimming, true) ? true : false")
}

/// Defines the module.
pub(crate) fn define(ruby: &Ruby) {
    // SAFETY: with the GVL; names are C strings, methods live as long as the process.
    unsafe {
        let module = (ruby.define_module)(c"Unbloat".as_ptr());
        (ruby.define_singleton_method)(module, c"status".as_ptr(), status, 0);
        (ruby.define_singleton_method)(module, c"trim".as_ptr(), trim, 0);
        (ruby.define_singleton_method)(module, c"suspend_trimming".as_ptr(), suspend, 0);
        (ruby.define_singleton_method)(module, c"resume_trimming".as_ptr(), resume, 0);
        (ruby.define_singleton_method)(module, c"mark_release".as_ptr(), mark_release, 0);
        (ruby.define_singleton_method)(module, c"mark_collect".as_ptr(), mark_collect, 0);
        (ruby.define_singleton_method)(module, c"mark_refork".as_ptr(), mark_refork, 0);
        (ruby.define_singleton_method)(module, c"mark_replace".as_ptr(), mark_replace, 0);
    }
    ruby.holds(IN_RUBY);
}

/// Applies the policy's settings for Ruby's heap.
pub(crate) fn prepare_heap(ruby: &Ruby, settings: &Settings, notice: &mut Line<256>) {
    if settings.compact == Compact::Auto && !ruby.holds(AUTO_COMPACT) {
        let _ = notice.write_str("this Ruby cannot compact its heap by itself");
    }
    if settings.compact != Compact::Boot && !settings.warmup {
        return;
    }
    let warmup = if settings.warmup {
        c"module Unbloat; WARMUP = true; end; true"
    } else {
        c"module Unbloat; WARMUP = false; end; true"
    };
    if !(ruby.holds(warmup) && ruby.holds(BEFORE_FORK)) {
        let _ = notice.write_str("the heap cannot be prepared before a fork: this Ruby has no Process._fork");
    }
}

/// `Unbloat.status`: the contents of the status page as a hash.
extern "C" fn status(_module: Value) -> Value {
    // Defined by `define`, which had found everything.
    let Ok(ruby) = Ruby::find() else { return 0 };
    // SAFETY: with the GVL, in a method call: everything here may allocate and raise.
    let hash = unsafe { (ruby.hash_new)() };
    let Ok(page) = Snapshot::parse(&page::bytes()) else { return hash };
    let set = |name: &CStr, value: Value| {
        // SAFETY: as above.
        unsafe { (ruby.hash_set)(hash, ruby.symbol(name), value) };
    };
    let text = |text: &str| {
        // SAFETY: as above; the bytes have the given length.
        unsafe { (ruby.string)(text.as_ptr().cast(), text.len() as c_long) }
    };
    for (name, place) in TEXTS {
        set(name, text(page.text(place, &mut [0; 256])));
    }
    for (name, place) in NUMBERS {
        // SAFETY: as above.
        set(name, unsafe { (ruby.integer)(page.word(place) as usize) });
    }
    for (name, place) in SECONDS {
        // SAFETY: as above.
        set(name, unsafe { (ruby.float)(page.word(place) as f64 / 1e9) });
    }
    set(c"last_reason", text(page.last_reason().text()));
    if let Some(returning) = page.returning() {
        set(c"returning", text(returning));
    }
    hash
}

/// `Unbloat.trim`: returns freed memory to the kernel now. Its value is the number of bytes by which the
/// resident set shrank.
extern "C" fn trim(_module: Value) -> Value {
    let Ok(ruby) = Ruby::find() else { return 0 };
    let mut returned = 0_u64;
    // SAFETY: with the GVL, in a method call; the function receives a pointer to a live number. It cannot be
    // interrupted, and takes as long as a trim.
    unsafe {
        (ruby.without_gvl)(
            trim_without_gvl,
            (&raw mut returned).cast(),
            core::ptr::null_mut(),
            core::ptr::null_mut(),
        );
        (ruby.integer)(returned as usize)
    }
}

extern "C" fn trim_without_gvl(returned: *mut c_void) -> *mut c_void {
    // SAFETY: `trim` passes a pointer to a number that outlives this call.
    unsafe { *returned.cast::<u64>() = worker::trim_on_request() };
    core::ptr::null_mut()
}

extern "C" fn suspend(module: Value) -> Value {
    worker::suspend(true);
    module
}

extern "C" fn resume(module: Value) -> Value {
    worker::suspend(false);
    module
}

extern "C" fn mark_release(module: Value) -> Value {
    note(Step::Release, module)
}

extern "C" fn mark_collect(module: Value) -> Value {
    note(Step::Collect, module)
}

extern "C" fn mark_refork(module: Value) -> Value {
    note(Step::Refork, module)
}

extern "C" fn mark_replace(module: Value) -> Value {
    note(Step::Replace, module)
}

/// Notes a step of the gem on the status page, for recordings; the worker publishes it.
fn note(step: Step, module: Value) -> Value {
    page::note_step(step, sys::now_ns());
    worker::wake();
    module
}
