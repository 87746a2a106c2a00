//! The commands of multicast groups. The program attaches its queue pair itself when it gets the event.

use std::net::SocketAddr;

use ibverbs_abi::{Errno, Result};

use super::address::Address;
use super::event_queue::PendingEvent;
use super::events::AddressHandle;
use super::id::{HOP_LIMIT, IdState, qp_type};
use super::input::{Input, ReplyWriter};
use super::kernel_commands::KernelCm;
use super::manager::{Caller, Manager};
use super::os::{CmOs, FileId};
use super::{EINVAL, ENODEV};
use roce::wire::gid_of;

/// `RDMA_MC_JOIN_FLAG_*`.
const FULL_MEMBER: u16 = 0;
const SEND_ONLY: u16 = 1;

impl<H: CmOs> Manager<H> {
    pub(super) fn join_ip(
        &mut self,
        file: FileId,
        input: Input<'_>,
        caller: &mut Caller<'_>,
    ) -> Result<()> {
        let address = Address::parse(input.from(16)).ok_or(EINVAL)?;
        self.join(file, input.u32(44), input.u64(8), address, caller)
    }

    pub(super) fn join_command(
        &mut self,
        file: FileId,
        input: Input<'_>,
        caller: &mut Caller<'_>,
    ) -> Result<()> {
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
    ) -> Result<()> {
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
    ) -> Result<()> {
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
