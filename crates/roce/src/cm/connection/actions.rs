//! The program's actions on a connection: connecting, accepting, rejecting, disconnecting.

use std::time::Duration;

use super::super::mad::{
    About, CmMad, CmMessage, ConnectionType, Mad, REJ_PRIVATE, Rej, Rep, SIDR_REP_PRIVATE, SidrRep,
    reason, sidr_status,
};
use super::{Connection, Event, State};
use crate::cm::Error;
use crate::engine::Time;

/// How long a DREQ is retransmitted for a connection that the program has destroyed.
const LINGER: Duration = Duration::from_secs(4);

impl Connection {
    /// Accepts a request of a peer. Returns the REP to send. Fails in another state.
    pub fn reply(&mut self, mut rep: Rep, modifier: u32, now: Time) -> Result<Mad, Error> {
        if self.state != State::ReqReceived {
            return Err(Error::WrongState);
        }
        rep.ids = self.ids;
        self.local_qpn = if self.kind == ConnectionType::Xrc {
            rep.xrc_qpn
        } else {
            rep.qpn
        };
        let mad = CmMad {
            tid: self.tid,
            modifier,
            message: CmMessage::Rep(Box::new(rep)),
        }
        .bytes();
        self.state = State::RepSent;
        self.retransmit(mad, now);
        Ok(mad)
    }

    /// Confirms a reply of the peer. Returns the RTU to send. Fails in another state.
    pub fn ready(&mut self) -> Result<Mad, Error> {
        if self.state != State::RepReceived {
            return Err(Error::WrongState);
        }
        self.state = State::Established;
        Ok(self.message(CmMessage::Rtu(self.ids)))
    }

    /// The first packet of the peer has arrived before its RTU. Returns the event to report. Fails in
    /// other states, with [`Error::Established`] if the connection is established already.
    pub fn communication_established(&mut self) -> Result<Event, Error> {
        match self.state {
            State::RepSent | State::MraRepReceived => {
                self.state = State::Established;
                self.cancel();
                Ok(Event::Established)
            }
            State::Established => Err(Error::Established),
            _ => Err(Error::WrongState),
        }
    }

    /// Rejects a request or a reply of the peer. Returns the REJ to send. Fails in another state.
    pub fn reject(
        &mut self,
        reason: u16,
        private: [u8; REJ_PRIVATE],
        now: Time,
    ) -> Result<Mad, Error> {
        let about = match self.state {
            State::ReqReceived => About::Req,
            State::RepReceived => About::Rep,
            State::ReqSent | State::MraReqReceived | State::RepSent | State::MraRepReceived => {
                About::Other
            }
            _ => return Err(Error::WrongState),
        };
        let replied = matches!(self.state, State::RepSent | State::MraRepReceived);
        let info = (reason == reason::TIMEOUT).then_some(self.own_guid);
        let mad = self.message(CmMessage::Rej(Box::new(Rej {
            ids: self.ids,
            about,
            reason,
            info,
            private,
        })));
        self.cancel();
        if replied {
            self.enter_timewait(now);
        } else {
            self.state = State::Idle;
        }
        Ok(mad)
    }

    /// Answers a service ID resolution. Returns the SIDR_REP to send. Fails in another state.
    pub fn answer(&mut self, mut rep: SidrRep, modifier: u32) -> Result<Mad, Error> {
        if self.state != State::SidrReqReceived {
            return Err(Error::WrongState);
        }
        rep.request_id = self.ids.remote;
        rep.service_id = self.service_id;
        self.state = State::Idle;
        let mad = CmMad {
            tid: self.tid,
            modifier,
            message: CmMessage::SidrRep(Box::new(rep)),
        }
        .bytes();
        self.answer = Some(mad);
        Ok(mad)
    }

    /// Disconnects, or confirms that the peer has. Returns the DREQ or DREP to send. Fails if there is no
    /// connection.
    pub fn disconnect(&mut self, now: Time) -> Result<Mad, Error> {
        match self.state {
            State::Established => {
                // A transaction of its own: the request's may be the peer's.
                self.tid = self.tid.wrapping_add(1 << 32);
                let mad = self.message(CmMessage::Dreq {
                    ids: self.ids,
                    remote_qpn: self.remote_qpn,
                });
                self.state = State::DreqSent;
                self.retransmit(mad, now);
                Ok(mad)
            }
            State::DreqReceived => {
                self.enter_timewait(now);
                Ok(self.message(CmMessage::Drep(self.ids)))
            }
            _ => Err(Error::WrongState),
        }
    }

    /// Ends the connection for the program: no event is reported from now on. Returns the message to send, if
    /// the peer has to be notified. The caller keeps the connection as long as [`Connection::deadline`] is
    /// not None.
    pub fn destroy(&mut self, now: Time) -> Option<Mad> {
        let private = [0; REJ_PRIVATE];
        match self.state {
            State::ReqSent | State::MraReqReceived => {
                self.reject(reason::TIMEOUT, private, now).ok()
            }
            State::ReqReceived | State::RepReceived | State::RepSent | State::MraRepReceived => {
                self.reject(reason::CONSUMER, private, now).ok()
            }
            State::Established => {
                let mad = self.disconnect(now).ok();
                self.limit_linger(now);
                mad
            }
            State::DreqReceived => self.disconnect(now).ok(),
            State::DreqSent => {
                self.limit_linger(now);
                None
            }
            State::SidrReqSent => {
                self.cancel();
                self.state = State::Idle;
                None
            }
            State::SidrReqReceived => {
                let rep = SidrRep {
                    request_id: 0,
                    status: sidr_status::REJECT,
                    qpn: 0,
                    service_id: 0,
                    qkey: 0,
                    private: [0; SIDR_REP_PRIVATE],
                };
                self.answer(rep, 0).ok()
            }
            State::TimeWait | State::Idle => None,
        }
    }

    fn limit_linger(&mut self, now: Time) {
        if let Some(retransmission) = &mut self.retransmission {
            retransmission.give_up_at = retransmission.give_up_at.min(now.after(LINGER));
        }
    }
}
