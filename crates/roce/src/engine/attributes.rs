//! The attributes of a queue pair: those that it is created with, and those that `modify` sets.

use super::{Addresses, Gid};
use crate::wire::{PORT, Psn, Transport, gid_of, ip_of, port_of};

/// The transport service of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// The initiator of an XRC connection: a send queue only.
    XrcSend,
    /// The target of an XRC connection: requests name a shared receive queue.
    XrcRecv,
}

impl Service {
    /// The service as the opcodes of its packets name it.
    pub fn transport(self) -> Transport {
        match self {
            Service::Rc => Transport::Rc,
            Service::Uc => Transport::Uc,
            Service::Ud => Transport::Ud,
            Service::XrcSend | Service::XrcRecv => Transport::Xrc,
        }
    }

    /// Whether requests are acknowledged.
    pub fn is_reliable(self) -> bool {
        !matches!(self, Service::Uc | Service::Ud)
    }
}

/// `enum ibv_qp_state`, without IBV_QPS_UNKNOWN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QpState {
    /// Nothing is posted, sent or accepted.
    Reset,
    /// Receives may be posted; packets are dropped.
    Init,
    /// Ready to receive: requests are executed; nothing is sent but responses.
    Rtr,
    /// Ready to send.
    Rts,
    /// Send queue drain: WQEs that have begun are finished, no other begins.
    Sqd,
    /// Send queue error (UC and UD): sends are flushed, receives work.
    Sqe,
    /// All WRs are flushed.
    Err,
}

impl QpState {
    /// Whether the send queue makes progress.
    #[inline]
    pub(super) fn sends(self) -> bool {
        matches!(self, QpState::Rts | QpState::Sqd)
    }

    /// Whether received packets have an effect.
    #[inline]
    pub(super) fn receives(self) -> bool {
        !matches!(self, QpState::Reset | QpState::Init | QpState::Err)
    }
}

/// The attributes of a queue pair that never change.
#[derive(Clone, Copy, Debug)]
pub struct QpConfig {
    /// The transport service, from `qp_type`.
    pub service: Service,
    /// The queue pair number, 24 bits.
    pub qpn: u32,
    /// How many WRs can be outstanding.
    pub limits: Limits,
    /// Every send WR is signaled (`sq_sig_all`).
    pub sq_sig_all: bool,
    /// Receive WRs come from the shared receive queue, through [`super::Hca::take_srq_wr`].
    pub has_srq: bool,
}

/// The depth of the queue pair's own work queues, in WRs.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The send queue.
    pub max_send_wr: u32,
    /// The receive queue; 0 with a shared one.
    pub max_recv_wr: u32,
}

/// The route to a peer: what an address handle holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressVector {
    /// The destination's GID.
    pub dgid: Gid,
    /// The index of the source GID in the GID table.
    pub sgid_index: u8,
    /// Traffic class of IPv6, type of service of IPv4.
    pub traffic_class: u8,
    /// Hop limit of IPv6, time to live of IPv4.
    pub hop_limit: u8,
    /// Flow label of IPv6, 20 bits.
    pub flow_label: u32,
}

impl AddressVector {
    /// The route to a destination from the first source GID, with the hop limit 64 and no traffic class.
    pub fn new(dgid: Gid) -> AddressVector {
        AddressVector {
            dgid,
            hop_limit: 64,
            ..AddressVector::default()
        }
    }
}

/// The peer of a queue pair, as the target of its requests.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The number of its queue pair.
    pub qpn: u32,
    /// The first PSN that was sent to it.
    pub first_psn: Psn,
}

/// A change of attributes. The caller has validated it: each Some is allowed in the transition and
/// within the device's limits, and every required attribute is there. Encoded values (`timeout`,
/// `min_rnr_timer`, `rnr_retry` 7 for "no limit") are as in `ibv_qp_attr`.
#[derive(Clone, Copy, Debug, Default)]
pub struct QpChange {
    /// The state to move to.
    pub state: Option<QpState>,
    /// Whether to raise SQ_DRAINED when the send queue is drained in SQD. None means false in the move to
    /// SQD, and no change otherwise.
    pub sqd_async_notify: Option<bool>,
    /// The Q_Key of a UD queue pair.
    pub qkey: Option<u32>,
    /// The index of the P_Key in the P_Key table.
    pub pkey_index: Option<u16>,
    /// `IBV_ACCESS_REMOTE_*` that the queue pair grants its peer.
    pub access: Option<u32>,
    /// The route to the connected peer.
    pub av: Option<AddressVector>,
    /// In bytes.
    pub path_mtu: Option<u32>,
    /// The port's active MTU in bytes. No packet has a longer payload, even if the path MTU is larger.
    pub active_mtu: Option<u32>,
    /// The connected peer's queue pair number.
    pub dest_qpn: Option<u32>,
    /// The first PSN to expect.
    pub rq_psn: Option<Psn>,
    /// The first PSN to send.
    pub sq_psn: Option<Psn>,
    /// How many READ and atomic requests of ours may be outstanding.
    pub max_rd_atomic: Option<u8>,
    /// How many READ and atomic requests of the peer may be outstanding.
    pub max_dest_rd_atomic: Option<u8>,
    /// The delay that RNR NAKs ask for, encoded (table 45).
    pub min_rnr_timer: Option<u8>,
    /// The ack timeout: 4.096 µs times two to this power; 0 for none.
    pub timeout: Option<u8>,
    /// How many ack timeouts in a row are retried. Retransmissions after an RTO or a NAK are not counted.
    pub retry_cnt: Option<u8>,
    /// How many RNR NAKs in a row are retried; 7 for no limit.
    pub rnr_retry: Option<u8>,
}

/// The configuration of a queue pair and its current attributes, which requester, completer and
/// responder read. The current PSNs are not among them: requester and responder advance them.
#[derive(Clone, Debug)]
pub struct Attributes {
    /// The configuration, which never changes.
    pub config: QpConfig,
    /// See [`QpChange::qkey`].
    pub qkey: u32,
    /// See [`QpChange::pkey_index`].
    pub pkey_index: u16,
    /// `IBV_ACCESS_REMOTE_*`.
    pub access: u32,
    /// The route to the connected peer.
    pub av: AddressVector,
    /// The peer's address in the form in which [`super::Addresses`] has it.
    pub peer: Gid,
    /// The path MTU in bytes, as it was set.
    pub path_mtu: u32,
    /// See [`QpChange::active_mtu`].
    pub active_mtu: u32,
    /// The payload of all packets of a message but its last, in bytes: the smaller one of the two above.
    pub mtu: u32,
    /// See [`QpChange::dest_qpn`].
    pub dest_qpn: u32,
    /// See [`QpChange::rq_psn`].
    pub rq_psn: Psn,
    /// See [`QpChange::sq_psn`].
    pub sq_psn: Psn,
    /// See [`QpChange::max_rd_atomic`].
    pub max_rd_atomic: u8,
    /// See [`QpChange::max_dest_rd_atomic`].
    pub max_dest_rd_atomic: u8,
    /// See [`QpChange::min_rnr_timer`].
    pub min_rnr_timer: u8,
    /// See [`QpChange::timeout`].
    pub timeout: u8,
    /// See [`QpChange::retry_cnt`].
    pub retry_cnt: u8,
    /// See [`QpChange::rnr_retry`].
    pub rnr_retry: u8,
    /// See [`QpChange::sqd_async_notify`].
    pub sqd_async_notify: bool,
}

impl Attributes {
    /// The queue pair that executes the requests of a connected one.
    #[inline]
    pub fn target(&self) -> Target {
        Target {
            qpn: self.dest_qpn,
            first_psn: self.sq_psn,
        }
    }

    /// 9.6.1.5: a connected queue pair accepts packets of its peer only. The headers do not name the sending
    /// queue pair, but the source port of a uroce peer that does not have port 4791 follows from its number.
    #[inline]
    pub fn is_of_peer(&self, from: &Addresses) -> bool {
        let peer_port = port_of(self.dest_qpn);
        from.src == self.peer && (peer_port == PORT || from.src_port == peer_port)
    }

    /// The attributes of a new queue pair, all zero, with the largest path MTU.
    pub fn new(config: QpConfig) -> Attributes {
        Attributes {
            config,
            qkey: 0,
            pkey_index: 0,
            access: 0,
            av: AddressVector::default(),
            peer: [0; 16],
            path_mtu: 4096,
            active_mtu: 4096,
            mtu: 4096,
            dest_qpn: 0,
            rq_psn: Psn::new(0),
            sq_psn: Psn::new(0),
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            min_rnr_timer: 0,
            timeout: 0,
            retry_cnt: 0,
            rnr_retry: 0,
            sqd_async_notify: false,
        }
    }

    /// Takes over each attribute that the change contains.
    pub fn apply(&mut self, change: &QpChange) {
        fn set<T: Copy>(to: &mut T, from: Option<T>) {
            if let Some(value) = from {
                *to = value;
            }
        }
        set(&mut self.qkey, change.qkey);
        set(&mut self.pkey_index, change.pkey_index);
        set(&mut self.access, change.access);
        set(&mut self.av, change.av);
        set(&mut self.path_mtu, change.path_mtu);
        set(&mut self.active_mtu, change.active_mtu);
        self.mtu = self.path_mtu.min(self.active_mtu).clamp(256, 4096);
        set(&mut self.dest_qpn, change.dest_qpn);
        set(&mut self.rq_psn, change.rq_psn);
        set(&mut self.sq_psn, change.sq_psn);
        set(&mut self.max_rd_atomic, change.max_rd_atomic);
        set(&mut self.max_dest_rd_atomic, change.max_dest_rd_atomic);
        set(&mut self.min_rnr_timer, change.min_rnr_timer);
        set(&mut self.timeout, change.timeout);
        set(&mut self.retry_cnt, change.retry_cnt);
        set(&mut self.rnr_retry, change.rnr_retry);
        self.peer = gid_of(ip_of(&self.av.dgid));
        set(&mut self.sqd_async_notify, change.sqd_async_notify);
    }
}
