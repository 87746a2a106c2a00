//! The counters of a device, under the names that kernel devices use in sysfs.
//!
//! Queue pairs count for themselves ([`roce::engine::Counters`]); [`Device::counters`] adds them up. What no
//! queue pair sees (packets that are dropped or cannot be sent, the link) is rare and counted in atomics.
//!
//! Invariant: no counter of the sum ever decreases (`qp_table.rs`).

use std::sync::atomic::{AtomicU64, Ordering};

use super::Device;
use super::peer_channels::PeerChannels;
use roce::engine::Counters;

/// A device's counters since this process opened it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// The counters of all queue pairs together.
    pub queue_pairs: Counters,
    /// Packets that could not be sent: no such GID, or the network refused them.
    pub send_err: u64,
    /// How often the port has lost its link.
    pub link_downed: u64,
    /// Packets received with headers or lengths that no RoCEv2 packet has.
    pub malformed: u64,
    /// Packets received with a wrong ICRC.
    pub icrc: u64,
    /// Packets received with an unknown P_Key.
    pub pkey: u64,
    /// Packets received through an interface that is not the device's.
    pub interface: u64,
    /// Packets received for queue pairs that there are not.
    pub without_qp: u64,
    /// Packets sent through shared memory, out of all.
    pub local_sent_pkts: u64,
    /// Packets received through shared memory, out of all.
    pub local_rcvd_pkts: u64,
    /// Regions and queue pairs that peers cannot access directly, as the table of exports had no place.
    pub without_export: u64,
}

impl DeviceCounters {
    /// Packets sent. What could not be sent is not among them.
    fn sent_pkts(&self) -> u64 {
        self.queue_pairs.sent_pkts.saturating_sub(self.send_err)
    }

    /// The files of `ports/1/hw_counters`, as kernel rxe has them, and as mlx5 names packets with a wrong
    /// ICRC, packets that a switch has marked, and CNPs.
    pub fn hw_counters(&self) -> [(&'static str, u64); 19] {
        let qps = &self.queue_pairs;
        [
            ("sent_pkts", self.sent_pkts()),
            ("rcvd_pkts", qps.rcvd_pkts),
            ("duplicate_request", qps.duplicate_request),
            ("out_of_seq_request", qps.out_of_seq_request),
            ("rcvd_rnr_err", qps.rcvd_rnr_err),
            ("send_rnr_err", qps.send_rnr_err),
            ("rcvd_seq_err", qps.rcvd_seq_err),
            ("ack_deferred", qps.ack_deferred),
            ("retry_exceeded_err", qps.retry_exceeded_err),
            ("retry_rnr_exceeded_err", qps.retry_rnr_exceeded_err),
            ("completer_retry_err", qps.completer_retry_err),
            ("send_err", self.send_err),
            ("link_downed", self.link_downed),
            ("rdma_sends", qps.rdma_sends),
            ("rdma_recvs", qps.rdma_recvs),
            ("rx_icrc_encapsulated", self.icrc),
            ("np_ecn_marked_roce_packets", qps.np_ecn_marked_roce_packets),
            ("np_cnp_sent", qps.np_cnp_sent),
            ("rp_cnp_handled", qps.rp_cnp_handled),
        ]
    }

    /// The files of `ports/1/counters` (specification 16.1.3.5). Data is counted in units of four bytes. What
    /// no software device has (symbol errors, VL 15) is 0.
    pub fn port_counters(&self) -> [(&'static str, u64); 16] {
        let qps = &self.queue_pairs;
        [
            ("port_xmit_data", qps.sent_bytes / 4),
            ("port_rcv_data", qps.rcvd_bytes / 4),
            ("port_xmit_packets", self.sent_pkts()),
            ("port_rcv_packets", qps.rcvd_pkts),
            ("port_xmit_discards", self.send_err),
            ("port_xmit_wait", 0),
            ("port_xmit_constraint_errors", 0),
            ("port_rcv_errors", self.malformed + self.icrc),
            ("port_rcv_constraint_errors", self.pkey + self.interface),
            ("port_rcv_remote_physical_errors", 0),
            ("port_rcv_switch_relay_errors", 0),
            ("link_downed", self.link_downed),
            ("link_error_recovery", 0),
            ("local_link_integrity_errors", 0),
            ("symbol_error", 0),
            ("VL15_dropped", 0),
        ]
    }

    /// The counters that no kernel device has, for the log and the control socket.
    pub(super) fn local_counters(&self) -> [(&'static str, u64); 10] {
        [
            ("local_sent_pkts", self.local_sent_pkts),
            ("local_rcvd_pkts", self.local_rcvd_pkts),
            ("direct_ops", self.queue_pairs.direct_ops),
            ("without_export", self.without_export),
            ("dropped_without_qp", self.without_qp),
            ("dropped_in_state", self.queue_pairs.dropped_in_state),
            ("dropped_not_of_peer", self.queue_pairs.dropped_not_of_peer),
            ("qkey_violation", self.queue_pairs.qkey_violation),
            ("datagram_too_long", self.queue_pairs.datagram_too_long),
            ("datagram_no_recv", self.queue_pairs.datagram_no_recv),
        ]
    }
}

impl Device {
    /// The counters as they are now. Locks each queue pair for a moment, one after the other: not for a
    /// thread that has one locked.
    pub fn counters(&self) -> DeviceCounters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (local_sent_pkts, local_rcvd_pkts) =
            self.channels.as_ref().map_or((0, 0), PeerChannels::counts);
        DeviceCounters {
            local_sent_pkts,
            local_rcvd_pkts,
            without_export: self.direct.without_place(),
            queue_pairs: self.queue_pairs.counters(),
            send_err: read(&self.net.unsent),
            link_downed: read(&self.link_downed),
            malformed: read(&self.net.ingress.dropped.malformed),
            icrc: read(&self.net.ingress.dropped.icrc),
            pkey: read(&self.net.ingress.dropped.pkey),
            interface: read(&self.net.ingress.dropped.interface),
            without_qp: read(&self.net.ingress.dropped.queue_pair),
        }
    }

    /// Writes the counters that are not 0 to the verbs log, at level 3.
    pub(super) fn log_counters(&self) {
        if !log::log_enabled!(log::Level::Info) {
            return;
        }
        let counters = self.counters();
        let (hw, port) = (counters.hw_counters(), counters.port_counters());
        let data = port.iter().filter(|(name, _)| name.ends_with("_data"));
        let text: String = hw
            .iter()
            .chain(data)
            .chain(&counters.local_counters())
            .filter(|(_, value)| *value > 0)
            .map(|(name, value)| format!(" {name}={value}"))
            .collect();
        log::info!("uroce: counters of {}:{text}", self.name);
    }
}
