//! [`Counters`]: what a queue pair counts.
//!
//! The fields have the names and meanings of the kernel's Soft-RoCE (`hw_counters` of rxe in sysfs), which
//! counts per device. Here each part of a queue pair counts for itself, under the queue pair's lock, so that
//! no two threads write one cache line; `device::counters` adds them up.

use std::ops::AddAssign;

/// Events since the queue pair was created. A move to RESET clears nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets handed to the network, retransmissions included.
    pub sent_pkts: u64,
    /// The bytes of these packets, from the BTH to the ICRC.
    pub sent_bytes: u64,
    /// Packets received with a valid ICRC.
    pub rcvd_pkts: u64,
    /// The bytes of these packets, from the BTH to the ICRC.
    pub rcvd_bytes: u64,
    /// Requests received again.
    pub duplicate_request: u64,
    /// Requests received with a PSN beyond the ePSN: one before them was lost.
    pub out_of_seq_request: u64,
    /// RNR NAKs received.
    pub rcvd_rnr_err: u64,
    /// RNR NAKs sent.
    pub send_rnr_err: u64,
    /// PSN sequence error NAKs received.
    pub rcvd_seq_err: u64,
    /// ACKs that waited for the program to poll or to post, to leave in one system call with its packets.
    pub ack_deferred: u64,
    /// Work requests that failed because `retry_cnt` was exhausted.
    pub retry_exceeded_err: u64,
    /// Work requests that failed because `rnr_retry` was exhausted.
    pub retry_rnr_exceeded_err: u64,
    /// Retransmissions started by a timeout, a NAK or a gap in responses, not by an RNR NAK.
    pub completer_retry_err: u64,
    /// SENDs of this side that completed successfully, signaled or not.
    pub rdma_sends: u64,
    /// Receives that completed successfully.
    pub rdma_recvs: u64,
    /// RDMA WRITEs and READs of this side that were executed without the peer's responder.
    pub direct_ops: u64,
    /// Datagrams dropped because their Q_Key is not that of the queue pair.
    pub qkey_violation: u64,
    /// Datagrams dropped because the receive at the head of the queue has no room for them and the GRH.
    pub datagram_too_long: u64,
    /// Datagrams dropped because no receive was posted.
    pub datagram_no_recv: u64,
    /// Packets dropped because the queue pair receives nothing in its state.
    pub dropped_in_state: u64,
    /// Packets dropped because they are of another service, or not from the peer of a connected queue pair.
    pub dropped_not_of_peer: u64,
    /// Packets received that a switch had marked (ECN), as mlx5 names it.
    pub np_ecn_marked_roce_packets: u64,
    /// CNPs sent.
    pub np_cnp_sent: u64,
    /// CNPs received, each of which may have shrunk the congestion window.
    pub rp_cnp_handled: u64,
}

impl Counters {
    /// A packet or fragment of `len` bytes leaves.
    #[inline]
    pub(super) fn on_sent(&mut self, len: usize) {
        self.sent_pkts += 1;
        self.sent_bytes += len as u64;
    }

    /// A packet or fragment of `len` bytes has arrived.
    #[inline]
    pub(super) fn on_received(&mut self, len: usize) {
        self.rcvd_pkts += 1;
        self.rcvd_bytes += len as u64;
    }

    /// The counters under the names of their fields.
    pub fn named(mut self) -> [(&'static str, u64); 24] {
        self.fields().map(|(name, count)| (name, *count))
    }

    fn fields(&mut self) -> [(&'static str, &mut u64); 24] {
        macro_rules! fields {
            ($($field:ident)*) => {{
                // Without `..`, so that no counter is left out.
                let Counters { $($field),* } = self;
                [$((stringify!($field), $field)),*]
            }};
        }
        fields! {
            sent_pkts sent_bytes rcvd_pkts rcvd_bytes duplicate_request out_of_seq_request rcvd_rnr_err
            send_rnr_err rcvd_seq_err ack_deferred retry_exceeded_err retry_rnr_exceeded_err
            completer_retry_err rdma_sends rdma_recvs direct_ops qkey_violation datagram_too_long
            datagram_no_recv dropped_in_state dropped_not_of_peer np_ecn_marked_roce_packets np_cnp_sent
            rp_cnp_handled
        }
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Counters) {
        for ((_, count), (_, more)) in self.fields().into_iter().zip(other.named()) {
            *count += more;
        }
    }
}
