mod channels;
mod counters;
mod direct;
mod fork;
pub mod out_of_memory;
mod preemption;
mod regions;

use std::time::Duration;

use ibverbs_os::thread::SYNCHRONOUS_SIGNALS;

use super::completion::CompletionQueueConfig;
use super::events::AsyncEvents;
use super::polled::PolledCompletions;
use super::queue_pair::{QueuePairConfig, Unavailable};
use super::*;
use crate::config::Netdev;
use roce::engine::{Limits, QpChange, QpConfig, QpState, Service};

/// A CQ without a completion channel.
pub fn completion_queue(waker: Arc<Waker>, capacity: usize) -> Arc<CompletionQueue> {
    let (events, _file) = AsyncEvents::new(waker).unwrap();
    Arc::new(CompletionQueue::new(CompletionQueueConfig {
        handle: 1,
        capacity,
        channel: None,
        events: Arc::new(events),
        timestamps: false,
        ignore_overrun: false,
    }))
}

/// A queue pair with queues of this size, and without other objects.
pub fn bare_config(service: Service, qpn: u32, max_wr: u32, sq_sig_all: bool) -> QueuePairConfig {
    QueuePairConfig {
        engine: QpConfig {
            service,
            qpn,
            limits: Limits {
                max_send_wr: max_wr,
                max_recv_wr: max_wr,
            },
            sq_sig_all,
            has_srq: false,
        },
        pd: None,
        send_cq: None,
        recv_cq: None,
        srq: None,
        xrcd: None,
        memory: Arc::default(),
        receive_order: Arc::default(),
        slots_by_completion: false,
    }
}

/// A queue pair in RTS that no device has; nothing that it sends leaves.
pub fn queue_pair_alone(qpn: u32, send_cq: Option<Arc<CompletionQueue>>) -> Arc<QueuePair> {
    let qp = QueuePair::new(QueuePairConfig {
        send_cq,
        ..bare_config(Service::Rc, qpn, 16, true)
    });
    for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
        let change = QpChange {
            state: Some(state),
            timeout: Some(17),
            ..QpChange::default()
        };
        let mut inner = qp.inner.lock();
        let (engine, mut hca) = inner.split(&qp);
        engine.modify(&change, Time(0), &mut hca);
    }
    Arc::new(qp)
}

/// Held by tests that open devices: one of them counts threads.
pub static BACKGROUND_THREADS: Mutex<()> = Mutex::new(());

pub fn loopback(name: &str) -> Config {
    Config::new(name, Netdev::Interface("lo".into()))
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .filter(|name| name == "uroce\n")
        .count()
}

/// Waits until there are `count` threads: one names itself after it has started, and disappears some time
/// after it was joined.
fn expect_threads(count: usize) {
    for _ in 0..500 {
        if threads() == count {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{} threads, not {count}", threads());
}

/// One test, as its parts share the process's open devices and count its threads.
#[test]
fn a_device_is_shared_then_idle_then_closed() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let config = loopback("shared");
    let first = Device::open(&config).unwrap();
    let second = Device::open(&config).unwrap();
    assert!(Arc::ptr_eq(&first, &second));
    expect_threads(1);
    let other = Device::open(&loopback("other")).unwrap();
    assert!(!Arc::ptr_eq(&first, &other));
    expect_threads(2);
    other.close();
    first.clone().close();
    expect_threads(1);

    // The thread sleeps, both from the start and after it has been busy.
    for busy in [false, true] {
        if busy {
            for _ in 0..1000 {
                first.poll(&mut PolledCompletions::default());
                first.expect_event();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let before = switches();
        std::thread::sleep(Duration::from_millis(300));
        assert!(switches() - before <= 3, "{} wakeups", switches() - before);
    }

    // The program's handlers for faults run in the thread; other signals do not reach it.
    for signal in 1..=31 {
        let never_blocked = [libc::SIGKILL, libc::SIGSTOP].contains(&signal);
        let expected = !never_blocked && !SYNCHRONOUS_SIGNALS.contains(&signal);
        let blocked = blocked_signals() >> (signal - 1) & 1 == 1;
        assert_eq!(blocked, expected, "signal {signal}");
    }

    second.close();
    expect_threads(0);
    drop(first);
    let again = Device::open(&config).unwrap();
    expect_threads(1);
    again.close();
}

/// The signals that the background thread blocks, as a bit mask.
fn blocked_signals() -> u64 {
    std::fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok())
        .filter(|status| status.starts_with("Name:\turoce\n"))
        .find_map(|status| {
            let mask = status
                .lines()
                .find_map(|line| line.strip_prefix("SigBlk:"))?;
            u64::from_str_radix(mask.trim(), 16).ok()
        })
        .unwrap()
}

/// How often the background threads have gone to sleep.
fn switches() -> u64 {
    std::fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok())
        .filter(|status| status.starts_with("Name:\turoce\n"))
        .filter_map(|status| {
            let count = status
                .lines()
                .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
            count.trim().parse::<u64>().ok()
        })
        .sum()
}

pub fn queue_pair(device: &Device) -> Arc<QueuePair> {
    let qpn = device.net.alloc_qpn().unwrap();
    let qp = Arc::new(QueuePair::new(QueuePairConfig {
        memory: device.memory.clone(),
        receive_order: device.receive_order(),
        ..bare_config(Service::Rc, qpn, 1, false)
    }));
    device.add_queue_pair(qp.clone());
    qp
}

/// Destroying a queue pair waits for the thread that runs it; threads that have looked it up before, or
/// wait for it, do not run it afterwards.
#[test]
fn no_thread_runs_a_destroyed_queue_pair() {
    let device = Device::new(&loopback("destroy")).unwrap();
    let qp = queue_pair(&device);
    let looked_up = device.queue_pair(qp.qpn).unwrap();
    let destroyed = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let running = looked_up.lock_unless_preempted().unwrap();
        scope.spawn(|| {
            device.remove_queue_pair(&qp);
            destroyed.store(true, Ordering::SeqCst);
        });
        while device.queue_pair(qp.qpn).is_some() {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(20));
        assert!(!destroyed.load(Ordering::SeqCst), "while a thread runs it");
        drop(running);
    });
    assert!(destroyed.into_inner());
    let ended = looked_up.lock_unless_preempted();
    assert_eq!(ended.err(), Some(Unavailable::Destroyed));
}

/// A thread that has looked an XRC target up cannot open it once the last `ibv_qp` is destroyed: another
/// queue pair may have got its number.
#[test]
fn a_queue_pair_that_ends_is_not_opened() {
    let qp = queue_pair_alone(1, None);
    assert!(qp.open());
    assert!(!qp.close(), "one is left");
    assert!(qp.open());
    assert!(!qp.close());
    assert!(qp.close(), "the last one");
    assert!(!qp.open());
    assert!(!qp.open());
}

/// The IPv4 identifications of peers are followed while queue pairs are connected to them.
#[test]
fn peers_are_known_while_queue_pairs_are_connected() {
    let device = Device::new(&loopback("peers")).unwrap();
    let known = || device.net.ingress.connected_peers();
    let (one, other) = preemption::pair(&device, &device);
    let datagrams = preemption::queue_pair_with(&device, Service::Ud, None);
    preemption::connect(&device, &datagrams, &one);
    assert_eq!(known(), 1, "the pair has one address");
    let error = QpChange {
        state: Some(QpState::Err),
        ..QpChange::default()
    };
    device.run_qp(&one, |engine, hca, now| engine.modify(&error, now, hca));
    assert_eq!(known(), 1);
    device.remove_queue_pair(&other);
    assert_eq!(known(), 0);
    device.remove_queue_pair(&one);
    device.remove_queue_pair(&datagrams);
}
