//! The requester of a reliable connection (9.7.2, 9.7.3): which packet of which request goes next.

use ibverbs_abi::*;

use super::send_queue::{self, Class, Progress, Wqe};
use super::window::Window;
use super::{Host, LocalError, Qp, QpState, SendOp, Service, Time, emit, timers};
use crate::wire::{AtomicEth, Feth, Headers, Part, Psn, Reth};

/// After so many packets at the latest an acknowledgment is asked for.
const ASK_AFTER: u64 = 32;

#[derive(Debug)]
pub struct Requester {
    /// The oldest packet that has not been acknowledged.
    pub oldest: u64,
    /// The packet to send next: behind `sent`, or before it while packets are sent again.
    pub next: u64,
    /// The packet behind the last one that has ever been sent.
    pub sent: u64,
    /// The index of the request that `next` belongs to.
    pub current: usize,
    /// READ requests, and others that take a place of the peer's `max_dest_rd_atomic`, that have no
    /// answer yet and are before `next`.
    pub reads: u32,
    pub window: Window,
    /// When the `timeout` attribute's time is over.
    pub deadline: Option<Time>,
    /// When silence is to be taken for loss, without it counting as a retry.
    pub probe: Option<Time>,
    /// The peer was not ready: when to try again.
    pub not_before: Option<Time>,
    pub retries_left: u8,
    /// How many deadlines in a row were noticed late and not counted.
    pub excused: u8,
    pub rnr_left: u8,
    /// The last message that the peer has a receive for, if it counts.
    pub credit_limit: Option<u32>,
    /// Packets since the last that asked for an acknowledgment.
    unasked: u64,
    /// The next packet asks for one.
    ask: bool,
    /// A packet whose round trip is being timed, and when it was sent.
    pub timed: Option<(u64, Time)>,
    /// What was last sent again on a complaint, and when.
    pub repeated: Option<(u64, Time)>,
    /// In state SQD: the packet behind the last request that was begun before.
    pub drain_end: Option<u64>,
}

impl Requester {
    pub fn new() -> Requester {
        Requester {
            oldest: 0,
            next: 0,
            sent: 0,
            current: 0,
            reads: 0,
            window: Window::new(4096),
            deadline: None,
            probe: None,
            not_before: None,
            retries_left: 0,
            excused: 0,
            rnr_left: 0,
            credit_limit: None,
            unasked: 0,
            ask: false,
            timed: None,
            repeated: None,
            drain_end: None,
        }
    }

    /// To the oldest packet without acknowledgment.
    pub fn rewind(&mut self) {
        self.next = self.oldest;
        self.current = 0;
        self.reads = 0;
        self.timed = None;
        self.unasked = 0;
        self.ask = true;
    }

    pub fn stop_timers(&mut self) {
        self.deadline = None;
        self.probe = None;
    }

    /// Something is under way from now on.
    pub fn start_timers(&mut self, timeout: u8, now: Time) {
        if self.deadline.is_none() {
            self.deadline = timers::timeout(timeout).map(|wait| now.after(wait));
        }
        if self.probe.is_none() {
            self.probe = Some(now.after(self.window.patience()));
        }
    }

    /// Whether the peer is known to have no receive for the message.
    fn exceeds_credits(&self, wqe: &Wqe) -> bool {
        let number = |message| Psn::new(message);
        self.credit_limit.is_some_and(|limit| {
            wqe.takes_receive() && number(wqe.message).distance(number(limit)) > 0
        })
    }
}

/// What to do with the request that is next.
enum Step {
    /// Send the packet.
    Send,
    /// Look at the following request.
    Skip,
    /// Nothing can be sent now.
    Wait,
    Execute,
    Fail(ibv_wc_status),
}

impl Qp {
    /// The next packet of the send queue, if there is one that may go now.
    pub(super) fn next_request(
        &mut self,
        now: Time,
        host: &mut impl Host,
        buffer: &mut [u8],
    ) -> Option<usize> {
        loop {
            if !matches!(self.state, QpState::Rts | QpState::Sqd) {
                return None;
            }
            match self.step(now, host) {
                Step::Send => match self.send_request(now, host, buffer) {
                    Ok(len) => return len,
                    Err(error) => self.fail_current(status_of(error), host),
                },
                Step::Skip => self.requester.current += 1,
                Step::Wait => return None,
                Step::Execute => self.execute_local(host),
                Step::Fail(status) => self.fail_current(status, host),
            }
        }
    }

    fn step(&mut self, now: Time, host: &mut impl Host) -> Step {
        let requester = &mut self.requester;
        if requester.not_before.is_some_and(|time| now < time) {
            return Step::Wait;
        }
        requester.not_before = None;
        let Some(wqe) = self.send_queue.wqes.get(requester.current) else {
            return Step::Wait;
        };
        if requester.drain_end.is_some_and(|end| wqe.first >= end) {
            return Step::Wait;
        }
        match wqe.progress {
            Progress::Executed => return Step::Skip,
            // Fails when those before it have completed.
            Progress::Failed(_) if requester.current > 0 => return Step::Wait,
            Progress::Failed(status) => return Step::Fail(status),
            Progress::Waiting => {}
        }
        let class = wqe.class();
        if class != Class::Local && requester.next >= wqe.end {
            return Step::Skip;
        }
        let starts = requester.next == wqe.first;
        if wqe.wr.flags.fence && starts && requester.reads > 0 {
            return Step::Wait;
        }
        let packets = match class {
            Class::Local => {
                // What goes may still be needed for sending again.
                let waits = matches!(wqe.wr.op, SendOp::LocalInv { .. });
                return if waits && requester.current > 0 {
                    Step::Wait
                } else {
                    Step::Execute
                };
            }
            Class::Read => wqe.read_end(requester.next, self.attributes.mtu) - requester.next,
            Class::Message | Class::Atomic | Class::Prompt => 1,
        };
        let under_way = requester.next - requester.oldest;
        if under_way > 0
            && (under_way + packets > requester.window.size() || requester.exceeds_credits(wqe))
        {
            return Step::Wait;
        }
        if class != Class::Message {
            match u32::from(self.attributes.max_rd_atomic) {
                0 => return Step::Fail(IBV_WC_LOC_QP_OP_ERR),
                most if requester.reads >= most => return Step::Wait,
                _ => {}
            }
        }
        if starts && requester.next == requester.sent && wqe.wr.inline.is_none() {
            let answered = matches!(class, Class::Read | Class::Atomic);
            // One packet's are looked at when it is filled.
            if answered || wqe.end - wqe.first > 1 {
                match host.check_local(&wqe.wr.sges, answered) {
                    Ok(len) if len < u64::from(wqe.len) => return Step::Fail(IBV_WC_LOC_LEN_ERR),
                    Ok(_) => {}
                    Err(error) => return Step::Fail(status_of(error)),
                }
            }
        }
        Step::Send
    }

    /// Puts packet `next` into the buffer, and goes on to the following one. None: it is too small.
    fn send_request(
        &mut self,
        now: Time,
        host: &mut impl Host,
        buffer: &mut [u8],
    ) -> Result<Option<usize>, LocalError> {
        let Some(wqe) = self.send_queue.wqes.get(self.requester.current) else {
            return Ok(None);
        };
        let Some(operation) = wqe.operation() else {
            return Ok(None);
        };
        let number = self.requester.next;
        let mtu = self.attributes.mtu;
        let part = part_of(number == wqe.first, number + 1 == wqe.end);
        let mut headers = self.headers(operation, part, send_queue::psn_of(number));
        let (following, len) = describe(wqe, number, mtu, part, &mut headers);
        headers.xrc_srqn = (self.config.service == Service::XrcSend).then_some(wqe.wr.xrc_srqn);
        let asks = self.asks(wqe, following);
        headers.bth.ack_request = asks;
        let Some(payload) = emit::payload(&headers, len, buffer) else {
            return Ok(None);
        };
        fill(wqe, number, mtu, payload, host)?;
        let class = wqe.class();
        let Some(len) = emit::seal(headers, len, buffer) else {
            return Ok(None);
        };

        let requester = &mut self.requester;
        requester.unasked = if asks { 0 } else { requester.unasked + 1 };
        requester.ask = false;
        if class != Class::Message {
            requester.reads += 1;
        }
        if asks && requester.timed.is_none() && number >= requester.sent {
            requester.timed = Some((number, now));
        }
        requester.next = following;
        requester.sent = requester.sent.max(following);
        requester.start_timers(self.attributes.timeout, now);
        Ok(Some(len))
    }

    /// Whether the packet before `following` is to ask for an acknowledgment: if nothing that does
    /// can be expected to follow soon.
    fn asks(&self, wqe: &Wqe, following: u64) -> bool {
        let requester = &self.requester;
        if requester.ask
            || wqe.class() != Class::Message
            || requester.unasked >= (requester.window.size() / 2).min(ASK_AFTER)
            || following - requester.oldest >= requester.window.size()
            || requester.drain_end == Some(following)
            || requester.exceeds_credits(wqe)
        {
            return true;
        }
        if following < wqe.end {
            return false;
        }
        match self.send_queue.wqes.get(requester.current + 1) {
            None => true,
            Some(behind) => {
                requester.credit_limit.is_some()
                    || behind.wr.flags.fence
                    || behind.class() == Class::Local
                    || behind.progress != Progress::Waiting
            }
        }
    }

    pub(super) fn execute_local(&mut self, host: &mut impl Host) {
        let current = self.requester.current;
        let Some(wqe) = self.send_queue.wqes.get_mut(current) else {
            return;
        };
        let result = match &wqe.wr.op {
            SendOp::LocalInv { rkey } => host.invalidate_local(*rkey),
            SendOp::BindMw(bind) => host.bind_mw(bind),
            _ => Ok(()),
        };
        match result {
            Ok(()) => {
                wqe.progress = Progress::Executed;
                self.settle(host);
            }
            Err(_) => self.fail_current(IBV_WC_MW_BIND_ERR, host),
        }
    }

    /// The request that is next cannot be sent. It completes when those before it have.
    fn fail_current(&mut self, status: ibv_wc_status, host: &mut impl Host) {
        if let Some(wqe) = self.send_queue.wqes.get_mut(self.requester.current) {
            wqe.progress = Progress::Failed(status);
            // Those before it may not have asked for an acknowledgment.
            if self.requester.current > 0 && self.requester.oldest < self.requester.sent {
                self.requester.probe = Some(Time(0));
            }
        }
        self.settle(host);
    }
}

pub fn part_of(first: bool, last: bool) -> Part {
    match (first, last) {
        (true, true) => Part::Only,
        (true, false) => Part::First,
        (false, false) => Part::Middle,
        (false, true) => Part::Last,
    }
}

pub fn status_of(error: LocalError) -> ibv_wc_status {
    match error {
        LocalError::Protection => IBV_WC_LOC_PROT_ERR,
        LocalError::Length => IBV_WC_LOC_LEN_ERR,
        LocalError::Bind => IBV_WC_MW_BIND_ERR,
    }
}

/// Adds the extension headers of a packet; returns the packet behind it and its payload's length.
pub fn describe(
    wqe: &Wqe,
    number: u64,
    mtu: u32,
    part: Part,
    headers: &mut Headers,
) -> (u64, usize) {
    let skipped = ((number - wqe.first) * u64::from(mtu)).min(wqe.len.into()) as u32;
    let rest = wqe.len - skipped;
    let ends = matches!(part, Part::Last | Part::Only);
    headers.bth.solicited = wqe.wr.flags.solicited && ends && wqe.takes_receive();
    let starts = matches!(part, Part::First | Part::Only);
    let mut following = number + 1;
    let mut payload = rest.min(mtu);
    match wqe.wr.op {
        SendOp::Send => {}
        SendOp::SendImm { imm } => headers.imm = Some(imm).filter(|_| ends),
        SendOp::SendInv { rkey } => headers.ieth = Some(rkey).filter(|_| ends),
        SendOp::Write { va, rkey } | SendOp::WriteImm { va, rkey, .. } => {
            if starts {
                let len = wqe.len;
                headers.reth = Some(Reth { va, rkey, len });
            }
            if let SendOp::WriteImm { imm, .. } = wqe.wr.op {
                headers.imm = Some(imm).filter(|_| ends);
            }
        }
        SendOp::Read { va, rkey } => {
            following = wqe.read_end(number, mtu);
            let most = (following - number) * u64::from(mtu);
            headers.reth = Some(Reth {
                va: va.wrapping_add(skipped.into()),
                rkey,
                len: u64::from(rest).min(most) as u32,
            });
            payload = 0;
        }
        SendOp::CmpSwap {
            va,
            rkey,
            compare,
            swap,
        } => {
            headers.atomic = Some(AtomicEth {
                va,
                rkey,
                swap_add: swap,
                compare,
            });
            payload = 0;
        }
        SendOp::FetchAdd { va, rkey, add } => {
            headers.atomic = Some(AtomicEth {
                va,
                rkey,
                swap_add: add,
                compare: 0,
            });
            payload = 0;
        }
        SendOp::AtomicWrite { va, rkey, .. } => {
            headers.reth = Some(Reth { va, rkey, len: 8 });
            payload = 8;
        }
        SendOp::Flush {
            va,
            rkey,
            len,
            placement,
            selectivity,
        } => {
            headers.feth = Some(Feth {
                placement,
                selectivity,
            });
            headers.reth = Some(Reth { va, rkey, len });
            payload = 0;
        }
        SendOp::LocalInv { .. } | SendOp::BindMw(_) => payload = 0,
    }
    (following, payload as usize)
}

/// Copies the payload of a packet.
pub fn fill(
    wqe: &Wqe,
    number: u64,
    mtu: u32,
    payload: &mut [u8],
    host: &mut impl Host,
) -> Result<(), LocalError> {
    if payload.is_empty() {
        return Ok(());
    }
    let offset = (number - wqe.first) * u64::from(mtu);
    match (&wqe.wr.op, &wqe.wr.inline) {
        (SendOp::AtomicWrite { data, .. }, _) => payload.copy_from_slice(data),
        (_, Some(inline)) => {
            let start = offset as usize;
            let piece = inline
                .get(start..start + payload.len())
                .ok_or(LocalError::Length)?;
            payload.copy_from_slice(piece);
        }
        (_, None) => host.gather(&wqe.wr.sges, offset, payload)?,
    }
    Ok(())
}
