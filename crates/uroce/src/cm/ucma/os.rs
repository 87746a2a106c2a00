//! The operating system as the commands need it: devices, routes, port numbers of other processes.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;

use ibverbs_abi::Result;

use super::input::Command;
use roce::engine::Gid;

/// A device, as an id that is bound to it needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The node GUID, in network byte order.
    pub node_guid: [u8; 8],
    /// The device index of the library.
    pub index: u32,
    /// The index of the interface.
    pub ifindex: u32,
    /// The GIDs and their indices in the GID table.
    pub gids: Vec<(u8, Gid)>,
    /// The path MTU of the port, as in `ibv_port_attr.active_mtu`.
    pub active_mtu: u8,
    /// The port is active.
    pub active: bool,
    /// The device executes FLUSH.
    pub flush: bool,
}

impl DeviceInfo {
    /// The index of a GID in the table.
    pub fn gid_index(&self, gid: &Gid) -> Option<u8> {
        let found = self.gids.iter().find(|(_, other)| other == gid);
        found.map(|(index, _)| *index)
    }
}

/// A port number: the port space, as in `rdma_ucm_port_space`, and the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Port {
    pub space: u16,
    pub number: u16,
}

impl Port {
    /// The port of a service ID.
    pub fn of_service(service_id: u64) -> Port {
        Port {
            space: (service_id >> 16) as u16,
            number: service_id as u16,
        }
    }

    /// The service ID of the port (annex A11).
    pub fn service_id(self) -> u64 {
        u64::from(self.space) << 16 | u64::from(self.number)
    }
}

/// A descriptor of the program, as the operating system knows it.
pub type FileId = u64;

/// The buffer that a command to the kernel refers to besides its structure.
pub enum Buffer<'a> {
    /// The program's buffer for the response, whose address is in the structure: its length.
    Program(usize),
    /// The buffer for the response.
    Response(&'a mut [u8]),
    /// The value of an option.
    Option(&'a [u8]),
}

/// The operating system around the commands.
pub trait CmOs {
    /// Keeps a port number or a prefix from other processes until it is dropped.
    type Reservation;

    /// The devices, at the same position in all calls. Opens them if they are not open yet.
    fn devices(&mut self) -> Vec<DeviceInfo>;

    /// The address that packets to `to` leave from, or the error that they cannot. `from` is the source
    /// address, if it is given.
    fn route(&mut self, from: Option<IpAddr>, to: SocketAddr) -> Result<IpAddr>;

    /// The interface of the route to an address; 0 if there is no route.
    fn interface(&mut self, to: IpAddr) -> u32;

    /// Whether packets that leave through an interface from one address to another wait for the
    /// link-layer address of the next hop. Makes the kernel ask for it.
    fn awaits_neighbour(&mut self, ifindex: u32, from: IpAddr, to: SocketAddr) -> bool;

    /// Reserves a port number at these addresses of this host, or at none. EADDRINUSE if another process
    /// has it at one of them.
    fn reserve(&mut self, port: Port, at: &[Gid]) -> Result<Self::Reservation>;

    /// Reserves a port number at those of these addresses where no other process has it.
    fn reserve_where_free(&mut self, port: Port, at: &[Gid]) -> Self::Reservation;

    /// Reserves a prefix of communication IDs that no other process has: from now on messages for them reach
    /// this process.
    fn reserve_prefix(&mut self) -> Result<(u32, Self::Reservation)>;

    /// Lets peers' requests to a port that this process has reserved reach it from now on.
    fn listen(&mut self, reserved: &Self::Reservation) -> Result<()>;

    /// The numbers that are chosen from for a port number 0; as they were when first asked for.
    fn ephemeral_ports(&mut self) -> (u16, u16);

    /// Whether the process may use port numbers below 1024.
    fn may_use_low_ports(&mut self) -> bool;

    /// Whether an IPv6 wildcard address does not stand for IPv4 too, unless a program says otherwise.
    fn bind_v6_only(&mut self) -> bool;

    /// A random number.
    fn random(&mut self) -> u32;

    /// Writes a command with this structure to the kernel's rdma_cm, through a descriptor that belongs to
    /// the program's; opens it first. ENODEV if the kernel has no rdma_cm; EAGAIN if it has no event to get;
    /// other errors are the kernel's.
    fn kernel(
        &mut self,
        file: FileId,
        command: Command,
        input: Vec<u8>,
        buffer: Buffer<'_>,
    ) -> Result<()>;

    /// The descriptor that [`CmOs::kernel`] writes to.
    fn kernel_descriptor(&mut self, file: FileId) -> Option<RawFd>;

    /// Closes that descriptor, and with it all ids that the kernel has for it.
    fn close_kernel(&mut self, file: FileId);

    /// Makes a descriptor of the program readable, or not.
    fn set_readable(&mut self, file: FileId, readable: bool);
}
