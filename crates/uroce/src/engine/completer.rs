//! What the requester makes of answers (9.7.4.2, 9.9.2): completions, retries, errors.

use ibverbs_abi::*;

use super::requester::status_of;
use super::send_queue::{self, Class};
use super::{Host, Qp, QpState, Time, timers};
use crate::wire::{Aeth, AethKind, NakCode, Operation, Packet, Psn};

/// A complaint about a packet that comes sooner than this after the packet was sent again, in
/// nanoseconds, or than two round trips, is not a new one.
const REPEAT_AFTER: u64 = 500_000;

/// A timeout that is noticed so many nanoseconds late says nothing about the peer; and how often in a row
/// that may be: a timeout is to be no longer than four times what was asked for (9.7.6.1.3).
const LATE: u64 = 2_000_000;
const EXCUSED: u8 = 3;

impl Qp {
    /// An answer of the peer's responder.
    pub(super) fn receive_answer(
        &mut self,
        operation: Operation,
        packet: &Packet,
        now: Time,
        host: &mut impl Host,
    ) {
        if !matches!(self.state, QpState::Rts | QpState::Sqd) {
            return;
        }
        let headers = &packet.headers;
        let number = send_queue::nearest(headers.bth.psn, self.requester.oldest);
        if number >= self.requester.sent {
            return;
        }
        if let Some(aeth) = &headers.aeth {
            self.note_credits(aeth);
        }
        // An old answer again.
        if number < self.requester.oldest {
            return;
        }
        let kind = headers.aeth.map(|aeth| aeth.kind);
        let acknowledged = match (operation, kind) {
            (Operation::Ack, Some(AethKind::Ack { .. })) => number + 1,
            _ => number,
        };
        // A gap in the responses says that some were lost (9.7.5.1.2).
        let complete = self.acknowledge(acknowledged, now);
        // What is done completes before anything behind it fails.
        self.settle(host);
        if self.state == QpState::Err {
            return;
        }
        if !complete {
            self.repeat(now);
            return;
        }
        match (operation, kind) {
            (Operation::Ack, Some(AethKind::RnrNak { timer })) => {
                self.not_ready(timer, now, host);
            }
            (Operation::Ack, Some(AethKind::Nak(code))) => match status_of_nak(code) {
                Some(status) => self.fail_oldest(status, host),
                None => self.repeat(now),
            },
            (Operation::Ack, _) => {}
            (_, None | Some(AethKind::Ack { .. })) => {
                self.take_response(operation, packet, now, host);
                self.settle(host);
            }
            (_, Some(_)) => self.fail_oldest(IBV_WC_BAD_RESP_ERR, host),
        }
    }

    /// Everything before packet `to` has been executed by the peer. False if that cannot be, since
    /// responses with data are missing: then it holds for what is before these.
    fn acknowledge(&mut self, to: u64, now: Time) -> bool {
        let requester = &mut self.requester;
        let before = requester.oldest;
        for wqe in &self.send_queue.wqes {
            if requester.oldest >= to {
                break;
            }
            if wqe.end <= requester.oldest {
                continue;
            }
            match wqe.class() {
                Class::Read | Class::Atomic => break,
                Class::Prompt => requester.reads = requester.reads.saturating_sub(1),
                Class::Message | Class::Local => {}
            }
            requester.oldest = to.min(wqe.end);
        }
        self.progressed(before, now);
        self.requester.oldest >= to
    }

    /// Packets from `before` on have been acknowledged.
    fn progressed(&mut self, before: u64, now: Time) {
        let requester = &mut self.requester;
        let count = requester.oldest - before;
        if count == 0 {
            return;
        }
        requester.window.progress(count, requester.oldest);
        if let Some((number, time)) = requester.timed
            && requester.oldest > number
        {
            requester.window.timed(now.since(time));
            requester.timed = None;
        }
        if requester.next <= requester.oldest {
            requester.next = requester.oldest;
            requester.current = 0;
            requester.reads = 0;
        }
        requester.retries_left = self.attributes.retry_cnt;
        requester.excused = 0;
        requester.rnr_left = self.attributes.rnr_retry;
        requester.not_before = None;
        requester.stop_timers();
        if requester.oldest < requester.sent {
            requester.start_timers(self.attributes.timeout, now);
        }
    }

    /// The response to the oldest packet.
    fn take_response(
        &mut self,
        operation: Operation,
        packet: &Packet,
        now: Time,
        host: &mut impl Host,
    ) {
        let number = self.requester.oldest;
        let Some(wqe) = self.send_queue.wqes.iter().find(|wqe| wqe.end > number) else {
            return;
        };
        let mtu = self.attributes.mtu;
        let mut answers = true;
        let taken = match (wqe.class(), operation, packet.headers.atomic_ack) {
            (Class::Read, Operation::ReadResponse, _) => {
                let offset = (number - wqe.first) * u64::from(mtu);
                let len = u64::from(wqe.len).saturating_sub(offset).min(mtu.into());
                if packet.payload.len() as u64 != len {
                    Err(IBV_WC_BAD_RESP_ERR)
                } else if len == 0 {
                    Ok(())
                } else {
                    answers = number + 1 == wqe.read_end(number, mtu);
                    host.scatter(&wqe.wr.sges, offset, packet.payload)
                        .map_err(status_of)
                }
            }
            (Class::Atomic, Operation::AtomicAck, Some(before)) => host
                .scatter(&wqe.wr.sges, 0, &before.to_ne_bytes())
                .map_err(status_of),
            (Class::Prompt, Operation::ReadResponse, _) if packet.payload.is_empty() => Ok(()),
            _ => Err(IBV_WC_BAD_RESP_ERR),
        };
        match taken {
            Ok(()) => {
                let requester = &mut self.requester;
                requester.oldest += 1;
                if answers {
                    requester.reads = requester.reads.saturating_sub(1);
                }
                self.progressed(number, now);
            }
            Err(status) => self.fail_oldest(status, host),
        }
    }

    /// The peer misses the oldest packet: from there, all is sent again.
    fn repeat(&mut self, now: Time) {
        let requester = &mut self.requester;
        if requester.not_before.is_some() || requester.next == requester.oldest {
            return;
        }
        let again = (2 * requester.window.round_trip()).max(REPEAT_AFTER);
        if let Some((number, time)) = requester.repeated
            && number == requester.oldest
            && now.since(time) < again
        {
            return;
        }
        requester.repeated = Some((requester.oldest, now));
        requester.window.loss(requester.oldest, requester.sent);
        requester.rewind();
        requester.probe = None;
    }

    /// The peer has no receive for the oldest packet's message (9.7.5.2.8).
    fn not_ready(&mut self, timer: u8, now: Time, host: &mut impl Host) {
        if self.requester.not_before.is_some() {
            return;
        }
        if self.attributes.rnr_retry != FOREVER {
            match self.requester.rnr_left.checked_sub(1) {
                Some(left) => self.requester.rnr_left = left,
                None => return self.fail_oldest(IBV_WC_RNR_RETRY_EXC_ERR, host),
            }
        }
        let requester = &mut self.requester;
        requester.not_before = Some(now.after(timers::rnr(timer)));
        requester.rewind();
        requester.stop_timers();
        requester.retries_left = self.attributes.retry_cnt;
    }

    fn note_credits(&mut self, aeth: &Aeth) {
        if let AethKind::Ack { credits } = aeth.kind {
            let requester = &mut self.requester;
            let limit =
                timers::credits(credits).map(|count| Psn::new(aeth.msn.wrapping_add(count)).get());
            let newer = match (limit, requester.credit_limit) {
                (Some(new), Some(old)) => Psn::new(new).distance(Psn::new(old)) > 0,
                _ => true,
            };
            if newer {
                requester.credit_limit = limit;
            }
        }
    }

    pub(super) fn requester_timeout(&mut self, now: Time, host: &mut impl Host) {
        let due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if due(self.requester.not_before) {
            self.requester.not_before = None;
        }
        let requester = &mut self.requester;
        let mut excused = false;
        if let Some(deadline) = requester.deadline.filter(|at| *at <= now) {
            // Whoever is this late is kept from running, and so may be a peer on the same host: what is
            // not acknowledged is sent again, but that is not one of the retries, within what 9.7.6.1.3
            // allows.
            excused = now.since(deadline) >= LATE && requester.excused < EXCUSED;
            if excused {
                requester.excused += 1;
            } else {
                let Some(left) = requester.retries_left.checked_sub(1) else {
                    self.fail_oldest(IBV_WC_RETRY_EXC_ERR, host);
                    return;
                };
                requester.retries_left = left;
                requester.excused = 0;
            }
            requester.stop_timers();
        } else if due(requester.probe) {
            requester.probe = None;
        } else {
            return;
        }
        if !excused {
            requester.window.silence(requester.oldest, requester.sent);
        }
        requester.rewind();
        requester.start_timers(self.attributes.timeout, now);
    }
}

/// The value of `rnr_retry` that means "without end".
const FOREVER: u8 = 7;

/// None: the packet is to be sent again.
fn status_of_nak(code: NakCode) -> Option<ibv_wc_status> {
    match code {
        NakCode::PsnSequence => None,
        NakCode::InvalidRequest => Some(IBV_WC_REM_INV_REQ_ERR),
        NakCode::RemoteAccess => Some(IBV_WC_REM_ACCESS_ERR),
        NakCode::RemoteOperational => Some(IBV_WC_REM_OP_ERR),
        NakCode::InvalidRdRequest => Some(IBV_WC_REM_INV_RD_REQ_ERR),
    }
}
