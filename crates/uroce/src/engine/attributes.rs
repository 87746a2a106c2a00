//! The attributes of a queue pair, as `modify` sets them.

use super::{AddressVector, Gid, QpChange};
use crate::wire::{gid_of, ip_of};

#[derive(Clone, Debug)]
pub struct Attributes {
    pub qkey: u32,
    pub pkey_index: u16,
    /// `IBV_ACCESS_REMOTE_*`.
    pub access: u32,
    pub av: AddressVector,
    /// The peer's address, in the form that packets have it.
    pub peer: Gid,
    pub mtu: u32,
    pub dest_qpn: u32,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub sqd_async_notify: bool,
}

impl Attributes {
    pub fn new() -> Attributes {
        let av = AddressVector {
            dgid: [0; 16],
            sgid_index: 0,
            traffic_class: 0,
            hop_limit: 0,
            flow_label: 0,
        };
        Attributes {
            qkey: 0,
            pkey_index: 0,
            access: 0,
            av,
            peer: [0; 16],
            mtu: 4096,
            dest_qpn: 0,
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            min_rnr_timer: 0,
            timeout: 0,
            retry_cnt: 0,
            rnr_retry: 0,
            sqd_async_notify: false,
        }
    }

    /// Takes over what the change has.
    pub fn apply(&mut self, change: &QpChange) {
        fn set<T: Copy>(to: &mut T, from: Option<T>) {
            if let Some(value) = from {
                *to = value;
            }
        }
        set(&mut self.qkey, change.qkey);
        set(&mut self.pkey_index, change.pkey_index);
        set(&mut self.access, change.access);
        set(&mut self.av, change.av);
        set(
            &mut self.mtu,
            change.path_mtu.map(|mtu| mtu.clamp(256, 4096)),
        );
        set(&mut self.dest_qpn, change.dest_qpn);
        set(&mut self.max_rd_atomic, change.max_rd_atomic);
        set(&mut self.max_dest_rd_atomic, change.max_dest_rd_atomic);
        set(&mut self.min_rnr_timer, change.min_rnr_timer);
        set(&mut self.timeout, change.timeout);
        set(&mut self.retry_cnt, change.retry_cnt);
        set(&mut self.rnr_retry, change.rnr_retry);
        self.peer = gid_of(ip_of(&self.av.dgid));
        self.sqd_async_notify = change.sqd_async_notify;
    }
}
