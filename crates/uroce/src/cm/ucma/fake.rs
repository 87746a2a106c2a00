//! A fake operating system ([`CmOs`]) for tests and fuzz targets: one device, and processes that compete for
//! ports.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::RawFd;
use std::rc::{Rc, Weak};

use ibverbs_abi::{Errno, Result};

use super::address::scope_of;
use super::input::{Command, Input};
use super::manager::{Caller, Manager};
use super::os::{Buffer, CmOs, DeviceInfo, FileId, Port};
use super::{EINVAL, Failure};
use roce::cm::agent::Agent;
#[cfg(test)]
use roce::cm::agent::Incoming;
use roce::engine::{Gid, Time};
use roce::wire::{gid_of, link_local_gid_of};

/// Ports that processes have reserved, at each address.
type Ports = Rc<RefCell<HashSet<(Port, Gid)>>>;

/// A host with one device.
pub struct Fake {
    /// The address of the device.
    pub ip: IpAddr,
    /// Further addresses of the device.
    pub more_ips: Vec<IpAddr>,
    pub ports: Ports,
    /// The ports in `ports` that this process has.
    own_ports: HashMap<(Port, Gid), Weak<ReservedPort>>,
    pub readable: HashMap<FileId, bool>,
    /// The host has no neighbour that replies to ARP.
    pub is_alone: bool,
    /// How often the kernel was asked for neighbours.
    pub asked: u32,
    /// Another process in place of the kernel's rdma_cm, which has the device of another interface.
    pub kernel: Option<Box<Process>>,
    /// The response that the kernel has written to the program.
    response: Vec<u8>,
    random: u32,
    next_prefix: u32,
    pub ephemeral_ports: (u16, u16),
    /// The error of [`CmOs::listen`].
    pub listen_error: Option<Errno>,
}

/// A port at an address, which is freed when this is dropped.
pub struct ReservedPort {
    ports: Ports,
    own: (Port, Gid),
}

impl Drop for ReservedPort {
    fn drop(&mut self) {
        self.ports.borrow_mut().remove(&self.own);
    }
}

fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

impl Fake {
    /// A host with this address. Processes of one host share the ports, and have different prefixes.
    pub fn new(ip: IpAddr, ports: &Ports, prefix: u32) -> Fake {
        Fake {
            ip,
            more_ips: Vec::new(),
            ports: Rc::clone(ports),
            own_ports: HashMap::new(),
            readable: HashMap::new(),
            is_alone: false,
            asked: 0,
            kernel: None,
            response: Vec::new(),
            random: prefix,
            next_prefix: prefix,
            ephemeral_ports: (40_000, 40_003),
            listen_error: None,
        }
    }

    /// The GID at index 0, as of a device at one address.
    fn second_name(&self) -> Gid {
        match self.ip {
            IpAddr::V4(v4) => link_local_gid_of(v4),
            IpAddr::V6(_) => [0xfe; 16],
        }
    }

    fn reserve_at(&mut self, port: Port, gid: &Gid) -> Result<Rc<ReservedPort>> {
        let own = (port, *gid);
        if let Some(reserved) = self.own_ports.get(&own).and_then(Weak::upgrade) {
            return Ok(reserved);
        }
        if !self.ports.borrow_mut().insert(own) {
            return Err(Errno(libc::EADDRINUSE));
        }
        let ports = Rc::clone(&self.ports);
        let reserved = Rc::new(ReservedPort { ports, own });
        self.own_ports.insert(own, Rc::downgrade(&reserved));
        Ok(reserved)
    }
}

impl CmOs for Fake {
    type Reservation = Vec<Rc<ReservedPort>>;

    fn devices(&mut self) -> Vec<DeviceInfo> {
        let ips = [self.ip].into_iter().chain(self.more_ips.iter().copied());
        let gids = [self.second_name()].into_iter().chain(ips.map(gid_of));
        vec![DeviceInfo {
            node_guid: [1, 2, 3, 4, 5, 6, 7, 8],
            index: 5,
            ifindex: 2,
            gids: (0..).zip(gids).collect(),
            active_mtu: 3,
            active: true,
            flush: true,
        }]
    }

    fn route(&mut self, from: Option<IpAddr>, to: SocketAddr) -> Result<IpAddr> {
        let kernel = self.kernel.as_ref().map(|kernel| kernel.ip());
        let own = kernel.filter(|ip| same_network(*ip, to.ip()));
        let own = own.unwrap_or(self.ip);
        match from {
            Some(from) if from != self.ip && Some(from) != kernel => {
                Err(Errno(libc::EADDRNOTAVAIL))
            }
            _ if to.ip().is_loopback() || to.ip().is_unspecified() => {
                Ok(Ipv4Addr::LOCALHOST.into())
            }
            _ if is_link_local(to.ip()) && scope_of(&to) == 0 => Err(EINVAL),
            _ if to.is_ipv4() == own.is_ipv4() => Ok(own),
            _ => Err(Errno(libc::ENETUNREACH)),
        }
    }

    fn interface(&mut self, to: IpAddr) -> u32 {
        if is_link_local(to) { 2 } else { 0 }
    }

    fn awaits_neighbour(&mut self, _: u32, _: IpAddr, to: SocketAddr) -> bool {
        self.asked += 1;
        self.is_alone && to.ip() != self.ip
    }

    fn reserve(&mut self, port: Port, at: &[Gid]) -> Result<Self::Reservation> {
        at.iter().map(|gid| self.reserve_at(port, gid)).collect()
    }

    fn reserve_where_free(&mut self, port: Port, at: &[Gid]) -> Self::Reservation {
        let reserved = at.iter().filter_map(|gid| self.reserve_at(port, gid).ok());
        reserved.collect()
    }

    fn reserve_prefix(&mut self) -> Result<(u32, Self::Reservation)> {
        let prefix = self.next_prefix;
        self.next_prefix += 0x100;
        Ok((prefix, Vec::new()))
    }

    fn listen(&mut self, _: &Self::Reservation) -> Result<()> {
        self.listen_error.map_or(Ok(()), Err)
    }

    fn ephemeral_ports(&mut self) -> (u16, u16) {
        self.ephemeral_ports
    }

    fn may_use_low_ports(&mut self) -> bool {
        false
    }

    fn bind_v6_only(&mut self) -> bool {
        false
    }

    fn random(&mut self) -> u32 {
        self.random = self
            .random
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223);
        self.random >> 8
    }

    fn kernel(
        &mut self,
        file: FileId,
        command: Command,
        input: Vec<u8>,
        buffer: Buffer<'_>,
    ) -> Result<()> {
        let kernel = self.kernel.as_mut().ok_or(Errno(libc::ENODEV))?;
        match buffer {
            Buffer::Program(len) => self.response = kernel.call(file, command, &input, len)?,
            Buffer::Response(bytes) => {
                let response = kernel.call(file, command, &input, bytes.len())?;
                bytes[..response.len()].copy_from_slice(&response);
            }
            Buffer::Option(value) => {
                kernel.call_with_option(file, command, &input, 0, value)?;
            }
        }
        Ok(())
    }

    fn kernel_descriptor(&mut self, _: FileId) -> Option<RawFd> {
        self.kernel.is_some().then_some(0)
    }

    fn close_kernel(&mut self, file: FileId) {
        if let Some(kernel) = &mut self.kernel {
            kernel.manager.close(file, kernel.now);
        }
    }

    fn set_readable(&mut self, file: FileId, readable: bool) {
        self.readable.insert(file, readable);
    }
}

fn same_network(a: IpAddr, b: IpAddr) -> bool {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => a.octets()[..3] == b.octets()[..3],
        _ => false,
    }
}

/// A process on a fake host.
pub struct Process {
    pub manager: Manager<Fake>,
    pub now: Time,
}

impl Process {
    /// A process with the descriptors 1 and 2, at an address.
    pub fn new(prefix: u32, ip: IpAddr, ports: &Ports) -> Process {
        let os = Fake::new(ip, ports, prefix);
        let mut manager = Manager::new(os, Agent::new());
        manager.open(1);
        manager.open(2);
        Process {
            manager,
            now: Time(1),
        }
    }

    fn ip(&self) -> IpAddr {
        self.manager.os.ip
    }

    /// Writes a command to a descriptor. Returns the response.
    pub fn call(
        &mut self,
        file: FileId,
        command: Command,
        input: &[u8],
        out_len: usize,
    ) -> Result<Vec<u8>> {
        self.call_with_option(file, command, input, out_len, &[1, 0, 0, 0])
    }

    /// [`Process::call`] with the value that SET_OPTION's input points to.
    pub fn call_with_option(
        &mut self,
        file: FileId,
        command: Command,
        input: &[u8],
        out_len: usize,
        option: &[u8],
    ) -> Result<Vec<u8>> {
        let mut response = Vec::new();
        let mut respond = |bytes: &[u8]| {
            response.extend_from_slice(bytes);
            Ok(())
        };
        let mut caller = Caller {
            out_len,
            respond: &mut respond,
            option,
            other_file: Ok(1),
        };
        let input = Input(input);
        let result = self
            .manager
            .execute(file, command, input, &mut caller, self.now);
        response.append(&mut self.manager.os().response);
        result.map(|()| response).map_err(Failure::errno)
    }
}

#[cfg(test)]
impl Process {
    /// Delivers what this process sends to another one, and the answers, until nobody sends any more.
    pub fn exchange(&mut self, other: &mut Process) {
        loop {
            let sent = self.pass(other);
            if !(other.pass(self) || sent) {
                return;
            }
        }
    }

    /// Delivers what this process sends. Requests that the other one does not want are rejected.
    fn pass(&mut self, other: &mut Process) -> bool {
        let messages = self.manager.take_outgoing();
        for message in &messages {
            let incoming = Incoming {
                src: message.route.sgid,
                dst: message.route.dgid,
                mad: message.mad,
            };
            if let Some(mad) = other.manager.receive(&incoming, other.now) {
                other.manager.reject_orphan(&incoming, &mad);
            }
        }
        !messages.is_empty()
    }
}
