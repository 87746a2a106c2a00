//! Two queue pairs and the network between them, in simulated time.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use super::hca::TestHca;
use crate::engine::*;
use crate::wire::{ICRC_LEN, Packet, Psn};

/// The impairment of a packet that a side sends: the delays of its copies, one element per copy
/// that arrives.
pub type Impair = dyn FnMut(usize, &Packet) -> Vec<Duration>;

/// Whether a fragment that a side sends reaches the receiver.
pub type Takes = dyn FnMut(usize, &Fragment) -> bool;

pub struct Side {
    pub qp: Qp,
    pub hca: TestHca,
}

/// When a packet arrives; the number keeps packets that arrive together in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ArrivalKey {
    at: Time,
    number: u64,
}

#[derive(Clone)]
struct Arrival {
    /// The receiving side.
    side: usize,
    bytes: Vec<u8>,
    /// A fragment through shared memory; else a datagram.
    is_fragment: bool,
}

/// A fragment in shared memory takes this long.
const SHARED_DELAY: Duration = us(1);

pub struct Network {
    pub now: Time,
    pub sides: [Side; 2],
    pub impair: Box<Impair>,
    in_flight: BTreeMap<ArrivalKey, Arrival>,
    copies: u64,
    /// By side.
    pub packets_sent: [u64; 2],
    /// From when on the sides share memory.
    pub shared_from: Option<Time>,
    /// The longest fragment, in bytes.
    pub fragment_len: usize,
    /// Whether shared memory takes a fragment that a side sends. If not, it is lost, as when the receiver
    /// has no memory for it.
    pub takes_fragment: Box<Takes>,
    /// How long after receiving a packet a side transmits.
    pub transmit_delay: Duration,
    /// When a side transmits; None if it has nothing to transmit.
    transmit_at: [Option<Time>; 2],
    /// The memory that a send WR with this number reads from, to be changed once it has completed.
    pub reuses: Option<fn(u64) -> Range<usize>>,
    /// By side: the completions that memory was changed for.
    reused: [usize; 2],
}

pub const fn us(microseconds: u64) -> Duration {
    Duration::from_micros(microseconds)
}

pub const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// A network that delivers every packet once, after `delay`.
pub fn lossless(delay: Duration) -> Box<Impair> {
    Box::new(move |_, _| vec![delay])
}

/// A network that loses every packet.
pub fn dead() -> Box<Impair> {
    Box::new(|_, _| vec![])
}

pub const ALL_ACCESS: u32 = 0x30e;

pub fn gid(side: usize) -> Gid {
    let mut gid = [0; 16];
    gid[10..12].fill(0xff);
    gid[15] = side as u8 + 1;
    gid
}

pub fn qpn(side: usize) -> u32 {
    0x11 + side as u32
}

pub fn addresses(from: usize) -> Addresses {
    Addresses {
        src_port: crate::wire::PORT,
        is_marked: false,
        src: gid(from),
        dst: gid(1 - from),
        grh: [0x60; 40],
        pkey_index: 3,
    }
}

pub fn av(to: usize) -> AddressVector {
    AddressVector {
        dgid: gid(to),
        sgid_index: 0,
        traffic_class: 0,
        hop_limit: 64,
        flow_label: 0,
    }
}

pub fn config(service: Service, side: usize) -> QpConfig {
    QpConfig {
        service,
        qpn: qpn(side),
        limits: Limits {
            max_send_wr: 1000,
            max_recv_wr: 1000,
        },
        sq_sig_all: true,
        has_srq: false,
    }
}

/// The attributes of a side, which tests start from.
pub fn attributes(side: usize, psns: [Psn; 2], mtu: u32) -> QpChange {
    QpChange {
        access: Some(ALL_ACCESS),
        av: Some(av(1 - side)),
        path_mtu: Some(mtu),
        dest_qpn: Some(qpn(1 - side)),
        qkey: Some(0x1234),
        rq_psn: Some(psns[1 - side]),
        sq_psn: Some(psns[side]),
        max_rd_atomic: Some(4),
        max_dest_rd_atomic: Some(4),
        min_rnr_timer: Some(12),
        timeout: Some(14),
        retry_cnt: Some(7),
        rnr_retry: Some(7),
        ..QpChange::default()
    }
}

/// A change of the state alone.
pub fn to_state(state: QpState) -> QpChange {
    QpChange {
        state: Some(state),
        ..QpChange::default()
    }
}

/// Another `timeout` and `retry_cnt`.
pub fn retries(timeout: u8, retry_cnt: u8) -> QpChange {
    QpChange {
        timeout: Some(timeout),
        retry_cnt: Some(retry_cnt),
        ..QpChange::default()
    }
}

impl Network {
    /// Two queue pairs in RTS.
    pub fn new(configs: [QpConfig; 2], changes: [QpChange; 2], impair: Box<Impair>) -> Network {
        let sides = [0, 1].map(|side: usize| {
            let mut side = Side {
                qp: Qp::new(configs[side]),
                hca: TestHca::default(),
            };
            side.hca.add(KEY, BASE, LEN);
            side
        });
        let mut network = Network {
            now: Time(1_000_000_000),
            sides,
            impair,
            in_flight: BTreeMap::new(),
            copies: 0,
            packets_sent: [0; 2],
            shared_from: None,
            fragment_len: 20 << 10,
            takes_fragment: Box::new(|_, _| true),
            transmit_delay: Duration::ZERO,
            transmit_at: [None; 2],
            reuses: None,
            reused: [0; 2],
        };
        for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
            for (side, change) in changes.iter().enumerate() {
                let change = QpChange {
                    state: Some(state),
                    sq_psn: change.sq_psn.filter(|_| state == QpState::Rts),
                    rq_psn: change.rq_psn.filter(|_| state == QpState::Rtr),
                    ..*change
                };
                network.modify(side, &change);
            }
        }
        network
    }

    /// Whether the registered memory of a side still holds zeros only.
    pub fn is_memory_zero(&mut self, side: usize) -> bool {
        let region = self.sides[side].hca.region(KEY);
        region.bytes.iter().all(|byte| *byte == 0)
    }

    pub fn rc(mtu: u32, impair: Box<Impair>) -> Network {
        Network::rc_with(mtu, impair, QpChange::default())
    }

    /// `change`: another `timeout`, `retry_cnt` or `rnr_retry` of side 0.
    pub fn rc_with(mtu: u32, impair: Box<Impair>, change: QpChange) -> Network {
        let psns = [Psn::new(0xffffe0), Psn::new(77)];
        let defaults = |side| attributes(side, psns, mtu);
        let first = QpChange {
            timeout: change.timeout.or(defaults(0).timeout),
            retry_cnt: change.retry_cnt.or(defaults(0).retry_cnt),
            rnr_retry: change.rnr_retry.or(defaults(0).rnr_retry),
            ..defaults(0)
        };
        Network::new(
            [config(Service::Rc, 0), config(Service::Rc, 1)],
            [first, defaults(1)],
            impair,
        )
    }

    /// The same with shared memory between the sides from now on, if `shared`.
    pub fn sharing(self, shared: bool) -> Network {
        Network {
            shared_from: shared.then_some(self.now),
            ..self
        }
    }

    /// Without shared memory, and with it; without losses.
    pub fn both_ways(mtu: u32, delay: Duration) -> [Network; 2] {
        [false, true].map(|shared| Network::rc(mtu, lossless(delay)).sharing(shared))
    }

    pub fn modify(&mut self, side: usize, change: &QpChange) {
        let Side { qp, hca } = &mut self.sides[side];
        qp.modify(change, self.now, hca);
        self.transmit(side);
    }

    pub fn set_state(&mut self, side: usize, state: QpState) {
        let change = QpChange {
            state: Some(state),
            sqd_async_notify: Some(true),
            ..QpChange::default()
        };
        self.modify(side, &change);
    }

    /// Lets `call` run a side. Meanwhile its HCA has the memory of the other one, if the queue pair there
    /// lets its peer access memory.
    pub fn run_side<T>(&mut self, side: usize, call: impl FnOnce(&mut Qp, &mut TestHca) -> T) -> T {
        let [one, other] = &mut self.sides;
        let (own, peer) = if side == 0 {
            (one, other)
        } else {
            (other, one)
        };
        let access = peer.qp.direct_access();
        if access.is_some() {
            own.hca.peer_access = access;
            std::mem::swap(&mut own.hca.peer_regions, &mut peer.hca.regions);
        }
        let result = call(&mut own.qp, &mut own.hca);
        if own.hca.peer_access.take().is_some() {
            std::mem::swap(&mut own.hca.peer_regions, &mut peer.hca.regions);
        }
        result
    }

    pub fn post_send(&mut self, side: usize, wr: SendWr) {
        let defers = self.run_side(side, |qp, hca| {
            assert!(qp.post_send(wr, hca));
            qp.may_defer_transmit()
        });
        if !defers {
            self.transmit(side);
        }
    }

    pub fn post_recv(&mut self, side: usize, wr: RecvWr) {
        let Side { qp, hca } = &mut self.sides[side];
        assert!(qp.post_recv(wr, hca));
    }

    /// Whether the sides share memory now.
    fn is_shared(&self) -> bool {
        self.shared_from.is_some_and(|from| self.now >= from)
    }

    /// Sends what a side has to send.
    pub fn transmit(&mut self, side: usize) {
        if self.is_shared() {
            self.transmit_fragments(side);
        }
        let mut buffer = vec![0; crate::wire::MAX_PACKET];
        loop {
            let Side { qp, hca } = &mut self.sides[side];
            let Some(transmit) = qp.transmit(self.now, hca, &mut buffer) else {
                break;
            };
            assert_eq!(transmit.av.dgid, gid(1 - side));
            let datagram = [&buffer[..transmit.len], &[0; ICRC_LEN]].concat();
            let packet = Packet::parse(&datagram).expect("a valid packet");
            assert!(packet.payload.len() <= 4096);
            assert_eq!(packet.bth.dest_qpn, transmit.dest_qpn);
            // Neither responses nor requests of unreliable services request an acknowledgment.
            let bth = &packet.bth;
            let reliable = qp.config().service.is_reliable();
            assert!(!bth.ack_request || reliable && packet.aeth().is_none());
            assert!(!bth.solicited || packet.aeth().is_none());
            self.packets_sent[side] += 1;
            for delay in (self.impair)(side, &packet) {
                self.put(side, datagram.clone(), false, delay);
            }
        }
    }

    /// Sends through shared memory what a side may send there.
    fn transmit_fragments(&mut self, side: usize) {
        let mut buffer = vec![0; HEAD_LEN + self.fragment_len];
        loop {
            self.run_side(side, |qp, hca| qp.execute_direct(hca));
            let Side { qp, hca } = &mut self.sides[side];
            qp.bind(self.now);
            let Some(len) = qp.transmit_fragment(self.now, hca, &mut buffer) else {
                break;
            };
            let fragment = parse_fragment(&buffer[..len]);
            assert_eq!(fragment.fragment().dest_qpn(), qpn(1 - side));
            self.packets_sent[side] += 1;
            if (self.takes_fragment)(side, &fragment.fragment()) {
                self.put(side, buffer[..len].to_vec(), true, SHARED_DELAY);
            }
        }
    }

    fn put(&mut self, from: usize, bytes: Vec<u8>, is_fragment: bool, delay: Duration) {
        self.copies += 1;
        let key = ArrivalKey {
            at: self.now.after(delay),
            number: self.copies,
        };
        let arrival = Arrival {
            side: 1 - from,
            bytes,
            is_fragment,
        };
        self.in_flight.insert(key, arrival);
    }

    /// A packet arrives.
    pub fn deliver(&mut self, side: usize, datagram: &[u8]) {
        self.arrive(&Arrival {
            side,
            bytes: datagram.to_vec(),
            is_fragment: false,
        });
    }

    fn arrive(&mut self, arrival: &Arrival) {
        let side = arrival.side;
        let Side { qp, hca } = &mut self.sides[side];
        let from = addresses(1 - side);
        if arrival.is_fragment {
            let copy = parse_fragment(&arrival.bytes);
            qp.receive_fragment(&copy.fragment(), &from, self.now, hca);
        } else {
            let packet = Packet::parse(&arrival.bytes).expect("a valid packet");
            qp.receive(&packet, &from, self.now, hca);
        }
        if self.transmit_delay.is_zero() {
            self.transmit(side);
        } else if self.transmit_at[side].is_none() {
            self.transmit_at[side] = Some(self.now.after(self.transmit_delay));
        }
    }

    fn next_timer(&self) -> Option<Time> {
        let timers = self.sides.iter().map(|side| side.qp.next_timeout());
        timers.chain(self.transmit_at).flatten().min()
    }

    fn next_arrival(&self) -> Option<ArrivalKey> {
        self.in_flight
            .first_key_value()
            .map(|(arrival, _)| *arrival)
    }

    /// Lets the next packet arrive or the next timer expire; false if there is neither.
    pub fn step(&mut self) -> bool {
        for (side, transmit_at) in self.sides.iter().zip(self.transmit_at) {
            side.qp.check_invariants(transmit_at.is_none());
        }
        let timer = self.next_timer();
        match (self.next_arrival(), timer) {
            (None, None) => return false,
            (Some(arrival), timer) if timer.is_none_or(|timer| arrival.at <= timer) => {
                let packet = self.in_flight.remove(&arrival).unwrap();
                self.now = self.now.max(arrival.at);
                self.arrive(&packet);
            }
            (_, Some(timer)) => {
                self.now = self.now.max(timer);
                for side in 0..2 {
                    self.handle_timers(side);
                }
            }
            (Some(_), None) => unreachable!(),
        }
        self.reuse_memory();
        true
    }

    /// Changes the memory of send WRs that have completed, as programs do.
    fn reuse_memory(&mut self) {
        let Some(range) = self.reuses else { return };
        for (side, reused) in self.sides.iter_mut().zip(&mut self.reused) {
            let hca = &mut side.hca;
            for at in *reused..hca.completions.len() {
                let (queue, completion) = hca.completions[at];
                if queue == WorkQueue::Send {
                    hca.region(KEY).bytes[range(completion.wr_id)].fill(0xbd);
                }
            }
            *reused = hca.completions.len();
        }
    }

    fn handle_timers(&mut self, side: usize) {
        if self.transmit_at[side].is_some_and(|at| at <= self.now) {
            self.transmit_at[side] = None;
            self.transmit(side);
        }
        let Side { qp, hca } = &mut self.sides[side];
        if qp.next_timeout().is_some_and(|at| at <= self.now) {
            qp.handle_timeout(self.now, PeerActivity::Unknown, hca);
            self.transmit(side);
        }
    }

    /// Until no packet is in flight and no timer runs.
    pub fn run(&mut self) {
        let mut steps = 0;
        while self.step() {
            steps += 1;
            assert!(steps < 1_000_000, "the queue pairs do not come to rest");
        }
    }

    /// For that time.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.now.after(time);
        loop {
            let arrival = self.next_arrival().map(|arrival| arrival.at);
            let next = self.next_timer().into_iter().chain(arrival).min();
            if next.is_none_or(|next| next > end) {
                self.now = end;
                return;
            }
            self.step();
        }
    }
}

/// A fragment, as its receiver finds it.
fn parse_fragment(bytes: &[u8]) -> FragmentCopy {
    let mut head = [0xa5; HEAD_LEN];
    let len = bytes.len().min(HEAD_LEN);
    head[..len].copy_from_slice(&bytes[..len]);
    let fragment = Fragment::parse(&head, bytes).expect("a valid fragment");
    FragmentCopy::try_new(&fragment).expect("memory")
}

impl Qp {
    /// Checks what holds between any two calls. `transmitted`: everything that may be sent has been
    /// sent.
    fn check_invariants(&self, transmitted: bool) {
        let (requester, max_rd_atomic) =
            (self.sends().requester(), self.attributes().max_rd_atomic);
        if !self.sends().is_bound() {
            requester.window().check_invariants();
        }
        if self.state() == QpState::Rts && self.sends().is_bound() {
            // A timer runs while requests are in flight.
            let timer = self.next_timeout();
            assert!(!self.sends().sender().unwrap().is_in_flight() || timer.is_some());
        } else if self.state() == QpState::Rts {
            assert!(requester.window().rd_atomic_in_flight() <= max_rd_atomic.unwrap_or(0).into());
            // A timer runs while packets are in flight; for an unreliable message in progress, the
            // pacer's.
            let timer = if self.config().service.is_reliable() {
                requester.timers().next()
            } else {
                self.next_timeout()
            };
            assert!(!transmitted || !requester.window().is_in_flight() || timer.is_some());
        }
        let max_dest_rd_atomic = self.attributes().max_dest_rd_atomic.unwrap_or(0);
        assert!(
            self.responder().responses().queue().pending_rd_atomic() <= max_dest_rd_atomic.into()
        );
    }
}

pub const KEY: u32 = 0x4200;
pub const BASE: u64 = 0x10_0000;
pub const LEN: usize = 1 << 20;

pub fn sge(offset: u64, len: u32) -> Sge {
    Sge {
        addr: BASE + offset,
        len,
        lkey: KEY,
    }
}

pub fn send_wr(wr_id: u64, op: SendOp, sges: &[Sge]) -> SendWr {
    SendWr {
        data: Data::Sges(sges.iter().copied().collect()),
        ..SendWr::new(wr_id, op, SendFlags::default())
    }
}

pub fn recv_wr(wr_id: u64, sges: &[Sge]) -> RecvWr {
    RecvWr {
        wr_id,
        sges: sges.iter().copied().collect(),
    }
}

pub fn write(va: u64, rkey: u32) -> SendOp {
    SendOp::Write { va, rkey }
}

pub fn read(va: u64, rkey: u32) -> SendOp {
    SendOp::Read { va, rkey }
}

pub fn fetch_add(va: u64, rkey: u32, add: u64) -> SendOp {
    SendOp::FetchAdd { va, rkey, add }
}

pub fn cmp_swap(va: u64, rkey: u32, compare: u64, swap: u64) -> SendOp {
    SendOp::CmpSwap {
        va,
        rkey,
        compare,
        swap,
    }
}

pub fn atomic_write(va: u64, rkey: u32, data: [u8; 8]) -> SendOp {
    SendOp::AtomicWrite { va, rkey, data }
}

/// A FLUSH of a range.
pub fn flush(va: u64, rkey: u32, len: u32, placement: u8) -> SendOp {
    SendOp::Flush {
        va,
        rkey,
        len,
        placement,
        selectivity: 0,
    }
}
