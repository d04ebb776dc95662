//! Ruby's C functions, looked up at run time.
//!
//! No Ruby symbol has to be resolved by the dynamic linker: the library loads into a process without Ruby,
//! and one build serves every Ruby that has these functions (2.7 to 4.0, all of them public in
//! `include/ruby/`). A missing function switches the runtime off with a reason.

use crate::sys;
use core::ffi::{CStr, c_char, c_int, c_long, c_void};

/// A Ruby value or symbol as C sees it (`VALUE`, `ID`: `uintptr_t`).
pub(crate) type Value = usize;

/// `Qfalse`, in every Ruby.
const FALSE: Value = 0;

/// A native method without arguments.
pub(crate) type Method = extern "C" fn(Value) -> Value;

/// `rb_data_type_t` (`include/ruby/internal/core/rtypeddata.h`, the same layout from 2.7 to 4.0). After 4.0
/// there are seven more words before `parent`; with nothing but zeros after `compact` the type means the same
/// to both.
#[repr(C)]
pub(crate) struct DataType {
    pub(crate) name: *const c_char,
    pub(crate) mark: Option<extern "C" fn(*mut c_void)>,
    pub(crate) free: Option<extern "C" fn(*mut c_void)>,
    pub(crate) size: Option<extern "C" fn(*const c_void) -> usize>,
    pub(crate) compact: Option<extern "C" fn(*mut c_void)>,
    pub(crate) reserved: *mut c_void,
    pub(crate) parent: *const DataType,
    pub(crate) data: *mut c_void,
    pub(crate) flags: Value,
    pub(crate) padding: [Value; 8],
}

// SAFETY: the structure is constant; its pointers are null or to constants.
unsafe impl Sync for DataType {}

/// A function that Ruby calls at a safe point, with the GVL.
pub(crate) type Job = extern "C" fn(*mut c_void);

macro_rules! functions {
    ($(#[$doc:meta] $name:ident: $symbol:literal fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions that the runtime requires.
        #[derive(Clone, Copy)]
        pub(crate) struct Ruby {
            $(#[$doc] pub(crate) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Ruby {
            /// Looks all of them up; the error is the name of the first missing one.
            pub(crate) fn find() -> Result<Self, &'static CStr> {
                Ok(Self {
                    $($name: {
                        let address = sys::symbol($symbol).ok_or($symbol)?;
                        // SAFETY: the type is that of the function in Ruby's public headers.
                        unsafe {
                            core::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(
                                address,
                            )
                        }
                    },)*
                })
            }
        }
    };
}

functions! {
    /// `rb_define_module`.
    define_module: c"rb_define_module" fn(*const c_char) -> Value;
    /// `rb_define_singleton_method`, for methods without arguments.
    define_singleton_method: c"rb_define_singleton_method" fn(Value, *const c_char, Method, c_int);
    /// `rb_intern`.
    intern: c"rb_intern" fn(*const c_char) -> Value;
    /// `rb_id2sym`.
    id2sym: c"rb_id2sym" fn(Value) -> Value;
    /// `rb_gc_stat` with a symbol: one number, without allocating once the symbols are known.
    gc_stat: c"rb_gc_stat" fn(Value) -> usize;
    /// `rb_data_typed_object_wrap`.
    wrap: c"rb_data_typed_object_wrap" fn(Value, *mut c_void, *const DataType) -> Value;
    /// `rb_gc_register_mark_object`.
    keep: c"rb_gc_register_mark_object" fn(Value);
    /// `rb_hash_new`.
    hash_new: c"rb_hash_new" fn() -> Value;
    /// `rb_hash_aset`.
    hash_set: c"rb_hash_aset" fn(Value, Value, Value) -> Value;
    /// `rb_str_new`.
    string: c"rb_str_new" fn(*const c_char, c_long) -> Value;
    /// `rb_uint2inum`.
    integer: c"rb_uint2inum" fn(usize) -> Value;
    /// `rb_float_new`.
    float: c"rb_float_new" fn(f64) -> Value;
    /// `rb_eval_string_protect`.
    eval: c"rb_eval_string_protect" fn(*const c_char, *mut c_int) -> Value;
    /// `rb_thread_call_without_gvl`.
    without_gvl: c"rb_thread_call_without_gvl" fn(extern "C" fn(*mut c_void) -> *mut c_void, *mut c_void, *mut c_void, *mut c_void) -> *mut c_void;
}

impl Ruby {
    /// Interns a symbol. Not during a garbage collection: interning allocates, and Ruby aborts on that.
    pub(crate) fn symbol(&self, name: &CStr) -> Value {
        // SAFETY: the name is a C string, and this runs with the GVL outside a collection.
        unsafe { (self.id2sym)((self.intern)(name.as_ptr())) }
    }

    /// Evaluates a piece of Ruby, which has to rescue its own exceptions; returns whether its value is
    /// anything except `false`.
    pub(crate) fn holds(&self, code: &CStr) -> bool {
        let mut state = 0;
        // SAFETY: the code is a C string, and this runs with the GVL; an exception ends in `state`.
        let value = unsafe { (self.eval)(code.as_ptr(), &raw mut state) };
        state == 0 && value != FALSE
    }
}

/// Declares that the methods may be called in any Ractor, since they touch no Ruby object visible to another.
/// Required by Ruby 3.0 and later.
pub(crate) fn declare_ractor_safe() {
    let Some(declare) = sys::symbol(c"rb_ext_ractor_safe") else { return };
    // SAFETY: type as in include/ruby/internal/intern/load.h; called from `Init_…`, as required.
    let declare: unsafe extern "C" fn(bool) = unsafe { core::mem::transmute(declare) };
    // SAFETY: as above.
    unsafe { declare(true) };
}

/// Returns Ruby's version (`ruby_version`, a constant array of characters).
pub(crate) fn version() -> Option<&'static str> {
    let address = sys::symbol(c"ruby_version")?;
    // SAFETY: `const char ruby_version[]` in every Ruby (`include/ruby/version.h`).
    unsafe { CStr::from_ptr(address.cast::<c_char>()) }.to_str().ok()
}

/// A way to make Ruby call a function at its next safe point. Usable inside a garbage collection.
#[derive(Clone, Copy)]
pub(crate) enum Postpone {
    /// 3.3 and later: registered once, then triggered by its handle.
    Handle {
        /// `rb_postponed_job_trigger`.
        trigger: unsafe extern "C" fn(u32),
        /// Result of `rb_postponed_job_preregister`.
        handle: u32,
    },
    /// Up to 3.2: `rb_postponed_job_register_one`.
    Register {
        /// The function.
        register: unsafe extern "C" fn(u32, Job, *mut c_void) -> c_int,
        /// The function.
        job: Job,
    },
}

impl Postpone {
    /// Prepares the job; `None` if this Ruby has neither interface.
    pub(crate) fn prepare(job: Job) -> Option<Self> {
        const UNAVAILABLE: u32 = u32::MAX; // POSTPONED_JOB_HANDLE_INVALID, include/ruby/debug.h
        let (preregister, trigger) =
            (sys::symbol(c"rb_postponed_job_preregister"), sys::symbol(c"rb_postponed_job_trigger"));
        if let (Some(preregister), Some(trigger)) = (preregister, trigger) {
            // SAFETY: types as in include/ruby/debug.h of 3.3 and later.
            let preregister: unsafe extern "C" fn(u32, Job, *mut c_void) -> u32 =
                unsafe { core::mem::transmute(preregister) };
            // SAFETY: as above; the job takes no data.
            let handle = unsafe { preregister(0, job, core::ptr::null_mut()) };
            // SAFETY: as above.
            let trigger = unsafe { core::mem::transmute::<*mut c_void, unsafe extern "C" fn(u32)>(trigger) };
            return (handle != UNAVAILABLE).then_some(Self::Handle { trigger, handle });
        }
        let register = sys::symbol(c"rb_postponed_job_register_one")?;
        // SAFETY: type as in include/ruby/debug.h up to 3.2.
        let register: unsafe extern "C" fn(u32, Job, *mut c_void) -> c_int =
            unsafe { core::mem::transmute(register) };
        Some(Self::Register { register, job })
    }

    /// Requests the call. Neither allocates nor blocks.
    pub(crate) fn request(self) {
        match self {
            // SAFETY: both functions are documented as callable from signal handlers and collections.
            Self::Handle { trigger, handle } => unsafe { trigger(handle) },
            // SAFETY: as above.
            Self::Register { register, job } => unsafe {
                register(0, job, core::ptr::null_mut());
            },
        }
    }
}
