//! The thread that watches the program's threads: those that sleep until an event of a completion channel,
//! or an asynchronous one, and for which none comes.
//!
//! It runs from the time when the first completion channel or device is used under IBV_EXPLAIN, and a few
//! times a second reads in which system calls the threads are (/proc/PID/task/TID/syscall). So nothing is
//! added to the calls themselves.

use core::ffi::c_long;
use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use ibverbs_os::thread;

use super::finding::{Finding, Outcome};
use super::rules::Rule;
use super::shadow::{self, Awaited, Shadow};
use super::{cm, facts, peer};
use crate::arch;
use crate::provider::software;

/// The longest time between two looks.
const STEP: Duration = Duration::from_millis(500);
/// More descriptors of a poll(2) than this are not examined: such a program has an event loop.
const MAX_POLLED: usize = 4;

/// The process whose thread runs, or 0.
static RUNS_IN: AtomicU32 = AtomicU32::new(0);

/// Starts the thread, unless it runs or nothing is to be watched.
pub fn start() {
    let pid = std::process::id();
    if shadow::wait_limit().is_none() || RUNS_IN.swap(pid, Ordering::Relaxed) == pid {
        return;
    }
    let errno = ibverbs_abi::Errno::last();
    let _not_cancelled = ibverbs_abi::disable_cancellation();
    if thread::spawn_detached("ibverbs-explain", run).is_err() {
        RUNS_IN.store(0, Ordering::Relaxed);
    }
    errno.set();
}

/// A wait: since when, and what had happened to the objects by then.
struct Wait {
    since: Instant,
    activity: u64,
    reported: bool,
}

fn run() {
    let mut waits: BTreeMap<(i32, Awaited), Wait> = BTreeMap::new();
    let own = facts::thread();
    while let Some(limit) = shadow::wait_limit() {
        std::thread::sleep(STEP.min(limit / 4));
        let Some(awaited) = shadow::with(|shadow| shadow.awaited()) else {
            continue;
        };
        let threads = facts::threads(own);
        let alone = threads.len() == 1;
        let mut seen = Vec::new();
        for tid in threads {
            let Some((number, arguments)) = system_call(tid) else {
                continue;
            };
            let futex = (number == libc::SYS_futex).then_some(arguments[0]);
            shadow::observe(|shadow| shadow.cm_ids.waits(tid, futex, limit));
            let Some((what, activity)) = waits_for(number, arguments, &awaited) else {
                continue;
            };
            seen.push((tid, what));
            let now = Instant::now();
            let new = || Wait {
                since: now,
                activity,
                reported: false,
            };
            let wait = waits.entry((tid, what)).or_insert_with(new);
            if wait.activity != activity {
                *wait = new();
            } else if !wait.reported && now.duration_since(wait.since) >= limit {
                wait.reported = true;
                report(what, alone);
            }
        }
        waits.retain(|key, _| seen.contains(key));
    }
}

/// The system call that a thread sleeps in, and its first arguments.
fn system_call(tid: i32) -> Option<(c_long, [u64; 3])> {
    let text = fs::read_to_string(format!("/proc/self/task/{tid}/syscall")).ok()?;
    parse(&text)
}

/// Finds what a thread in a system call waits for, and how much has happened to that.
fn waits_for(
    number: c_long,
    arguments: [u64; 3],
    awaited: &BTreeMap<i32, (Awaited, u64)>,
) -> Option<(Awaited, u64)> {
    let limited = has_limit(number, arguments[2]);
    let polled = match number {
        libc::SYS_read => vec![arguments[0] as i32],
        libc::SYS_recvfrom => {
            let fd = arguments[0] as i32;
            let ids = software::cm_ids(fd)?;
            // The states are what has happened.
            let digest = ids.iter().fold(ids.len() as u64, |sum, (id, state)| {
                sum.wrapping_mul(31) + u64::from(*id) + state.len() as u64
            });
            return Some((Awaited::Cm(fd), digest));
        }
        _ if is_poll(number) => descriptors(arguments[0], arguments[1] as usize)?,
        _ if is_epoll(number) => in_epoll(arguments[0] as i32)?,
        _ => return None,
    };
    let mut of: Vec<(Awaited, u64)> = Vec::new();
    for fd in polled {
        of.push(*awaited.get(&fd)?);
    }
    of.sort();
    let first = of.first().copied();
    // A program may look for asynchronous events now and then.
    first.filter(|(what, _)| !(limited && matches!(what, Awaited::Async(_))))
}

/// Whether a poll(2), ppoll(2) or epoll_wait(2) may have a time limit: then a program calls it again and
/// again, and is found there each time.
fn has_limit(number: c_long, third: u64) -> bool {
    match number {
        libc::SYS_read => false,
        libc::SYS_ppoll => third != 0,
        _ => arch::SYS_POLL != Some(number) || third as i32 >= 0,
    }
}

fn is_poll(number: c_long) -> bool {
    number == libc::SYS_ppoll || arch::SYS_POLL == Some(number)
}

fn is_epoll(number: c_long) -> bool {
    number == libc::SYS_epoll_pwait || arch::SYS_EPOLL_WAIT == Some(number)
}

/// The descriptors that an epoll(7) descriptor watches; None if there are none, or many.
fn in_epoll(fd: i32) -> Option<Vec<i32>> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
    let of = |line: &str| {
        line.strip_prefix("tfd:")?
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    };
    let watched: Vec<i32> = text.lines().filter_map(of).collect();
    (1..=MAX_POLLED).contains(&watched.len()).then_some(watched)
}

/// The number and the first arguments of a system call, as the file of a thread that sleeps shows them.
fn parse(text: &str) -> Option<(c_long, [u64; 3])> {
    let mut words = text.split_whitespace();
    let number = words.next()?.parse().ok()?;
    let mut argument = || {
        let word = words.next()?.strip_prefix("0x")?;
        u64::from_str_radix(word, 16).ok()
    };
    Some((number, [argument()?, argument()?, argument()?]))
}

/// The descriptors of a poll(2) that another thread is in; its memory may be gone meanwhile.
fn descriptors(address: u64, count: usize) -> Option<Vec<i32>> {
    if count == 0 || count > MAX_POLLED {
        return None;
    }
    let mut polled = [libc::pollfd {
        fd: -1,
        events: 0,
        revents: 0,
    }; MAX_POLLED];
    // SAFETY: the array has room for MAX_POLLED values.
    let is_read = unsafe { facts::read_memory(address as usize, polled.as_mut_ptr(), count) };
    is_read.then(|| polled[..count].iter().map(|of| of.fd).collect())
}

fn report(what: Awaited, alone: bool) {
    match what {
        Awaited::Channel(channel) => {
            let qps = shadow::with(|shadow| {
                let cqs = shadow.cqs.of_channel(channel);
                let cqs: Vec<usize> = cqs.map(|(at, _)| *at).collect();
                shadow.qps.on_cqs(&cqs)
            });
            peer::examine(&qps.unwrap_or_default());
            shadow::observe(|shadow| shadow.slept_too_long(channel, alone, peer::unread));
        }
        Awaited::Async(context) if alone => {
            shadow::observe(|shadow| no_async_event(shadow, context))
        }
        Awaited::Async(_) => {}
        Awaited::Cm(fd) => {
            let ids = software::cm_ids(fd).unwrap_or_default();
            let seconds = shadow::wait_limit().map_or(0, |limit| limit.as_secs());
            shadow::observe(|shadow| cm::waits::no_event(&shadow.cm_ids, &ids, seconds, alone));
        }
    }
}

fn no_async_event(shadow: &Shadow, context: usize) -> Vec<Finding> {
    let object = shadow.devices.object(context);
    let seconds = shadow::wait_limit().map_or(0, |limit| limit.as_secs());
    let call = "ibv_get_async_event";
    let mut found = Finding::new(Rule::NoAsyncEvent, object, call, Outcome::Called);
    found.notes.extend(shadow.srqs.without_limit(context));
    let (why, todo) = shadow.qps.no_async_event(context);
    let found = found.with("seconds", seconds);
    vec![found.with("why", why).with("todo", todo)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_waits() {
        assert!(!has_limit(libc::SYS_read, 8));
        assert!(has_limit(libc::SYS_ppoll, 0x7ffd_1000) && !has_limit(libc::SYS_ppoll, 0));
        if let Some(poll) = arch::SYS_POLL {
            assert!(has_limit(poll, 2000) && !has_limit(poll, u64::from(u32::MAX)));
        }
    }

    #[test]
    fn system_calls() {
        let read = parse("0 0x5 0x7ffd1601e7e0 0x8 0x0 0x0 0x0 0x7ffd 0x7f00\n");
        assert_eq!(read, Some((0, [5, 0x7ffd_1601_e7e0, 8])));
        assert_eq!(parse("running\n"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn descriptors_in_epoll() {
        // SAFETY: the calls take numbers and a structure that is readable; the descriptors are this test's.
        unsafe {
            let (epoll, event) = (libc::epoll_create1(0), libc::eventfd(0, 0));
            assert_eq!(in_epoll(epoll), None);
            let mut wanted = libc::epoll_event {
                events: libc::EPOLLIN as u32,
                u64: 7,
            };
            assert_eq!(
                libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, event, &mut wanted),
                0
            );
            assert_eq!(in_epoll(epoll), Some(vec![event]));
            assert_eq!((libc::close(epoll), libc::close(event)), (0, 0));
        }
    }

    #[test]
    fn polled_descriptors() {
        let polled = [3, 4].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        let address = polled.as_ptr().expose_provenance() as u64;
        assert_eq!(descriptors(address, 2), Some(vec![3, 4]));
        assert_eq!(descriptors(address, MAX_POLLED + 1), None);
        assert_eq!(descriptors(16, 1), None);
    }
}
