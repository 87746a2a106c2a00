//! A queue pair: its configuration, states, and the calls that drive it.

use super::{Gid, Host, Receive, Request, Time};
use crate::wire::{Packet, Psn};

/// The transport service of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    Rc,
    Uc,
    Ud,
    XrcSend,
    XrcRecv,
}

/// `enum ibv_qp_state`, without the unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QpState {
    Reset,
    Init,
    Rtr,
    Rts,
    Sqd,
    Sqe,
    Err,
}

/// What never changes in a queue pair.
#[derive(Clone, Copy, Debug)]
pub struct QpConfig {
    pub service: Service,
    pub qpn: u32,
    pub limits: Limits,
    /// All requests are signaled (`sq_sig_all`).
    pub signal_all: bool,
    /// Receives come from [`Host::take_shared`].
    pub has_srq: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
}

/// A way to a peer: what stands in an address handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    pub dgid: Gid,
    pub sgid_index: u8,
    pub traffic_class: u8,
    pub hop_limit: u8,
    pub flow_label: u32,
}

/// A change of attributes. The caller has checked it against the table of transitions: what is Some
/// is allowed here and within the device's limits, what is required is there. Encoded values
/// (timers, `rnr_retry` 7 for "forever", `path_mtu` in bytes) are as `ibv_qp_attr` says.
#[derive(Clone, Copy, Debug, Default)]
pub struct QpChange {
    pub state: Option<QpState>,
    /// Raise SQ_DRAINED when the send queue has come to rest after the move to SQD.
    pub notify_drained: bool,
    pub qkey: Option<u32>,
    pub pkey_index: Option<u16>,
    /// `IBV_ACCESS_REMOTE_*` that the queue pair allows its peer.
    pub access: Option<u32>,
    pub path: Option<Path>,
    /// In bytes.
    pub path_mtu: Option<u32>,
    pub dest_qpn: Option<u32>,
    pub rq_psn: Option<Psn>,
    pub sq_psn: Option<Psn>,
    pub max_rd_atomic: Option<u8>,
    pub max_dest_rd_atomic: Option<u8>,
    pub min_rnr_timer: Option<u8>,
    pub timeout: Option<u8>,
    pub retry_count: Option<u8>,
    pub rnr_retry: Option<u8>,
}

/// An asynchronous event of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpEvent {
    Fatal,
    RequestError,
    AccessError,
    CommunicationEstablished,
    SendQueueDrained,
    LastWqeReached,
}

/// Who sent a packet, and where to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    pub src: Gid,
    pub dst: Gid,
    /// What a datagram's receive buffer begins with.
    pub grh: [u8; 40],
    /// The P_Key table's index of the packet's P_Key; the host drops packets with an unknown one.
    pub pkey_index: u16,
}

/// A packet to be sent: it stands, without ICRC, in the buffer that [`Qp::transmit`] was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    pub path: Path,
    /// For the destination's UDP port.
    pub dest_qpn: u32,
    /// Bytes in the buffer: headers, payload, padding.
    pub len: usize,
}

/// A queue pair.
pub struct Qp {
    config: QpConfig,
}

/// The contract of the calls; bodies by the engine's implementer.
impl Qp {
    /// In state RESET.
    pub fn new(config: QpConfig) -> Qp {
        Qp { config }
    }

    pub fn state(&self) -> QpState {
        todo!()
    }

    /// What `ibv_query_qp` tells of the attributes, all Some, with `state` the present state.
    pub fn attributes(&self) -> QpChange {
        todo!()
    }

    /// Whether the send queue is draining (`sq_draining`).
    pub fn draining(&self) -> bool {
        todo!()
    }

    /// To ERR: all requests are flushed with completions, the send queue's in order, then the receive
    /// queue's; to RESET: all are forgotten without.
    pub fn modify(&mut self, change: &QpChange, now: Time, host: &mut impl Host) {
        let _ = (change, now, host);
        todo!()
    }

    /// Takes a request into the send queue. The caller has checked state and form (opcode allowed for
    /// the service, number of pieces, inline size); false if the queue is full. In ERR and SQE the
    /// request is flushed.
    pub fn post_send(&mut self, request: Request, now: Time, host: &mut impl Host) -> bool {
        let _ = (request, now, host);
        todo!()
    }

    /// Takes a request into the receive queue; false if it is full. In ERR it is flushed.
    pub fn post_recv(&mut self, receive: Receive, host: &mut impl Host) -> bool {
        let _ = (receive, host);
        todo!()
    }

    /// Requests in the send queue that have not completed.
    pub fn send_depth(&self) -> u32 {
        todo!()
    }

    /// A packet with this queue pair's number in it (or of a multicast group that it is in).
    pub fn receive(&mut self, packet: &Packet, from: &Addresses, now: Time, host: &mut impl Host) {
        let _ = (packet, from, now, host, &self.config);
        todo!()
    }

    /// The next packet to send, if there is one that may be sent now. `buffer` has room for
    /// [`crate::wire::MAX_HEADERS`], the path MTU, 3 bytes of padding, and the ICRC.
    pub fn transmit(
        &mut self,
        now: Time,
        host: &mut impl Host,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        let _ = (now, host, buffer);
        todo!()
    }

    /// When [`Qp::handle_timeout`] is to be called, at the latest, if nothing happens before.
    pub fn timeout(&self) -> Option<Time> {
        todo!()
    }

    pub fn handle_timeout(&mut self, now: Time, host: &mut impl Host) {
        let _ = (now, host);
        todo!()
    }
}
