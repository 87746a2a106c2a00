//! Two queue pairs and the network between them, in simulated time.

use std::collections::BTreeMap;

use super::host::TestHost;
use crate::engine::*;
use crate::wire::{ICRC_LEN, Packet, Psn};

/// What the network does to a packet: how often it arrives, and after how many nanoseconds.
pub type Fate = dyn FnMut(usize, &Packet) -> Vec<u64>;

pub struct Side {
    pub qp: Qp,
    pub host: TestHost,
}

pub struct Network {
    pub now: Time,
    pub sides: [Side; 2],
    pub fate: Box<Fate>,
    /// By time of arrival; the number keeps packets of one time in order.
    under_way: BTreeMap<(u64, u64), (usize, Vec<u8>)>,
    sent: u64,
    pub counts: [u64; 2],
    /// A side that has received something sends only after so many nanoseconds.
    pub laziness: u64,
    wakes: [Option<Time>; 2],
}

/// Without loss, and with that delay.
pub fn calm(delay: u64) -> Box<Fate> {
    Box::new(move |_, _| vec![delay])
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

/// The attributes of both sides that all tests begin with.
pub fn usual(side: usize, psns: [Psn; 2], mtu: u32) -> QpChange {
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

impl Network {
    /// Two queue pairs in RTS.
    pub fn new(configs: [QpConfig; 2], changes: [QpChange; 2], fate: Box<Fate>) -> Network {
        let sides = [0, 1].map(|side: usize| {
            let mut side = Side {
                qp: Qp::new(configs[side]),
                host: TestHost::default(),
            };
            side.host.add(KEY, BASE, LEN);
            side
        });
        let mut network = Network {
            now: Time(1_000_000_000),
            sides,
            fate,
            under_way: BTreeMap::new(),
            sent: 0,
            counts: [0; 2],
            laziness: 0,
            wakes: [None; 2],
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

    /// Whether nothing has been written to the registered memory of a side.
    pub fn untouched(&mut self, side: usize) -> bool {
        let region = self.sides[side].host.region(KEY);
        region.bytes.iter().all(|byte| *byte == 0)
    }

    pub fn rc(mtu: u32, fate: Box<Fate>) -> Network {
        Network::rc_with(mtu, fate, QpChange::default())
    }

    /// With another timeout or other counts of retries at the first side.
    pub fn rc_with(mtu: u32, fate: Box<Fate>, change: QpChange) -> Network {
        let psns = [Psn::new(0xffffe0), Psn::new(77)];
        let usual = |side| usual(side, psns, mtu);
        let first = QpChange {
            timeout: change.timeout.or(usual(0).timeout),
            retry_cnt: change.retry_cnt.or(usual(0).retry_cnt),
            rnr_retry: change.rnr_retry.or(usual(0).rnr_retry),
            ..usual(0)
        };
        Network::new(
            [config(Service::Rc, 0), config(Service::Rc, 1)],
            [first, usual(1)],
            fate,
        )
    }

    pub fn modify(&mut self, side: usize, change: &QpChange) {
        let Side { qp, host } = &mut self.sides[side];
        qp.modify(change, self.now, host);
        self.flush(side);
    }

    pub fn set_state(&mut self, side: usize, state: QpState) {
        let change = QpChange {
            state: Some(state),
            sqd_async_notify: true,
            ..QpChange::default()
        };
        self.modify(side, &change);
    }

    pub fn send(&mut self, side: usize, request: SendWr) {
        let Side { qp, host } = &mut self.sides[side];
        assert!(qp.post_send(request, host));
        if !qp.may_defer_transmit() {
            self.flush(side);
        }
    }

    pub fn recv(&mut self, side: usize, receive: RecvWr) {
        let Side { qp, host } = &mut self.sides[side];
        assert!(qp.post_recv(receive, host));
    }

    /// Hands over what a side has to send.
    pub fn flush(&mut self, side: usize) {
        let mut buffer = [0; 4096 + 128];
        loop {
            let Side { qp, host } = &mut self.sides[side];
            let Some(transmit) = qp.transmit(self.now, host, &mut buffer) else {
                break;
            };
            assert_eq!(transmit.av.dgid, gid(1 - side));
            let datagram = [&buffer[..transmit.len], &[0; ICRC_LEN]].concat();
            let packet = Packet::parse(&datagram).expect("a packet that is none");
            assert!(packet.payload.len() <= 4096);
            assert_eq!(packet.headers.bth.dest_qpn, transmit.dest_qpn);
            // Neither answers nor what is not answered ask for an answer.
            let bth = &packet.headers.bth;
            let reliable = !matches!(qp.config.service, Service::Uc | Service::Ud);
            assert!(!bth.ack_request || reliable && packet.headers.aeth.is_none());
            assert!(!bth.solicited || packet.headers.aeth.is_none());
            self.counts[side] += 1;
            for delay in (self.fate)(side, &packet) {
                self.sent += 1;
                self.under_way.insert(
                    (self.now.0 + delay, self.sent),
                    (1 - side, datagram.clone()),
                );
            }
        }
    }

    /// A packet arrives.
    pub fn deliver(&mut self, side: usize, datagram: &[u8]) {
        let packet = Packet::parse(datagram).expect("a packet that is none");
        let Side { qp, host } = &mut self.sides[side];
        qp.receive(&packet, &addresses(1 - side), self.now, host);
        if self.laziness == 0 {
            self.flush(side);
        } else if self.wakes[side].is_none() {
            self.wakes[side] = Some(self.now.after(self.laziness));
        }
    }

    fn next_timer(&self) -> Option<Time> {
        let timers = self.sides.iter().map(|side| side.qp.next_timeout());
        timers.chain(self.wakes).flatten().min()
    }

    /// Lets the next thing happen; false if nothing ever will.
    pub fn step(&mut self) -> bool {
        for (side, wake) in self.sides.iter().zip(self.wakes) {
            side.qp.check_invariants(wake.is_none());
        }
        let arrival = self.under_way.first_key_value().map(|(key, _)| *key);
        let timer = self.next_timer();
        match (arrival, timer) {
            (None, None) => return false,
            (Some(key), timer) if timer.is_none_or(|timer| key.0 <= timer.0) => {
                let (side, datagram) = self.under_way.remove(&key).unwrap();
                self.now = self.now.max(Time(key.0));
                self.deliver(side, &datagram);
            }
            (_, Some(timer)) => {
                self.now = self.now.max(timer);
                for side in 0..2 {
                    if self.wakes[side].is_some_and(|at| at <= self.now) {
                        self.wakes[side] = None;
                        self.flush(side);
                    }
                    let Side { qp, host } = &mut self.sides[side];
                    if qp.next_timeout().is_some_and(|at| at <= self.now) {
                        qp.handle_timeout(self.now, host);
                        self.flush(side);
                    }
                }
            }
            (Some(_), None) => unreachable!(),
        }
        true
    }

    /// Until nothing happens any more.
    pub fn run(&mut self) {
        let mut steps = 0;
        while self.step() {
            steps += 1;
            assert!(steps < 1_000_000, "it does not end");
        }
    }

    /// Until nothing happens within that time.
    pub fn run_for(&mut self, nanoseconds: u64) {
        let end = self.now.0 + nanoseconds;
        loop {
            let arrival = self.under_way.first_key_value().map(|(key, _)| key.0);
            let timer = self.next_timer().map(|time| time.0);
            let next = timer.into_iter().chain(arrival).min();
            if next.is_none_or(|next| next > end) {
                self.now = Time(end);
                return;
            }
            self.step();
        }
    }
}

impl Qp {
    /// What holds between any two calls.
    fn check_invariants(&self, has_sent: bool) {
        let requester = &self.requester;
        assert!(requester.oldest <= requester.next && requester.next <= requester.sent);
        assert!(requester.sent - requester.oldest < 1 << 23);
        if self.state() == QpState::Rts {
            assert!(requester.reads <= self.attributes.max_rd_atomic.into());
            // Whatever is under way is being waited for; or, of a message without acknowledgments, more
            // is to go.
            let waits = match self.config.service {
                Service::Uc | Service::Ud => self.next_timeout(),
                _ => (requester.deadline)
                    .or(requester.probe)
                    .or(requester.not_before),
            };
            assert!(!has_sent || requester.oldest == requester.sent || waits.is_some());
        }
        assert!(self.replies.pending() <= self.attributes.max_dest_rd_atomic.into());
        let numbers = self.send_queue.wqes.iter().map(|wqe| (wqe.first, wqe.end));
        let mut last = 0;
        for (first, end) in numbers {
            assert!(first <= end && (last == 0 || first == last));
            last = end;
        }
        let current = self.send_queue.wqes.get(requester.current);
        assert!(current.is_none_or(|wqe| wqe.first <= requester.next));
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
        wr_id,
        op,
        flags: SendFlags::default(),
        sges: sges.iter().copied().collect(),
        inline: None,
        ud: None,
        xrc_srqn: 0,
    }
}

pub fn recv_wr(wr_id: u64, sges: &[Sge]) -> RecvWr {
    RecvWr {
        wr_id,
        sges: sges.iter().copied().collect(),
    }
}
