//! Ids on the kernel's devices. The program has one rdma_cm, uroce's; what concerns a device of the kernel is
//! executed by the kernel's rdma_cm, through a descriptor behind the program's. Pure, around a [`CmOs`].
//!
//! An id begins as uroce's. It becomes the kernel's when it is bound to an address that only a device of the
//! kernel has, or resolves an address whose packets leave from such a device. An id with a wildcard address
//! is in both, with one port number, and listens at the devices of both.
//!
//! The kernel has numbers of its own for ids. It names them in events by the `uid` that they were made with:
//! a cookie ([`super::kernel_commands`]), from which our number follows. So no table leads from its numbers
//! to ours.

use std::time::Duration;

use ibverbs_abi::{Errno, Result};

use super::EINVAL;
use super::address::{Address, with_scope};
use super::bind::{Binder, backlog_of, find_device};
use super::event_queue::{EVENT_LEN, PendingEvent};
use super::events::EventType;
use super::id::{Devices, Id, IdState};
use super::input::{Command, Input, ReplyWriter};
use super::kernel_commands::{KernelCm, STORAGE, cookie, number_of, put};
use super::manager::{Caller, Manager};
use super::os::{Buffer, CmOs, FileId};

/// How many port numbers of the kernel's choice are tried that other processes have in uroce.
const PORT_TRIES: usize = 64;
/// Where ACCEPT says whether it has parameters.
const ACCEPT_VALID: usize = 8 + 8 + 256 + 7;
const MULTICAST_ERROR: u32 = 13;

const EADDRINUSE: Errno = Errno(libc::EADDRINUSE);
const EADDRNOTAVAIL: Errno = Errno(libc::EADDRNOTAVAIL);
const EACCES: Errno = Errno(libc::EACCES);

impl<H: CmOs> Manager<H> {
    /// The ids, as the kernel's rdma_cm may have them.
    pub(super) fn kernel_ids(&mut self) -> KernelIds<'_, H> {
        KernelIds(self.binder())
    }

    /// Executes a command that names an id of the kernel; None if it names another one, or if it is for both
    /// sides.
    pub(super) fn execute_in_kernel(
        &mut self,
        file: FileId,
        command: Command,
        input: Input<'_>,
        caller: &mut Caller<'_>,
    ) -> Option<Result<()>> {
        let is_ours = matches!(
            command,
            Command::DestroyId | Command::MigrateId | Command::WriteCmEvent
        );
        if is_ours {
            return None;
        }
        let number = input.u32(command.id_at()?);
        let id = self.ids.get(number).filter(|id| id.file == file)?;
        let Devices::Kernel(_) = id.devices else {
            return None;
        };
        let program = Buffer::Program(caller.out_len);
        Some(match command {
            Command::Accept => self.kernel_ids().accept(number, input),
            Command::Listen => self.kernel_ids().listen(number, backlog_of(input)),
            Command::SetOption => {
                let option = Buffer::Option(caller.option);
                self.kernel_ids().forward(number, command, input.0, option)
            }
            Command::JoinIpMcast | Command::JoinMcast => {
                self.join_in_kernel(number, command, input, caller)
            }
            _ => self.kernel_ids().forward(number, command, input.0, program),
        })
    }

    fn join_in_kernel(
        &mut self,
        number: u32,
        command: Command,
        input: Input<'_>,
        caller: &mut Caller<'_>,
    ) -> Result<()> {
        caller.need(4)?;
        let multicast = self.memberships.add(&mut self.ids, number, input.u64(8))?;
        let mut bytes = input.0.to_vec();
        put(&mut bytes, 8, &cookie(multicast).to_ne_bytes());
        let mut response = [0; 4];
        self.kernel_ids()
            .forward(number, command, &bytes, Buffer::Response(&mut response))
            .inspect_err(|_| self.memberships.remove(&mut self.ids, multicast))?;
        let in_kernel = u32::from_ne_bytes(response);
        if let Some(membership) = self.memberships.get_mut(multicast) {
            membership.kernel = Some(in_kernel);
        }
        let file = self.ids.existing(number)?.file;
        caller
            .reply(ReplyWriter::default().u32(multicast))
            .inspect_err(|_| {
                // The program does not know the membership, so it cannot end it.
                let _ = KernelCm(&mut self.os).leave(file, in_kernel);
                self.memberships.remove(&mut self.ids, multicast);
            })
    }

    /// Gets the events that the kernel has for a file.
    pub fn take_kernel_events(&mut self, file: FileId) {
        while let Some(bytes) = KernelCm(&mut self.os).next_event(file) {
            self.add_kernel_event(file, bytes);
        }
    }

    /// Adds an event of the kernel, with our numbers and the program's `uid`.
    fn add_kernel_event(&mut self, file: FileId, mut bytes: Box<[u8; EVENT_LEN]>) {
        let input = Input(&bytes[..]);
        let (cookie, kernel, kind) = (input.u64(0), input.u32(8), input.u32(12));
        let Some(named) = number_of(cookie) else {
            return;
        };
        let is_request = kind == EventType::ConnectRequest as u32;
        let is_multicast = kind == EventType::MulticastJoin as u32 || kind == MULTICAST_ERROR;
        let multicast = is_multicast.then_some(named);
        let owner = match multicast {
            Some(multicast) => self
                .memberships
                .get(multicast)
                .map(|found| (found.id, found.uid)),
            None => self.ids.get(named).map(|id| (named, id.uid)),
        };
        let request = is_request
            .then(|| self.kernel_ids().add_request(file, named, kernel))
            .flatten();
        let Some((id, uid)) = owner.filter(|_| is_request == request.is_some()) else {
            return;
        };
        put(&mut bytes[..], 0, &uid.to_ne_bytes());
        put(&mut bytes[..], 8, &request.unwrap_or(named).to_ne_bytes());
        let event = PendingEvent {
            id,
            multicast,
            request,
            bytes,
        };
        self.events.push(&mut self.os, file, event);
    }
}

/// The ids of a process on the kernel's devices, and the kernel's counterparts of ids with wildcard
/// addresses: the parts of the operating system and of the ids that these take.
pub(super) struct KernelIds<'a, H: CmOs>(pub Binder<'a, H>);

impl<H: CmOs> KernelIds<'_, H> {
    /// [`KernelCm::forward`].
    fn forward(
        &mut self,
        number: u32,
        command: Command,
        input: &[u8],
        buffer: Buffer<'_>,
    ) -> Result<()> {
        let id = self.0.ids.existing(number)?;
        KernelCm(self.0.os).forward(id, command, input, buffer)
    }

    /// [`KernelCm::create_bound`].
    fn create_bound(&mut self, number: u32, address: &Address) -> Result<u32> {
        let id = self.0.ids.existing(number)?;
        KernelCm(self.0.os).create_bound(number, id, address)
    }

    /// Binds an id to an address of a device of uroce or of the kernel, or to a wildcard address of both.
    pub fn bind_anywhere(&mut self, number: u32, address: Address) -> Result<()> {
        if self.0.ids.existing(number)?.state != IdState::Idle {
            return Err(EINVAL);
        }
        match address {
            Address::Ip(_) if address.is_any() => self.bind_both(number, address),
            Address::Ip(_) => match self.0.bind(number, address, true) {
                Err(Errno(libc::ENODEV)) => self.bind_in_kernel(number, address),
                other => other,
            },
            Address::Ib(_) => match self.bind_in_kernel(number, address) {
                Err(Errno(libc::ENODEV)) => self.0.bind(number, address, true),
                other => other,
            },
        }
    }

    fn bind_in_kernel(&mut self, number: u32, address: Address) -> Result<()> {
        let kernel = self.create_bound(number, &address)?;
        self.0.ids.existing(number)?.devices = Devices::Kernel(kernel);
        Ok(())
    }

    /// Binds an id to a wildcard address on both sides. The kernel chooses the port number, because other
    /// processes may have bound one that uroce does not know of.
    fn bind_both(&mut self, number: u32, address: Address) -> Result<()> {
        for _ in 0..PORT_TRIES {
            let kernel = match self.create_bound(number, &address) {
                Ok(kernel) => kernel,
                Err(error @ (EADDRINUSE | EADDRNOTAVAIL | EACCES)) => return Err(error),
                // No rdma_cm; or a loopback address, which no device of the kernel has.
                Err(_) => return self.0.bind(number, address, true),
            };
            let file = self.0.ids.existing(number)?.file;
            let bound = KernelCm(self.0.os)
                .port(file, kernel)
                .and_then(|port| self.0.bind(number, address.with_port(port), true));
            match bound {
                Ok(()) => {
                    self.0.ids.existing(number)?.devices = Devices::Both(kernel);
                    return Ok(());
                }
                Err(error) => {
                    KernelCm(self.0.os).destroy(file, kernel);
                    if address.port() != 0 || !matches!(error, EADDRINUSE | EADDRNOTAVAIL) {
                        return Err(error);
                    }
                }
            }
        }
        Err(EADDRNOTAVAIL)
    }

    /// Lets the kernel's counterpart of an id listen, if there is one.
    pub fn listen(&mut self, number: u32, backlog: u32) -> Result<()> {
        let id = self.0.ids.existing(number)?;
        if id.devices.in_kernel().is_none() {
            return Ok(());
        }
        id.backlog = backlog;
        let input = ReplyWriter::default().u32(0).u32(backlog);
        self.forward(number, Command::Listen, &input.0, Buffer::Program(0))
    }

    /// Accepts a connection in the kernel.
    fn accept(&mut self, number: u32, input: Input<'_>) -> Result<()> {
        let mut bytes = input.0.to_vec();
        put(&mut bytes, 0, &cookie(number).to_ne_bytes());
        self.forward(number, Command::Accept, &bytes, Buffer::Program(0))?;
        if input.u8(ACCEPT_VALID) != 0 {
            self.0.ids.existing(number)?.uid = input.u64(0);
        }
        Ok(())
    }

    /// Sets an option of the kernel's counterpart of an id, too, if there is one.
    pub fn set_option(&mut self, number: u32, input: Input<'_>, value: &[u8]) -> Result<()> {
        match self.0.ids.existing(number)?.devices {
            Devices::Both(_) => {
                self.forward(number, Command::SetOption, input.0, Buffer::Option(value))
            }
            _ => Ok(()),
        }
    }

    /// Resolves an address in the kernel, if packets to it leave from a device of the kernel; None if they
    /// do not.
    pub fn resolve(
        &mut self,
        number: u32,
        src: Option<Address>,
        dst: Address,
        timeout: Duration,
    ) -> Option<Result<()>> {
        let id = self.0.ids.get(number)?;
        let src = src.filter(|src| id.state == IdState::Idle && !src.is_any());
        let may_move = match id.state {
            IdState::Idle => true,
            IdState::Bound => id.device.is_none(),
            _ => false,
        };
        if !may_move || !self.leaves_from_kernel(number, src, &dst) {
            return None;
        }
        Some(self.move_and_resolve(number, src, dst, timeout))
    }

    fn leaves_from_kernel(&mut self, number: u32, src: Option<Address>, dst: &Address) -> bool {
        let from = match (src, dst.ip()) {
            (Some(src), _) => src.with_port(0),
            (None, Some(to)) => match self.0.os.route(None, to) {
                Ok(ip) => Address::Ip(with_scope(ip, &to)),
                Err(_) => return false,
            },
            // InfiniBand addresses are the kernel's, if it has an rdma_cm.
            (None, None) => *dst,
        };
        if let Some(ip) = from.ip() {
            let devices = self.0.os.devices();
            // A loopback address leads to the first device.
            if find_device(&devices, &ip).is_some() || from.is_any() && !devices.is_empty() {
                return false;
            }
        }
        // Apart from that, the kernel binds ids to addresses of its devices only.
        let Some(id) = self.0.ids.get(number) else {
            return false;
        };
        let mut in_kernel = KernelCm(self.0.os);
        let probe = match from.ip() {
            Some(_) => in_kernel.create_bound(number, id, &from),
            None => in_kernel.create(number, id),
        };
        if let Ok(kernel) = probe {
            in_kernel.destroy(id.file, kernel);
        }
        probe.is_ok()
    }

    /// Makes an id the kernel's, which then resolves the address.
    fn move_and_resolve(
        &mut self,
        number: u32,
        src: Option<Address>,
        dst: Address,
        timeout: Duration,
    ) -> Result<()> {
        let id = self.0.ids.existing(number)?;
        let (file, before, bound) = (id.file, id.devices, id.src);
        let kernel = match before.in_kernel() {
            Some(kernel) => kernel,
            None => match bound.filter(|_| id.state == IdState::Bound) {
                Some(bound) => KernelCm(self.0.os).create_bound(number, id, &bound)?,
                None => KernelCm(self.0.os).create(number, id)?,
            },
        };
        let len = |address: Option<Address>| address.map_or(0, |address| address.len() as u16);
        let input = ReplyWriter::default()
            .u32(kernel)
            .u32(timeout.as_millis() as u32);
        let input = input.u16(len(src)).u16(len(Some(dst))).u32(0);
        let input = input
            .address(src.as_ref(), STORAGE)
            .address(Some(&dst), STORAGE);
        let resolving = self
            .0
            .os
            .kernel(file, Command::ResolveAddr, input.0, Buffer::Program(0));
        if resolving.is_err() {
            if before.in_kernel().is_none() {
                KernelCm(self.0.os).destroy(file, kernel);
            }
            return resolving;
        }
        let id = self.0.ids.existing(number)?;
        id.devices = Devices::Kernel(kernel);
        id.reservation = None;
        self.0.ids.leave_port(number);
        Ok(())
    }

    /// An id is used with a device of uroce from now on: its counterpart in the kernel is not needed.
    pub fn leave(&mut self, number: u32) {
        let Some(id) = self.0.ids.get_mut(number) else {
            return;
        };
        if let Devices::Both(kernel) = id.devices {
            id.devices = Devices::Uroce;
            let file = id.file;
            KernelCm(self.0.os).destroy(file, kernel);
        }
    }

    /// The id of a connection that a peer asks a listening id for. None if too many are queued; it is
    /// rejected then, as by the kernel.
    fn add_request(&mut self, file: FileId, listener: u32, kernel: u32) -> Option<u32> {
        let found = self.0.ids.get_mut(listener);
        let taken = found.and_then(|id| {
            id.backlog = id.backlog.checked_sub(1)?;
            Some(Id::new(file, 0, id.space, id.qp_type, 0))
        });
        let Some(mut id) = taken else {
            KernelCm(self.0.os).destroy(file, kernel);
            return None;
        };
        id.devices = Devices::Kernel(kernel);
        Some(self.0.ids.insert(id))
    }
}

#[cfg(test)]
mod tests;
