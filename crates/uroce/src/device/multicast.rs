//! Multicast groups: which queue pairs are attached to which.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use smallvec::SmallVec;

use super::Device;
use super::queue_pair::QueuePair;
use crate::profile::{DEFAULT, Limits};
use crate::sync::{Mutex, RwLock};
use roce::engine::{Gid, Service};
use roce::wire::{gid_of, ip_of};

/// Queue pairs that may be attached to a multicast group.
const MAX_QPS_PER_MULTICAST_GROUP: usize = DEFAULT.limits.max_mcast_qp_attach as usize;

/// The queue pairs attached to a multicast group. Allocates nothing, because it is called for each packet.
pub(super) type GroupMembers = SmallVec<[Arc<QueuePair>; MAX_QPS_PER_MULTICAST_GROUP]>;

/// The queue pairs attached to each group.
#[derive(Default)]
pub struct MulticastGroups {
    /// Held while queue pairs are attached or detached. Joining and leaving a group takes system calls,
    /// during which receivers read `members`.
    changing: Mutex<()>,
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
        let _changing = self.changing.lock();
        let groups = self.members.read();
        let members = groups.get(&group).map_or(&[][..], Vec::as_slice);
        if members.iter().any(|member| Arc::ptr_eq(member, qp)) {
            return Ok(());
        }
        let is_first = members.is_empty();
        if members.len() >= limits.max_mcast_qp_attach as usize
            || is_first && groups.len() >= limits.max_mcast_grp as usize
        {
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        }
        drop(groups);
        if is_first {
            join()?;
        }
        let mut groups = self.members.write();
        groups.entry(group).or_default().push(qp.clone());
        Ok(())
    }

    /// Detaches a queue pair; `leave` leaves the group when this was its last one. False if it was not
    /// attached.
    fn detach(&self, qp: &Arc<QueuePair>, group: IpAddr, leave: impl FnOnce()) -> bool {
        let _changing = self.changing.lock();
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
            drop(groups);
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::device::tests::queue_pair_alone;

    const GROUP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(239, 1, 79, 1));

    /// The number of queue pairs of the group, as another thread sees it.
    fn seen(groups: &Arc<MulticastGroups>) -> usize {
        let (sender, receiver) = mpsc::channel();
        let groups = Arc::clone(groups);
        thread::spawn(move || sender.send(groups.of(&gid_of(GROUP)).len()));
        receiver.recv_timeout(Duration::from_secs(20)).unwrap()
    }

    #[test]
    fn receivers_do_not_wait_for_system_calls() {
        let groups = Arc::new(MulticastGroups::default());
        let qps = [1, 2].map(|qpn| queue_pair_alone(qpn, None));
        let limits = &DEFAULT.limits;
        let join = || {
            assert_eq!(seen(&groups), 0);
            Ok(())
        };
        groups.attach(&qps[0], GROUP, limits, join).unwrap();
        for qp in &qps {
            let attached = groups.attach(qp, GROUP, limits, || panic!("a second time"));
            attached.unwrap();
        }
        assert_eq!(seen(&groups), 2);
        assert!(groups.detach(&qps[0], GROUP, || panic!("too early")));
        assert!(groups.detach(&qps[1], GROUP, || assert_eq!(seen(&groups), 0)));
        assert!(!groups.detach(&qps[1], GROUP, || ()));
    }

    #[test]
    fn a_group_that_cannot_be_joined_has_no_members() {
        let groups = Arc::new(MulticastGroups::default());
        let qp = queue_pair_alone(1, None);
        let join = || Err(io::Error::from_raw_os_error(libc::ENOBUFS));
        assert!(groups.attach(&qp, GROUP, &DEFAULT.limits, join).is_err());
        assert!(groups.groups().is_empty() && !groups.contains(&qp));
    }
}
