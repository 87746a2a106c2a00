//! The handler of SIGSEGV and SIGBUS: it ends the accesses of [`super`], and leaves every other signal to
//! what the program has installed, as if this handler did not exist.
//!
//! - It is installed with the first region ([`install`]), and again with a later one, if something else has
//!   been installed some milliseconds before. Where the view redirects sigaction(2) and signal(3), what the
//!   program installs goes below it at once ([`change`]), and the program is shown its own handler.
//! - Flags and mask are those of the program's handler below, so the kernel prepares stack, mask and
//!   interrupted calls as for that one.
//! - Without a handler of the program the default action is restored, and the faulting instruction runs
//!   again: the process ends with the same status, core dump and message of the kernel.
//! - A signal that the program ignores stays ignored, also for programs that it starts.
//!
//! Another library may pass signals on to a handler of ours, which it has found when it installed its own
//! without the redirection. If ours above it were the same function, the two would call each other without
//! end. So there are several functions: each is a level, which knows what is below it.

use core::ffi::{c_int, c_long, c_void};
use core::mem::{MaybeUninit, zeroed};
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use libc::{SA_ONSTACK, SA_RESETHAND, SA_RESTART, SA_SIGINFO, SIG_DFL, SIG_ERR, SIG_IGN};
use libc::{sigaction, siginfo_t};

use crate::c_library::own_sigaction;
use crate::sync::Mutex;
use crate::tick;

/// The signals of memory that cannot be accessed.
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];
/// How often another library may install a handler above ours without the redirection. What comes then stays
/// above.
const LEVELS: usize = 4;

/// si_code values (sigaction(2)) of signals that no instruction caused, although the kernel sends them.
const SEGV_MTEAERR: c_int = 8;
const BUS_MCEERR_AO: c_int = 5;

type Handler = unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

/// The handler that is below one of ours.
struct Below {
    /// The handler as `sa_sigaction`; SIG_ERR if it was never installed.
    handler: AtomicUsize,
    /// The flags as `sa_flags`.
    flags: AtomicI32,
}

impl Below {
    const fn new() -> Below {
        Below {
            handler: AtomicUsize::new(SIG_ERR),
            flags: AtomicI32::new(0),
        }
    }
}

/// The handlers below ours, for each signal and level. Written with [`LOCK`] held; the handlers
/// read it.
static BELOW: [[Below; LEVELS]; 2] = [const { [const { Below::new() }; LEVELS] }; 2];

const HANDLERS: [Handler; LEVELS] = [on_fault::<0>, on_fault::<1>, on_fault::<2>, on_fault::<3>];

/// Held while the installed handlers change, with all signals blocked.
static LOCK: Mutex<()> = Mutex::new(());
static IS_INSTALLED: AtomicBool = AtomicBool::new(false);
/// [`tick::now_ns`] at the last [`install`].
static CHECKED: AtomicU64 = AtomicU64::new(0);
/// The process that the handlers above are those of. A child of vfork(2) has this memory, but handlers of its
/// own.
static PROCESS: AtomicI32 = AtomicI32::new(0);
/// libc's sigaction; NULL until [`install`].
static SIGACTION: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Installs the handlers, unless they are installed. The kernel is asked once in a tick of its coarse clock,
/// a few milliseconds: that takes longer than half of a registration.
pub fn install() {
    let now = tick::now_ns();
    if !IS_INSTALLED.load(Ordering::Acquire) {
        prepare();
    } else if CHECKED.load(Ordering::Relaxed) == now {
        return;
    }
    CHECKED.store(now, Ordering::Relaxed);
    if SIGNALS.iter().any(|signal| !is_covered(*signal)) {
        change(|| ());
    }
}

/// Prepares the handlers; running it twice, even at the same time, does no harm.
#[cold]
fn prepare() {
    crate::arch::nofault::prepare();
    // The handlers stay installed.
    ibverbs_os::thread::stay_loaded();
    PROCESS.store(process(), Ordering::Relaxed);
    // UCX's refuses to replace its own handlers, and that of Java's libjsig would call this handler from the
    // one that is below it.
    SIGACTION.store(own_sigaction(), Ordering::Relaxed);
    IS_INSTALLED.store(true, Ordering::Release);
}

/// sigaction(2).
///
/// # Safety
/// `new` is NULL or an action, `old` NULL or writable. The handler of a new action can handle the signal.
unsafe fn real_sigaction(signal: c_int, new: *const sigaction, old: *mut sigaction) -> c_int {
    type Function = unsafe extern "C" fn(c_int, *const sigaction, *mut sigaction) -> c_int;
    let found = SIGACTION.load(Ordering::Relaxed);
    // SAFETY: `own_sigaction` has found the function by its name; C declares it with this type. The arguments
    // are as the caller says.
    unsafe {
        match found.is_null() {
            true => libc::sigaction(signal, new, old),
            false => core::mem::transmute::<*mut c_void, Function>(found)(signal, new, old),
        }
    }
}

fn process() -> c_int {
    // SAFETY: getpid takes no arguments.
    unsafe { libc::getpid() }
}

/// The action that is installed for a signal.
fn current(signal: c_int) -> Option<sigaction> {
    let mut action = MaybeUninit::<sigaction>::uninit();
    // SAFETY: `action` is writable; the call initialises it if it succeeds.
    unsafe {
        (real_sigaction(signal, null(), action.as_mut_ptr()) == 0).then(|| action.assume_init())
    }
}

/// The level of a handler, if it is ours.
fn level_of(handler: usize) -> Option<usize> {
    HANDLERS.iter().position(|own| *own as usize == handler)
}

fn below(signal: c_int) -> Option<&'static [Below; LEVELS]> {
    let index = SIGNALS.iter().position(|known| *known == signal)?;
    BELOW.get(index)
}

/// Whether nothing is to be installed.
fn is_covered(signal: c_int) -> bool {
    let covered = |action: sigaction| {
        let handler = action.sa_sigaction;
        handler == SIG_IGN || level_of(handler).is_some()
    };
    current(signal).is_none_or(covered)
}

/// Installs our handler above the one that is installed. `level` is that of the one that was installed
/// before, if it was ours.
fn cover(signal: c_int, level: Option<usize>) {
    let (Some(below), Some(mut action)) = (below(signal), current(signal)) else {
        return;
    };
    let handler = action.sa_sigaction;
    if handler == SIG_IGN || level_of(handler).is_some() {
        return;
    }
    let with = |handler| {
        let is_same = |below: &Below| below.handler.load(Ordering::Relaxed) == handler;
        below.iter().position(is_same)
    };
    let level = level.or_else(|| with(handler)).or_else(|| with(SIG_ERR));
    let Some(level) = level else {
        log::debug!("uroce: another handler of signal {signal} stays installed");
        return;
    };
    below[level].flags.store(action.sa_flags, Ordering::Relaxed);
    below[level].handler.store(handler, Ordering::Release);
    action.sa_sigaction = HANDLERS[level] as usize;
    action.sa_flags = match handler {
        // A thread that has no room on its stack may have another one.
        SIG_DFL => SA_SIGINFO | SA_ONSTACK | SA_RESTART,
        _ => (action.sa_flags | SA_SIGINFO) & !SA_RESETHAND,
    };
    // SAFETY: the handler can handle the signal, in all states of the thread, as the one below can.
    unsafe { real_sigaction(signal, &raw const action, null_mut()) };
}

/// Calls `change`, which may install handlers, and then puts ours above them. Before [`install`], and in a
/// child of vfork(2), it only calls `change`.
pub fn change<T>(change: impl FnOnce() -> T) -> T {
    if !IS_INSTALLED.load(Ordering::Acquire) || PROCESS.load(Ordering::Relaxed) != process() {
        return change();
    }
    let mask = block_signals();
    let lock = LOCK.lock();
    let level = |signal| level_of(current(signal)?.sa_sigaction);
    let levels = SIGNALS.map(level);
    let changed = change();
    for (signal, level) in SIGNALS.into_iter().zip(levels) {
        cover(signal, level);
    }
    drop(lock);
    // SAFETY: the mask is the one that this thread had.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, null_mut()) };
    changed
}

/// Blocks all signals; returns those that were blocked before.
fn block_signals() -> libc::sigset_t {
    // SAFETY: a set is an array of integers; both calls get writable sets.
    unsafe {
        let (mut all, mut previous) = (zeroed::<libc::sigset_t>(), zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut previous);
        previous
    }
}

/// Whether the program is not to see what is installed for this signal.
pub fn concerns(signal: c_int) -> bool {
    IS_INSTALLED.load(Ordering::Acquire) && SIGNALS.contains(&signal)
}

/// Returns the handler that the program has installed, where the kernel says that it is `handler`:
/// as `sa_sigaction`, with its flags, if it is below ours. For a handler that [`change`] replaces,
/// only within the change.
pub fn shown(signal: c_int, handler: usize) -> Option<(usize, c_int)> {
    let below = &below(signal)?[level_of(handler)?];
    let handler = below.handler.load(Ordering::Acquire);
    Some((handler, below.flags.load(Ordering::Relaxed)))
}

/// Resets the state in a child of fork(2): what another thread of the parent was doing is not done
/// any more.
pub fn after_fork() {
    if IS_INSTALLED.load(Ordering::Relaxed) {
        PROCESS.store(process(), Ordering::Relaxed);
        if LOCK.is_locked() {
            // SAFETY: the thread that has locked it does not exist in the child, which has no other.
            unsafe { LOCK.force_unlock() };
        }
    }
}

/// Whether an instruction of this thread has caused the signal, and will again.
///
/// # Safety
/// `info` is what the kernel has passed to a handler of the signal.
unsafe fn is_caused(signal: c_int, info: *const siginfo_t) -> bool {
    // SAFETY: as the caller says.
    let code = unsafe { (*info).si_code };
    let others = [(libc::SIGSEGV, SEGV_MTEAERR), (libc::SIGBUS, BUS_MCEERR_AO)];
    code > 0 && !others.contains(&(signal, code))
}

unsafe extern "C" fn on_fault<const LEVEL: usize>(
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: the arguments are the kernel's, or those of a handler above, which has them from the kernel.
    unsafe {
        if !is_caused(signal, info) || !super::end_access(context) {
            pass_on(signal, info, context, LEVEL);
        }
    }
}

/// Does what the kernel would have done without our handler.
///
/// # Safety
/// The arguments are the kernel's.
unsafe fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void, level: usize) {
    let Some(below) = below(signal).and_then(|levels| levels.get(level)) else {
        return;
    };
    let mut handler = below.handler.load(Ordering::Acquire);
    if below.flags.load(Ordering::Relaxed) & SA_RESETHAND != 0 {
        handler = below.handler.swap(SIG_DFL, Ordering::AcqRel);
        below.flags.store(0, Ordering::Relaxed);
    }
    // SAFETY: the program has installed the handler for this signal. One with a single argument ignores the
    // others.
    unsafe {
        match handler {
            SIG_DFL | SIG_ERR => default_action(signal, info),
            _ => core::mem::transmute::<usize, Handler>(handler)(signal, info, context),
        }
    }
}

/// Restores the default action, which ends the process as soon as the signal handler returns.
///
/// # Safety
/// `info` is the kernel's.
unsafe fn default_action(signal: c_int, info: *mut siginfo_t) {
    // SAFETY: an action may be all zero: the default action with an empty mask. The information goes to this
    // thread, as the kernel has given it.
    unsafe {
        let action: sigaction = zeroed();
        real_sigaction(signal, &raw const action, null_mut());
        if !is_caused(signal, info) {
            // gettid(3) is newer than what the library needs else.
            let thread = libc::syscall(libc::SYS_gettid);
            let call: c_long = libc::SYS_rt_tgsigqueueinfo;
            libc::syscall(call, process(), thread, signal, info);
        }
    }
}
