//! Messages whose bytes the receiver copies from the sender's memory, between two devices of this process.

use ibverbs_abi::*;

use super::paths::{connect_channel, exchange, make_progress, two_devices_with, until};
use super::preemption::{is_acknowledged, pair, send_wr};
use super::*;
use crate::device::queue_pair::QueuePair;
use crate::engine::{Counters, Data, QpChange, QpState, RecvWr, SendOp, SendWr, Sge};
use crate::local::Peers;
use crate::memory::{MemoryRegion, MrRange, PdHandle};

const LEN: usize = 40_000;
const ACCESS: u32 = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

/// Two connected queue pairs with a channel, and a region of each device.
struct Fixture {
    a: Device,
    b: Device,
    one: Arc<QueuePair>,
    other: Arc<QueuePair>,
    sent: Vec<u8>,
    received: Vec<u8>,
    keys: [u32; 2],
}

fn register(device: &Device, bytes: &mut [u8]) -> u32 {
    device.memory.register(MemoryRegion {
        pd: PdHandle(1),
        range: MrRange {
            start: bytes.as_mut_ptr().expose_provenance(),
            len: bytes.len() as u64,
            iova: 0x1000,
        },
        access: ACCESS,
    })
}

/// Two parts of a region, in the other order: all of it.
fn halves(lkey: u32) -> [Sge; 2] {
    let half = LEN as u32 / 2;
    [u64::from(half), 0].map(|offset| Sge {
        addr: 0x1000 + offset,
        len: half,
        lkey,
    })
}

impl Fixture {
    fn new(direct: bool) -> Fixture {
        let (a, b) = two_devices_with(Some(Peers::SameUser), direct);
        for exports in [&a.exports, &b.exports].into_iter().flatten() {
            exports.begin_for_good();
        }
        let (one, other) = pair(&a, &b);
        let mut sent: Vec<u8> = (0..LEN).map(|at| (at * 7 + (at >> 8)) as u8).collect();
        let mut received = vec![0; LEN];
        let keys = [register(&a, &mut sent), register(&b, &mut received)];
        let change = QpChange {
            access: Some(ACCESS),
            ..QpChange::default()
        };
        b.run_qp(&other, |engine, host, now| {
            engine.modify(&change, now, host)
        });
        exchange(&a, &b, &one);
        connect_channel(&a, &b);
        let both = Fixture {
            a,
            b,
            one,
            other,
            sent,
            received,
            keys,
        };
        // What `pair` has posted is taken first.
        while both.other.inner.lock().engine().recv_depth() > 0 {
            exchange(&both.a, &both.b, &both.one);
        }
        both
    }

    fn post_recv(&self) {
        let wr = RecvWr {
            wr_id: 0,
            sges: halves(self.keys[1]).into_iter().collect(),
        };
        let posted = self
            .b
            .run_qp(&self.other, |engine, host, _| engine.post_recv(wr, host));
        assert!(posted);
    }

    fn post_send(&self, op: SendOp) {
        let wr = SendWr {
            op,
            data: Data::Sges(halves(self.keys[0]).into_iter().collect()),
            ..send_wr()
        };
        let posted = self
            .a
            .post(&self.one, |engine, host| engine.post_send(wr, host));
        assert!(posted);
    }

    fn finish(&self) {
        until(|| {
            make_progress(&self.b);
            make_progress(&self.a);
            is_acknowledged(&self.one)
        });
    }

    fn counters(&self, qp: &QueuePair) -> Counters {
        qp.inner.lock().engine().counters()
    }

    /// Packets in the channel to the receiver.
    fn sent_locally(&self) -> u64 {
        self.a.paths.as_ref().unwrap().counts().0
    }

    fn assert_arrived(&self) {
        assert!(self.received == self.sent);
        assert_eq!(self.counters(&self.one).rcvd_seq_err, 0);
    }
}

#[test]
fn a_message_takes_one_entry_of_the_channel() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let mut both = Fixture::new(true);
    let (va, rkey, imm) = (0x1000, both.keys[1], 5);
    for op in [SendOp::Send, SendOp::WriteImm { va, rkey, imm }] {
        both.received.fill(0);
        both.post_recv();
        let before = both.sent_locally();
        both.post_send(op);
        assert_eq!(both.sent_locally() - before, 1);
        assert!(both.received.iter().all(|byte| *byte == 0));
        both.finish();
        if let SendOp::WriteImm { .. } = op {
            both.received.rotate_left(LEN / 2);
        }
        both.assert_arrived();
    }
}

/// Without direct access, or if one side does not allow it.
#[test]
fn bytes_are_sent_without_direct_access() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let both = Fixture::new(false);
    both.post_recv();
    let before = both.sent_locally();
    both.post_send(SendOp::Send);
    both.finish();
    assert!(both.sent_locally() - before >= 40);
    both.assert_arrived();
}

/// What the sender's memory says when the receiver looks is not what was sent any more.
#[test]
fn memory_that_the_program_has_back_is_not_received() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let mut both = Fixture::new(true);
    both.post_recv();
    both.post_send(SendOp::Send);
    // The path is looked up again before the next change, which ends the loan.
    for state in [QpState::Sqd, QpState::Err] {
        let change = QpChange {
            state: Some(state),
            ..QpChange::default()
        };
        both.a.run_qp(&both.one, |engine, host, now| {
            engine.modify(&change, now, host)
        });
    }
    both.sent.fill(9);
    let before = both.counters(&both.other);
    until(|| {
        make_progress(&both.b);
        both.counters(&both.other).rcvd_pkts > before.rcvd_pkts
    });
    assert_eq!(both.counters(&both.other).rdma_recvs, before.rdma_recvs);
}

/// Programs end with requests outstanding, which their peers wait for.
#[test]
fn a_destroyed_queue_pair_sends_what_was_not_copied() {
    let _background_threads = BACKGROUND_THREADS.lock();
    for at_exit in [false, true] {
        let mut both = Fixture::new(true);
        both.post_recv();
        both.post_send(SendOp::Send);
        let before = both.counters(&both.other);
        let sent = both.sent.clone();
        if at_exit {
            both.a.call_in_loans_at_exit();
            drop(both.a.begin_exports());
        } else {
            both.a.end_qp(&both.one);
            both.sent.fill(9);
        }
        until(|| {
            make_progress(&both.b);
            both.counters(&both.other).rdma_recvs > before.rdma_recvs
        });
        assert!(both.received == sent);
    }
}

/// Then the receiver does not even try, and says so.
#[test]
fn bytes_are_sent_if_the_memory_is_not_accessible_any_more() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let both = Fixture::new(true);
    for _ in 0..3 {
        both.post_recv();
        both.post_send(SendOp::Send);
        drop(both.a.begin_exports());
        both.finish();
        assert!(both.received == both.sent);
        assert_eq!(both.counters(&both.one).rcvd_seq_err, 1);
    }
}
