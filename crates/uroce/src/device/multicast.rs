//! Multicast groups: which queue pairs are attached to which.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use smallvec::SmallVec;

use super::Device;
use super::queue_pair::QueuePair;
use crate::profile::{DEFAULT, Limits};
use crate::sync::RwLock;
use roce::engine::{Gid, Service};
use roce::wire::{gid_of, ip_of};

/// Queue pairs that may be attached to a multicast group.
const MAX_QPS_PER_MULTICAST_GROUP: usize = DEFAULT.limits.max_mcast_qp_attach as usize;

/// The queue pairs attached to a multicast group. Allocates nothing, because it is called for each packet.
pub(super) type GroupMembers = SmallVec<[Arc<QueuePair>; MAX_QPS_PER_MULTICAST_GROUP]>;

/// The queue pairs attached to each group.
#[derive(Default)]
pub struct MulticastGroups {
    /// The queue pairs by the group's address; no list is empty.
    members: RwLock<HashMap<IpAddr, Vec<Arc<QueuePair>>>>,
}

impl MulticastGroups {
    /// Attaches a queue pair; does nothing if it is attached already. `join` joins the group when this is its
    /// first queue pair. Fails with its error; with ENOMEM beyond the profile's limits.
    fn attach(
        &self,
        qp: &Arc<QueuePair>,
        group: IpAddr,
        limits: &Limits,
        join: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let mut groups = self.members.write();
        let group_count = groups.len();
        if let Some(members) = groups.get_mut(&group) {
            if members.iter().any(|member| Arc::ptr_eq(member, qp)) {
                return Ok(());
            }
            if members.len() >= limits.max_mcast_qp_attach as usize {
                return Err(io::Error::from_raw_os_error(libc::ENOMEM));
            }
            members.push(qp.clone());
            return Ok(());
        }
        if limits.max_mcast_qp_attach == 0 || group_count >= limits.max_mcast_grp as usize {
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        }
        join()?;
        groups.insert(group, vec![qp.clone()]);
        Ok(())
    }

    /// Detaches a queue pair; `leave` leaves the group when this was its last one. False if it was not
    /// attached.
    fn detach(&self, qp: &Arc<QueuePair>, group: IpAddr, leave: impl FnOnce()) -> bool {
        let mut groups = self.members.write();
        let Some(members) = groups.get_mut(&group) else {
            return false;
        };
        let Some(at) = members.iter().position(|member| Arc::ptr_eq(member, qp)) else {
            return false;
        };
        members.swap_remove(at);
        if members.is_empty() {
            groups.remove(&group);
            leave();
        }
        true
    }

    /// The groups to which any queue pair is attached.
    fn groups(&self) -> Vec<IpAddr> {
        self.members.read().keys().copied().collect()
    }

    /// Whether a queue pair is attached to any group.
    pub fn contains(&self, qp: &Arc<QueuePair>) -> bool {
        let groups = self.members.read();
        let mut all = groups.values().flatten();
        all.any(|member| Arc::ptr_eq(member, qp))
    }

    /// The queue pairs of a group.
    pub(super) fn of(&self, group: &Gid) -> GroupMembers {
        let groups = self.members.read();
        let members = groups.get(&ip_of(group)).map_or(&[][..], Vec::as_slice);
        members.iter().cloned().collect()
    }

    /// Detaches all queue pairs: the device is closed.
    pub fn clear(&self) {
        self.members.write().clear();
    }
}

impl Device {
    /// Attaches the queue pair to a multicast group; does nothing if it is attached already. Fails as
    /// [`Net::join`]; with ENOMEM beyond the profile's limits.
    pub fn attach_multicast(&self, qp: &Arc<QueuePair>, group: &Gid) -> io::Result<()> {
        let join = || self.net.join(group);
        let limits = &self.profile.limits;
        self.multicast_groups.attach(qp, ip_of(group), limits, join)
    }

    /// Detaches the queue pair from a multicast group. Returns false if it was not attached.
    pub fn detach_multicast(&self, qp: &Arc<QueuePair>, group: &Gid) -> bool {
        let leave = || self.net.leave(group);
        self.multicast_groups.detach(qp, ip_of(group), leave)
    }

    /// Detaches a queue pair that is destroyed from all multicast groups.
    pub fn detach_from_all(&self, qp: &Arc<QueuePair>) {
        if qp.service != Service::Ud || !self.multicast_groups.contains(qp) {
            return;
        }
        for group in self.multicast_groups.groups() {
            self.detach_multicast(qp, &gid_of(group));
        }
    }
}
