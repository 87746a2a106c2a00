//! The state machine of one connection, or of one service ID resolution (12.9): which message is sent
//! when, and what is reported to the program. Pure: messages and the time go in, messages and events come
//! out.
//!
//! It sends no MRA by itself, but answers a repeated REQ or REP with one while the program has not
//! answered yet, as current kernels do.

use std::time::Duration;

mod actions;
mod receive;
mod timeout;

use super::mad::{
    About, CmMad, CmMessage, ConnectionType, Ids, Mad, Rej, Rep, Req, SidrRep, SidrReq,
};
use crate::engine::Time;

/// The first retransmission happens after this time; each further one after twice the time, up to the
/// response timeout of the peer. The peer may have been scheduled out, or a datagram may be lost.
pub const FIRST_RETRY: Duration = Duration::from_millis(250);
/// The service timeout of MRAs, encoded: 69 s.
const MRA_TIMEOUT: u8 = 24;

/// The states of 12.9.5 and 12.11.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The connection has nothing outstanding, and can receive nothing.
    Idle,
    /// A REQ was sent.
    ReqSent,
    /// The peer needs more time for its REP.
    MraReqReceived,
    /// The peer has sent a REQ, which the program has not answered.
    ReqReceived,
    /// A REP was sent.
    RepSent,
    /// The peer needs more time for its RTU.
    MraRepReceived,
    /// The peer has sent a REP; an RTU has to be sent.
    RepReceived,
    /// The connection is established.
    Established,
    /// A DREQ was sent.
    DreqSent,
    /// The peer has sent a DREQ, which the program has not answered.
    DreqReceived,
    /// The connection is over; packets of it may still arrive.
    TimeWait,
    /// A SIDR_REQ was sent.
    SidrReqSent,
    /// The peer has sent a SIDR_REQ, which the program has not answered.
    SidrReqReceived,
}

/// An event of a connection, for the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer has not answered.
    Unreachable,
    /// The peer accepts; [`Connection::ready`] completes the connection.
    Reply {
        /// The REP.
        rep: Box<Rep>,
        /// The attribute modifier of its MAD ([`CmMad::modifier`]).
        modifier: u32,
    },
    /// The peer has sent an RTU, or a packet.
    Established,
    /// The peer rejects, or ends what it has accepted.
    Rejected(Box<Rej>),
    /// The peer disconnects, or has answered our DREQ.
    Disconnected,
    /// The peer has not answered our DREQ.
    DisconnectTimeout,
    /// The queue pair's number may be used again.
    TimewaitExit,
    /// The peer has answered a service ID resolution.
    SidrReply {
        /// The SIDR_REP.
        rep: Box<SidrRep>,
        /// The attribute modifier of its MAD ([`CmMad::modifier`]).
        modifier: u32,
    },
}

/// The effects of a step: what the caller has to send and to report.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// The message to send.
    pub send: Option<Mad>,
    /// The event to report.
    pub event: Option<Event>,
}

impl Effects {
    fn send(mad: Mad) -> Effects {
        Effects {
            send: Some(mad),
            event: None,
        }
    }

    fn event(event: Event) -> Effects {
        Effects {
            send: None,
            event: Some(event),
        }
    }
}

/// A message that is retransmitted until it is answered.
#[derive(Clone, Debug)]
struct Retransmission {
    mad: Mad,
    interval: Duration,
    /// The longest interval.
    interval_max: Duration,
    give_up_at: Time,
}

/// A connection, or a service ID resolution.
#[derive(Clone, Debug)]
pub struct Connection {
    state: State,
    ids: Ids,
    tid: u64,
    service_id: u64,
    own_guid: u64,
    kind: ConnectionType,
    local_qpn: u32,
    remote_qpn: u32,
    /// The communication ID of the peer that has asked for more time.
    mra_sender: u32,
    /// The encoded time that the connection stays in TimeWait.
    timewait: u8,
    /// How long the peer may take for an answer.
    response_timeout: Duration,
    retries: u8,
    retransmission: Option<Retransmission>,
    /// The SIDR_REP that was sent, for a request that the peer repeats.
    answer: Option<Mad>,
    /// When [`Connection::handle_timeout`] is due.
    deadline: Option<Time>,
}

/// A time of the specification's encoding: 4.096 µs · 2^n.
pub(crate) fn decode_time(n: u8) -> Duration {
    Duration::from_nanos(4096 << n.min(31))
}

impl Connection {
    /// Starts a connection: the caller sends the returned REQ, whose transaction ID is `tid`.
    pub fn connect(req: Req, modifier: u32, tid: u64, now: Time) -> (Connection, Mad) {
        let ids = Ids {
            local: req.local_id,
            remote: 0,
        };
        // Twice the packet lifetime, which is half the ACK timeout, and the peer's own time.
        let response_timeout =
            decode_time(req.ack_timeout) + decode_time(req.remote_response_timeout);
        let mut connection = Connection {
            local_qpn: req.qpn,
            own_guid: req.ca_guid,
            timewait: req.ack_timeout,
            response_timeout,
            retries: req.max_cm_retries,
            ..Connection::new(State::ReqSent, ids, tid, req.service_id, req.connection)
        };
        let message = CmMessage::Req(Box::new(req));
        let mad = CmMad {
            tid,
            modifier,
            message,
        }
        .bytes();
        connection.retransmit(mad, now);
        (connection, mad)
    }

    /// Starts a service ID resolution: the caller sends the returned SIDR_REQ.
    pub fn resolve(
        req: SidrReq,
        timeout: Duration,
        retries: u8,
        tid: u64,
        now: Time,
    ) -> (Connection, Mad) {
        let ids = Ids {
            local: req.request_id,
            remote: 0,
        };
        let mut connection = Connection {
            response_timeout: timeout,
            retries,
            ..Connection::new(
                State::SidrReqSent,
                ids,
                tid,
                req.service_id,
                ConnectionType::Rc,
            )
        };
        let mad = connection.message(CmMessage::SidrReq(Box::new(req)));
        connection.retransmit(mad, now);
        (connection, mad)
    }

    /// A connection that a peer has asked for.
    pub fn requested(req: &Req, tid: u64, local_id: u32, own_guid: u64) -> Connection {
        let ids = Ids {
            local: local_id,
            remote: req.local_id,
        };
        Connection {
            remote_qpn: req.qpn,
            own_guid,
            timewait: req.ack_timeout,
            response_timeout: decode_time(req.local_response_timeout),
            retries: req.max_cm_retries,
            ..Connection::new(State::ReqReceived, ids, tid, req.service_id, req.connection)
        }
    }

    /// A service ID resolution that a peer has asked for.
    pub(crate) fn resolution_requested(req: &SidrReq, tid: u64, local_id: u32) -> Connection {
        let ids = Ids {
            local: local_id,
            remote: req.request_id,
        };
        Connection::new(
            State::SidrReqReceived,
            ids,
            tid,
            req.service_id,
            ConnectionType::Rc,
        )
    }

    fn new(state: State, ids: Ids, tid: u64, service_id: u64, kind: ConnectionType) -> Connection {
        Connection {
            state,
            ids,
            tid,
            service_id,
            own_guid: 0,
            kind,
            local_qpn: 0,
            mra_sender: 0,
            remote_qpn: 0,
            timewait: 0,
            response_timeout: Duration::ZERO,
            retries: 0,
            retransmission: None,
            answer: None,
            deadline: None,
        }
    }

    /// The state of the connection.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether the peer has to confirm that the connection is over.
    pub(crate) fn awaits_confirmation(&self) -> bool {
        self.state == State::DreqSent
    }

    /// The communication IDs; the remote one is 0 until the peer's first message.
    pub fn ids(&self) -> Ids {
        self.ids
    }

    /// The numbers of this end's queue pair and of the peer's.
    pub fn qpns(&self) -> (u32, u32) {
        (self.local_qpn, self.remote_qpn)
    }

    /// The peer's queue pair number, as far as it is known.
    pub fn remote_qpn(&self) -> u32 {
        self.remote_qpn
    }

    /// When [`Connection::handle_timeout`] is due; None if nothing is outstanding.
    pub fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    fn message(&self, message: CmMessage) -> Mad {
        CmMad {
            tid: self.tid,
            modifier: 0,
            message,
        }
        .bytes()
    }

    fn mra(&self, about: About) -> Mad {
        self.message(CmMessage::Mra {
            ids: self.ids,
            about,
            timeout: MRA_TIMEOUT,
        })
    }

    /// Retransmits the message until it is answered.
    fn retransmit(&mut self, mad: Mad, now: Time) {
        let interval_max = self.response_timeout.max(Duration::from_millis(1));
        let interval = FIRST_RETRY.min(interval_max);
        let whole = interval_max * (u32::from(self.retries) + 1);
        self.retransmission = Some(Retransmission {
            mad,
            interval,
            interval_max,
            give_up_at: now.after(whole),
        });
        self.deadline = Some(now.after(interval));
    }

    fn cancel(&mut self) {
        self.retransmission = None;
        self.deadline = None;
    }

    pub(in crate::cm) fn enter_timewait(&mut self, now: Time) {
        self.retransmission = None;
        self.state = State::TimeWait;
        self.deadline = Some(now.after(decode_time(self.timewait)));
    }
}
