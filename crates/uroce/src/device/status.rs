//! A snapshot of the devices that this process has open, for the library's control socket: what each has
//! counted, and the state of its queue pairs.
//!
//! The snapshot of a device is not taken at one instant: each queue pair is locked for a moment, one after
//! the other.

use std::net::IpAddr;
use std::sync::Arc;

use super::Device;
use super::counters::DeviceCounters;
use super::open_devices::OPEN_DEVICES;
use super::queue_pair::QueuePair;
use roce::engine::{QpState, Service};
use roce::wire::ip_of;

/// A device that this process has open.
#[derive(Clone, Debug)]
pub struct DeviceStatus {
    /// The device's name.
    pub name: String,
    /// Directories of counters in `ports/1` as sysfs has them, and `local`: packets through shared memory.
    pub counters: Vec<(&'static str, Vec<(&'static str, u64)>)>,
    /// The device's queue pairs, by number.
    pub queue_pairs: Vec<QpStatus>,
}

/// A queue pair.
#[derive(Clone, Debug)]
pub struct QpStatus {
    /// The queue pair number, 24 bits.
    pub qpn: u32,
    /// `RC`, `UC`, `UD`, `XRC_SEND` or `XRC_RECV`.
    pub service: &'static str,
    /// The state, as in `IBV_QPS_*`.
    pub state: &'static str,
    /// The address and queue pair number of the peer, of a connected queue pair from RTR on.
    pub peer: Option<(IpAddr, u32)>,
    /// Bytes.
    pub path_mtu: u32,
    /// WQEs of the send queue that have not completed.
    pub send_wqes: u32,
    /// WQEs of its own receive queue.
    pub recv_wqes: u32,
    /// The next PSN to send.
    pub sq_psn: u32,
    /// The ePSN.
    pub rq_psn: u32,
    /// `IBV_ACCESS_*` of the queue pair: what its peer may do.
    pub access: u32,
    /// The Q_Key.
    pub qkey: u32,
    /// READs and atomic operations of the peer that it executes at once.
    pub max_dest_rd_atomic: u32,
    /// The queue pair takes its receives from a shared receive queue.
    pub has_srq: bool,
    /// The queue pair's counters.
    pub counters: Vec<(&'static str, u64)>,
}

/// The devices that this process has open. Not for a thread that has a queue pair locked.
pub fn status() -> Vec<DeviceStatus> {
    let open_devices = OPEN_DEVICES.lock();
    let devices = open_devices.iter().map(|open| &open.device);
    let devices: Vec<Arc<Device>> = devices
        .filter(|device| device.owned_by_this_process())
        .cloned()
        .collect();
    // Without the lock: exit(3) does not wait for it, and would send nothing that is deferred.
    drop(open_devices);
    devices.iter().map(|device| device.status()).collect()
}

impl Device {
    fn status(&self) -> DeviceStatus {
        let mut queue_pairs = Vec::new();
        self.queue_pairs
            .for_each(|qp| queue_pairs.push(Arc::clone(qp)));
        queue_pairs.sort_unstable_by_key(|qp| qp.qpn);
        DeviceStatus {
            name: self.name.clone(),
            counters: directories(&self.counters()),
            queue_pairs: queue_pairs.iter().map(|qp| qp.status()).collect(),
        }
    }
}

fn directories(counters: &DeviceCounters) -> Vec<(&'static str, Vec<(&'static str, u64)>)> {
    vec![
        ("hw_counters", counters.hw_counters().to_vec()),
        ("counters", counters.port_counters().to_vec()),
        ("local", counters.local_counters().to_vec()),
    ]
}

impl QueuePair {
    fn status(&self) -> QpStatus {
        let inner = self.inner.lock();
        let engine = inner.engine();
        let attributes = engine.attributes();
        let state = engine.state();
        let is_connected =
            !matches!(state, QpState::Reset | QpState::Init) && self.service != Service::Ud;
        let av = attributes.av.filter(|_| is_connected);
        QpStatus {
            qpn: self.qpn,
            service: service_name(self.service),
            state: state_name(state),
            peer: av.map(|av| (ip_of(&av.dgid), attributes.dest_qpn.unwrap_or(0))),
            path_mtu: attributes.path_mtu.unwrap_or(0),
            send_wqes: engine.send_depth(),
            recv_wqes: engine.recv_depth(),
            sq_psn: attributes.sq_psn.map_or(0, |psn| psn.get()),
            rq_psn: attributes.rq_psn.map_or(0, |psn| psn.get()),
            access: attributes.access.unwrap_or(0),
            qkey: attributes.qkey.unwrap_or(0),
            max_dest_rd_atomic: attributes.max_dest_rd_atomic.unwrap_or(0).into(),
            has_srq: self.srq.is_some(),
            counters: engine.counters().named().into(),
        }
    }
}

fn service_name(service: Service) -> &'static str {
    match service {
        Service::Rc => "RC",
        Service::Uc => "UC",
        Service::Ud => "UD",
        Service::XrcSend => "XRC_SEND",
        Service::XrcRecv => "XRC_RECV",
    }
}

fn state_name(state: QpState) -> &'static str {
    match state {
        QpState::Reset => "RESET",
        QpState::Init => "INIT",
        QpState::Rtr => "RTR",
        QpState::Rts => "RTS",
        QpState::Sqd => "SQD",
        QpState::Sqe => "SQE",
        QpState::Err => "ERR",
    }
}
