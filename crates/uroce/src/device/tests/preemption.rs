//! Tests of a device while one of its threads is preempted. The test plays that thread: it takes
//! the locks that the thread would hold, and does not run on.

use std::time::{Duration, Instant};

use super::super::completion::CompletionQueue;
use super::super::polled::PolledCompletions;
use super::super::queue_pair::QueuePairConfig;
use super::super::receiving::Batch;
use super::super::*;
use super::{BACKGROUND_THREADS, bare_config, loopback};
use crate::memory::PdHandle;
use roce::engine::{
    AddressVector, QpChange, QpState, RecvWr, SendFlags, SendOp, SendWr, Service, Sges,
};
use roce::wire::Psn;

/// A queue pair with this completion queue for sends.
pub fn queue_pair_with(
    device: &Device,
    service: Service,
    send_cq: Option<Arc<CompletionQueue>>,
) -> Arc<QueuePair> {
    let qpn = device.net.alloc_qpn().unwrap();
    let qp = Arc::new(QueuePair::new(QueuePairConfig {
        pd: Some(PdHandle(1)),
        send_cq,
        memory: device.memory.clone(),
        receive_order: device.receive_order(),
        ..bare_config(service, qpn, 16, true)
    }));
    device.add_queue_pair(qp.clone());
    qp
}

/// Moves the queue pair to RTS, and posts its receives.
pub fn connect(device: &Device, qp: &QueuePair, peer: &QueuePair) {
    let change = |state| QpChange {
        state: Some(state),
        ..QpChange::default()
    };
    let gid = device.net.gids()[1].unwrap().gid;
    let reliable = qp.service.is_reliable();
    let rtr = QpChange {
        av: Some(AddressVector {
            dgid: gid,
            sgid_index: 1,
            traffic_class: 0,
            hop_limit: 64,
            flow_label: 0,
        }),
        path_mtu: Some(1024),
        active_mtu: Some(1024),
        dest_qpn: Some(peer.qpn),
        rq_psn: Some(Psn::new(0)),
        max_dest_rd_atomic: Some(1).filter(|_| reliable),
        min_rnr_timer: Some(1).filter(|_| reliable),
        ..change(QpState::Rtr)
    };
    let rts = QpChange {
        sq_psn: Some(Psn::new(0)),
        max_rd_atomic: Some(1).filter(|_| reliable),
        timeout: Some(17).filter(|_| reliable),
        retry_cnt: Some(7).filter(|_| reliable),
        rnr_retry: Some(7).filter(|_| reliable),
        ..change(QpState::Rts)
    };
    for change in [change(QpState::Init), rtr, rts] {
        device.run_qp(qp, |engine, hca, now| engine.modify(&change, now, hca));
    }
    device.run_qp(qp, |engine, hca, _| {
        let wr = || RecvWr {
            wr_id: 0,
            sges: Sges::default(),
        };
        assert!((0..16).all(|_| engine.post_recv(wr(), hca)));
    });
}

/// Two RC queue pairs, connected.
pub fn pair(a: &Device, b: &Device) -> (Arc<QueuePair>, Arc<QueuePair>) {
    pair_of(Service::Rc, a, b)
}

/// Two queue pairs without completion queues, connected.
pub fn pair_of(service: Service, a: &Device, b: &Device) -> (Arc<QueuePair>, Arc<QueuePair>) {
    let [one, other] = [a, b].map(|device| queue_pair_with(device, service, None));
    connect(a, &one, &other);
    connect(b, &other, &one);
    (one, other)
}

/// A request that sends an empty message.
pub fn send_wr() -> SendWr {
    SendWr::new(1, SendOp::Send, SendFlags::default())
}

pub fn send(device: &Device, qp: &Arc<QueuePair>) {
    let wr = send_wr();
    assert!(device.post(qp, |engine, hca| engine.post_send(wr, hca)));
}

pub fn is_acknowledged(qp: &QueuePair) -> bool {
    qp.inner.lock().engine().send_depth() == 0
}

/// Repeats `step` until the queue pair's messages are acknowledged, for 20 s at most.
fn await_ack(qp: &QueuePair, mut step: impl FnMut()) {
    let start = Instant::now();
    while !is_acknowledged(qp) {
        assert!(start.elapsed() < Duration::from_secs(20), "no ACK");
        step();
    }
}

/// Receives, but runs no timer, so that nothing is retransmitted.
fn receive(device: &Device) -> usize {
    device.inboxes.take().poll_all_sockets();
    device
        .receive(&mut device.inboxes.take(), None, None)
        .packets
}

/// Devices without background threads.
pub fn two_devices() -> (Device, Device) {
    let new = |name| Device::new(&loopback(name)).unwrap();
    (new("a"), new("b"))
}

/// A poller has read that it may defer, and does so after the background thread has resumed watching the
/// sockets and has found nothing to send. No other thread polls again.
#[test]
fn an_ack_is_not_stranded_that_a_late_poller_defers() {
    let (a, b) = two_devices();
    let (one, _other) = pair(&a, &b);
    let activity = &b.activity;
    let take_request = || {
        let mut inbox = b.inboxes.take();
        while b.receive_batch(&mut inbox, true, false, None).packets == 0 {
            inbox.poll_all_sockets();
        }
    };
    activity.suspend_wakeups();
    assert!(b.send_deferred());
    activity.end_suspension();
    send(&a, &one);
    take_request();
    await_ack(&one, || {
        receive(&a);
    });
    // The other way round: the background thread finds what the poller has deferred.
    activity.suspend_wakeups();
    send(&a, &one);
    take_request();
    assert_eq!(receive(&a), 0);
    assert!(!is_acknowledged(&one));
    activity.end_suspension();
    assert!(b.send_deferred());
    await_ack(&one, || {
        receive(&a);
    });
}

/// A thread is preempted with a queue pair locked. The packets that come meanwhile, of which the peer sends
/// none again, are delivered in their order when the thread has run on.
#[test]
fn what_a_locked_queue_pair_misses_is_delivered_later() {
    const MESSAGES: usize = 3;
    let (a, b) = two_devices();
    let (one, other) = pair(&a, &b);
    let guard = other.inner.lock();
    for _ in 0..MESSAGES {
        send(&a, &one);
        let start = Instant::now();
        while receive(&b) == 0 {
            assert!(start.elapsed() < Duration::from_secs(20), "no packet");
        }
    }
    assert!(other.missed.any() && !b.send_deferred());
    drop(guard);
    assert!(b.send_deferred() && !other.missed.any());
    await_ack(&one, || {
        receive(&a);
    });
    let counters = b.counters().queue_pairs;
    assert_eq!(
        (counters.out_of_seq_request, counters.duplicate_request),
        (0, 0)
    );
    assert_eq!(a.counters().queue_pairs.rcvd_seq_err, 0);
}

/// A poller is preempted in a system call that sends, with the inbox and the send turn.
#[test]
fn the_background_thread_acts_for_a_preempted_poller() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let a = Device::open(&loopback("preempted-a")).unwrap();
    let b = Device::open(&loopback("preempted-b")).unwrap();
    let (one, other) = pair(&a, &b);
    let inbox = b.inboxes.take();
    let turn = other.send_turn().unwrap();
    for _ in 0..8 {
        send(&a, &one);
        await_ack(&one, || a.poll(&mut PolledCompletions::default()));
    }
    drop(turn);
    drop(inbox);
    a.close();
    b.close();
}

/// A poller is preempted before it delivers a packet that it has received. Another one does not deliver later
/// packets before it.
#[test]
fn unreliable_connections_keep_the_order_of_a_preempted_poller() {
    let (a, b) = two_devices();
    let (one, other) = pair_of(Service::Uc, &a, &b);
    let received = || 16 - other.inner.lock().engine().recv_depth();
    send(&a, &one);
    let mut inbox = b.inboxes.take();
    while received() == 0 {
        inbox.poll_all_sockets();
        let mut batch = Batch::new(&b, false, inbox.take_qp_cache());
        b.net.receive(&mut inbox, &mut |packet, from| {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    send(&a, &one);
                    while receive(&b) == 0 {}
                });
            });
            assert_eq!(received(), 0, "a later packet is first");
            batch.deliver(packet, from);
        });
        batch.finish();
    }
    assert_eq!(received(), 2);
}

/// A poller is preempted after it has received a packet, and never delivers it. Packets that another thread
/// receives meanwhile wait for it until only one thread receives again.
#[test]
fn uc_packets_wait_while_another_thread_has_earlier_ones() {
    let (a, b) = two_devices();
    let (one, other) = pair_of(Service::Uc, &a, &b);
    let received = || 16 - other.inner.lock().engine().recv_depth();
    let mut first = b.inboxes.take();
    send(&a, &one);
    first.poll_all_sockets();
    while b.net.receive(&mut first, &mut |_, _| {}) == 0 {
        first.poll_all_sockets();
    }
    send(&a, &one);
    let mut inbox = b.inboxes.take();
    inbox.poll_all_sockets();
    while b.receive(&mut inbox, None, None).packets == 0 {
        inbox.poll_all_sockets();
    }
    assert!(!b.send_deferred() && received() == 0);
    drop(inbox);
    assert!(!b.send_deferred() && received() == 0);
    drop(first);
    drop(b.inboxes.take());
    assert!(b.send_deferred());
    assert_eq!(received(), 1);
}

/// A thread has built an ACK and is about to send it. A program that has destroyed the queue pair may end, so
/// the destroy waits.
#[test]
fn a_destroy_waits_for_the_thread_that_sends() {
    let b = Device::new(&loopback("destroyed-b")).unwrap();
    let (one, _other) = pair(&b, &b);
    let turn = one.send_turn().unwrap();
    std::thread::scope(|scope| {
        let destroy = scope.spawn(|| b.remove_queue_pair(&one));
        loop {
            let finished = destroy.is_finished();
            if one.is_sender_awaited() {
                break;
            }
            assert!(!finished, "it has not waited");
            std::thread::yield_now();
        }
        drop(turn);
    });
}

/// A thread is preempted with a queue pair locked, the inbox and a deferred packet: the other queue pairs
/// are served, and this one when the thread runs on.
#[test]
fn a_locked_queue_pair_does_not_stop_the_others() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let a = Device::open(&loopback("locked-a")).unwrap();
    let b = Device::open(&loopback("locked-b")).unwrap();
    let (one, locked) = pair(&a, &b);
    let (two, _free) = pair(&a, &b);
    let inbox = b.inboxes.take();
    let mut guard = locked.inner.lock();
    assert!(b.deferred_sends.add(&locked, &mut guard));
    let at = clock::now();
    locked.timer_at.store(at);
    assert!(b.timers.add(at, locked.qpn, |_| true));
    assert_eq!(b.timers.next(), at);
    b.waker.wake();
    send(&a, &one);
    for _ in 0..8 {
        send(&a, &two);
        await_ack(&two, || a.poll(&mut PolledCompletions::default()));
    }
    assert!(!is_acknowledged(&one));
    drop(guard);
    await_ack(&one, || a.poll(&mut PolledCompletions::default()));
    drop(inbox);
    a.close();
    b.close();
}
