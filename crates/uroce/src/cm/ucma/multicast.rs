//! Multicast groups. The program attaches its queue pair itself when it gets the event.

use std::net::SocketAddr;

use ibverbs_abi::Errno;

use super::address::Address;
use super::event_queue::PendingEvent;
use super::events::AddressHandle;
use super::id::{HOP_LIMIT, Id, IdState, qp_type};
use super::id_table::IdTable;
use super::input::{Input, ReplyWriter};
use super::kernel_commands::KernelCm;
use super::manager::{Caller, EINVAL, ENODEV, Manager};
use super::os::{CmOs, FileId};
use super::table::NumberTable;
use crate::wire::gid_of;

/// `RDMA_MC_JOIN_FLAG_*`.
const FULL_MEMBER: u16 = 0;
const SEND_ONLY: u16 = 1;

/// A membership in a multicast group.
pub struct Membership {
    pub id: u32,
    /// The kernel's number, if the id is the kernel's.
    pub kernel: Option<u32>,
    pub uid: u64,
    pub events_reported: u32,
}

/// The memberships of a process by number. Each id lists its own.
#[derive(Default)]
pub(super) struct Memberships {
    all: NumberTable<Membership>,
}

impl Memberships {
    /// Adds a membership of an id. Returns its number. ENOENT if there is no such id.
    pub fn add<R>(&mut self, ids: &mut IdTable<R>, id: u32, uid: u64) -> Result<u32, Errno> {
        let owner = ids.existing(id)?;
        let membership = self.all.insert(Membership {
            id,
            kernel: None,
            uid,
            events_reported: 0,
        });
        owner.multicasts.push(membership);
        Ok(membership)
    }

    /// Removes a membership.
    pub fn remove<R>(&mut self, ids: &mut IdTable<R>, number: u32) {
        let removed = self.all.remove(number);
        if let Some(id) = removed.and_then(|removed| ids.get_mut(removed.id)) {
            id.multicasts.retain(|other| *other != number);
        }
    }

    /// Removes the memberships of an id that is removed.
    pub fn remove_all<R>(&mut self, id: &Id<R>) {
        for number in &id.multicasts {
            self.all.remove(*number);
        }
    }

    /// A membership.
    pub fn get(&self, number: u32) -> Option<&Membership> {
        self.all.get(number)
    }

    /// A membership, to be changed.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut Membership> {
        self.all.get_mut(number)
    }

    /// How many there are.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.all.iter().count()
    }
}

impl<H: CmOs> Manager<H> {
    pub(super) fn join_ip(
        &mut self,
        file: FileId,
        input: Input<'_>,
        caller: &mut Caller<'_>,
    ) -> Result<(), Errno> {
        let address = Address::parse(input.from(16)).ok_or(EINVAL)?;
        self.join(file, input.u32(44), input.u64(8), address, caller)
    }

    pub(super) fn join_command(
        &mut self,
        file: FileId,
        input: Input<'_>,
        caller: &mut Caller<'_>,
    ) -> Result<(), Errno> {
        let address = Address::parse(input.from(24)).ok_or(EINVAL)?;
        let known_flags = matches!(input.u16(22), FULL_MEMBER | SEND_ONLY);
        if usize::from(input.u16(20)) != address.len() || !known_flags {
            return Err(EINVAL);
        }
        self.join(file, input.u32(16), input.u64(8), address, caller)
    }

    fn join(
        &mut self,
        file: FileId,
        number: u32,
        uid: u64,
        address: Address,
        caller: &mut Caller<'_>,
    ) -> Result<(), Errno> {
        caller.need(4)?;
        let number = self.ids.find_bound(file, number)?;
        let device = self.device_of(number).ok_or(ENODEV)?;
        let id = self.ids.existing(number)?;
        let group = address.ip().filter(|group| group.ip().is_multicast());
        let group: SocketAddr = group.ok_or(EINVAL)?;
        if !matches!(id.state, IdState::Bound | IdState::AddressResolved)
            || id.qp_type != qp_type::UD
        {
            return Err(EINVAL);
        }
        let src = id.src.ok_or(EINVAL)?;
        let sgid = id.route.map_or(src.gid(), |route| route.sgid);
        let sgid_index = device.gid_index(&sgid).ok_or(ENODEV)?;
        let handle = AddressHandle {
            dgid: gid_of(group.ip()),
            flow_label: 0,
            sgid_index,
            hop_limit: HOP_LIMIT,
            traffic_class: id.tos.unwrap_or(0),
            sl: 0,
        };
        let multicast = self.memberships.add(&mut self.ids, number, uid)?;
        caller
            .reply(ReplyWriter::default().u32(multicast))
            .inspect_err(|_| self.memberships.remove(&mut self.ids, multicast))?;
        self.report_join(number, multicast, handle);
        Ok(())
    }

    pub(super) fn leave(
        &mut self,
        file: FileId,
        input: Input<'_>,
        caller: &mut Caller<'_>,
    ) -> Result<(), Errno> {
        caller.need(4)?;
        let number = input.u32(8);
        let multicast = self.memberships.get(number).ok_or(Errno(libc::ENOENT))?;
        let owner = multicast.id;
        self.ids.find(file, owner)?;
        let reported = multicast.events_reported;
        if let Some(kernel) = multicast.kernel {
            KernelCm(&mut self.os).leave(file, kernel)?;
        }
        self.memberships.remove(&mut self.ids, number);
        let of_it = |event: &PendingEvent| event.multicast == Some(number);
        self.events.take(&mut self.os, file, of_it);
        caller.reply(ReplyWriter::default().u32(reported))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_lists_its_memberships() {
        let (mut ids, mut all) = (IdTable::<()>::default(), Memberships::default());
        assert_eq!(all.add(&mut ids, 0, 1), Err(Errno(libc::ENOENT)));
        let id = ids.insert(Id::new(7, 0, 0x0111, qp_type::UD, 1));
        let [first, second] = [5, 6].map(|uid| all.add(&mut ids, id, uid).unwrap());
        all.remove(&mut ids, first);
        assert_eq!(ids.existing(id).unwrap().multicasts, [second]);
        assert_eq!(all.get(second).unwrap().uid, 6);
        all.remove_all(&ids.remove(id).unwrap());
        assert_eq!(all.count(), 0);
    }
}
