//! A program that passes NULL, or an object that was freed, to a verb: the verb reads it, and the kernel
//! ends the program. A handler of SIGSEGV and SIGBUS says so before, if the fault is in this library, in a
//! call of librdmacm, or in a function of verbs.h within the program. It is installed with IBV_EXPLAIN only,
//! and only if the program has no handler.

use core::ffi::{CStr, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::cm::layout::Id;
use super::crash_verbs::{self, Crashed};
use super::finding::{Finding, Object, Outcome};
use super::rules::Rule;
use super::{backtrace, cm, crash_notes, facts, report, shadow};
use crate::arch;

/// Addresses so near to 0, on both sides, are members of a structure at NULL, or around it.
const NEAR_NULL: usize = 64 << 10;
/// The time that the search for the verb may take, in seconds, if the program holds a lock that it needs.
const MAX_SECONDS: u32 = 5;

/// Members of structures of verbs.h are within this number of bytes.
const MEMBERS: usize = 4096;

/// Where the program is loaded.
static PROGRAM: AtomicUsize = AtomicUsize::new(0);

const UNBOUND: &str = "an rdma_cm_id is bound to no device, so that its member verbs is NULL: wait for the \
                       event RDMA_CM_EVENT_ADDR_RESOLVED of rdma_resolve_addr, or, on the passive side, use \
                       the id of RDMA_CM_EVENT_CONNECT_REQUEST";

/// Installs the handler.
pub fn initialize() {
    // SAFETY: getauxval takes a number.
    let entry = unsafe { libc::getauxval(libc::AT_ENTRY) };
    PROGRAM.store(Place::of(entry as usize).object, Ordering::Relaxed);
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        let mut current = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: sigaction fills `current`, for which zeros are valid before; the new action has a
        // handler that uses no state of the interrupted code.
        unsafe {
            if libc::sigaction(signal, ptr::null(), current.as_mut_ptr()) != 0
                || current.assume_init().sa_sigaction != libc::SIG_DFL
            {
                continue;
            }
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = on_fault as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND;
            libc::sigaction(signal, &action, ptr::null_mut());
        }
    }
}

/// Where an address is.
struct Place {
    /// The address at which the object is loaded; 0 if there is none.
    object: usize,
    /// The path of the object, or empty.
    path: String,
}

impl Place {
    fn of(address: usize) -> Place {
        let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: `info` is writable, and zeros are valid where dladdr has not filled it.
        let info = unsafe {
            libc::dladdr(ptr::without_provenance(address), info.as_mut_ptr());
            info.assume_init()
        };
        let path = match info.dli_fname.is_null() {
            true => String::new(),
            // SAFETY: dladdr has set it to a string of an object that is loaded.
            false => unsafe { CStr::from_ptr(info.dli_fname) }
                .to_string_lossy()
                .into_owned(),
        };
        Place {
            object: info.dli_fbase as usize,
            path,
        }
    }
}

/// The program itself has read a NULL pointer, perhaps in an inline function of verbs.h: nothing is known of
/// where. Its own code holds no lock of the C library.
fn perhaps_inline(place: &Place, address: usize) {
    let opened = || shadow::with(|shadow| shadow.devices.iter().next().is_some());
    let is_in_program = place.object == PROGRAM.load(Ordering::Relaxed);
    if address < MEMBERS && is_in_program && opened() == Some(true) {
        let object = Object::process();
        let found = Finding::new(Rule::CrashInline, object, "a verb", Outcome::Called)
            .with("addr", format!("{address:#x}"))
            .with("from", backtrace::called_from());
        report::write(&[found]);
    }
}

/// The action is reset before it is called, so that the instruction, executed again, ends the program.
extern "C" fn on_fault(_signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes both to a handler with SA_SIGINFO.
    let (at, address) = unsafe { (arch::program_counter(context), (*info).si_addr() as usize) };
    let place = Place::of(at);
    let in_cm = cm::current::current();
    let crashed = if place.object == Place::of(on_fault as *const () as usize).object {
        in_library(at, address)
    } else if in_cm.is_some() && place.path.contains("librdmacm") {
        None
    } else {
        let Some(crashed) = in_program(&place, address) else {
            return perhaps_inline(&place, address);
        };
        Some(crashed)
    };
    let mut found = finding(crashed, address);
    if let Some((name, _)) = in_cm {
        let note = format!("the program is in {name} of librdmacm");
        found.notes.push(note);
    }
    let null = crashed.and_then(|crashed| crashed.null);
    let is_near = crash_verbs::is_near_null(address);
    let is_unbound = is_near && crash_notes::is_id_unbound();
    let is_context = null.is_none_or(|null| null == "context");
    let unbound = (is_unbound && is_context).then(|| UNBOUND.to_string());
    let of_ids = unbound.or_else(|| of_ids(in_cm, null));
    found.notes.extend(of_ids);
    report::write(&[found]);
}

fn in_library(at: usize, address: usize) -> Option<Crashed> {
    let alignment = arch::FUNCTION_ALIGNMENT;
    let first = crash_verbs::in_library(&facts::verbs(), at, alignment, address);
    let later = || crash_verbs::deeper_in_library(&backtrace::whole(), at, alignment, address);
    first.or_else(later)
}

/// The verb that verbs.h has defined within the program, if that has read NULL there.
fn in_program(place: &Place, address: usize) -> Option<Crashed> {
    // The C library may hold locks that writing needs.
    let is_c_library = place.object == Place::of(libc::getpid as *const () as usize).object;
    if is_c_library || !crash_verbs::is_near_null(address) {
        return None;
    }
    // A program may have an allocator of its own, and hold its lock: then this ends.
    // SAFETY: the calls take numbers; the default action ends the program, which ends anyway.
    unsafe {
        libc::signal(libc::SIGALRM, libc::SIG_DFL);
        libc::alarm(MAX_SECONDS);
    }
    let crashed = crash_verbs::inline(&backtrace::whole(), address);
    // SAFETY: it takes a number.
    unsafe { libc::alarm(0) };
    crashed
}

fn finding(crashed: Option<Crashed>, address: usize) -> Finding {
    let what = match address.wrapping_add(NEAR_NULL) < 2 * NEAR_NULL {
        true => "a NULL pointer",
        false => "a pointer to memory that is not mapped",
    };
    let verb = crashed.map_or("a verb", |crashed| crashed.verb);
    let mut found = Finding::new(Rule::Crash, Object::process(), verb, Outcome::Called)
        .with("what", what)
        .with("addr", format!("{address:#x}"))
        .with("from", backtrace::called_from());
    if let Some(null) = crashed.and_then(|crashed| crashed.null) {
        found.notes.push(format!("{null} of {verb} is NULL"));
    }
    if address == 0 && crash_notes::has_no_bad_wr() {
        let note = "bad_wr of ibv_post_send or ibv_post_recv is NULL: a call that refuses a request writes \
                    the address of that request there; pass the address of a variable";
        found.notes.push(note.into());
    }
    found
}

/// Members that librdmacm has not set: of the id of the call, or of one that may have been passed as `null`.
fn of_ids(in_cm: Option<(&'static str, usize)>, null: Option<&str>) -> Option<String> {
    if let Some((_, id)) = in_cm.filter(|(_, id)| *id != 0) {
        let unset = id_at(id)?.unset()?;
        return Some(format!("of its id, these members are {unset}"));
    }
    let null = null?;
    shadow::with(|shadow| {
        shadow.cm_ids.all().find_map(|(number, uid)| {
            let id = id_at(uid as usize)?;
            let is_null = match null {
                "context" => id.verbs.is_null(),
                "pd" => id.pd.is_null(),
                "qp" | "id->qp" => id.qp.is_null(),
                _ => false,
            };
            let unset = id.unset().filter(|_| is_null)?;
            Some(format!(
                "of the rdma_cm_id {number}, these members are {unset}"
            ))
        })
    })?
}

/// The members of an id; None if it is not mapped: the pointer to it may be what the fault is about.
fn id_at(address: usize) -> Option<Id> {
    // SAFETY: the members are numbers and pointers, of any value.
    unsafe { facts::copy_of(address) }
}
