//! IBV_FAULTS: makes calls fail, completions have errors, events be raised and packets be lost, as rules say
//! (libibverbs-rs-faults(7)).
//!
//! The wrappers here replace the provider's functions, below those of IBV_EXPLAIN, which so explains
//! what was injected too. Rules and which of them applies: crate `ibverbs-faults`. Faults of packets:
//! crate `uroce`, which asks [`decide`].
//!
//! | file | what is in it |
//! |---|---|
//! | `calls.rs` | verbs that fail |
//! | `data.rs` | posting and polling |
//! | `build.rs` | posting by ibv_wr_complete |
//! | `objects.rs` | which objects the program has |
//! | `kernel_events.rs` | events on devices of the kernel |
//! | `events.rs`, `changes.rs` | the thread that raises events when their time has come; what wakes it |
//! | `file.rs` | the file of rules, which is read again when it changes |
//!
//! Locks: `RULES` is taken last, also while a provider holds locks of its own, and is not held across a call.
//! `OBJECTS` is held while a queue pair is moved to ERR, so that it is not destroyed meanwhile; no provider
//! is called back with it.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use ibverbs_abi::{Errno, ib_uverbs_async_event_desc, ibv_context};
use ibverbs_faults::{Action, Applied, Facts, Listed, Parsed, Point, RuleSet, parse};

use super::report;
use crate::memory::lock::ForkLock;
use crate::provider::software;
use crate::{env, log as messages};

mod build;
mod calls;
mod changes;
mod data;
mod events;
mod file;
mod kernel_events;
mod objects;

pub use calls::wrapped;
pub use objects::{KernelQp, devices, queue_pairs};

/// The most rules that [`add`] puts into force.
const MAX_RULES: usize = 1024;

static ENABLED: AtomicBool = AtomicBool::new(false);
static RULES: ForkLock<RuleSet> = ForkLock::new(RuleSet::new());
/// A bit for each [`Point`] that a rule is for, so that others cost no lock.
static POINTS: AtomicU32 = AtomicU32::new(0);

/// A device was opened, and has the wrappers of this module.
///
/// # Safety
/// `context` is open, and no other thread knows it yet.
pub unsafe fn opened(context: *mut ibv_context) {
    // SAFETY: the context is open and new, as the caller promises.
    unsafe {
        objects::opened(context);
        kernel_events::attach(context);
    }
    events::start();
}

/// The next asynchronous event of a context, as [`kernel_events::next`].
///
/// # Safety
/// `context` is open.
pub unsafe fn next_event(context: *mut ibv_context) -> Option<ib_uverbs_async_event_desc> {
    // SAFETY: the context is open, as the caller promises.
    unsafe { kernel_events::next(context, objects::delivered) }
}

/// Whether IBV_FAULTS is set.
#[inline]
pub fn is_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed)
}

/// Reads IBV_FAULTS, when a program first requests the device list. A privileged program has no faults.
pub fn initialize() {
    let Some(value) = env::get(c"IBV_FAULTS").filter(|_| env::trusted()) else {
        return;
    };
    let value = value.to_bytes();
    if matches!(value, b"" | b"0") {
        return;
    }
    let parsed = match value {
        b"1" => Ok(Parsed::default()),
        _ => read(value),
    };
    match parsed {
        Ok(parsed) => enable(parsed),
        Err(why) => {
            messages::print(&[b"Warning: ignoring IBV_FAULTS: ", why.as_bytes(), b"\n"]);
        }
    }
}

/// The rules of a value: `@FILE`, or the rules themselves.
fn read(value: &[u8]) -> Result<Parsed, String> {
    match value.strip_prefix(b"@") {
        Some(path) => file::open(path),
        None => parse(value).map_err(|error| error.to_string()),
    }
}

fn enable(parsed: Parsed) {
    if ENABLED.swap(true, Ordering::Relaxed) {
        return;
    }
    now();
    // SAFETY: the handlers use statics only and do not unwind; libc removes them when this library is
    // unloaded.
    unsafe {
        libc::pthread_atfork(
            Some(before_fork),
            Some(after_fork_in_parent),
            Some(after_fork_in_child),
        )
    };
    set(parsed);
    software::set_packet_faults(|facts| decide(Point::Packet, facts));
}

/// The errno value with which a verb is to fail, if it is.
///
/// # Safety
/// `context` is open.
unsafe fn failure(
    context: *mut ibv_context,
    call: &'static str,
    qpn: Option<u32>,
    size: Option<u64>,
) -> Option<Errno> {
    if !has(Point::Call) {
        return None;
    }
    let facts = Facts {
        // SAFETY: the context is open, as the caller promises.
        device: unsafe { device_name(context) },
        call: Some(call),
        qpn,
        size,
        ..Facts::default()
    };
    match decide(Point::Call, &facts) {
        Some(Action::Fail { errno, .. }) => Some(Errno(errno)),
        _ => None,
    }
}

/// Puts rules into force, in place of those that are.
fn set(parsed: Parsed) {
    change(|rules| {
        rules.clear();
        if let Some(seed) = parsed.seed {
            rules.set_seed(seed);
        }
        for rule in parsed.rules {
            rules.add(rule, now());
        }
    });
}

/// The rules in force, and how often each has applied.
pub fn list() -> Vec<Listed> {
    let listed = RULES.with(|rules| rules.list().collect());
    listed.unwrap_or_default()
}

/// Puts further rules into force. Returns their numbers; or why it is not possible, in a line.
pub fn add(text: &[u8]) -> Result<Vec<u32>, String> {
    check_enabled()?;
    let parsed = parse(text).map_err(|error| error.to_string())?;
    if list().len() + parsed.rules.len() > MAX_RULES {
        return Err(format!("more than {MAX_RULES} rules"));
    }
    log::info!("IBV_FAULTS: {} more rules are in force", parsed.rules.len());
    let numbers = change(|rules| {
        if let Some(seed) = parsed.seed {
            rules.set_seed(seed);
        }
        let added = parsed.rules.into_iter().map(|rule| rules.add(rule, now()));
        added.collect()
    });
    numbers.ok_or_else(|| "the rules are in use".into())
}

/// Removes the rules of these numbers; all, if there are none. Returns how many there were. Fails without a
/// change if a number is not that of a rule.
pub fn clear(numbers: &[u32]) -> Result<usize, String> {
    if numbers.is_empty() {
        return Ok(change(RuleSet::clear).unwrap_or(0));
    }
    let known = list();
    let is_known = |number: &&u32| known.iter().any(|listed| listed.number == **number);
    if let Some(unknown) = numbers.iter().find(|number| !is_known(number)) {
        return Err(format!("there is no rule {unknown}"));
    }
    let removed = change(|rules| {
        numbers
            .iter()
            .filter(|number| rules.remove(**number))
            .count()
    });
    Ok(removed.unwrap_or(0))
}

/// Fails if the program was started without IBV_FAULTS: only devices that were opened with it have
/// faults.
fn check_enabled() -> Result<(), String> {
    match is_enabled() {
        true => Ok(()),
        false => {
            Err("the program was started without IBV_FAULTS (1: without rules at first)".into())
        }
    }
}

/// Changes the rules.
fn change<R>(work: impl FnOnce(&mut RuleSet) -> R) -> Option<R> {
    let result = RULES.with(|rules| {
        let result = work(rules);
        let all = [
            Point::Packet,
            Point::Completion,
            Point::Call,
            Point::Poll,
            Point::Time,
        ];
        let bits = all.into_iter().filter(|point| rules.has(*point));
        let bits = bits.fold(0, |bits, point| bits | 1 << point as u32);
        POINTS.store(bits, Ordering::Relaxed);
        result
    });
    changes::notify();
    result
}

/// The time since the rules were read.
fn now() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

/// Whether there are rules for a point.
fn has(point: Point) -> bool {
    POINTS.load(Ordering::Relaxed) & 1 << point as u32 != 0
}

/// The action that applies to what happens, if one does; it is logged. errno stays.
fn decide(point: Point, facts: &Facts) -> Option<Action> {
    if !has(point) {
        return None;
    }
    let errno = Errno::last();
    let applied = RULES
        .with(|rules| rules.decide(point, facts, now()))
        .flatten();
    if let Some(applied) = &applied {
        log_injected(applied, &described(facts));
    }
    errno.set();
    applied.map(|applied| applied.action)
}

/// Describes in words the object or packet that a fault applies to.
fn described(facts: &Facts) -> String {
    let mut text = facts.device.to_string();
    if let Some(call) = facts.call {
        text += &format!(", ibv_{call}");
    }
    if let Some(qpn) = facts.qpn {
        text += &format!(", QP {qpn:#x}");
    }
    if facts.sent {
        text += ", sent";
    }
    if let Some(opcode) = facts.opcode {
        text += &format!(", {opcode}");
    }
    if let Some(size) = facts.size {
        text += &format!(", {size} bytes");
    }
    text
}

/// Logs a fault: in the verbs log, and where IBV_EXPLAIN writes, if that is set.
fn log_injected(applied: &Applied, about: &str) {
    let Applied {
        number,
        action,
        times,
    } = applied;
    let name = action.entry().name;
    let detail = match action {
        Action::Completion(status) => {
            let name = ibverbs_faults::name_of(&ibverbs_faults::STATUSES, *status);
            format!(" status={name}")
        }
        Action::Fail { errno, .. } => format!(" errno={}", ibverbs_faults::errno_name(*errno)),
        Action::Event { kind, .. } => {
            let name = ibverbs_faults::name_of(&ibverbs_faults::EVENTS, *kind);
            format!(" type={name}")
        }
        Action::Gids { present } => match present {
            true => " state=present".into(),
            false => " state=removed".into(),
        },
        _ => String::new(),
    };
    log::warn!("fault of rule {number}: {name}{detail}: {about}");
    if super::is_enabled() {
        report::write_fault(*number, *times, name, &format!("{name}{detail}: {about}"));
    }
}

/// The name of a context's device.
///
/// # Safety
/// `context` is open.
unsafe fn device_name<'a>(context: *mut ibv_context) -> &'a str {
    // SAFETY: an open context holds a reference to its device, whose name ends with NUL.
    let name = unsafe { core::ffi::CStr::from_ptr((&raw const (*(*context).device).name).cast()) };
    name.to_str().unwrap_or("")
}

extern "C" fn before_fork() {
    objects::prepare_fork();
    data::POLLING.before_fork();
    kernel_events::prepare_fork();
    build::POSTING.before_fork();
    RULES.prepare_fork(|_| ());
}

extern "C" fn after_fork_in_parent() {
    RULES.after_fork();
    build::POSTING.after_fork();
    kernel_events::after_fork();
    data::POLLING.after_fork();
    objects::after_fork();
}

extern "C" fn after_fork_in_child() {
    RULES.after_fork();
    build::POSTING.after_fork();
    kernel_events::after_fork();
    data::POLLING.after_fork();
    objects::after_fork();
    events::after_fork_in_child();
}
