//! A queue pair whose peer is the test: the test makes each inbound packet and reads each outbound one.

use std::time::Duration;

use ibverbs_abi::IBV_WC_SUCCESS;

use super::hca::TestHca;
use super::network::*;
use crate::engine::*;
use crate::wire::{
    Aeth, AethKind, AtomicEth, Bth, Feth, Headers, ICRC_LEN, NakCode, Opcode, Operation, Packet,
    Part, Psn, Reth, Transport,
};

pub struct Peer {
    pub qp: Qp,
    pub hca: TestHca,
    pub now: Time,
}

/// The PSN of the peer's first request.
const PEER_PSN: u32 = 0xff_fffe;
/// The PSN of the queue pair's first request, relative to [`PEER_PSN`].
pub const OUR_PSN: u32 = 100;

/// A PSN relative to [`PEER_PSN`].
pub fn psn(offset: u32) -> Psn {
    Psn::new(PEER_PSN) + offset
}

impl Peer {
    /// A queue pair in RTR.
    pub fn in_rtr(change: QpChange) -> Peer {
        Peer::in_rtr_with(config(Service::Rc, 0), change)
    }

    /// The same with this number of responder resources.
    pub fn responder(max_dest_rd_atomic: u8) -> Peer {
        Peer::in_rtr(QpChange {
            max_dest_rd_atomic: Some(max_dest_rd_atomic),
            ..QpChange::default()
        })
    }

    pub fn in_rtr_with(config: QpConfig, change: QpChange) -> Peer {
        let mut peer = Peer {
            qp: Qp::new(config),
            hca: TestHca::default(),
            now: Time(1_000_000),
        };
        peer.hca.add(KEY, BASE, LEN);
        let psns = [Psn::new(5), Psn::new(PEER_PSN)];
        for state in [QpState::Init, QpState::Rtr] {
            let change = QpChange {
                state: Some(state),
                max_dest_rd_atomic: change.max_dest_rd_atomic.or(Some(2)),
                ..attributes(0, psns, 1024)
            };
            peer.qp.modify(&change, peer.now, &mut peer.hca);
        }
        peer
    }

    /// A queue pair in RTS.
    pub fn in_rts(change: QpChange) -> Peer {
        Peer::in_rts_with(config(Service::Rc, 0), change)
    }

    /// The same with this number of outstanding READs and atomics.
    pub fn requester(max_rd_atomic: u8) -> Peer {
        Peer::in_rts(QpChange {
            max_rd_atomic: Some(max_rd_atomic),
            ..ATTRIBUTES
        })
    }

    pub fn in_rts_with(config: QpConfig, change: QpChange) -> Peer {
        let mut peer = Peer::in_rtr_with(config, change);
        peer.modify(QpState::Rts, change);
        peer
    }

    pub fn modify(&mut self, state: QpState, change: QpChange) {
        let first = state == QpState::Rts && self.qp.state() == QpState::Rtr;
        let change = QpChange {
            state: Some(state),
            sq_psn: first.then(|| psn(OUR_PSN)),
            sqd_async_notify: Some(true),
            ..change
        };
        self.qp.modify(&change, self.now, &mut self.hca);
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

    /// A packet from the peer arrives; nothing is transmitted yet.
    pub fn deliver(&mut self, headers: Headers, payload: &[u8]) {
        let mut headers = headers;
        headers.bth.pad = (payload.len().wrapping_neg() & 3) as u8;
        let mut datagram = vec![0; headers.encoded_len()];
        headers.write(&mut datagram);
        datagram.extend(payload);
        datagram.resize(datagram.len() + usize::from(headers.bth.pad) + ICRC_LEN, 0);
        let packet = Packet::parse(&datagram).unwrap();
        self.qp
            .receive(&packet, &addresses(1), self.now, &mut self.hca);
    }

    pub fn send(&mut self, part: Part, at: u32, payload: &[u8]) {
        self.deliver(Peer::headers(Operation::Send, part, at), payload);
    }

    pub fn read(&mut self, at: u32, va: u64, len: u32) {
        let reth = Some(Reth { va, rkey: KEY, len });
        let headers = Peer::headers(Operation::ReadRequest, Part::Only, at);
        self.deliver(Headers { reth, ..headers }, &[]);
    }

    pub fn fetch_add(&mut self, at: u32) {
        let atomic = Some(AtomicEth {
            va: BASE,
            rkey: KEY,
            swap_add: 1,
            compare: 0,
        });
        let headers = Peer::headers(Operation::FetchAdd, Part::Only, at);
        self.deliver(Headers { atomic, ..headers }, &[]);
    }

    /// An ATOMIC WRITE whose RETH says `len` bytes.
    pub fn atomic_write(&mut self, at: u32, len: u32, data: u64) {
        let (va, rkey) = (BASE, KEY);
        let reth = Some(Reth { va, rkey, len });
        let headers = Peer::headers(Operation::AtomicWrite, Part::Only, at);
        self.deliver(Headers { reth, ..headers }, &data.to_ne_bytes());
    }

    pub fn flush(&mut self, at: u32) {
        let (va, rkey, len) = (BASE, KEY, 8);
        let feth = Some(Feth {
            placement: 1,
            selectivity: 0,
        });
        let reth = Some(Reth { va, rkey, len });
        let headers = Peer::headers(Operation::Flush, Part::Only, at);
        self.deliver(
            Headers {
                feth,
                reth,
                ..headers
            },
            &[],
        );
    }

    /// A response to the queue pair's packet `at`.
    pub fn respond_with(
        &mut self,
        operation: Operation,
        part: Part,
        at: u32,
        kind: AethKind,
        data: &[u8],
    ) {
        let aeth = Some(Aeth { kind, msn: 0 }).filter(|_| part != Part::Middle);
        let headers = Peer::headers(operation, part, OUR_PSN + at);
        self.deliver(Headers { aeth, ..headers }, data);
    }

    pub fn ack(&mut self, at: u32) {
        let kind = AethKind::Ack { credits: 31 };
        self.respond_with(Operation::Ack, Part::Only, at, kind, &[]);
    }

    pub fn nak(&mut self, at: u32, code: NakCode) {
        self.respond_with(Operation::Ack, Part::Only, at, AethKind::Nak(code), &[]);
    }

    pub fn rnr_nak(&mut self, at: u32) {
        let kind = AethKind::RnrNak { timer: 12 };
        self.respond_with(Operation::Ack, Part::Only, at, kind, &[]);
    }

    pub fn read_response(&mut self, part: Part, at: u32, data: &[u8]) {
        let kind = AethKind::Ack { credits: 31 };
        self.respond_with(Operation::ReadResponse, part, at, kind, data);
    }

    /// Transmits; returns headers and payload of each packet.
    pub fn packets(&mut self) -> Vec<(Headers, Vec<u8>)> {
        let mut buffer = [0; 4300];
        let mut packets = Vec::new();
        while let Some(transmit) = self.qp.transmit(self.now, &mut self.hca, &mut buffer) {
            let datagram = [&buffer[..transmit.len], &[0; ICRC_LEN]].concat();
            let packet = Packet::parse(&datagram).unwrap();
            packets.push((packet.headers(), packet.payload.to_vec()));
        }
        packets
    }

    /// Transmits responses.
    pub fn responses(&mut self) -> Vec<SentResponse> {
        let packets = self.packets().into_iter();
        packets
            .map(|(headers, _)| {
                let (_, operation, part) = headers.bth.opcode.parts().unwrap();
                let offset = headers.bth.psn.distance(psn(0));
                (operation, part, offset, headers.aeth.map(|aeth| aeth.kind))
            })
            .collect()
    }

    /// Transmits requests: returns each packet's number, and whether it requests an acknowledgment.
    pub fn sent_with_ack_req(&mut self) -> Vec<(u32, bool)> {
        let packets = self.packets().into_iter();
        packets
            .map(|(headers, _)| {
                let offset = headers.bth.psn.distance(psn(OUR_PSN));
                (offset as u32, headers.bth.ack_request)
            })
            .collect()
    }

    /// Transmits requests: returns each packet's number.
    pub fn sent(&mut self) -> Vec<u32> {
        self.sent_with_ack_req()
            .into_iter()
            .map(|(at, _)| at)
            .collect()
    }

    pub fn post_recv(&mut self, id: u64) {
        assert!(
            self.qp
                .post_recv(recv_wr(id, &[sge(0, 10_000)]), &mut self.hca)
        );
    }

    /// Posts a send WR; nothing is transmitted yet.
    pub fn post_wr(&mut self, wr: SendWr) {
        assert!(self.qp.post_send(wr, &mut self.hca));
    }

    pub fn post_send(&mut self, id: u64, len: u32) {
        self.post_wr(send_wr(id, SendOp::Send, &[sge(0, len)]));
    }

    pub fn post_read(&mut self, id: u64, len: u32) {
        let (va, rkey) = (BASE, KEY);
        self.post_wr(send_wr(id, SendOp::Read { va, rkey }, &[sge(0, len)]));
    }

    pub fn sleep(&mut self, time: Duration) {
        self.now = self.now.after(time);
    }

    /// Lets time pass until the next timer expires, and handles it. Returns how long that took.
    pub fn wait_for_timer(&mut self) -> Duration {
        let at = self.qp.next_timeout().expect("a timer runs");
        let waited = at.since(self.now);
        self.now = self.now.max(at);
        self.qp
            .handle_timeout(self.now, PeerActivity::Unknown, &mut self.hca);
        waited
    }

    /// The peer is known to drop what comes behind a missing packet.
    pub fn keeps_nothing(&mut self) {
        self.qp.sends_mut().requester_mut().assume_nothing_kept();
    }

    pub fn send_completions(&self) -> Vec<(u64, u32)> {
        self.hca.statuses(WorkQueue::Send)
    }
}

/// Operation, part, PSN relative to [`PEER_PSN`], AETH syndrome.
pub type SentResponse = (Operation, Part, i32, Option<AethKind>);

pub const OK: Option<AethKind> = Some(AethKind::Ack { credits: 31 });

pub fn ack(at: i32) -> SentResponse {
    (Operation::Ack, Part::Only, at, OK)
}

pub fn nak(at: i32, code: NakCode) -> SentResponse {
    (Operation::Ack, Part::Only, at, Some(AethKind::Nak(code)))
}

/// Attributes for [`Peer::in_rts`], which a test may change.
pub const ATTRIBUTES: QpChange = QpChange {
    state: None,
    sqd_async_notify: None,
    qkey: None,
    pkey_index: None,
    access: None,
    av: None,
    path_mtu: None,
    active_mtu: None,
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

/// The statuses of WRs that completed successfully.
pub fn success(ids: impl IntoIterator<Item = u64>) -> Vec<(u64, u32)> {
    ids.into_iter().map(|id| (id, IBV_WC_SUCCESS)).collect()
}
