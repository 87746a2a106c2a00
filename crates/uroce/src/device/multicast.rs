//! Multicast groups: which queue pairs are attached to which.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use smallvec::SmallVec;

use super::Device;
use super::queue_pair::QueuePair;
use crate::engine::{Gid, Service};
use crate::profile::DEFAULT;
use crate::wire::{gid_of, ip_of};

/// Queue pairs that may be attached to a multicast group.
const MAX_QPS_PER_MULTICAST_GROUP: usize = DEFAULT.limits.max_mcast_qp_attach as usize;

/// The queue pairs attached to a multicast group. Allocates nothing, because it is called for each packet.
pub(super) type GroupMembers = SmallVec<[Arc<QueuePair>; MAX_QPS_PER_MULTICAST_GROUP]>;

impl Device {
    /// Attaches the queue pair to a multicast group; does nothing if it is attached already. Fails as
    /// [`Net::join`]; with ENOMEM beyond the profile's limits.
    pub fn attach_multicast(&self, qp: &Arc<QueuePair>, group: &Gid) -> io::Result<()> {
        let limits = &self.profile.limits;
        let mut groups = self.multicast_groups.write();
        let group_count = groups.len();
        let members = groups.entry(ip_of(group)).or_default();
        if members.iter().any(|member| Arc::ptr_eq(member, qp)) {
            return Ok(());
        }
        if members.len() >= limits.max_mcast_qp_attach as usize {
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        }
        if members.is_empty() && group_count >= limits.max_mcast_grp as usize {
            groups.remove(&ip_of(group));
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        }
        if members.is_empty() {
            if let Err(error) = self.net.join(group) {
                groups.remove(&ip_of(group));
                return Err(error);
            }
        }
        members.push(qp.clone());
        Ok(())
    }

    /// Detaches the queue pair from a multicast group. Returns false if it was not attached.
    pub fn detach_multicast(&self, qp: &Arc<QueuePair>, group: &Gid) -> bool {
        let mut groups = self.multicast_groups.write();
        let Some(members) = groups.get_mut(&ip_of(group)) else {
            return false;
        };
        let Some(at) = members.iter().position(|member| Arc::ptr_eq(member, qp)) else {
            return false;
        };
        members.swap_remove(at);
        if members.is_empty() {
            groups.remove(&ip_of(group));
            self.net.leave(group);
        }
        true
    }

    /// Detaches a queue pair that is destroyed from all multicast groups.
    pub fn detach_from_all(&self, qp: &Arc<QueuePair>) {
        if qp.service != Service::Ud || !self.is_attached(qp) {
            return;
        }
        let groups: Vec<IpAddr> = self.multicast_groups.read().keys().copied().collect();
        for group in groups {
            self.detach_multicast(qp, &gid_of(group));
        }
    }

    /// Whether the queue pair is attached to any multicast group.
    pub fn is_attached(&self, qp: &Arc<QueuePair>) -> bool {
        let groups = self.multicast_groups.read();
        groups
            .values()
            .flatten()
            .any(|member| Arc::ptr_eq(member, qp))
    }

    /// The queue pairs that are attached to a multicast group.
    pub(super) fn attached_to(&self, group: &Gid) -> GroupMembers {
        let groups = self.multicast_groups.read();
        let members = groups.get(&ip_of(group)).map_or(&[][..], Vec::as_slice);
        members.iter().cloned().collect()
    }
}
