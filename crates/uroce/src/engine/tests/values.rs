//! Encoded values, PSNs, windows.

use super::network::usual;
use crate::engine::send_queue::{first_number, nearest, psn_of};
use crate::engine::window::{Pace, Window};
use crate::engine::*;
use crate::wire::Psn;

#[test]
fn timers_are_those_of_the_specification() {
    // 9.7.6.1.3: 4.096 us * 2^n, from 8 ms on.
    assert_eq!(timers::timeout(0), None);
    assert_eq!(timers::timeout(14), Some(67_108_864));
    assert_eq!(timers::timeout(31), Some(4096 << 31));
    assert_eq!(timers::timeout(1), Some(8_388_608));
    // Table 45, in microseconds.
    for (code, time) in [
        (0, 655_360),
        (1, 10),
        (12, 640),
        (13, 960),
        (25, 61_440),
        (31, 491_520),
    ] {
        assert_eq!(timers::rnr(code), time * 1000);
    }
    // Table 46.
    for (code, count) in [
        (0, 0),
        (1, 1),
        (4, 4),
        (5, 6),
        (6, 8),
        (7, 12),
        (29, 24576),
        (30, 32768),
    ] {
        assert_eq!(timers::credits(code), Some(count));
    }
    assert_eq!(timers::credits(31), None);
}

#[test]
fn packet_numbers_stand_for_the_nearest_psn() {
    let first = first_number(Psn::new(0xff_fffe));
    assert_eq!(psn_of(first + 3), Psn::new(1));
    assert_eq!(nearest(Psn::new(1), first), first + 3);
    assert_eq!(nearest(Psn::new(0xff_fff0), first + 3), first - 14);
    assert_eq!(
        nearest(Psn::new(0xff_ffff), first_number(Psn::new(0))),
        first_number(Psn::new(0)) - 1
    );
}

#[test]
fn windows_halve_on_loss_once_and_grow_again() {
    let mut window = Window::new(4096);
    let start = window.size();
    window.progress(start, start);
    assert_eq!(window.size(), 2 * start);
    window.loss(40, 60);
    window.loss(50, 70);
    assert_eq!(window.size(), start);
    window.progress(20, 60);
    assert_eq!(window.size(), start + 1);
    for _ in 0..100_000 {
        window.progress(1000, 1_000_000);
    }
    assert_eq!(window.size(), 512);
}

#[test]
fn silence_that_was_none_leaves_the_window() {
    let mut window = Window::new(1024);
    let start = window.size();
    window.silence(100, 150);
    assert_eq!(window.size(), 2);
    window.progress(50, 150);
    assert!(window.size() >= start);
    // What was lost is lost: only what was sent again is acknowledged.
    window.silence(200, 250);
    window.progress(1, 201);
    assert!(window.size() < 10);
    // The longer it lasts, the longer the wait.
    let patience = window.patience();
    window.silence(201, 250);
    assert!(window.patience() > patience);
}

/// RFC 6298, in nanoseconds.
#[test]
fn patience_follows_round_trips() {
    let mut window = Window::new(1024);
    assert_eq!((window.round_trip(), window.patience()), (0, 20_000_000));
    window.timed(8_000_000);
    assert_eq!(
        (window.round_trip(), window.patience()),
        (8_000_000, 24_000_000)
    );
    window.timed(16_000_000);
    assert_eq!(
        (window.round_trip(), window.patience()),
        (9_000_000, 29_000_000)
    );
    window.timed(1_000_000);
    assert_eq!(
        (window.round_trip(), window.patience()),
        (8_000_000, 31_000_000)
    );
    // Twice as long each time, up to two seconds.
    let mut waits = vec![];
    for _ in 0..9 {
        window.silence(1, 2);
        waits.push(window.patience() / 1_000_000);
    }
    assert_eq!(waits, [62, 124, 248, 496, 992, 1984, 2000, 2000, 2000]);
    window.progress(1, 2);
    assert_eq!(window.patience(), 31_000_000);
    for _ in 0..100 {
        window.timed(1000);
    }
    assert_eq!(window.patience(), 4_000_000);
}

/// RFC 5681, in packets.
#[test]
fn windows_grow_slowly_after_a_loss() {
    let sizes = [256, 1024, 4096].map(|mtu| Window::new(mtu).size());
    assert_eq!(sizes, [64, 64, 16]);
    let mut window = Window::new(1024);
    // Each acknowledged packet is one more, up to half of what was too much.
    window.progress(36, 36);
    assert_eq!(window.size(), 100);
    window.loss(36, 136);
    assert_eq!(window.size(), 50);
    // What was under way then says nothing of it.
    window.progress(99, 135);
    assert_eq!(window.size(), 50);
    window.loss(135, 200);
    assert_eq!(window.size(), 50);
    // From there one each round trip.
    window.progress(1, 136);
    window.progress(48, 184);
    assert_eq!(window.size(), 50);
    window.progress(1, 185);
    assert_eq!(window.size(), 51);
    window.progress(50, 235);
    assert_eq!(window.size(), 51);
    window.progress(1, 236);
    assert_eq!(window.size(), 52);
    for n in 3..10 {
        window.loss(n * 100, n * 100 + 100);
    }
    assert_eq!(window.size(), 4);
    // As far as it may.
    let mut window = Window::new(256);
    window.progress(5000, 5000);
    assert_eq!(window.size(), 1024);
    let mut window = Window::new(1024);
    window.loss(0, 1);
    for n in 0..3000 {
        window.progress(5000, n);
    }
    assert_eq!(window.size(), 1024);
}

#[test]
fn after_silence_the_window_begins_anew() {
    let mut window = Window::new(1024);
    window.loss(10, 60);
    window.silence(10, 60);
    assert_eq!(window.size(), 2);
    // The two that are sent again, and no more: the others were lost.
    window.progress(2, 12);
    assert_eq!(window.size(), 4);
    window.progress(10, 22);
    assert_eq!(window.size(), 14);
    // Half of 32, then slowly.
    window.progress(2, 24);
    assert_eq!(window.size(), 16);
    window.progress(15, 39);
    assert_eq!(window.size(), 16);
    window.progress(1, 40);
    assert_eq!(window.size(), 17);
    // One more than was sent again: nothing had been lost.
    window.silence(40, 57);
    window.progress(3, 43);
    assert!((17..=20).contains(&window.size()));
    // Silence again and again: something was.
    let mut window = Window::new(1024);
    window.silence(0, 50);
    window.silence(0, 50);
    window.progress(3, 3);
    assert_eq!(window.size(), 5);
    // One packet, and it came.
    let mut window = Window::new(1024);
    window.silence(7, 8);
    window.progress(1, 8);
    assert_eq!(window.size(), 3);
    window.progress(1, 9);
    assert_eq!(window.size(), 4);
    window.silence(9, 10);
    window.progress(2, 11);
    assert_eq!(window.size(), 6);
}

#[test]
fn bursts_are_followed_by_pauses() {
    for (unreliable, len, expected) in [
        (false, 64, 128),
        (false, 4096, 128),
        (true, 64, 64),
        (true, 4096, 16),
    ] {
        let mut pace = Pace::new(unreliable);
        let now = Time(5_000_000);
        let mut count = 0;
        while pace.allows(now) {
            pace.sent(len);
            count += 1;
        }
        assert_eq!(count, expected);
        assert!(pace.resumes() > now && !pace.allows(Time(pace.resumes().0 - 1)));
        assert!(pace.allows(pace.resumes()));
    }
}

#[test]
fn attributes_are_told_as_set() {
    let mut qp = Qp::new(network::config(Service::Rc, 0));
    let mut host = host::TestHost::default();
    let psns = [Psn::new(5), Psn::new(6)];
    for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
        let change = QpChange {
            state: Some(state),
            ..usual(0, psns, 1024)
        };
        qp.modify(&change, Time(1), &mut host);
        assert_eq!(qp.state(), state);
    }
    let (got, set) = (qp.attributes(), usual(0, psns, 1024));
    assert_eq!(got.state, Some(QpState::Rts));
    assert_eq!(
        (got.av, got.path_mtu, got.access),
        (set.av, set.path_mtu, set.access)
    );
    assert_eq!(
        (got.rq_psn, got.sq_psn, got.dest_qpn),
        (set.rq_psn, set.sq_psn, set.dest_qpn)
    );
    assert_eq!(
        (got.timeout, got.retry_cnt, got.rnr_retry),
        (set.timeout, set.retry_cnt, set.rnr_retry)
    );
    assert_eq!(got.max_rd_atomic, set.max_rd_atomic);
    assert_eq!(
        (got.max_dest_rd_atomic, got.min_rnr_timer),
        (set.max_dest_rd_atomic, set.min_rnr_timer)
    );
}

use super::{host, network};
