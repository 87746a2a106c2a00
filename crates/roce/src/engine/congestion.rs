//! The congestion window: how many packets may be in flight.
//!
//! RoCE leaves congestion control to lossless networks. uroce sends through sockets, which drop what
//! does not fit, so the window follows TCP's slow start, congestion avoidance and fast recovery
//! (RFC 5681, RFC 6582), counted in packets. A spurious RTO is undone. Nothing of it is visible on the
//! wire. CNPs shrink the window by the share of windows with marked packets, as DCTCP does (RFC 8257) and
//! DCQCN does with rates.

/// The initial window in packets. With large MTUs, [`INITIAL_CWND_BYTES`] is the smaller limit.
const INITIAL_CWND: u32 = 64;
/// The initial window in bytes.
const INITIAL_CWND_BYTES: u32 = 64 << 10;
/// The window after an RTO (the loss window of RFC 5681).
const RTO_CWND: u32 = 2;
/// The lowest ssthresh.
const MIN_SSTHRESH: u32 = 4;
/// The largest window in packets.
const MAX_CWND: u32 = 1024;
/// The largest window in bytes; the smaller of both limits applies.
const MAX_CWND_BYTES: u32 = 2 << 20;

/// The share of 1.
const WHOLE: u32 = 1 << 10;
/// A window counts this part of the share (g of RFC 8257).
const GAIN: u32 = 16;

/// The share of the last windows that had marked packets.
#[derive(Clone, Debug)]
struct Marks {
    /// Out of [`WHOLE`].
    share: u32,
    /// The packet after the current window.
    end: u64,
    /// The current window has marked packets.
    has_marks: bool,
}

/// The congestion window of a reliable connection.
#[derive(Clone, Debug)]
pub struct CongestionWindow {
    /// Packets that may be in flight.
    cwnd: u32,
    /// Below it the window grows by every acknowledged packet (slow start), above it by one packet for
    /// each window of acknowledged packets (congestion avoidance).
    ssthresh: u32,
    /// The limit of `cwnd` for this MTU.
    max_cwnd: u32,
    /// Packets acknowledged in congestion avoidance since the window last grew.
    acked: u32,
    /// The loss of a packet before this one has already reduced the window (`recover` in RFC 6582).
    recover: u64,
    /// How to undo the last RTO.
    undo: Option<Undo>,
    /// An acknowledgment that reaches this packet covers packets that were not sent since the first RTO
    /// without an acknowledgment: the original transmissions arrived, and the RTO was spurious. Or only an
    /// acknowledgment was lost, which is not distinguished.
    spurious_from: Option<u64>,
    /// An RTO expired after the last acknowledgment.
    in_rto: bool,
    /// None before the first CNP.
    marks: Option<Marks>,
}

/// The window before an RTO, restored if the RTO was spurious.
#[derive(Clone, Debug)]
struct Undo {
    cwnd: u32,
    ssthresh: u32,
}

impl CongestionWindow {
    /// The initial window for a path MTU in bytes.
    pub fn new(mtu: u32) -> CongestionWindow {
        let mtu = mtu.max(256);
        let max_cwnd = (MAX_CWND_BYTES / mtu).clamp(INITIAL_CWND, MAX_CWND);
        CongestionWindow {
            cwnd: (INITIAL_CWND_BYTES / mtu).clamp(MIN_SSTHRESH, INITIAL_CWND),
            ssthresh: max_cwnd,
            max_cwnd,
            acked: 0,
            recover: 0,
            undo: None,
            spurious_from: None,
            in_rto: false,
            marks: None,
        }
    }

    /// Packets that may be in flight.
    pub fn cwnd(&self) -> u64 {
        self.cwnd.into()
    }

    /// `count` packets were newly acknowledged; `next_unacked` is the packet after them. Returns whether an
    /// RTO before was spurious.
    pub fn on_ack(&mut self, count: u64, next_unacked: u64) -> bool {
        let spurious_from = self.spurious_from.take();
        let was_spurious = spurious_from.is_some_and(|from| next_unacked >= from);
        if let Some(undo) = self.undo.take().filter(|_| was_spurious) {
            self.cwnd = undo.cwnd;
            self.ssthresh = undo.ssthresh;
        }
        self.in_rto = false;
        if let Some(marks) = &mut self.marks {
            marks.on_ack(next_unacked, self.cwnd);
        }
        if next_unacked < self.recover {
            return was_spurious;
        }
        let count = count.min(self.max_cwnd.into()) as u32;
        if self.cwnd < self.ssthresh {
            self.cwnd = (self.cwnd + count).min(self.max_cwnd);
        } else {
            self.acked += count;
            if self.acked >= self.cwnd {
                self.acked -= self.cwnd;
                self.cwnd = (self.cwnd + 1).min(self.max_cwnd);
            }
        }
        was_spurious
    }

    /// Packet `lost` was lost and later ones arrived; `highest_sent` is the packet after the last one
    /// sent. The window is halved once for all losses among the packets before `highest_sent`.
    pub fn on_loss(&mut self, lost: u64, highest_sent: u64) {
        if lost < self.recover {
            return;
        }
        self.recover = highest_sent;
        self.ssthresh = (self.cwnd / 2).max(MIN_SSTHRESH);
        self.cwnd = self.ssthresh;
        (self.undo, self.spurious_from) = (None, None);
    }

    /// A CNP: packets of the window were marked. The window shrinks once for all packets before
    /// `highest_sent`.
    pub fn on_mark(&mut self, oldest_unacked: u64, highest_sent: u64) {
        let marks = self.marks.get_or_insert(Marks {
            share: WHOLE,
            end: highest_sent,
            has_marks: true,
        });
        marks.has_marks = true;
        if oldest_unacked < self.recover {
            return;
        }
        self.recover = highest_sent;
        let less = self.cwnd * marks.share / WHOLE / 2;
        self.cwnd = (self.cwnd - less).max(MIN_SSTHRESH);
        self.ssthresh = self.cwnd;
        (self.undo, self.spurious_from) = (None, None);
    }

    /// The RTO expired: the packets from `oldest_unacked` on will be retransmitted. Only the first of
    /// consecutive RTOs can be undone, unless no round trip was measured yet (`is_known`): then all of them
    /// may have been too short.
    pub fn on_rto(&mut self, oldest_unacked: u64, is_known: bool) {
        if self.in_rto && is_known {
            self.undo = None;
        }
        if !self.in_rto {
            // The window allows as many packets before the next acknowledgment, retransmitted or new.
            self.spurious_from = Some(oldest_unacked + u64::from(RTO_CWND) + 1);
            self.undo = Some(Undo {
                cwnd: self.cwnd,
                ssthresh: self.ssthresh,
            });
            self.ssthresh = (self.cwnd / 2).max(MIN_SSTHRESH);
        }
        self.cwnd = RTO_CWND;
        self.recover = 0;
        self.in_rto = true;
    }

    /// The window has shrunk to that, for tests.
    #[cfg(test)]
    pub fn assume_cwnd(&mut self, cwnd: u32) {
        self.cwnd = cwnd;
    }
}

impl Marks {
    /// The packets before `next_unacked` are acknowledged.
    fn on_ack(&mut self, next_unacked: u64, cwnd: u32) {
        if next_unacked < self.end {
            return;
        }
        self.end = next_unacked + u64::from(cwnd);
        self.share -= self.share / GAIN;
        if self.has_marks {
            self.share += WHOLE / GAIN;
        }
        self.has_marks = false;
    }
}
