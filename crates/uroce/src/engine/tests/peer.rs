//! A queue pair, and a peer that is only the test: each packet is made and looked at by hand.

use ibverbs_abi::IBV_WC_SUCCESS;

use super::host::TestHost;
use super::network::*;
use crate::engine::*;
use crate::wire::{
    Aeth, AethKind, AtomicEth, Bth, Feth, Headers, ICRC_LEN, NakCode, Opcode, Operation, Packet,
    Part, Psn, Reth, Transport,
};

pub struct Peer {
    pub qp: Qp,
    pub host: TestHost,
    pub now: Time,
}

/// The PSN of the peer's first request, and of the queue pair's.
const START: u32 = 0xff_fffe;
pub const OWN: u32 = 100;

pub fn psn(offset: u32) -> Psn {
    Psn::new(START) + offset
}

impl Peer {
    /// A queue pair in RTR.
    pub fn new(change: QpChange) -> Peer {
        let mut peer = Peer {
            qp: Qp::new(config(Service::Rc, 0)),
            host: TestHost::default(),
            now: Time(1_000_000),
        };
        peer.host.add(KEY, BASE, LEN);
        let psns = [Psn::new(5), Psn::new(START)];
        for state in [QpState::Init, QpState::Rtr] {
            let change = QpChange {
                state: Some(state),
                max_dest_rd_atomic: change.max_dest_rd_atomic.or(Some(2)),
                ..usual(0, psns, 1024)
            };
            peer.qp.modify(&change, peer.now, &mut peer.host);
        }
        peer
    }

    /// One in RTS, with other attributes than the usual ones.
    pub fn sending(change: QpChange) -> Peer {
        let mut peer = Peer::new(change);
        peer.modify(QpState::Rts, change);
        peer
    }

    pub fn modify(&mut self, state: QpState, change: QpChange) {
        let first = state == QpState::Rts && self.qp.state() == QpState::Rtr;
        let change = QpChange {
            state: Some(state),
            sq_psn: first.then(|| psn(OWN)),
            sqd_async_notify: true,
            ..change
        };
        self.qp.modify(&change, self.now, &mut self.host);
    }

    pub fn headers(operation: Operation, part: Part, at: u32) -> Headers {
        Headers::new(Bth {
            opcode: Opcode::new(Transport::Rc, operation, part),
            solicited: false,
            migrated: true,
            pad: 0,
            pkey: 0xffff,
            dest_qpn: qpn(0),
            ack_request: true,
            psn: psn(at),
        })
    }

    /// Hands over a packet; nothing is sent yet.
    pub fn give(&mut self, headers: Headers, payload: &[u8]) {
        let mut headers = headers;
        headers.bth.pad = (payload.len().wrapping_neg() & 3) as u8;
        let mut datagram = vec![0; headers.len()];
        headers.write(&mut datagram);
        datagram.extend(payload);
        datagram.resize(datagram.len() + usize::from(headers.bth.pad) + ICRC_LEN, 0);
        let packet = Packet::parse(&datagram).unwrap();
        self.qp
            .receive(&packet, &addresses(1), self.now, &mut self.host);
    }

    pub fn send(&mut self, part: Part, at: u32, payload: &[u8]) {
        self.give(Peer::headers(Operation::Send, part, at), payload);
    }

    pub fn read(&mut self, at: u32, va: u64, len: u32) {
        let reth = Some(Reth { va, rkey: KEY, len });
        let headers = Peer::headers(Operation::ReadRequest, Part::Only, at);
        self.give(Headers { reth, ..headers }, &[]);
    }

    pub fn add(&mut self, at: u32) {
        let atomic = Some(AtomicEth {
            va: BASE,
            rkey: KEY,
            swap_add: 1,
            compare: 0,
        });
        let headers = Peer::headers(Operation::FetchAdd, Part::Only, at);
        self.give(Headers { atomic, ..headers }, &[]);
    }

    /// An ATOMIC WRITE that says it has `len` bytes.
    pub fn atomic_write(&mut self, at: u32, len: u32, data: u64) {
        let (va, rkey) = (BASE, KEY);
        let reth = Some(Reth { va, rkey, len });
        let headers = Peer::headers(Operation::AtomicWrite, Part::Only, at);
        self.give(Headers { reth, ..headers }, &data.to_ne_bytes());
    }

    pub fn flush(&mut self, at: u32) {
        let (va, rkey, len) = (BASE, KEY, 8);
        let feth = Some(Feth {
            placement: 1,
            selectivity: 0,
        });
        let reth = Some(Reth { va, rkey, len });
        let headers = Peer::headers(Operation::Flush, Part::Only, at);
        self.give(
            Headers {
                feth,
                reth,
                ..headers
            },
            &[],
        );
    }

    /// Answers the queue pair's packet `at`.
    pub fn answer(
        &mut self,
        operation: Operation,
        part: Part,
        at: u32,
        kind: AethKind,
        data: &[u8],
    ) {
        let aeth = Some(Aeth { kind, msn: 0 }).filter(|_| part != Part::Middle);
        let headers = Peer::headers(operation, part, OWN + at);
        self.give(Headers { aeth, ..headers }, data);
    }

    pub fn ack(&mut self, at: u32) {
        let kind = AethKind::Ack { credits: 31 };
        self.answer(Operation::Ack, Part::Only, at, kind, &[]);
    }

    pub fn nak(&mut self, at: u32, code: NakCode) {
        self.answer(Operation::Ack, Part::Only, at, AethKind::Nak(code), &[]);
    }

    pub fn not_ready(&mut self, at: u32) {
        let kind = AethKind::RnrNak { timer: 12 };
        self.answer(Operation::Ack, Part::Only, at, kind, &[]);
    }

    pub fn respond(&mut self, part: Part, at: u32, data: &[u8]) {
        let kind = AethKind::Ack { credits: 31 };
        self.answer(Operation::ReadResponse, part, at, kind, data);
    }

    /// What is sent: headers and payload.
    pub fn packets(&mut self) -> Vec<(Headers, Vec<u8>)> {
        let mut buffer = [0; 4300];
        let mut packets = Vec::new();
        while let Some(transmit) = self.qp.transmit(self.now, &mut self.host, &mut buffer) {
            let datagram = [&buffer[..transmit.len], &[0; ICRC_LEN]].concat();
            let packet = Packet::parse(&datagram).unwrap();
            packets.push((packet.headers, packet.payload.to_vec()));
        }
        packets
    }

    /// What is answered: operation, part, offset of the PSN, syndrome.
    pub fn answers(&mut self) -> Vec<Answer> {
        let packets = self.packets().into_iter();
        packets
            .map(|(headers, _)| {
                let (_, operation, part) = headers.bth.opcode.parts().unwrap();
                let offset = headers.bth.psn.distance(psn(0));
                (operation, part, offset, headers.aeth.map(|aeth| aeth.kind))
            })
            .collect()
    }

    /// Which of the queue pair's packets are sent, and which of them ask for an acknowledgment.
    pub fn sent(&mut self) -> Vec<(u32, bool)> {
        let packets = self.packets().into_iter();
        packets
            .map(|(headers, _)| {
                let offset = headers.bth.psn.distance(psn(OWN));
                (offset as u32, headers.bth.ack_request)
            })
            .collect()
    }

    /// The same without the second.
    pub fn numbers(&mut self) -> Vec<u32> {
        self.sent().into_iter().map(|(at, _)| at).collect()
    }

    pub fn post(&mut self, id: u64) {
        assert!(
            self.qp
                .post_recv(recv_wr(id, &[sge(0, 10_000)]), &mut self.host)
        );
    }

    /// Takes a request; nothing is sent yet.
    pub fn request(&mut self, request: SendWr) {
        assert!(self.qp.post_send(request, &mut self.host));
    }

    pub fn request_send(&mut self, id: u64, len: u32) {
        self.request(send_wr(id, SendOp::Send, &[sge(0, len)]));
    }

    pub fn request_read(&mut self, id: u64, len: u32) {
        let (va, rkey) = (BASE, KEY);
        self.request(send_wr(id, SendOp::Read { va, rkey }, &[sge(0, len)]));
    }

    /// Lets time pass until something is due, and does it. How long that was.
    pub fn wait(&mut self) -> u64 {
        let at = self.qp.next_timeout().expect("nothing is ever due");
        let waited = at.since(self.now);
        self.now = self.now.max(at);
        self.qp.handle_timeout(self.now, &mut self.host);
        waited
    }

    pub fn completed(&self) -> Vec<(u64, u32)> {
        self.host.statuses(WorkQueue::Send)
    }
}

pub type Answer = (Operation, Part, i32, Option<AethKind>);

pub const OK: Option<AethKind> = Some(AethKind::Ack { credits: 31 });

pub fn ack(at: i32) -> Answer {
    (Operation::Ack, Part::Only, at, OK)
}

pub fn nak(at: i32, code: NakCode) -> Answer {
    (Operation::Ack, Part::Only, at, Some(AethKind::Nak(code)))
}

/// Attributes for [`Peer::sending`], of whom a test changes some.
pub const OTHERWISE: QpChange = QpChange {
    state: None,
    sqd_async_notify: false,
    qkey: None,
    pkey_index: None,
    access: None,
    av: None,
    path_mtu: None,
    dest_qpn: None,
    rq_psn: None,
    sq_psn: None,
    max_rd_atomic: Some(4),
    max_dest_rd_atomic: None,
    min_rnr_timer: None,
    timeout: Some(18),
    retry_cnt: Some(7),
    rnr_retry: Some(7),
};

/// Completions without error.
pub fn success(ids: impl IntoIterator<Item = u64>) -> Vec<(u64, u32)> {
    ids.into_iter().map(|id| (id, IBV_WC_SUCCESS)).collect()
}
