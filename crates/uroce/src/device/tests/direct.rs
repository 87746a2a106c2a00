//! WRITE and READ without the target's CPU, between two devices of this process.

use std::sync::atomic::{AtomicBool, Ordering};

use ibverbs_abi::*;

use super::channels::{take_channel, two_devices_with};
use super::preemption::{is_acknowledged, pair, send, send_wr};
use super::*;
use crate::device::queue_pair::QueuePair;
use crate::direct::Request;
use crate::memory::{MemoryRegion, MrRange, PdHandle, Reregistration};
use crate::shm::Peers;
use roce::engine::{Data, QpChange, QpState, SendOp, SendWr, Sge};
use roce::wire::Psn;

const REMOTE: u32 = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

/// Two connected queue pairs, and a region of each device.
struct Fixture {
    a: Device,
    b: Device,
    one: Arc<QueuePair>,
    other: Arc<QueuePair>,
    local: Box<[u64; 8]>,
    remote: Box<[u64; 8]>,
    lkey: u32,
    rkey: u32,
}

fn region(bytes: &mut [u64; 8], access: u32) -> MemoryRegion {
    MemoryRegion {
        pd: PdHandle(1),
        range: MrRange {
            start: bytes.as_mut_ptr().expose_provenance(),
            len: 64,
            iova: 0x1000,
        },
        access: IBV_ACCESS_LOCAL_WRITE | access,
    }
}

impl Fixture {
    fn new() -> Fixture {
        let (a, b) = two_devices_with(Some(Peers::SameUser), true);
        b.direct.begin_for_good();
        let (one, other) = pair(&a, &b);
        grant(&b, &other, REMOTE);
        let (mut local, mut remote) = (Box::new([7; 8]), Box::new([0; 8]));
        let lkey = a.memory.register(region(&mut local, 0));
        let rkey = b.memory.register(region(&mut remote, REMOTE));
        take_channel(&a, &b, &one);
        Fixture {
            a,
            b,
            one,
            other,
            local,
            remote,
            lkey,
            rkey,
        }
    }

    /// Posts a request for 16 bytes of each region. Returns whether it has completed at once, although the
    /// target makes no progress.
    fn post(&self, op: SendOp) -> bool {
        let sge = Sge {
            addr: 0x1008,
            len: 16,
            lkey: self.lkey,
        };
        let wr = SendWr {
            op,
            data: Data::Sges([sge].into_iter().collect()),
            ..send_wr()
        };
        let posted = self
            .a
            .post(&self.one, |engine, hca| engine.post_send(wr, hca));
        assert!(posted);
        is_acknowledged(&self.one)
    }

    fn write(&self) -> bool {
        self.post(SendOp::Write {
            va: 0x1010,
            rkey: self.rkey,
        })
    }
}

fn grant(device: &Device, qp: &QueuePair, access: u32) {
    let change = QpChange {
        access: Some(access),
        ..QpChange::default()
    };
    device.run_qp(qp, |engine, hca, now| engine.modify(&change, now, hca));
}

#[test]
fn the_target_does_nothing() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let mut both = Fixture::new();
    assert!(both.write());
    assert_eq!(*both.remote, [0, 0, 7, 7, 0, 0, 0, 0]);
    both.remote[0] = 5;
    assert!(both.post(SendOp::Read {
        va: 0x1000,
        rkey: both.rkey,
    }));
    assert_eq!(*both.local, [7, 5, 0, 7, 7, 7, 7, 7]);
}

/// Posts a SEND and behind it ten WRITEs of `len` bytes, which wait until it is acknowledged, then runs both
/// devices until all are. Returns how many WRITEs were copied directly.
fn waiting_writes(len: usize) -> u64 {
    let both = Fixture::new();
    let mut bytes = [vec![7_u8; len], vec![0; len]];
    let mut keys = Vec::new();
    for (device, bytes) in [&both.a, &both.b].into_iter().zip(&mut bytes) {
        let range = MrRange {
            start: bytes.as_mut_ptr().expose_provenance(),
            len: len as u64,
            iova: 0,
        };
        keys.push(device.memory.register(MemoryRegion {
            pd: PdHandle(1),
            range,
            access: IBV_ACCESS_LOCAL_WRITE | REMOTE,
        }));
    }
    let depth = || both.one.inner.lock().engine().send_depth();
    send(&both.a, &both.one);
    for _ in 0..10 {
        let sge = Sge {
            addr: 0,
            len: len as u32,
            lkey: keys[0],
        };
        let wr = SendWr {
            op: SendOp::Write {
                va: 0,
                rkey: keys[1],
            },
            data: Data::Sges([sge].into_iter().collect()),
            ..send_wr()
        };
        let (device, qp) = (&both.a, &both.one);
        assert!(device.post(qp, |engine, hca| engine.post_send(wr, hca)));
    }
    assert_eq!(depth(), 11);
    let direct_ops = || both.one.inner.lock().engine().counters().direct_ops;
    let before = direct_ops();
    super::channels::until(|| {
        super::channels::make_progress(&both.b);
        super::channels::make_progress(&both.a);
        depth() == 0
    });
    assert!(bytes[0] == bytes[1]);
    direct_ops() - before
}

/// A thread copies 8 MiB at a time: others wait for the queue pair. The next WRITE is sent, and the last
/// waits for it.
#[test]
fn behind_a_long_copy_a_request_is_sent() {
    let _background_threads = BACKGROUND_THREADS.lock();
    assert_eq!(waiting_writes(1 << 20), 9);
}

/// The background thread serves other peers, too, and a copy takes as long as the peer wants.
#[test]
fn the_background_thread_copies_nothing() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let background = std::thread::spawn(|| {
        crate::device::background::begin_on_this_thread();
        waiting_writes(64 << 10)
    });
    assert_eq!(background.join().unwrap(), 0);
}

/// A request of several system calls, whose local memory is in two parts.
#[test]
fn a_long_request_is_copied_in_order() {
    const LEN: usize = 5 << 19;
    let _background_threads = BACKGROUND_THREADS.lock();
    let both = Fixture::new();
    let mut local: Vec<u8> = (0..LEN).map(|i| (i % 251) as u8).collect();
    let expected = local.clone();
    let mut remote = vec![0; LEN];
    let register = |device: &Device, bytes: &mut [u8]| {
        let range = MrRange {
            start: bytes.as_mut_ptr().expose_provenance(),
            len: LEN as u64,
            iova: 0,
        };
        device.memory.register(MemoryRegion {
            pd: PdHandle(1),
            range,
            access: IBV_ACCESS_LOCAL_WRITE | REMOTE,
        })
    };
    let (lkey, rkey) = (
        register(&both.a, &mut local),
        register(&both.b, &mut remote),
    );
    let post = |op| {
        let parts = [(0, 1_500_001), (1_500_001, LEN as u32 - 1_500_001)];
        let sges = parts.map(|(addr, len)| Sge { addr, len, lkey });
        let wr = SendWr {
            op,
            data: Data::Sges(sges.into_iter().collect()),
            ..send_wr()
        };
        let (device, qp) = (&both.a, &both.one);
        assert!(device.post(qp, |engine, hca| engine.post_send(wr, hca)));
        assert!(is_acknowledged(qp));
    };
    post(SendOp::Write { va: 0, rkey });
    assert!(remote == expected);
    remote.reverse();
    post(SendOp::Read { va: 0, rkey });
    assert!(local == remote && local != expected);
}

/// A request that the responder would refuse is sent, and the responder refuses it.
#[test]
fn a_request_that_is_not_granted_is_sent() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let both = Fixture::new();
    assert!(!both.post(SendOp::Write {
        va: 0x1038,
        rkey: both.rkey,
    }));
    super::channels::until(|| {
        super::channels::make_progress(&both.b);
        super::channels::make_progress(&both.a);
        both.one.inner.lock().engine().state() == QpState::Err
    });
    assert_eq!(*both.remote, [0; 8]);
    assert_eq!(both.b.counters().queue_pairs.rcvd_pkts, 3);
}

#[test]
fn rights_that_are_withdrawn_hold_no_longer() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let withdraw: [fn(&mut Fixture); 5] = [
        |both| both.b.deregister(both.rkey).unwrap(),
        |both| {
            let change = Reregistration {
                pd: None,
                range: None,
                access: Some(IBV_ACCESS_LOCAL_WRITE),
            };
            both.b.reregister(both.rkey, &change).unwrap();
        },
        |both| grant(&both.b, &both.other, IBV_ACCESS_REMOTE_READ),
        |both| {
            let change = QpChange {
                state: Some(QpState::Err),
                ..QpChange::default()
            };
            both.b.run_qp(&both.other, |engine, hca, now| {
                engine.modify(&change, now, hca)
            });
        },
        |both| both.b.remove_queue_pair(&both.other),
    ];
    for withdraw in withdraw {
        let mut both = Fixture::new();
        assert!(both.write());
        withdraw(&mut both);
        assert!(!both.write());
    }
}

/// An initiator has looked at the table, and is not run: what it names is waited for, and nothing else.
/// Whoever waits has neither a queue pair nor the table of regions locked.
#[test]
fn taking_away_waits_for_accesses_that_name_it_and_blocks_nobody() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let withdraw: [fn(&Fixture); 3] = [
        |both| both.b.deregister(both.rkey).unwrap(),
        |both| grant(&both.b, &both.other, IBV_ACCESS_REMOTE_READ),
        |both| both.b.remove_queue_pair(&both.other),
    ];
    for withdraw in withdraw {
        let both = Fixture::new();
        assert!(both.write());
        let channel = both.one.inner.lock().channel.get().unwrap().clone();
        let request = Request {
            qpn: both.one.qpn,
            gid: channel.gid(),
            target_qpn: both.other.qpn,
            first_psn: 0,
            rkey: both.rkey,
            va: 0x1000,
            len: 8,
            flag: IBV_ACCESS_REMOTE_WRITE,
        };
        let access = channel.begin_access(&request).unwrap();
        let mut bytes = Box::new([0; 8]);
        let mut register = || both.b.memory.register(region(&mut bytes, REMOTE));
        let unnamed = register();
        both.b.deregister(unnamed).unwrap();
        let has_returned = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                withdraw(&both);
                has_returned.store(true, Ordering::SeqCst);
            });
            // The target has withdrawn it.
            super::channels::until(|| !both.write());
            drop(both.other.inner.lock());
            register();
            assert!(!has_returned.load(Ordering::SeqCst));
            drop(access);
        });
        assert!(has_returned.load(Ordering::SeqCst));
    }
}

/// A queue pair that was connected again waits for another first PSN.
#[test]
fn a_peer_of_an_earlier_connection_has_no_access() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let both = Fixture::new();
    assert!(both.write());
    let change = QpChange {
        rq_psn: Some(Psn::new(5)),
        ..QpChange::default()
    };
    both.b.run_qp(&both.other, |engine, hca, now| {
        engine.modify(&change, now, hca)
    });
    assert!(!both.write());
}

#[test]
fn the_memory_of_an_ended_process_is_not_accessed() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let both = Fixture::new();
    assert!(both.write());
    drop(both.b.direct.begin());
    assert!(!both.write());
}

/// A region that is changed is exported as it is now.
#[test]
fn a_changed_region_is_still_exported() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let both = Fixture::new();
    let range = MrRange {
        start: both.remote.as_ptr().expose_provenance(),
        len: 64,
        iova: 0x1008,
    };
    let change = Reregistration {
        pd: None,
        range: Some(range),
        access: None,
    };
    both.b.reregister(both.rkey, &change).unwrap();
    assert!(both.write());
    assert_eq!(*both.remote, [0, 7, 7, 0, 0, 0, 0, 0]);
}

/// A WRITE must not overtake a SEND that the peer has not acknowledged.
#[test]
fn earlier_requests_come_first() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let both = Fixture::new();
    super::preemption::send(&both.a, &both.one);
    assert!(!both.write());
    assert_eq!(*both.remote, [0; 8]);
    super::channels::until(|| {
        super::channels::make_progress(&both.b);
        super::channels::make_progress(&both.a);
        is_acknowledged(&both.one)
    });
    assert_eq!(*both.remote, [0, 0, 7, 7, 0, 0, 0, 0]);
}
