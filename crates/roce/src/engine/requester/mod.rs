//! The requester: which packet of which WQE is sent next (9.7.2, 9.7.3), and what is in flight.
//!
//! The requester owns the send queue, the congestion window, the RTT estimate and the retransmission
//! timers. It does not read responses and does not count retries; the completer does, and calls the
//! entry points here. Invariant: `oldest_unacked <= next <= highest_sent`, less than 2^23 apart, so
//! that a PSN identifies a packet in flight.

mod ack;
mod drain;
mod finish;
#[cfg(test)]
mod inspect;
mod payload;
mod selective;
mod unreliable;
mod write;

use ibverbs_abi::*;

use super::attributes::Attributes;
use super::congestion::CongestionWindow;
use super::emit::Encoded;
use super::pacer::Pacer;
use super::rtt::RttEstimator;
use super::send_queue::{self, OpClass, SendQueue, Wqe, WqeState};
use super::timer::{Timer, TimerTable};
use super::{Hca, LocalError, QpConfig, SendOp, SendWr, Time, UdAddress, encoding};
use crate::wire::Psn;

pub use ack::{Acked, Expired};
pub use finish::Finished;
use selective::Selective;
pub use unreliable::{Pace, UnreliableStep};
use write::Written;

/// Sends may be deferred if more WQEs than this are outstanding: the program posts a stream.
const STREAM_WQES: usize = 8;
/// Sends are no longer deferred once this many packets are unsent.
const MAX_DEFERRED_PACKETS: u64 = 32;

/// The requester of a queue pair.
#[derive(Debug)]
pub struct Requester {
    queue: SendQueue,
    /// The oldest packet that is not acknowledged.
    oldest_unacked: u64,
    /// The packet to send next: `highest_sent`, or an earlier one during a retransmission.
    next: u64,
    /// The packet after the last one that has ever been sent.
    highest_sent: u64,
    /// The index of the WQE that `next` belongs to.
    current: usize,
    /// READ, atomic, ATOMIC WRITE and FLUSH requests before `next` without a complete response. Each
    /// occupies one of the peer's `max_dest_rd_atomic` resources.
    rd_atomic_in_flight: u32,
    congestion: CongestionWindow,
    rtt: RttEstimator,
    rtt_probe: Option<RttProbe>,
    timers: TimerTable,
    /// The limit sequence number (9.7.7.2): the last message that the peer has a receive WQE for. None
    /// if the peer does not count credits.
    limit_ssn: Option<u32>,
    /// Packets sent since the last one that requested an acknowledgment.
    since_ack_req: u64,
    /// The next packet requests an acknowledgment in any case.
    force_ack_req: bool,
    /// In SQD: the packet after the last WQE that was started before the move to SQD.
    drain_end: Option<u64>,
    /// In SQD, and WQEs before `drain_end` have not completed.
    draining: bool,
    /// No WQE begins: what is in flight ends, and shared memory carries the rest.
    is_stopped: bool,
    selective: Selective,
    /// Paces the packets of unreliable services.
    pacer: Pacer,
}

/// A packet whose round trip is being measured.
#[derive(Clone, Copy, Debug)]
struct RttProbe {
    packet: u64,
    sent_at: Time,
}

/// The result of [`Requester::next_packet`].
pub enum NextPacket {
    /// Wrote a packet.
    Packet(Encoded),
    /// Nothing can be sent now.
    Blocked,
    /// Executed or failed a WQE: the queue pair has to complete what is complete.
    Complete,
}

/// The next step with the current WQE.
enum Step {
    Send,
    /// Go on with the next WQE.
    Skip,
    /// Nothing can be sent now.
    Wait,
    /// Execute the local operation.
    Execute,
    Fail(ibv_wc_status),
}

impl Requester {
    /// A requester without a connection.
    pub fn new(config: &QpConfig) -> Requester {
        Requester {
            queue: SendQueue::default(),
            oldest_unacked: 0,
            next: 0,
            highest_sent: 0,
            current: 0,
            rd_atomic_in_flight: 0,
            congestion: CongestionWindow::new(4096),
            rtt: RttEstimator::new(config.qpn),
            rtt_probe: None,
            timers: TimerTable::new(),
            limit_ssn: None,
            since_ack_req: 0,
            force_ack_req: false,
            drain_end: None,
            draining: false,
            is_stopped: false,
            selective: Selective::default(),
            pacer: Pacer::new(config.service),
        }
    }

    /// Starts a connection: the first packet has PSN `psn`.
    pub fn start(&mut self, psn: Psn, attributes: &Attributes) {
        let packet = send_queue::first_packet(psn);
        *self = Requester {
            queue: SendQueue::starting_at(packet),
            oldest_unacked: packet,
            next: packet,
            highest_sent: packet,
            congestion: CongestionWindow::new(attributes.mtu),
            ..Requester::new(&attributes.config)
        };
    }

    /// The send queue.
    #[inline]
    pub fn queue(&self) -> &SendQueue {
        &self.queue
    }

    /// The send queue, to append a WQE.
    #[inline]
    pub fn queue_mut(&mut self) -> &mut SendQueue {
        &mut self.queue
    }

    /// The WR that was written to [`SendQueue::next_wr`].
    #[inline]
    pub fn written_wr(&self) -> Option<&SendWr> {
        self.queue.written_wr()
    }

    /// WQEs that have not completed.
    pub fn depth(&self) -> u32 {
        self.queue.len() as u32
    }

    /// The PSN of the packet to send next (`sq_psn` of `ibv_query_qp`).
    pub fn next_psn(&self) -> Psn {
        self.queue.psn(self.next)
    }

    /// Packets of posted WQEs from `next` on.
    pub fn unsent(&self) -> u64 {
        self.queue.end() - self.next
    }

    /// Whether there is a WQE that is not sent completely, or a local operation that is not executed. Not one
    /// that waits for an acknowledgment.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        self.current < self.queue.len() || self.selective.is_due()
    }

    /// Whether unsent packets may wait for more WQEs: acknowledgments that are due soon cause the next
    /// transmission, and only few packets wait.
    pub fn may_defer(&self) -> bool {
        self.queue.len() > STREAM_WQES
            && !self.timers.is_set(Timer::Rnr)
            && self.oldest_unacked < self.next
            && self.next == self.highest_sent
            && self.unsent() < MAX_DEFERRED_PACKETS
            && !self.selective.is_due()
    }

    /// Lets no WQE begin, so that soon nothing is in flight.
    pub fn hold(&mut self, is_reliable: bool, now: Time) {
        if !self.is_stopped {
            self.is_stopped = true;
            self.request_last_ack(is_reliable, now);
        }
    }

    /// Lets WQEs begin.
    pub fn release(&mut self) {
        self.is_stopped = false;
    }

    /// Whether nothing is in flight, and no message has been sent in part.
    pub fn is_idle(&self) -> bool {
        let begins = |wqe: &Wqe| wqe.first >= self.highest_sent;
        self.oldest_unacked == self.highest_sent && self.queue.front().is_none_or(begins)
    }

    /// The WQEs that are in the queue go on with the packet after the last one that was sent.
    pub fn restart(&mut self) {
        let first = self.queue.front().map_or(self.queue.end(), |wqe| wqe.first);
        (self.oldest_unacked, self.next, self.highest_sent) = (first, first, first);
        self.current = 0;
    }

    /// The destination of the oldest WQE, if it is a datagram.
    pub fn next_destination(&self) -> Option<&UdAddress> {
        self.queue.front()?.wr.ud.as_ref()
    }

    /// The timers that run.
    pub fn timers(&self) -> &TimerTable {
        &self.timers
    }

    /// Writes the next request packet of a reliable connection into `buffer`.
    #[inline]
    pub fn next_packet(
        &mut self,
        attributes: &Attributes,
        now: Time,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> NextPacket {
        if self.selective.is_due() {
            match self.send_alone(attributes, now, hca, buffer) {
                Ok(Some(encoded)) => return NextPacket::Packet(encoded),
                Ok(None) => {}
                Err(error) => {
                    self.fail_current(error.status());
                    return NextPacket::Complete;
                }
            }
        }
        loop {
            match self.next_step(attributes, now, hca) {
                Step::Send => match self.send(attributes, now, hca, buffer) {
                    Ok(Some(encoded)) => return NextPacket::Packet(encoded),
                    Ok(None) => return NextPacket::Blocked,
                    Err(error) => self.fail_current(error.status()),
                },
                Step::Skip => {
                    self.current += 1;
                    continue;
                }
                Step::Wait => return NextPacket::Blocked,
                Step::Execute => self.execute_local(hca),
                Step::Fail(status) => self.fail_current(status),
            }
            return NextPacket::Complete;
        }
    }

    fn next_step(&mut self, attributes: &Attributes, now: Time, hca: &mut impl Hca) -> Step {
        if self.timers.is_set(Timer::Rnr) {
            if !self.timers.is_expired(Timer::Rnr, now) {
                return Step::Wait;
            }
            self.timers.stop(Timer::Rnr);
        }
        let Some(wqe) = self.queue.get(self.current) else {
            return Step::Wait;
        };
        if self.drain_end.is_some_and(|end| wqe.first >= end) {
            return Step::Wait;
        }
        match wqe.state {
            WqeState::Executed => return Step::Skip,
            // It fails once all earlier WQEs have completed.
            WqeState::Failed(_) if self.current > 0 => return Step::Wait,
            WqeState::Failed(status) => return Step::Fail(status),
            WqeState::Pending => {}
        }
        let class = wqe.class();
        if class != OpClass::Local && self.next >= wqe.end {
            return Step::Skip;
        }
        let starts = self.next == wqe.first;
        if self.is_stopped && wqe.first >= self.highest_sent {
            return Step::Wait;
        }
        if wqe.wr.flags.fence && starts && self.rd_atomic_in_flight > 0 {
            return Step::Wait;
        }
        if class == OpClass::Local {
            // A retransmission of an earlier WQE may still need the key.
            let invalidates = matches!(wqe.wr.op, SendOp::LocalInv { .. });
            return if invalidates && self.current > 0 {
                Step::Wait
            } else {
                Step::Execute
            };
        }
        if !self.window_allows(wqe, attributes.mtu) {
            return Step::Wait;
        }
        if class != OpClass::Acked {
            match u32::from(attributes.max_rd_atomic) {
                0 => return Step::Fail(IBV_WC_LOC_QP_OP_ERR),
                limit if self.rd_atomic_in_flight >= limit => return Step::Wait,
                _ => {}
            }
        }
        if starts && self.next == self.highest_sent {
            if let Err(status) = check_sges(wqe, hca) {
                return Step::Fail(status);
            }
        }
        Step::Send
    }

    /// Whether congestion window and credits allow the next packet of `wqe`. A READ request counts as
    /// its responses. With nothing in flight one request is always allowed.
    fn window_allows(&self, wqe: &Wqe, mtu: u32) -> bool {
        let packets = match wqe.class() {
            OpClass::Read => wqe.read_end(self.next, mtu) - self.next,
            _ => 1,
        };
        let in_flight = self.next - self.oldest_unacked;
        in_flight == 0
            || in_flight + packets <= self.congestion.cwnd() && !self.exceeds_credits(wqe)
    }

    /// Whether the peer is known to have no receive WQE for the message (9.7.7.2).
    fn exceeds_credits(&self, wqe: &Wqe) -> bool {
        self.limit_ssn.is_some_and(|limit| {
            wqe.consumes_recv_wqe() && self.queue.ssn(wqe).distance(Psn::new(limit)) > 0
        })
    }

    /// Writes packet `next` of the current WQE into the buffer. None if the buffer is too small.
    fn send(
        &mut self,
        attributes: &Attributes,
        now: Time,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Result<Option<Encoded>, LocalError> {
        let Some(wqe) = self.queue.get(self.current) else {
            return Ok(None);
        };
        let Some(written) = self.write_request(wqe, attributes, hca, buffer)? else {
            return Ok(None);
        };
        let (class, end) = (wqe.class(), wqe.end);
        if class != OpClass::Acked {
            self.rd_atomic_in_flight += 1;
        }
        self.on_written(&written, end, attributes, now);
        Ok(Some(written.encoded))
    }

    /// A packet of the current WQE is in the buffer. `end`: the packet
    /// number after the WQE's last.
    fn on_written(&mut self, written: &Written, end: u64, attributes: &Attributes, now: Time) {
        let &Written {
            next_packet,
            ack_req,
            ..
        } = written;
        let packet = self.next;
        self.since_ack_req = match ack_req {
            true => 0,
            false => self.since_ack_req + (next_packet - packet),
        };
        self.force_ack_req = false;
        let probes = ack_req && packet >= self.highest_sent;
        if probes && self.rtt_probe.is_none() {
            let sent_at = now;
            self.rtt_probe = Some(RttProbe { packet, sent_at });
        }
        let was_sent = packet < self.highest_sent;
        if was_sent
            && self
                .rtt_probe
                .is_some_and(|probe| probe.packet < next_packet)
        {
            self.rtt_probe = None;
        }
        self.next = next_packet;
        if self.next >= end {
            self.current += 1;
        }
        self.highest_sent = self.highest_sent.max(self.next);
        self.start_timers(attributes.timeout, now);
    }

    fn execute_local(&mut self, hca: &mut impl Hca) {
        let Some(wqe) = self.queue.get(self.current) else {
            return;
        };
        match send_queue::execute_local(&wqe.wr, hca) {
            WqeState::Failed(status) => self.fail_current(status),
            state => self.queue.set_state(self.current, state),
        }
    }

    /// The current WQE cannot be sent. It completes with `status` after all earlier ones.
    fn fail_current(&mut self, status: ibv_wc_status) {
        self.queue.set_state(self.current, WqeState::Failed(status));
        // The packets in flight may not have requested an acknowledgment.
        if self.current > 0 && self.oldest_unacked < self.highest_sent {
            self.timers.set(Timer::Rto, Time(0));
        }
    }

    /// Goes back to the oldest unacknowledged packet, to retransmit from there.
    fn rewind(&mut self) {
        self.selective.stop();
        self.next = self.oldest_unacked;
        self.current = 0;
        self.rd_atomic_in_flight = 0;
        self.rtt_probe = None;
        self.since_ack_req = 0;
        self.force_ack_req = true;
    }

    fn stop_timers(&mut self) {
        self.timers.stop(Timer::AckTimeout);
        self.timers.stop(Timer::Rto);
    }

    /// Starts the ack timeout and the RTO unless they run. `timeout` is the encoded attribute.
    fn start_timers(&mut self, timeout: u8, now: Time) {
        if !self.timers.is_set(Timer::AckTimeout) {
            if let Some(wait) = encoding::ack_timeout(timeout) {
                self.timers.set(Timer::AckTimeout, now.after(wait));
            }
        }
        if !self.timers.is_set(Timer::Rto) {
            self.timers.set(Timer::Rto, now.after(self.first_timeout()));
        }
    }
}

/// Checks the local memory of a WQE before its first packet. The memory of a single-packet message is
/// checked when the packet is filled. That of a READ or atomic is checked when the response comes, as by
/// kernel rxe and RNICs: the peer executes the request.
fn check_sges(wqe: &Wqe, hca: &mut impl Hca) -> Result<(), ibv_wc_status> {
    let is_written = matches!(wqe.class(), OpClass::Read | OpClass::Atomic);
    if is_written || wqe.end - wqe.first <= 1 {
        return Ok(());
    }
    wqe.check_payload(hca).map_err(|error| error.status())
}
