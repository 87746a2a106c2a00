//! Ids on the kernel's devices. The program has one rdma_cm, uroce's; what concerns a device of the kernel is
//! executed by the kernel's rdma_cm, through a descriptor behind the program's. Pure, around a host.
//!
//! An id begins as uroce's. It becomes the kernel's when it is bound to an address that only a device of the
//! kernel has, or resolves an address whose packets leave from such a device. An id with a wildcard address
//! is in both, with one port number, and listens at the devices of both.
//!
//! The kernel has numbers of its own for ids. It names them in events by the `uid` that they were made with:
//! [`cookie`], from which our number follows. So no table leads from its numbers to ours.

use std::time::Duration;

use ibverbs_abi::Errno;

use super::address::Address;
use super::bind::{backlog_of, find_device};
use super::event_queue::{EVENT_LEN, PendingEvent};
use super::events::EventType;
use super::id::{Devices, Id, IdState};
use super::input::{Command, Input, ReplyWriter};
use super::manager::{Caller, EINVAL, Manager};
use super::os::{Buffer, CmOs, FileId};
use super::resolve::with_scope;

/// How many port numbers of the kernel's choice are tried that other processes have in uroce.
const PORT_TRIES: usize = 64;
/// Bytes of `sockaddr_storage`.
const STORAGE: usize = 128;
/// Bytes of `rdma_ucm_query_addr_resp`, and where its source address is.
const QUERY_LEN: usize = 280;
const QUERY_SOURCE: usize = 16;
/// Where ACCEPT says whether it has parameters.
const ACCEPT_VALID: usize = 8 + 8 + 256 + 7;
const MULTICAST_ERROR: u32 = 13;

const EADDRINUSE: Errno = Errno(libc::EADDRINUSE);
const EADDRNOTAVAIL: Errno = Errno(libc::EADDRNOTAVAIL);
const EACCES: Errno = Errno(libc::EACCES);

/// What the kernel's events name an id or a membership by. Not 0, with which the kernel reports nothing.
fn cookie(number: u32) -> u64 {
    u64::from(number) + 1
}

/// The number of a [`cookie`].
fn number_of(cookie: u64) -> Option<u32> {
    u32::try_from(cookie.checked_sub(1)?).ok()
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(field) = bytes.get_mut(at..at + value.len()) {
        field.copy_from_slice(value);
    }
}

impl<H: CmOs> Manager<H> {
    /// Executes a command that names an id of the kernel; None if it names another one, or if it is for both
    /// sides.
    pub(super) fn execute_in_kernel(
        &mut self,
        file: FileId,
        command: Command,
        input: Input<'_>,
        caller: &mut Caller<'_>,
    ) -> Option<Result<(), Errno>> {
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
            Command::Accept => self.accept_in_kernel(number, input),
            Command::Listen => self.listen_in_kernel(number, backlog_of(input)),
            Command::SetOption => {
                self.forward(number, command, input.0, Buffer::Option(caller.option))
            }
            Command::JoinIpMcast | Command::JoinMcast => {
                self.join_in_kernel(number, command, input, caller)
            }
            _ => self.forward(number, command, input.0, program),
        })
    }

    /// Passes a command on to the kernel, with the kernel's number of the id.
    fn forward(
        &mut self,
        number: u32,
        command: Command,
        input: &[u8],
        buffer: Buffer<'_>,
    ) -> Result<(), Errno> {
        let id = self.ids.existing(number)?;
        let kernel = id.devices.in_kernel().ok_or(EINVAL)?;
        let file = id.file;
        let mut bytes = input.to_vec();
        put(
            &mut bytes,
            command.id_at().ok_or(EINVAL)?,
            &kernel.to_ne_bytes(),
        );
        self.os.kernel(file, command, bytes, buffer)
    }

    /// Makes the kernel's counterpart of an id, with the same options. Returns the kernel's number. ENODEV
    /// if there is no rdma_cm in the kernel.
    fn create_in_kernel(&mut self, number: u32) -> Result<u32, Errno> {
        let id = self.ids.existing(number)?;
        let (file, settings) = (id.file, id.settings.clone());
        let input = ReplyWriter::default().u64(cookie(number)).u64(0);
        let input = input
            .u16(id.space)
            .u8(id.qp_type)
            .pad_to(Command::CreateId.len());
        let mut response = [0; 4];
        let buffer = Buffer::Response(&mut response);
        self.os.kernel(file, Command::CreateId, input.0, buffer)?;
        let kernel = u32::from_ne_bytes(response);
        for (name, value) in settings {
            let input = ReplyWriter::default().u64(0).u32(kernel).u32(0).u32(name);
            let input = input.u32(value.len() as u32);
            let buffer = Buffer::Option(&value);
            // An older kernel may not know it; the id works without it.
            let _ = self.os.kernel(file, Command::SetOption, input.0, buffer);
        }
        Ok(kernel)
    }

    /// Destroys an id of the kernel.
    pub(super) fn destroy_in_kernel(&mut self, file: FileId, kernel: u32) {
        let input = ReplyWriter::default().u64(0).u32(kernel).u32(0);
        let mut response = [0; 4];
        let buffer = Buffer::Response(&mut response);
        // It is gone in any case: the error is about the descriptor.
        let _ = self.os.kernel(file, Command::DestroyId, input.0, buffer);
    }

    fn bind_kernels(&mut self, file: FileId, kernel: u32, address: &Address) -> Result<(), Errno> {
        let input = ReplyWriter::default()
            .u32(kernel)
            .u16(address.len() as u16)
            .u16(0);
        let input = input.address(Some(address), STORAGE);
        self.os
            .kernel(file, Command::Bind, input.0, Buffer::Program(0))
    }

    /// Makes the kernel's counterpart of an id, bound to an address.
    fn create_bound(&mut self, number: u32, address: &Address) -> Result<u32, Errno> {
        let kernel = self.create_in_kernel(number)?;
        let file = self.ids.existing(number)?.file;
        self.bind_kernels(file, kernel, address)
            .inspect_err(|_| self.destroy_in_kernel(file, kernel))?;
        Ok(kernel)
    }

    /// The port number of an id of the kernel.
    fn port_in_kernel(&mut self, file: FileId, kernel: u32) -> Result<u16, Errno> {
        let mut response = [0; QUERY_LEN];
        let input = ReplyWriter::default().u64(0).u32(kernel).u32(0);
        let buffer = Buffer::Response(&mut response);
        self.os.kernel(file, Command::Query, input.0, buffer)?;
        let source = Address::parse(&response[QUERY_SOURCE..]).ok_or(EINVAL)?;
        Ok(source.port())
    }

    /// Binds an id to an address of a device of uroce or of the kernel, or to a wildcard address of both.
    pub(super) fn bind_anywhere(&mut self, number: u32, address: Address) -> Result<(), Errno> {
        if self.ids.existing(number)?.state != IdState::Idle {
            return Err(EINVAL);
        }
        match address {
            Address::Ip(_) if address.is_any() => self.bind_both(number, address),
            Address::Ip(_) => match self.bind(number, address, true) {
                Err(Errno(libc::ENODEV)) => self.bind_in_kernel(number, address),
                other => other,
            },
            Address::Ib(_) => match self.bind_in_kernel(number, address) {
                Err(Errno(libc::ENODEV)) => self.bind(number, address, true),
                other => other,
            },
        }
    }

    fn bind_in_kernel(&mut self, number: u32, address: Address) -> Result<(), Errno> {
        let kernel = self.create_bound(number, &address)?;
        self.ids.existing(number)?.devices = Devices::Kernel(kernel);
        Ok(())
    }

    /// Binds an id to a wildcard address on both sides. The kernel chooses the port number, because other
    /// processes may have bound one that uroce does not know of.
    fn bind_both(&mut self, number: u32, address: Address) -> Result<(), Errno> {
        for _ in 0..PORT_TRIES {
            let kernel = match self.create_bound(number, &address) {
                Ok(kernel) => kernel,
                Err(error @ (EADDRINUSE | EADDRNOTAVAIL | EACCES)) => return Err(error),
                // No rdma_cm; or a loopback address, which no device of the kernel has.
                Err(_) => return self.bind(number, address, true),
            };
            let file = self.ids.existing(number)?.file;
            let bound = self
                .port_in_kernel(file, kernel)
                .and_then(|port| self.bind(number, address.with_port(port), true));
            match bound {
                Ok(()) => {
                    self.ids.existing(number)?.devices = Devices::Both(kernel);
                    return Ok(());
                }
                Err(error) => {
                    self.destroy_in_kernel(file, kernel);
                    if address.port() != 0 || !matches!(error, EADDRINUSE | EADDRNOTAVAIL) {
                        return Err(error);
                    }
                }
            }
        }
        Err(EADDRNOTAVAIL)
    }

    /// Lets the kernel's counterpart of an id listen, if there is one.
    pub(super) fn listen_in_kernel(&mut self, number: u32, backlog: u32) -> Result<(), Errno> {
        let id = self.ids.existing(number)?;
        if id.devices.in_kernel().is_none() {
            return Ok(());
        }
        id.backlog = backlog;
        let input = ReplyWriter::default().u32(0).u32(backlog);
        self.forward(number, Command::Listen, &input.0, Buffer::Program(0))
    }

    fn accept_in_kernel(&mut self, number: u32, input: Input<'_>) -> Result<(), Errno> {
        let mut bytes = input.0.to_vec();
        put(&mut bytes, 0, &cookie(number).to_ne_bytes());
        self.forward(number, Command::Accept, &bytes, Buffer::Program(0))?;
        if input.u8(ACCEPT_VALID) != 0 {
            self.ids.existing(number)?.uid = input.u64(0);
        }
        Ok(())
    }

    /// Sets an option of the kernel's counterpart of an id, too, if there is one.
    pub(super) fn set_in_kernel(
        &mut self,
        number: u32,
        input: Input<'_>,
        value: &[u8],
    ) -> Result<(), Errno> {
        match self.ids.existing(number)?.devices {
            Devices::Both(_) => {
                self.forward(number, Command::SetOption, input.0, Buffer::Option(value))
            }
            _ => Ok(()),
        }
    }

    /// Resolves an address in the kernel, if packets to it leave from a device of the kernel; None if they
    /// do not.
    pub(super) fn resolve_in_kernel(
        &mut self,
        number: u32,
        src: Option<Address>,
        dst: Address,
        timeout: Duration,
    ) -> Option<Result<(), Errno>> {
        let id = self.ids.get(number)?;
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
            (None, Some(to)) => match self.os.route(None, to) {
                Ok(ip) => Address::Ip(with_scope(ip, &to)),
                Err(_) => return false,
            },
            // InfiniBand addresses are the kernel's, if it has an rdma_cm.
            (None, None) => *dst,
        };
        if let Some(ip) = from.ip() {
            let devices = self.os.devices();
            // A loopback address leads to the first device.
            if find_device(&devices, &ip).is_some() || from.is_any() && !devices.is_empty() {
                return false;
            }
        }
        // Apart from that, the kernel binds ids to addresses of its devices only.
        let probe = match from.ip() {
            Some(_) => self.create_bound(number, &from),
            None => self.create_in_kernel(number),
        };
        let file = self.ids.get(number).map(|id| id.file);
        let (Ok(kernel), Some(file)) = (probe, file) else {
            return false;
        };
        self.destroy_in_kernel(file, kernel);
        true
    }

    /// Makes an id the kernel's, which then resolves the address.
    fn move_and_resolve(
        &mut self,
        number: u32,
        src: Option<Address>,
        dst: Address,
        timeout: Duration,
    ) -> Result<(), Errno> {
        let id = self.ids.existing(number)?;
        let (file, before, bound) = (id.file, id.devices, id.src);
        let kernel = match before.in_kernel() {
            Some(kernel) => kernel,
            None => match bound.filter(|_| id.state == IdState::Bound) {
                Some(bound) => self.create_bound(number, &bound)?,
                None => self.create_in_kernel(number)?,
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
            .os
            .kernel(file, Command::ResolveAddr, input.0, Buffer::Program(0));
        if resolving.is_err() {
            if before.in_kernel().is_none() {
                self.destroy_in_kernel(file, kernel);
            }
            return resolving;
        }
        let id = self.ids.existing(number)?;
        id.devices = Devices::Kernel(kernel);
        id.reservation = None;
        let port = id.port.take();
        if let Some(port) = port {
            self.ports.remove(port, number);
        }
        Ok(())
    }

    /// An id is used with a device of uroce from now on: its counterpart in the kernel is not needed.
    pub(super) fn leave_kernel(&mut self, number: u32) {
        let Some(id) = self.ids.get_mut(number) else {
            return;
        };
        if let Devices::Both(kernel) = id.devices {
            id.devices = Devices::Uroce;
            let file = id.file;
            self.destroy_in_kernel(file, kernel);
        }
    }

    fn join_in_kernel(
        &mut self,
        number: u32,
        command: Command,
        input: Input<'_>,
        caller: &mut Caller<'_>,
    ) -> Result<(), Errno> {
        caller.need(4)?;
        let multicast = self.add_multicast(number, input.u64(8))?;
        let mut bytes = input.0.to_vec();
        put(&mut bytes, 8, &cookie(multicast).to_ne_bytes());
        let mut response = [0; 4];
        self.forward(number, command, &bytes, Buffer::Response(&mut response))
            .inspect_err(|_| self.remove_multicast(multicast))?;
        let in_kernel = u32::from_ne_bytes(response);
        if let Some(membership) = self.multicasts.get_mut(multicast) {
            membership.kernel = Some(in_kernel);
        }
        let file = self.ids.existing(number)?.file;
        caller
            .reply(ReplyWriter::default().u32(multicast))
            .inspect_err(|_| {
                // The program does not know the membership, so it cannot end it.
                let _ = self.leave_in_kernel(file, in_kernel);
                self.remove_multicast(multicast);
            })
    }

    /// Ends a membership in the kernel.
    pub(super) fn leave_in_kernel(&mut self, file: FileId, multicast: u32) -> Result<(), Errno> {
        let input = ReplyWriter::default().u64(0).u32(multicast).u32(0);
        let mut response = [0; 4];
        let buffer = Buffer::Response(&mut response);
        self.os.kernel(file, Command::LeaveMcast, input.0, buffer)
    }

    /// Moves an id of the kernel to the kernel's descriptor behind another file.
    pub(super) fn migrate_in_kernel(
        &mut self,
        number: u32,
        from: FileId,
        to: FileId,
    ) -> Result<(), Errno> {
        let Some(kernel) = self.ids.existing(number)?.devices.in_kernel() else {
            return Ok(());
        };
        let fd = self.os.kernel_descriptor(from).ok_or(EINVAL)?;
        let input = ReplyWriter::default().u64(0).u32(kernel).u32(fd as u32);
        let mut response = [0; 4];
        let buffer = Buffer::Response(&mut response);
        self.os.kernel(to, Command::MigrateId, input.0, buffer)
    }

    /// Gets the events that the kernel has for a file.
    pub fn take_kernel_events(&mut self, file: FileId) {
        loop {
            let mut bytes = Box::new([0; EVENT_LEN]);
            let buffer = Buffer::Response(&mut bytes[..]);
            let input = vec![0; Command::GetEvent.len()];
            if self
                .os
                .kernel(file, Command::GetEvent, input, buffer)
                .is_err()
            {
                return;
            }
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
                .multicasts
                .get(multicast)
                .map(|found| (found.id, found.uid)),
            None => self.ids.get(named).map(|id| (named, id.uid)),
        };
        let request = is_request
            .then(|| self.add_request(file, named, kernel))
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
        self.push_event(file, event);
    }

    /// The id of a connection that a peer asks a listening id for. None if too many are queued; it is
    /// rejected then, as by the kernel.
    fn add_request(&mut self, file: FileId, listener: u32, kernel: u32) -> Option<u32> {
        let found = self.ids.get_mut(listener);
        let taken = found.and_then(|id| {
            id.backlog = id.backlog.checked_sub(1)?;
            Some(Id::new(file, 0, id.space, id.qp_type, 0))
        });
        let Some(mut id) = taken else {
            self.destroy_in_kernel(file, kernel);
            return None;
        };
        id.devices = Devices::Kernel(kernel);
        Some(self.ids.insert(id))
    }
}

#[cfg(test)]
mod tests;
