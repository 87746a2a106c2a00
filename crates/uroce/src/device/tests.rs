use std::time::Duration;

use super::*;
use crate::config::Netdev;

fn loopback(name: &str) -> Config {
    Config {
        name: name.into(),
        netdev: Netdev::Interface("lo".into()),
    }
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
                first.poll();
                first.expect_event();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let before = switches();
        std::thread::sleep(Duration::from_millis(300));
        assert!(switches() - before <= 3, "{} wakeups", switches() - before);
    }

    second.close();
    expect_threads(0);
    drop(first);
    let again = Device::open(&config).unwrap();
    expect_threads(1);
    again.close();
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
