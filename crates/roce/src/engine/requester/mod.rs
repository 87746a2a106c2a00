//! The requester: which packet of which WQE is sent next (9.7.2, 9.7.3), and what is in flight.
//!
//! | part | responsible for |
//! |---|---|
//! | [`SendWindow`] | the send queue, which of its packets are in flight, and which one is next |
//! | [`CongestionWindow`], `Credits` | how many packets may be in flight, and which messages |
//! | `AckRequests` | which packets request an acknowledgment |
//! | `RetransmissionTimers` | ack timeout, RTO, RNR timer; RTT samples |
//! | `Selective` | retransmission of one packet in place of all |
//! | [`Pacer`] | the pace of unreliable services |
//!
//! Each owns its fields, and none changes another. The requester does not read responses and does not count
//! retries; the completer does: it calls the entry points in `ack`, and reads the window and the timers.

mod ack;
mod ack_request;
mod credits;
#[cfg(test)]
mod inspect;
mod payload;
mod selective;
mod timers;
mod unreliable;
mod window;
mod write;

use ibverbs_abi::*;

use super::attributes::Attributes;
use super::congestion::CongestionWindow;
use super::emit::Encoded;
use super::pacer::Pacer;
use super::rtt::RttEstimator;
use super::send_queue::{self, OpClass, Wqe, WqeState};
use super::timer::TimerTable;
use super::{Completion, Hca, LocalError, QpConfig, SendOp, Time};
use crate::wire::Psn;
use ack_request::AckRequests;
use credits::Credits;
use selective::Selective;
use timers::RetransmissionTimers;
use write::write_request;

pub use ack::Acked;
pub use timers::Expired;
pub use unreliable::{Pace, UnreliableStep};
pub use window::SendWindow;

/// Sends may be deferred if more WQEs than this are outstanding: the program posts a stream.
const STREAM_WQES: usize = 8;
/// Sends are no longer deferred once this many packets are unsent.
const MAX_DEFERRED_PACKETS: u64 = 32;

/// The requester of a queue pair.
#[derive(Debug)]
pub struct Requester {
    window: SendWindow,
    congestion: CongestionWindow,
    credits: Credits,
    ack_requests: AckRequests,
    timers: RetransmissionTimers,
    selective: Selective,
    pacer: Pacer,
}

/// The result of [`Requester::next_packet`] and of `shm::Sender::next_fragment`.
pub enum NextRequest<T> {
    /// Wrote a packet or a fragment.
    Sent(T),
    /// Nothing can be sent now.
    Blocked,
    /// Executed, failed or finished a WQE: the queue pair has to complete what is complete.
    Complete,
}

/// The next step with the current WQE.
pub enum Step {
    /// Write a packet or a fragment.
    Send,
    /// Go on with the next WQE.
    Skip,
    /// Nothing can be sent now.
    Wait,
    /// Execute the local operation.
    Execute,
    /// The WQE fails with that status.
    Fail(ibv_wc_status),
}

impl Requester {
    /// A requester without a connection.
    pub fn new(config: &QpConfig) -> Requester {
        Requester {
            window: SendWindow::default(),
            congestion: CongestionWindow::new(4096),
            credits: Credits::default(),
            ack_requests: AckRequests::default(),
            timers: RetransmissionTimers::new(config.qpn),
            selective: Selective::default(),
            pacer: Pacer::new(config.service),
        }
    }

    /// Starts a connection: the first packet has PSN `psn`.
    pub fn start(&mut self, psn: Psn, attributes: &Attributes) {
        *self = Requester {
            window: SendWindow::starting_at(psn),
            congestion: CongestionWindow::new(attributes.mtu),
            ..Requester::new(&attributes.config)
        };
    }

    /// The send queue and what is in flight of it.
    #[inline]
    pub fn window(&self) -> &SendWindow {
        &self.window
    }

    /// [`Requester::window`], for changes that do not depend on the other parts.
    #[inline]
    pub fn window_mut(&mut self) -> &mut SendWindow {
        &mut self.window
    }

    /// Whether it waits after an RNR NAK.
    #[inline]
    pub fn is_rnr_waiting(&self) -> bool {
        self.timers.is_rnr_waiting()
    }

    /// When the timers expire.
    #[inline]
    pub fn timers(&self) -> &TimerTable {
        self.timers.table()
    }

    /// The RTT estimate.
    pub fn rtt(&self) -> &RttEstimator {
        self.timers.rtt()
    }

    /// Whether there is a WQE that is not sent completely, or a local operation that is not executed. Not one
    /// that waits for an acknowledgment.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        self.window.has_unsent() || self.selective.is_due()
    }

    /// Whether unsent packets may wait for more WQEs: acknowledgments that are due soon cause the next
    /// transmission, and only few packets wait.
    pub fn may_defer(&self) -> bool {
        let window = &self.window;
        window.queue().len() > STREAM_WQES
            && !self.timers.is_rnr_waiting()
            && window.oldest_unacked() < window.next()
            && window.next() == window.highest_sent()
            && window.unsent() < MAX_DEFERRED_PACKETS
            && !self.selective.is_due()
    }

    /// Lets no WQE begin, so that soon nothing is in flight.
    pub fn hold(&mut self, is_reliable: bool, now: Time) {
        if self.window.queue_mut().drain_mut().hold() {
            self.request_last_ack(is_reliable, now);
        }
    }

    /// Lets WQEs begin.
    pub fn release(&mut self) {
        self.window.queue_mut().drain_mut().release();
    }

    /// Enters SQD (10.3.1.5). `is_reliable`: the queue pair's requests are acknowledged.
    pub fn drain(&mut self, is_reliable: bool, now: Time) {
        let end = self.window.begun_end();
        self.window.queue_mut().drain_mut().start(end);
        self.request_last_ack(is_reliable, now);
    }

    /// The last packet may not have requested an acknowledgment: retransmits it at once.
    fn request_last_ack(&mut self, is_reliable: bool, now: Time) {
        if is_reliable && self.window.is_in_flight() && !self.timers.is_rnr_waiting() {
            self.timers.expire_rto(now);
        }
    }

    /// Stops sending and draining, and removes all WQEs; returns their completions, oldest first. WQEs
    /// posted after a move from SQE to RTS go on with the next PSN.
    pub fn flush(&mut self) -> impl Iterator<Item = Completion> {
        self.timers.stop();
        self.selective.stop();
        self.window.flush()
    }

    /// Writes the next request packet of a reliable connection into `buffer`.
    #[inline]
    pub fn next_packet(
        &mut self,
        attributes: &Attributes,
        now: Time,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> NextRequest<Encoded> {
        if self.selective.is_due() {
            match self.send_alone(attributes, now, hca, buffer) {
                Ok(Some(encoded)) => return NextRequest::Sent(encoded),
                Ok(None) => {}
                Err(error) => {
                    self.fail_current(error.status());
                    return NextRequest::Complete;
                }
            }
        }
        loop {
            match self.next_step(attributes, now, hca) {
                Step::Send => match self.send(attributes, now, hca, buffer) {
                    Ok(Some(encoded)) => return NextRequest::Sent(encoded),
                    Ok(None) => return NextRequest::Blocked,
                    Err(error) => self.fail_current(error.status()),
                },
                Step::Skip => {
                    self.window.skip();
                    continue;
                }
                Step::Wait => return NextRequest::Blocked,
                Step::Execute => self.execute_local(hca),
                Step::Fail(status) => self.fail_current(status),
            }
            return NextRequest::Complete;
        }
    }

    fn next_step(&mut self, attributes: &Attributes, now: Time, hca: &mut impl Hca) -> Step {
        if self.timers.must_wait(now) {
            return Step::Wait;
        }
        let window = &self.window;
        let Some(wqe) = window.current() else {
            return Step::Wait;
        };
        let drain = window.queue().drain();
        if drain.stops(wqe.first) {
            return Step::Wait;
        }
        match wqe.state {
            WqeState::Executed => return Step::Skip,
            // It fails once all earlier WQEs have completed.
            WqeState::Failed(_) if !window.is_at_oldest() => return Step::Wait,
            WqeState::Failed(status) => return Step::Fail(status),
            WqeState::Pending => {}
        }
        let (class, next) = (wqe.class(), window.next());
        if class != OpClass::Local && next >= wqe.end {
            return Step::Skip;
        }
        if drain.is_held() && wqe.first >= window.highest_sent() {
            return Step::Wait;
        }
        let starts = next == wqe.first;
        if wqe.wr.flags.fence && starts && window.rd_atomic_in_flight() > 0 {
            return Step::Wait;
        }
        if class == OpClass::Local {
            // A retransmission of an earlier WQE may still need the key.
            let invalidates = matches!(wqe.wr.op, SendOp::LocalInv { .. });
            return if invalidates && !window.is_at_oldest() {
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
                limit if window.rd_atomic_in_flight() >= limit => return Step::Wait,
                _ => {}
            }
        }
        if starts && next == window.highest_sent() {
            if let Err(status) = check_sges(wqe, hca) {
                return Step::Fail(status);
            }
        }
        Step::Send
    }

    /// Whether congestion window and credits allow the next packet of `wqe`. A READ request counts as
    /// its responses. With nothing in flight one request is always allowed.
    fn window_allows(&self, wqe: &Wqe, mtu: u32) -> bool {
        let next = self.window.next();
        let oldest = self.window.oldest_unacked();
        next == oldest
            || wqe.request_end(next, mtu) - oldest <= self.congestion.cwnd()
                && !self.exceeds_credits(wqe)
    }

    /// Whether the peer is known to have no receive WQE for the message.
    fn exceeds_credits(&self, wqe: &Wqe) -> bool {
        self.credits.are_exceeded_by(wqe.ssn()) && wqe.consumes_recv_wqe()
    }

    /// Writes packet `next` of the current WQE into the buffer. None if the buffer is too small.
    fn send(
        &mut self,
        attributes: &Attributes,
        now: Time,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Result<Option<Encoded>, LocalError> {
        let Some(wqe) = self.window.current() else {
            return Ok(None);
        };
        let packet = self.window.next();
        let end = wqe.request_end(packet, attributes.mtu);
        let ack_request = self.needs_ack_request(wqe, end);
        let encoded = write_request(wqe, packet, ack_request, attributes, hca, buffer)?;
        if encoded.is_some() {
            let is_first = self.window.on_sent(end, wqe.end, wqe.class());
            self.ack_requests.on_sent(end - packet, ack_request);
            self.timers.on_sent(packet, end, is_first, ack_request, now);
            self.start_timers(attributes, now);
        }
        Ok(encoded)
    }

    /// Whether the request that ends before packet `end` has to request an acknowledgment (9.7.2.3): if no
    /// packet that does can be expected to follow soon.
    #[inline]
    fn needs_ack_request(&self, wqe: &Wqe, end: u64) -> bool {
        let cwnd = self.congestion.cwnd();
        if self.ack_requests.is_due(cwnd)
            || wqe.class() != OpClass::Acked
            || end - self.window.oldest_unacked() >= cwnd
            || self.window.queue().drain().ends_at(end)
            || self.exceeds_credits(wqe)
        {
            return true;
        }
        if end < wqe.end {
            return false;
        }
        self.window.following().is_none_or(|following| {
            self.credits.are_counted()
                || following.wr.flags.fence
                || following.class() == OpClass::Local
                || following.state != WqeState::Pending
        })
    }

    /// Writes the packet that is sent alone into the buffer. None if there is none, or the buffer is too
    /// small.
    #[cold]
    fn send_alone(
        &mut self,
        attributes: &Attributes,
        now: Time,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Result<Option<Encoded>, LocalError> {
        let Some((packet, index)) = self.selective.take_due(&self.window) else {
            return Ok(None);
        };
        let encoded = match self.window.queue().get(index) {
            Some(wqe) => write_request(wqe, packet, true, attributes, hca, buffer),
            None => Ok(None),
        };
        if encoded.is_err() {
            // This WQE fails.
            self.rewind(false);
            self.window.set_current(index);
            return encoded;
        }
        let wait = self.selective.on_sent(self.timers.rtt(), now);
        self.start_timers(attributes, now);
        self.timers.restart_rto(wait, now);
        encoded
    }

    /// Executes the current WQE, a local operation.
    fn execute_local(&mut self, hca: &mut impl Hca) {
        let Some(wqe) = self.window.current() else {
            return;
        };
        match send_queue::execute_local(&wqe.wr, hca) {
            WqeState::Failed(status) => self.fail_current(status),
            state => self.window.set_state(state),
        }
    }

    /// The current WQE cannot be sent. It completes with `status` after all earlier ones.
    fn fail_current(&mut self, status: ibv_wc_status) {
        self.window.set_state(WqeState::Failed(status));
        // The packets in flight may not have requested an acknowledgment.
        if !self.window.is_at_oldest() && self.window.is_in_flight() {
            self.timers.expire_rto(Time(0));
        }
    }

    /// Goes back to the oldest packet in flight, to retransmit from there. `is_timeout`: because
    /// of a timeout.
    fn rewind(&mut self, is_timeout: bool) {
        self.selective.stop();
        self.timers.drop_sample(is_timeout);
        self.window.rewind();
        self.ack_requests.restart();
    }

    /// Starts the ack timeout and the RTO unless they run.
    #[inline]
    fn start_timers(&mut self, attributes: &Attributes, now: Time) {
        let may_probe = self.selective.may_probe();
        self.timers.start(attributes.timeout, may_probe, now);
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
