//! A program that passes NULL, or an object that was freed, to a verb: the verb reads it, and the kernel
//! ends the program. A handler of SIGSEGV and SIGBUS says so before, if the fault is in this library. It is
//! installed with IBV_EXPLAIN only, and only if the program has no handler.

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::finding::{Finding, Object, Outcome};
use super::rules::Rule;
use super::{backtrace, report, shadow};
use crate::arch;

/// Addresses so near to 0, on both sides, are members of a structure at NULL, or around it.
const NEAR_NULL: usize = 64 << 10;

/// The bytes within which the members of structures of verbs.h are.
const MEMBERS: usize = 4096;

/// Where the program is loaded.
static PROGRAM: AtomicUsize = AtomicUsize::new(0);

const NULL: &str = "a NULL pointer";

thread_local! {
    /// This thread is in a post that has no place for the request that is refused.
    static NO_BAD_WR: Cell<bool> = const { Cell::new(false) };
}

/// An id of librdmacm was created, and is bound to no device yet: its member `verbs` is NULL.
static ID_IS_UNBOUND: AtomicBool = AtomicBool::new(false);

/// The id of librdmacm that was created last is bound to a device, or is not.
pub fn last_id(is_unbound: bool) {
    ID_IS_UNBOUND.store(is_unbound, Ordering::Relaxed);
}

/// A post begins, without a place for the request that is refused (bad_wr is NULL), or with one; or it ends.
pub fn posting(no_bad_wr: bool) {
    NO_BAD_WR.set(no_bad_wr);
}

/// Installs the handler.
pub fn initialize() {
    // SAFETY: getauxval takes a number.
    let entry = unsafe { libc::getauxval(libc::AT_ENTRY) };
    PROGRAM.store(object_of(entry as usize), Ordering::Relaxed);
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

/// The object that contains an address, by where it is loaded; 0 if there is none.
fn object_of(address: usize) -> usize {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `info` is writable, and read only if dladdr has filled it.
    unsafe {
        match libc::dladdr(ptr::without_provenance(address), info.as_mut_ptr()) {
            0 => 0,
            _ => info.assume_init().dli_fbase as usize,
        }
    }
}

/// The program itself reads a NULL pointer, perhaps in an inline function of verbs.h. Its own code holds no
/// lock of the C library.
fn in_program(address: usize) {
    let opened = shadow::with(|shadow| shadow.devices.iter().next().is_some());
    if opened == Some(true) {
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
    // Elsewhere the program may hold locks that writing needs.
    if object_of(at) != object_of(on_fault as *const () as usize) {
        if address < MEMBERS && object_of(at) == PROGRAM.load(Ordering::Relaxed) {
            in_program(address);
        }
        return;
    }
    let what = match address.wrapping_add(NEAR_NULL) < 2 * NEAR_NULL {
        true => NULL,
        false => "a pointer to memory that is not mapped",
    };
    let object = Object::process();
    let mut found = Finding::new(Rule::Crash, object, "a verb", Outcome::Called)
        .with("what", what)
        .with("addr", format!("{address:#x}"))
        .with("from", backtrace::called_from());
    if address == 0 && NO_BAD_WR.get() {
        let note = "bad_wr of ibv_post_send or ibv_post_recv is NULL: a call that refuses a request writes \
                    the address of that request there; pass the address of a variable";
        found.notes.push(note.into());
    }
    if what == NULL && ID_IS_UNBOUND.load(Ordering::Relaxed) {
        let note = "an rdma_cm_id is bound to no device, so that its member verbs is NULL: wait for the \
                    event RDMA_CM_EVENT_ADDR_RESOLVED of rdma_resolve_addr, or, on the passive side, use \
                    the id of RDMA_CM_EVENT_CONNECT_REQUEST";
        found.notes.push(note.into());
    }
    report::write(&[found]);
}
