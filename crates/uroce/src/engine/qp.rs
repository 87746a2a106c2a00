//! A queue pair: its configuration, states, and the calls that drive it.

use std::collections::VecDeque;

use ibverbs_abi::IBV_WC_WR_FLUSH_ERR;

use super::attributes::Attributes;
use super::complete;
use super::requester::Requester;
use super::responder::Responder;
use super::response_queue::Replies;
use super::send_queue::{self, SendQueue};
use super::window::{Pace, Window};
use super::{Gid, Host, RecvWr, SendWr, Time, WorkQueue};
use crate::wire::{Operation, Packet, Psn, Transport};

/// From so many requests in the send queue on, a program posts a stream of them.
const STREAM: usize = 8;
/// So many packets are not kept waiting for more.
const GATHERED: u64 = 32;

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
    pub sq_sig_all: bool,
    /// Receives come from [`Host::take_srq_wr`].
    pub has_srq: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
}

/// A way to a peer: what stands in an address handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressVector {
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
    pub sqd_async_notify: bool,
    pub qkey: Option<u32>,
    pub pkey_index: Option<u16>,
    /// `IBV_ACCESS_REMOTE_*` that the queue pair allows its peer.
    pub access: Option<u32>,
    pub av: Option<AddressVector>,
    /// In bytes.
    pub path_mtu: Option<u32>,
    pub dest_qpn: Option<u32>,
    pub rq_psn: Option<Psn>,
    pub sq_psn: Option<Psn>,
    pub max_rd_atomic: Option<u8>,
    pub max_dest_rd_atomic: Option<u8>,
    pub min_rnr_timer: Option<u8>,
    pub timeout: Option<u8>,
    pub retry_cnt: Option<u8>,
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
    pub av: AddressVector,
    /// For the destination's UDP port.
    pub dest_qpn: u32,
    /// Bytes in the buffer: headers, payload, padding.
    pub len: usize,
}

/// A queue pair.
pub struct Qp {
    pub(super) config: QpConfig,
    pub(super) state: QpState,
    /// In SQD, and requests that were begun before are still under way.
    pub(super) draining: bool,
    pub(super) attributes: Attributes,
    pub(super) send_queue: SendQueue,
    pub(super) requester: Requester,
    pub(super) receives: VecDeque<RecvWr>,
    pub(super) responder: Responder,
    pub(super) replies: Replies,
    pub(super) pace: Pace,
}

impl Qp {
    /// In state RESET.
    pub fn new(config: QpConfig) -> Qp {
        Qp {
            config,
            state: QpState::Reset,
            draining: false,
            attributes: Attributes::new(),
            send_queue: SendQueue::default(),
            requester: Requester::new(),
            receives: VecDeque::new(),
            responder: Responder::new(),
            replies: Replies::default(),
            pace: Pace::new(matches!(config.service, Service::Uc | Service::Ud)),
        }
    }

    /// What never changes in the queue pair.
    #[cfg(feature = "internals")]
    pub fn config(&self) -> &QpConfig {
        &self.config
    }

    pub fn state(&self) -> QpState {
        self.state
    }

    /// What `ibv_query_qp` tells of the attributes, all Some, with `state` the present state.
    pub fn attributes(&self) -> QpChange {
        let attributes = &self.attributes;
        QpChange {
            state: Some(self.state),
            sqd_async_notify: attributes.sqd_async_notify,
            qkey: Some(attributes.qkey),
            pkey_index: Some(attributes.pkey_index),
            access: Some(attributes.access),
            av: Some(attributes.av),
            path_mtu: Some(attributes.mtu),
            dest_qpn: Some(attributes.dest_qpn),
            rq_psn: Some(self.responder.expected),
            sq_psn: Some(send_queue::psn_of(self.requester.next)),
            max_rd_atomic: Some(attributes.max_rd_atomic),
            max_dest_rd_atomic: Some(attributes.max_dest_rd_atomic),
            min_rnr_timer: Some(attributes.min_rnr_timer),
            timeout: Some(attributes.timeout),
            retry_cnt: Some(attributes.retry_cnt),
            rnr_retry: Some(attributes.rnr_retry),
        }
    }

    /// Whether the send queue is draining (`sq_draining`).
    pub fn sq_draining(&self) -> bool {
        self.draining
    }

    /// Requests in the send queue that have not completed.
    pub fn send_depth(&self) -> u32 {
        self.send_queue.wqes.len() as u32
    }

    /// Requests in the queue pair's own receive queue.
    pub fn recv_depth(&self) -> u32 {
        self.receives.len() as u32
    }

    /// To ERR: all requests are flushed with completions, the send queue's in order, then the receive
    /// queue's; to RESET: all are forgotten without.
    pub fn modify(&mut self, change: &QpChange, now: Time, host: &mut impl Host) {
        let target = change.state.unwrap_or(self.state);
        if target == QpState::Reset {
            *self = Qp::new(self.config);
            return;
        }
        self.attributes.apply(change);
        if let Some(psn) = change.rq_psn {
            self.responder.start(psn);
        }
        if let Some(psn) = change.sq_psn {
            self.start_requester(psn);
        }
        if target == self.state {
            return;
        }
        match target {
            QpState::Err => {
                // Its memory is not to be read any more.
                self.replies.withhold_reads();
                self.enter_error(host);
            }
            QpState::Sqd => self.drain(now, host),
            QpState::Rts => {
                self.requester.drain_end = None;
                self.draining = false;
                self.state = QpState::Rts;
            }
            state => self.state = state,
        }
    }

    fn start_requester(&mut self, psn: Psn) {
        let number = send_queue::first_number(psn);
        let attributes = &self.attributes;
        self.requester = Requester::new();
        self.requester.oldest = number;
        self.requester.next = number;
        self.requester.sent = number;
        self.requester.window = Window::new(attributes.mtu);
        self.requester.retries_left = attributes.retry_cnt;
        self.requester.rnr_left = attributes.rnr_retry;
        self.send_queue.clear();
        self.send_queue.start(number);
    }

    /// No request is begun any more; those that have been go on (10.3.1.5).
    fn drain(&mut self, now: Time, host: &mut impl Host) {
        self.state = QpState::Sqd;
        self.draining = true;
        let requester = &mut self.requester;
        let begun = |wqe: &&send_queue::Wqe| wqe.first < requester.sent;
        let last = self.send_queue.wqes.iter().rev().find(begun);
        let end = last.map_or(requester.sent, |wqe| wqe.end);
        requester.drain_end = Some(end);
        // The last packet may not have asked for an acknowledgment.
        let acknowledged = !matches!(self.config.service, Service::Uc | Service::Ud);
        if acknowledged && requester.oldest < requester.sent && requester.not_before.is_none() {
            requester.probe = Some(now);
        }
        self.check_drained(host);
    }

    /// Takes a request into the send queue. The caller has checked state and form (opcode allowed for
    /// the service, number of pieces, inline size); false if the queue is full. In ERR and SQE the
    /// request is flushed.
    pub fn post_send(&mut self, wr: SendWr, host: &mut impl Host) -> bool {
        if self.send_depth() >= self.config.limits.max_send_wr {
            return false;
        }
        self.send_queue.push(wr, self.attributes.mtu);
        if matches!(self.state, QpState::Err | QpState::Sqe) {
            self.flush_sends(host);
        }
        true
    }

    /// Takes a request into the receive queue; false if it is full. In ERR it is flushed.
    pub fn post_recv(&mut self, receive: RecvWr, host: &mut impl Host) -> bool {
        if self.state == QpState::Err {
            let completion = complete::failed(&receive, IBV_WC_WR_FLUSH_ERR);
            let _ = host.complete(WorkQueue::Recv, completion);
            return true;
        }
        if self.recv_depth() >= self.config.limits.max_recv_wr {
            return false;
        }
        self.receives.push_back(receive);
        true
    }

    pub(super) fn transport(&self) -> Transport {
        match self.config.service {
            Service::Rc => Transport::Rc,
            Service::Uc => Transport::Uc,
            Service::Ud => Transport::Ud,
            Service::XrcSend | Service::XrcRecv => Transport::Xrc,
        }
    }

    /// A packet with this queue pair's number in it (or of a multicast group that it is in).
    pub fn receive(&mut self, packet: &Packet, from: &Addresses, now: Time, host: &mut impl Host) {
        if matches!(self.state, QpState::Reset | QpState::Init | QpState::Err) {
            return;
        }
        let Some((transport, operation, part)) = packet.headers.bth.opcode.parts() else {
            return;
        };
        if transport != self.transport() {
            return;
        }
        if self.config.service == Service::Ud {
            self.receive_datagram(operation, packet, from, host);
            return;
        }
        // 9.6.1.5: a connected queue pair listens to its peer only.
        if from.src != self.attributes.peer {
            return;
        }
        let answer = matches!(
            operation,
            Operation::Ack | Operation::AtomicAck | Operation::ReadResponse
        );
        match self.config.service {
            Service::Rc | Service::XrcSend if answer => {
                self.receive_answer(operation, packet, now, host);
            }
            Service::Rc | Service::XrcRecv if !answer => {
                self.receive_request(operation, part, packet, host);
            }
            Service::Uc => self.receive_unreliable(operation, part, packet, host),
            _ => {}
        }
    }

    /// The next packet to send, if there is one that may be sent now. `buffer` has room for
    /// [`crate::wire::MAX_HEADERS`], the path MTU, 3 bytes of padding, and the ICRC.
    pub fn transmit(
        &mut self,
        now: Time,
        host: &mut impl Host,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        match self.config.service {
            Service::Ud => return self.next_datagram(now, host, buffer),
            Service::Uc => self.next_unreliable(now, host, buffer),
            _ => self.next_reliable(now, host, buffer),
        }
        .map(|len| Transmit {
            av: self.attributes.av,
            dest_qpn: self.attributes.dest_qpn,
            len,
        })
    }

    /// Answers go before requests. But one request goes before a mere acknowledgment: the kernel cuts packets
    /// out of one buffer if only the last is shorter, and so takes an answer of the program's and the
    /// acknowledgment of what it answers in one.
    fn next_reliable(
        &mut self,
        now: Time,
        host: &mut impl Host,
        buffer: &mut [u8],
    ) -> Option<usize> {
        if self.replies.gives_way() {
            let request = self.next_request(now, host, buffer);
            if request.is_some() {
                return request;
            }
        }
        match self.next_reply(now, host, buffer) {
            None => self.next_request(now, host, buffer),
            reply => reply,
        }
    }

    /// Whether what waits in the send queue may wait for more of its kind: there are requests enough under
    /// way that their acknowledgments soon make the queue pair be run again, and only few packets wait.
    pub fn may_defer_transmit(&self) -> bool {
        let requester = &self.requester;
        self.state == QpState::Rts
            && self.send_queue.wqes.len() > STREAM
            && requester.not_before.is_none()
            && requester.oldest < requester.next
            && requester.next == requester.sent
            && self.send_queue.next() - requester.next < GATHERED
    }

    /// When [`Qp::handle_timeout`] is to be called, at the latest, if nothing happens before.
    pub fn next_timeout(&self) -> Option<Time> {
        let requester = &self.requester;
        // (Plainer than an iterator over the four, which compares before it looks whether a time is
        // there: valgrind takes that for a use of what is not initialised.)
        let mut first = u64::MAX;
        let mut at = |time: Option<Time>| first = time.map_or(first, |time| first.min(time.0));
        if matches!(self.state, QpState::Rts | QpState::Sqd) {
            at(requester.deadline);
            at(requester.probe);
            at(requester.not_before);
        }
        at(self.is_paused().then(|| self.pace.resumes()));
        (first != u64::MAX).then_some(Time(first))
    }

    /// There is something to send as soon as [`Pace`] allows it.
    fn is_paused(&self) -> bool {
        match self.config.service {
            Service::Uc | Service::Ud => {
                let sends = self.state == QpState::Rts || self.draining;
                sends && !self.send_queue.wqes.is_empty()
            }
            _ => self.replies.reads_next(),
        }
    }

    pub fn handle_timeout(&mut self, now: Time, host: &mut impl Host) {
        if matches!(self.state, QpState::Rts | QpState::Sqd) {
            self.requester_timeout(now, host);
        }
    }
}
