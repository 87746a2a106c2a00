//! Messages of the peer: how they change a connection.

use super::super::mad::{
    About, CmMad, CmMessage, ConnectionType, Ids, Mad, REJ_PRIVATE, Rej, Rep, reason,
};
use super::{Connection, Effects, Event, State, decode_time};
use crate::engine::Time;

impl Connection {
    /// Handles a message for this connection.
    pub fn receive(&mut self, mad: CmMad, now: Time) -> Effects {
        match mad.message {
            CmMessage::Rep(rep) => self.on_rep(rep, mad.modifier),
            CmMessage::Rtu(_) => match self.communication_established() {
                Ok(event) => Effects::event(event),
                Err(_) => Effects::default(),
            },
            CmMessage::Mra {
                ids,
                about,
                timeout,
            } => {
                self.on_mra(ids.local, about, timeout, now);
                Effects::default()
            }
            CmMessage::Rej(rej) => self.on_rej(rej, now),
            CmMessage::Dreq { remote_qpn, .. } => self.on_dreq(remote_qpn, mad.tid, now),
            CmMessage::Drep(_) => match self.state {
                State::DreqSent | State::DreqReceived => {
                    self.enter_timewait(now);
                    Effects::event(Event::Disconnected)
                }
                _ => Effects::default(),
            },
            CmMessage::Lap(ids) if self.state == State::Established => {
                let ids = Ids {
                    local: self.ids.local,
                    remote: ids.local,
                };
                let answer = CmMad {
                    tid: mad.tid,
                    modifier: 0,
                    message: CmMessage::Apr(ids),
                };
                Effects::send(answer.bytes())
            }
            CmMessage::SidrRep(rep) if self.state == State::SidrReqSent => {
                self.cancel();
                self.state = State::Idle;
                Effects::event(Event::SidrReply {
                    rep,
                    modifier: mad.modifier,
                })
            }
            CmMessage::Req(_)
            | CmMessage::SidrReq(_)
            | CmMessage::SidrRep(_)
            | CmMessage::Lap(_)
            | CmMessage::Apr(_) => Effects::default(),
        }
    }

    /// The peer has sent the same REQ again. Returns the answer.
    pub(crate) fn on_repeated_req(&self) -> Option<Mad> {
        match self.state {
            State::ReqReceived => Some(self.mra(About::Req)),
            State::RepSent | State::MraRepReceived => {
                self.retransmission.as_ref().map(|sent| sent.mad)
            }
            State::TimeWait => Some(self.message(CmMessage::Rej(Box::new(Rej {
                ids: self.ids,
                about: About::Req,
                reason: reason::STALE_CONNECTION,
                info: None,
                private: [0; REJ_PRIVATE],
            })))),
            _ => None,
        }
    }

    /// The peer has sent the same SIDR_REQ again. Returns the answer, if the program has given it.
    pub(crate) fn on_repeated_sidr_req(&self) -> Option<Mad> {
        self.answer
    }

    fn on_rep(&mut self, rep: Box<Rep>, modifier: u32) -> Effects {
        match self.state {
            State::ReqSent | State::MraReqReceived => {
                self.cancel();
                self.ids.remote = rep.ids.local;
                self.remote_qpn = if self.kind == ConnectionType::Xrc {
                    rep.xrc_qpn
                } else {
                    rep.qpn
                };
                self.state = State::RepReceived;
                Effects::event(Event::Reply { rep, modifier })
            }
            State::RepReceived => Effects::send(self.mra(About::Rep)),
            State::Established => Effects::send(self.message(CmMessage::Rtu(self.ids))),
            _ => Effects::default(),
        }
    }

    fn on_mra(&mut self, peer_id: u32, about: About, timeout: u8, now: Time) {
        self.state = match (self.state, about) {
            (State::ReqSent, About::Req) => State::MraReqReceived,
            (State::RepSent, About::Rep) => State::MraRepReceived,
            (State::MraReqReceived, About::Req) | (State::MraRepReceived, About::Rep) => self.state,
            _ => return,
        };
        self.mra_sender = peer_id;
        let wait = decode_time(timeout) + decode_time(self.timewait);
        let until = now.after(wait);
        self.deadline = Some(until);
        if let Some(retransmission) = &mut self.retransmission {
            retransmission.interval = retransmission.interval_max;
            let response = until.after(retransmission.interval_max);
            retransmission.give_up_at = retransmission.give_up_at.max(response);
        }
    }

    fn on_rej(&mut self, rej: Box<Rej>, now: Time) -> Effects {
        match self.state {
            State::ReqSent
            | State::MraReqReceived
            | State::RepSent
            | State::MraRepReceived
            | State::ReqReceived => {
                if rej.reason == reason::STALE_CONNECTION {
                    self.enter_timewait(now);
                } else {
                    self.cancel();
                    self.state = State::Idle;
                }
            }
            State::DreqSent | State::RepReceived | State::Established => self.enter_timewait(now),
            _ => return Effects::default(),
        }
        Effects::event(Event::Rejected(rej))
    }

    /// The communication ID of the peer whose answer is awaited, if that is known.
    pub fn awaited_peer(&self) -> Option<u32> {
        match self.state {
            State::MraReqReceived => Some(self.mra_sender),
            State::RepSent | State::MraRepReceived => Some(self.ids.remote),
            _ => None,
        }
    }

    /// The process of the awaited peer has ended and sends no REJ: as if it had, as a kernel does for it.
    pub fn process_ended(&mut self) -> Effects {
        let Some(peer) = self.awaited_peer() else {
            return Effects::default();
        };
        let about = match self.state {
            State::MraReqReceived => About::Req,
            _ => About::Rep,
        };
        self.cancel();
        self.state = State::Idle;
        Effects::event(Event::Rejected(Box::new(Rej {
            ids: Ids {
                local: peer,
                remote: self.ids.local,
            },
            about,
            reason: reason::CONSUMER,
            info: None,
            private: [0; REJ_PRIVATE],
        })))
    }

    /// The peer has ended and sends no DREQ: as if it had disconnected. Its RTU may still be on its way.
    pub fn peer_lost(&mut self) -> Effects {
        let is_connected = matches!(
            self.state,
            State::RepSent | State::MraRepReceived | State::Established
        );
        if !is_connected {
            return Effects::default();
        }
        self.cancel();
        self.state = State::DreqReceived;
        Effects::event(Event::Disconnected)
    }

    /// Confirms a DREQ at once. The kernel waits until the program disconnects or destroys its id, and
    /// destroys the id itself if the program crashes (qperf's server does, after each test). This library
    /// cannot do that.
    fn on_dreq(&mut self, remote_qpn: u32, tid: u64, now: Time) -> Effects {
        if remote_qpn != self.local_qpn {
            return Effects::default();
        }
        match self.state {
            State::RepSent | State::MraRepReceived | State::Established => {}
            State::DreqSent => {
                // Both ends disconnect at the same time: each confirms the other's DREQ.
                self.tid = tid;
                self.enter_timewait(now);
                return Effects {
                    send: Some(self.message(CmMessage::Drep(self.ids))),
                    event: Some(Event::Disconnected),
                };
            }
            State::DreqReceived | State::TimeWait => {
                self.tid = tid;
                return Effects::send(self.message(CmMessage::Drep(self.ids)));
            }
            _ => return Effects::default(),
        }
        self.cancel();
        self.tid = tid;
        self.state = State::DreqReceived;
        Effects {
            send: Some(self.message(CmMessage::Drep(self.ids))),
            event: Some(Event::Disconnected),
        }
    }
}
