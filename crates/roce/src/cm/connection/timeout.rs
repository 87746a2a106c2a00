//! Deadlines of a connection: retransmission, giving up, the end of TimeWait.

use super::super::mad::{REJ_PRIVATE, reason};
use super::{Connection, Effects, Event, State};
use crate::engine::Time;

impl Connection {
    /// The time of [`Connection::deadline`] has come: retransmits, gives up, or leaves TimeWait.
    pub fn handle_timeout(&mut self, now: Time) -> Effects {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return Effects::default();
        }
        if self.state == State::TimeWait {
            self.deadline = None;
            self.state = State::Idle;
            return Effects::event(Event::TimewaitExit);
        }
        let Some(mut sent) = self.retransmission.take() else {
            self.deadline = None;
            return Effects::default();
        };
        if now >= sent.give_up_at {
            return self.give_up(now);
        }
        sent.interval = (sent.interval * 2).min(sent.interval_max);
        self.deadline = Some(now.after(sent.interval).min(sent.give_up_at));
        let mad = sent.mad;
        self.retransmission = Some(sent);
        Effects::send(mad)
    }

    fn give_up(&mut self, now: Time) -> Effects {
        match self.state {
            State::DreqSent => {
                self.enter_timewait(now);
                Effects::event(Event::DisconnectTimeout)
            }
            State::ReqSent | State::MraReqReceived | State::RepSent | State::MraRepReceived => {
                // The peer may have received the message, and only its answers were lost.
                let rej = self.reject(reason::TIMEOUT, [0; REJ_PRIVATE], now).ok();
                self.cancel();
                self.state = State::Idle;
                Effects {
                    send: rej,
                    event: Some(Event::Unreachable),
                }
            }
            _ => {
                self.cancel();
                self.state = State::Idle;
                Effects::event(Event::Unreachable)
            }
        }
    }
}
