//! Help for people whose program misuses verbs, on any device: IBV_EXPLAIN says what went wrong and why
//! (libibverbs-rs-explain(7)); IBV_FAULTS makes things go wrong (libibverbs-rs-faults(7)).
//!
//! If a variable asks for it, each new context gets wrappers as its ops ([`wrap`]), in the library's table
//! and in the public slots that inline functions of verbs.h call. A wrapper calls the provider's function
//! with the same arguments, returns its result, and preserves errno. Otherwise nothing is wrapped:
//! [`attach_if_enabled`] is a load and a branch per opened device, and no verb has an instruction more.
//!
//! Not here: the syntax of rules of IBV_FAULTS (`crates/faults`), packets that are lost on purpose
//! (`crates/uroce`), and the program that shows all this (`crates/uroce-ctl`).
//!
//! Invariant: the shadow's lock is never held across a call of a provider's function. `faults/objects.rs`
//! holds its own across two (ARCHITECTURE.md).
//!
//! | file | what is in it |
//! |---|---|
//! | `faults/` | IBV_FAULTS |
//! | `control/` | the control socket, for `uroce-ctl` |
//! | `wrap.rs`, `originals.rs` | replaces a context's ops; keeps those that the wrappers call |
//! | `extended.rs` | the same of extended queue pairs and CQs |
//! | `calls/` | the wrappers: from C's structures to plain values |
//! | `shadow/` | what is known of the program's objects |
//! | `cm/` | librdmacm on software devices |
//! | `check/` | conditions of rules: pure functions from facts to findings |
//! | `names.rs` | names that the program gives its objects |
//! | `peer.rs`, `ask.rs` | finds out about the queue pair at the other end; asks other processes |
//! | `peer_facts.rs`, `mr.rs`, `sge.rs` | what is known of that queue pair, of a region, of a list element |
//! | `fate.rs` | a process that had the peer, and what has become of it |
//! | `facts.rs` | what the machine says: GID table, routes, mappings, limits |
//! | `device_list.rs` | devices that are opened after their list was freed |
//! | `crash.rs`, `crash_verbs.rs` | a verb that reads NULL, or freed memory: which, and what was NULL |
//! | `crash_notes.rs` | calls and ids that a crash may be due to |
//! | `environment.rs` | why there is no device, or why it cannot be opened |
//! | `backtrace.rs` | where in the program a call came from |
//! | `rules.rs`, `rules/` | the rules: name, class, severity, texts. Begin here |
//! | `finding.rs` | one finding, as text and as JSON |
//! | `watch.rs` | the thread that finds threads that wait too long |
//! | `settings.rs`, `report.rs` | the value of IBV_EXPLAIN; output, and counts at exit |

use core::sync::atomic::{AtomicBool, Ordering};

use ibverbs_abi::{Errno, ibv_context};

use crate::{env, log, memory, provider};

mod ask;
mod backtrace;
mod calls;
mod check;
mod cm;
mod control;
mod crash;
mod crash_notes;
mod crash_verbs;
pub mod device_list;
pub mod environment;
mod extended;
mod facts;
mod fate;
pub mod faults;
mod finding;
mod mr;
pub mod names;
mod originals;
mod peer;
mod peer_facts;
mod report;
mod rules;
mod settings;
mod sge;
mod shadow;
mod watch;
mod wrap;

pub use facts::Hooks;

static ENABLED: AtomicBool = AtomicBool::new(false);
/// A variable asks for wrappers or for the control socket.
static ATTACHES: AtomicBool = AtomicBool::new(false);

/// Reads IBV_EXPLAIN, IBV_FAULTS and IBV_CONTROL, when a program first requests the device list.
pub fn initialize() {
    initialize_explain();
    faults::initialize();
    control::initialize();
    let attaches = is_enabled() || faults::is_enabled() || control::is_enabled();
    if attaches && !ATTACHES.swap(true, Ordering::Relaxed) {
        // SAFETY: the handlers use statics only and do not unwind; libc removes them when this library is
        // unloaded.
        unsafe {
            libc::pthread_atfork(
                Some(before_fork),
                Some(after_fork_in_parent),
                Some(after_fork_in_child),
            )
        };
    }
}

/// Does something in addition to the program's call, and preserves errno.
fn preserving_errno<R>(work: impl FnOnce() -> R) -> R {
    let errno = Errno::last();
    let result = work();
    errno.set();
    result
}

extern "C" fn before_fork() {
    shadow::before_fork();
    calls::before_fork();
}

extern "C" fn after_fork_in_parent() {
    calls::after_fork();
    shadow::after_fork_in_parent();
}

extern "C" fn after_fork_in_child() {
    calls::after_fork();
    shadow::after_fork_in_child();
}

/// Reads IBV_EXPLAIN. A privileged program writes to stderr only.
fn initialize_explain() {
    let Some(value) = env::get(c"IBV_EXPLAIN") else {
        return;
    };
    let mut settings = match settings::parse(value.to_bytes()) {
        Ok(None) => return,
        Ok(Some(settings)) => settings,
        Err(why) => {
            log::print(&[
                b"Warning: ignoring IBV_EXPLAIN='",
                value.to_bytes(),
                format!("': {why}\n").as_bytes(),
            ]);
            return;
        }
    };
    if !env::trusted() {
        settings.output = settings::Output::Stderr;
    }
    report::open(settings);
    if let Some(seconds) = env::get(c"IBV_EXPLAIN_WAIT") {
        match seconds.to_str().ok().and_then(|text| text.parse().ok()) {
            Some(seconds) => shadow::set_limit(seconds),
            None => log::print(&[
                b"Warning: ignoring IBV_EXPLAIN_WAIT='",
                seconds.to_bytes(),
                b"': expected seconds\n",
            ]),
        }
    }
    memory::report_too_late(fork_init_too_late);
    cm::initialize();
    // librdmacm opens devices when it needs them: a program may wait before.
    if cm::is_used() {
        watch::start();
    }
    crash::initialize();
    ENABLED.store(true, Ordering::Relaxed);
}

/// Whether IBV_EXPLAIN asks for findings.
#[inline]
pub fn is_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed)
}

/// Wraps the ops of a new context and opens the control socket, if that is asked for.
///
/// # Safety
/// `context` is open and complete, and no other thread knows it yet.
#[inline]
pub unsafe fn attach_if_enabled(context: *mut ibv_context, hooks: &'static Hooks) {
    if ATTACHES.load(Ordering::Relaxed) {
        // SAFETY: the context is open and complete, and no other thread knows it, as the caller promises.
        unsafe { attach(context, hooks) };
    }
}

/// # Safety
/// As [`attach_if_enabled`].
#[cold]
#[inline(never)]
unsafe fn attach(context: *mut ibv_context, hooks: &'static Hooks) {
    // SAFETY: the context is open and complete, and no other thread knows it, as the caller promises.
    unsafe { wrap(context, hooks) };
    if control::is_enabled() {
        control::start();
    }
}

/// Wraps the ops of a new context.
///
/// # Safety
/// `context` is open and complete, and no other thread knows it yet.
unsafe fn wrap(context: *mut ibv_context, hooks: &'static Hooks) {
    facts::set_hooks(hooks);
    let asked = wrap::Asked {
        explain: is_enabled(),
        faults: faults::is_enabled(),
    };
    // SAFETY: the context is open, complete and this thread's alone, as the caller promises.
    unsafe {
        let device = core::ffi::CStr::from_ptr((&raw const (*(*context).device).name).cast());
        if !wrap::wrap(context, asked) {
            return;
        }
        if asked.faults {
            faults::opened(context);
        }
        if asked.explain {
            let name = device.to_string_lossy().into_owned();
            let driver = provider::device::driver_name((*context).device);
            shadow::observe(|shadow| {
                shadow
                    .devices
                    .opened(context as usize, name, driver, (*context).async_fd);
                Vec::new()
            });
            watch::start();
        }
    }
}

/// ibv_fork_init has failed because memory is registered already.
fn fork_init_too_late() {
    let outcome = finding::Outcome::Failed(ibverbs_abi::Errno(libc::EINVAL));
    let object = finding::Object::process();
    let found = finding::Finding::new(rules::Rule::ForkInitLate, object, "ibv_fork_init", outcome);
    shadow::observe(|_| vec![found]);
}

/// An entry of a port's table could not be read: reports an index or a port that does not exist. errno stays.
///
/// # Safety
/// `context` is open.
#[cold]
pub unsafe fn query_failed(context: *mut ibv_context, call: &'static str, port: u8, index: i32) {
    // SAFETY: the context is open, as the caller promises.
    if is_enabled() && unsafe { wrap::is_wrapped(context) } {
        // SAFETY: the context is open and wrapped.
        unsafe { calls::query_failed(context, call, port, index) };
    }
}

/// The header before a datagram is not that of a sender: ibv_init_ah_from_wc fails. errno stays.
///
/// # Safety
/// `context` is open.
#[cold]
pub unsafe fn no_sender(context: *mut ibv_context, grh: &[u8; 40]) {
    if is_enabled() {
        let found = check::gid::no_sender(grh, context as usize, ibverbs_abi::Errno::last());
        shadow::observe(|_| vec![found]);
    }
}

/// ibv_get_cq_event has failed: reports a descriptor that is none. errno stays.
#[cold]
pub fn event_not_read(channel: usize, fd: i32) {
    let errno = ibverbs_abi::Errno::last();
    let is_transient = matches!(errno.0, libc::EAGAIN | libc::EINTR);
    if is_enabled() && !is_transient {
        let object = finding::Object::at(finding::Kind::Channel, channel);
        let outcome = finding::Outcome::Failed(errno);
        let found = finding::Finding::new(
            rules::Rule::Argument,
            object,
            "ibv_get_cq_event",
            outcome,
        )
        .with_texts(
            format!("the channel's descriptor, {fd}, cannot be read"),
            "the program has closed it, or the channel was destroyed, or is none",
            "leave the descriptor to ibv_destroy_comp_channel, and call that after the last event",
        );
        shadow::observe(|_| vec![found]);
        errno.set();
    }
}

/// ibv_qp_to_qp_ex returns NULL.
///
/// # Safety
/// `qp` is alive.
#[cold]
pub unsafe fn not_extended(qp: *mut ibverbs_abi::ibv_qp) {
    if is_enabled() {
        shadow::observe(|shadow| shadow.qps.get(&(qp as usize)).map(shadow::Qp::not_extended));
    }
}

/// A provider has created a CQ by a verb of its own: it is not recorded, and not one that was destroyed at
/// the same address. errno stays.
pub fn provider_created_cq(cq: usize) {
    if is_enabled() {
        preserving_errno(|| shadow::with(|shadow| shadow.gone.forget(finding::Kind::Cq, cq)));
    }
}

/// ibv_destroy_comp_channel has failed because CQs use the channel.
pub fn channel_busy(channel: usize) {
    if is_enabled() {
        let outcome = finding::Outcome::Failed(ibverbs_abi::Errno(libc::EBUSY));
        shadow::observe(|shadow| {
            shadow.busy(
                finding::Kind::Channel,
                channel,
                "ibv_destroy_comp_channel",
                outcome,
            )
        });
    }
}

/// Writes the counts of all findings, when the program exits.
extern "C" fn at_exit() {
    if is_enabled() && report::is_open() {
        shadow::write_summary();
    }
}

#[used]
// SAFETY: the dynamic linker calls the functions in this section at exit, or when it unloads the library.
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;
