//! Encoded values, packet numbers, congestion window, RTO, pacer, attributes.

use std::time::Duration;

use super::hca;
use super::network::{self, attributes, ms, us};
use crate::engine::congestion::CongestionWindow;
use crate::engine::pacer::Pacer;
use crate::engine::rtt::RttEstimator;
use crate::engine::send_queue::{first_packet, nearest_packet, psn};
use crate::engine::timer::{Timer, TimerTable};
use crate::engine::*;
use crate::wire::Psn;

#[test]
fn encoded_values_match_the_specification() {
    // 9.7.6.1.3: 4.096 us * 2^n; at least 8.4 ms.
    let nanos = |code| encoding::ack_timeout(code).map(|timeout| timeout.as_nanos());
    assert_eq!(nanos(0), None);
    assert_eq!(nanos(14), Some(67_108_864));
    assert_eq!(nanos(31), Some(4096 << 31));
    assert_eq!(nanos(1), Some(8_388_608));
    // Table 45, in microseconds.
    for (code, time) in [
        (0, 655_360),
        (1, 10),
        (12, 640),
        (13, 960),
        (25, 61_440),
        (31, 491_520),
    ] {
        assert_eq!(encoding::rnr_timer(code), us(time));
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
        assert_eq!(encoding::credit_count(code), Some(count));
    }
    assert_eq!(encoding::credit_count(31), None);
}

#[test]
fn a_psn_maps_to_the_nearest_packet_number() {
    let first = first_packet(Psn::new(0xff_fffe));
    assert_eq!(psn(first + 3), Psn::new(1));
    assert_eq!(nearest_packet(Psn::new(1), first), first + 3);
    assert_eq!(nearest_packet(Psn::new(0xff_fff0), first + 3), first - 14);
    assert_eq!(
        nearest_packet(Psn::new(0xff_ffff), first_packet(Psn::new(0))),
        first_packet(Psn::new(0)) - 1
    );
}

#[test]
fn the_timer_table_reports_the_first_timer() {
    let mut timers = TimerTable::new();
    assert_eq!(timers.next(), None);
    let all = [(Timer::AckTimeout, 40), (Timer::Rto, 30), (Timer::Rnr, 20)];
    for (timer, at) in all {
        assert!(!timers.is_set(timer) && !timers.is_expired(timer, Time(u64::MAX - 1)));
        timers.set(timer, Time(at));
        assert_eq!(
            (timers.next(), timers.get(timer)),
            (Some(Time(at)), Some(Time(at)))
        );
        assert!(timers.is_expired(timer, Time(at)) && !timers.is_expired(timer, Time(at - 1)));
    }
    for (timer, at) in all.into_iter().rev() {
        assert_eq!(timers.next(), Some(Time(at)));
        timers.stop(timer);
        assert_eq!(timers.get(timer), None);
    }
    assert_eq!(timers.next(), None);
}

#[test]
fn cwnd_halves_once_per_window_and_grows_again() {
    let mut window = CongestionWindow::new(4096);
    let start = window.cwnd();
    window.on_ack(start, start);
    assert_eq!(window.cwnd(), 2 * start);
    window.on_loss(40, 60);
    window.on_loss(50, 70);
    assert_eq!(window.cwnd(), start);
    window.on_ack(20, 60);
    assert_eq!(window.cwnd(), start + 1);
    for _ in 0..100_000 {
        window.on_ack(1000, 1_000_000);
    }
    assert_eq!(window.cwnd(), 512);
}

#[test]
fn a_spurious_rto_is_undone() {
    let (mut window, mut rtt) = (CongestionWindow::new(1024), RttEstimator::default());
    let start = window.cwnd();
    window.on_rto(100, true);
    assert_eq!(window.cwnd(), 2);
    assert!(window.on_ack(50, 150));
    assert!(window.cwnd() >= start);
    // Only retransmitted packets are acknowledged: the others were lost.
    window.on_rto(200, true);
    rtt.on_rto();
    assert!(!window.on_ack(1, 201));
    rtt.on_ack(false);
    assert!(window.cwnd() < 10);
    // If no round trip was measured, several may have been spurious.
    let mut window = CongestionWindow::new(1024);
    (0..3).for_each(|_| window.on_rto(100, false));
    assert!(window.on_ack(50, 150));
    assert!(window.cwnd() >= start);
    // Consecutive RTOs back off.
    let rto = rtt.rto();
    rtt.on_rto();
    assert!(rtt.rto() > rto);
}

/// Queue pairs that have lost their packets at the same time retransmit them at different times.
#[test]
fn rtos_that_follow_each_other_differ_between_queue_pairs() {
    let rtos = |times| {
        let of = |qpn| {
            let mut rtt = RttEstimator::new(qpn);
            (0..times).for_each(|_| rtt.on_rto());
            rtt.rto()
        };
        let mut rtos: Vec<Duration> = (0x11..0x11 + 100).map(of).collect();
        rtos.sort();
        rtos
    };
    assert_eq!(rtos(0), [ms(20); 100]);
    for times in 1..4 {
        let rtos = rtos(times);
        let gaps = rtos.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(rtos[99] - rtos[0] > ms(15), "{rtos:?}");
        assert!(gaps.max() < Some(ms(4 << times)), "{rtos:?}");
    }
}

/// The round trip is longer than the RTO: it stays backed off until there is a sample.
#[test]
fn an_rto_that_is_too_short_is_not_used_again() {
    let mut rtt = RttEstimator::new(1);
    for (rtos, least) in [40, 40, 80, 80, 160].into_iter().enumerate() {
        rtt.on_rto();
        rtt.on_ack(rtos == 0);
        assert!(rtt.rto() >= ms(least));
    }
    rtt.on_rtt_sample(us(20));
    assert_eq!(rtt.rto(), ms(4));
    // The path has become longer.
    for _ in 0..3 {
        rtt.on_rto();
        rtt.on_ack(true);
        assert_eq!(rtt.rto(), ms(4));
    }
    for (rtos, least) in [8, 8, 16, 16, 32].into_iter().enumerate() {
        rtt.on_rto();
        rtt.on_ack(rtos == 0);
        assert!(rtt.rto() >= ms(least), "{least}");
    }
    rtt.on_rtt_sample(ms(30));
    rtt.on_rto();
    rtt.on_ack(false);
    assert!(rtt.rto() < ms(40));
}

#[test]
fn rto_follows_rfc_6298() {
    let mut rtt = RttEstimator::default();
    assert_eq!((rtt.srtt(), rtt.rto()), (Duration::ZERO, ms(20)));
    rtt.on_rtt_sample(ms(8));
    assert_eq!((rtt.srtt(), rtt.rto()), (ms(8), ms(24)));
    rtt.on_rtt_sample(ms(16));
    assert_eq!((rtt.srtt(), rtt.rto()), (ms(9), ms(29)));
    rtt.on_rtt_sample(ms(1));
    assert_eq!((rtt.srtt(), rtt.rto()), (ms(8), ms(31)));
    // Twice as long every second time, up to two seconds, and up to half of that longer.
    for least in [62, 124, 248, 496, 992, 1984, 2000, 2000, 2000] {
        for _ in 0..2 {
            rtt.on_rto();
            let wait = rtt.rto();
            assert!((ms(least)..=ms(least * 3 / 2)).contains(&wait), "{wait:?}");
        }
    }
    rtt.on_ack(false);
    assert_eq!(rtt.rto(), ms(31));
    for _ in 0..100 {
        rtt.on_rtt_sample(us(1));
    }
    assert_eq!(rtt.rto(), ms(4));
    // The RTO comes before the shortest ack timeout.
    assert!(Some(rtt.rto()) < encoding::ack_timeout(1));
}

/// In packets.
#[test]
fn cwnd_follows_rfc_5681() {
    let initial = [256, 1024, 4096].map(|mtu| CongestionWindow::new(mtu).cwnd());
    assert_eq!(initial, [64, 64, 16]);
    let mut window = CongestionWindow::new(1024);
    // Slow start: one more for each acknowledged packet.
    window.on_ack(36, 36);
    assert_eq!(window.cwnd(), 100);
    window.on_loss(36, 136);
    assert_eq!(window.cwnd(), 50);
    // Acknowledgments of packets that were in flight at the loss do not change the window.
    window.on_ack(99, 135);
    assert_eq!(window.cwnd(), 50);
    window.on_loss(135, 200);
    assert_eq!(window.cwnd(), 50);
    // Congestion avoidance: one more for each window.
    window.on_ack(1, 136);
    window.on_ack(48, 184);
    assert_eq!(window.cwnd(), 50);
    window.on_ack(1, 185);
    assert_eq!(window.cwnd(), 51);
    window.on_ack(50, 235);
    assert_eq!(window.cwnd(), 51);
    window.on_ack(1, 236);
    assert_eq!(window.cwnd(), 52);
    for n in 3..10 {
        window.on_loss(n * 100, n * 100 + 100);
    }
    assert_eq!(window.cwnd(), 4);
    // Up to the largest window.
    let mut window = CongestionWindow::new(256);
    window.on_ack(5000, 5000);
    assert_eq!(window.cwnd(), 1024);
    let mut window = CongestionWindow::new(1024);
    window.on_loss(0, 1);
    for n in 0..3000 {
        window.on_ack(5000, n);
    }
    assert_eq!(window.cwnd(), 1024);
}

#[test]
fn an_rto_restarts_slow_start() {
    let mut window = CongestionWindow::new(1024);
    window.on_loss(10, 60);
    window.on_rto(10, true);
    assert_eq!(window.cwnd(), 2);
    // Only the two retransmitted packets are acknowledged: the others were lost.
    window.on_ack(2, 12);
    assert_eq!(window.cwnd(), 4);
    window.on_ack(10, 22);
    assert_eq!(window.cwnd(), 14);
    // Slow start up to half of 32, then congestion avoidance.
    window.on_ack(2, 24);
    assert_eq!(window.cwnd(), 16);
    window.on_ack(15, 39);
    assert_eq!(window.cwnd(), 16);
    window.on_ack(1, 40);
    assert_eq!(window.cwnd(), 17);
    // One packet more than was retransmitted: nothing had been lost.
    window.on_rto(40, true);
    window.on_ack(3, 43);
    assert!((17..=20).contains(&window.cwnd()));
    // The second of consecutive RTOs is not spurious.
    let mut window = CongestionWindow::new(1024);
    window.on_rto(0, true);
    window.on_rto(0, true);
    window.on_ack(3, 3);
    assert_eq!(window.cwnd(), 5);
    // One packet was in flight, and arrived.
    let mut window = CongestionWindow::new(1024);
    window.on_rto(7, true);
    window.on_ack(1, 8);
    assert_eq!(window.cwnd(), 3);
    window.on_ack(1, 9);
    assert_eq!(window.cwnd(), 4);
    // The second packet was perhaps sent after the RTO.
    window.on_rto(9, true);
    assert!(!window.on_ack(2, 11));
    assert_eq!(window.cwnd(), 4);
}

#[test]
fn the_pacer_pauses_after_a_burst() {
    for (service, len, expected) in [
        (Service::Rc, 64, 128),
        (Service::Rc, 4096, 128),
        (Service::Ud, 64, 64),
        (Service::Ud, 4096, 16),
    ] {
        let mut pacer = Pacer::new(service);
        let now = Time(5_000_000);
        let mut count = 0;
        while pacer.may_send(now) {
            pacer.on_sent(len);
            count += 1;
        }
        assert_eq!(count, expected);
        let resumes_at = pacer.resumes_at();
        assert!(resumes_at > now && !pacer.may_send(Time(resumes_at.0 - 1)));
        assert!(pacer.may_send(resumes_at));
    }
}

#[test]
fn attributes_are_reported_as_set() {
    let mut qp = Qp::new(network::config(Service::Rc, 0));
    let mut hca = hca::TestHca::default();
    let psns = [Psn::new(5), Psn::new(6)];
    for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
        let change = QpChange {
            state: Some(state),
            ..attributes(0, psns, 1024)
        };
        qp.modify(&change, Time(1), &mut hca);
        assert_eq!(qp.state(), state);
    }
    let (got, set) = (qp.attributes(), attributes(0, psns, 1024));
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
