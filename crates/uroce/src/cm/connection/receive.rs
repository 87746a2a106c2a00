//! What messages of the peer do to a connection.

use super::super::mad::{
    About, CmMad, ConnectionType, Ids, Mad, Message, REJ_PRIVATE, Rej, Rep, reason,
};
use super::{Connection, Event, Output, State, after, decode_time};
use crate::engine::Time;

impl Connection {
    /// Handles a message for this connection.
    pub fn receive(&mut self, mad: CmMad, now: Time) -> Output {
        match mad.message {
            Message::Rep(rep) => self.on_rep(rep, mad.modifier),
            Message::Rtu(_) => match self.communication_established() {
                Ok(event) => Output::event(event),
                Err(_) => Output::default(),
            },
            Message::Mra { about, timeout, .. } => {
                self.on_mra(about, timeout, now);
                Output::default()
            }
            Message::Rej(rej) => self.on_rej(rej, now),
            Message::Dreq { remote_qpn, .. } => self.on_dreq(remote_qpn, mad.tid, now),
            Message::Drep(_) => match self.state {
                State::DreqSent | State::DreqReceived => {
                    self.enter_timewait(now);
                    Output::event(Event::Disconnected)
                }
                _ => Output::default(),
            },
            Message::Lap(ids) if self.state == State::Established => {
                let ids = Ids {
                    local: self.ids.local,
                    remote: ids.local,
                };
                let answer = CmMad {
                    tid: mad.tid,
                    modifier: 0,
                    message: Message::Apr(ids),
                };
                Output::send(answer.bytes())
            }
            Message::SidrRep(rep) if self.state == State::SidrReqSent => {
                self.cancel();
                self.state = State::Idle;
                Output::event(Event::SidrReply {
                    rep,
                    modifier: mad.modifier,
                })
            }
            Message::Req(_)
            | Message::SidrReq(_)
            | Message::SidrRep(_)
            | Message::Lap(_)
            | Message::Apr(_) => Output::default(),
        }
    }

    /// The peer has sent the same REQ again. Returns the answer.
    pub fn on_repeated_req(&self) -> Option<Mad> {
        match self.state {
            State::ReqReceived => Some(self.mra(About::Req)),
            State::RepSent | State::MraRepReceived => {
                self.retransmission.as_ref().map(|sent| sent.mad)
            }
            State::TimeWait => Some(self.message(Message::Rej(Box::new(Rej {
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
    pub fn on_repeated_sidr_req(&self) -> Option<Mad> {
        self.answer
    }

    fn on_rep(&mut self, rep: Box<Rep>, modifier: u32) -> Output {
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
                Output::event(Event::Reply { rep, modifier })
            }
            State::RepReceived => Output::send(self.mra(About::Rep)),
            State::Established => Output::send(self.message(Message::Rtu(self.ids))),
            _ => Output::default(),
        }
    }

    fn on_mra(&mut self, about: About, timeout: u8, now: Time) {
        self.state = match (self.state, about) {
            (State::ReqSent, About::Req) => State::MraReqReceived,
            (State::RepSent, About::Rep) => State::MraRepReceived,
            (State::MraReqReceived, About::Req) | (State::MraRepReceived, About::Rep) => self.state,
            _ => return,
        };
        let wait = decode_time(timeout) + decode_time(self.timewait);
        let until = after(now, wait);
        self.deadline = Some(until);
        if let Some(retransmission) = &mut self.retransmission {
            retransmission.interval = retransmission.interval_max;
            let response = after(until, retransmission.interval_max);
            retransmission.give_up_at = retransmission.give_up_at.max(response);
        }
    }

    fn on_rej(&mut self, rej: Box<Rej>, now: Time) -> Output {
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
            _ => return Output::default(),
        }
        Output::event(Event::Rejected(rej))
    }

    /// Confirms at once. The kernel waits until the program disconnects or destroys its id, which it does for
    /// programs that crash (qperf's server does, after each test). This library could not.
    fn on_dreq(&mut self, remote_qpn: u32, tid: u64, now: Time) -> Output {
        if remote_qpn != self.local_qpn {
            return Output::default();
        }
        match self.state {
            State::RepSent | State::MraRepReceived | State::Established => {}
            State::DreqSent => {
                // Both ends disconnect at the same time: each confirms the other's DREQ.
                self.tid = tid;
                self.enter_timewait(now);
                return Output {
                    send: Some(self.message(Message::Drep(self.ids))),
                    event: Some(Event::Disconnected),
                };
            }
            State::DreqReceived | State::TimeWait => {
                self.tid = tid;
                return Output::send(self.message(Message::Drep(self.ids)));
            }
            _ => return Output::default(),
        }
        self.cancel();
        self.tid = tid;
        self.state = State::DreqReceived;
        Output {
            send: Some(self.message(Message::Drep(self.ids))),
            event: Some(Event::Disconnected),
        }
    }
}
