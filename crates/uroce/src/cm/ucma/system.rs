//! [`System`]: the operating system around the commands of rdma_cm ([`CmOs`]): devices, routes,
//! neighbours, port numbers, descriptors of the program.
//!
//! Not here: the commands (`manager.rs`). Their tests have another [`CmOs`] (`fake.rs`).

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ibverbs_abi::{Errno, Result};
use rustc_hash::FxHashMap;

use super::epoll::{Epoll, Token};
use super::input::Command;
use super::kernel_file::KernelFile;
use super::named::{NamedSocket, WeakTable};
use super::os::{Buffer, CmOs, DeviceInfo, FileId, Port};
use super::routes::Routes;
use super::{kernel_file, names};

use crate::bypass::Bypass;
use crate::config::Config;
use crate::descriptors::Owned;
use crate::device::Device;
use crate::random;
use crate::transport;
use roce::cm::agent::Outgoing;
use roce::engine::Gid;

const CAP_NET_BIND_SERVICE: u32 = 10;
/// The kernel's default range of ephemeral ports.
const EPHEMERAL_PORTS: (u16, u16) = (32768, 60999);

/// A device that is open for rdma_cm.
struct CmDevice {
    device: Arc<Device>,
    node_guid: [u8; 8],
    index: u32,
    /// The default GID, which follows from the MAC address, as it was when last read.
    default_gid: Option<Gid>,
    gone: bool,
}

/// A change of a device's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceChange {
    /// The interface has another MAC address.
    Address,
    /// The interface does not exist any more.
    Gone,
}

/// The operating system of a process: its devices, descriptors and names.
pub struct System {
    epoll: Arc<Epoll>,
    /// The configured devices.
    configs: Vec<Config>,
    devices: Option<Vec<CmDevice>>,
    /// Names of ports that this process has: several ids may share them.
    ports: WeakTable<(Port, Gid), NamedSocket>,
    /// The named sockets, by the number in their [`Token`].
    listeners: WeakTable<u32, NamedSocket>,
    next_listener: u32,
    files: FxHashMap<FileId, FileEnd>,
    routes: Routes,
    /// The range of ephemeral ports, once it has been read.
    ephemeral_ports: Option<(u16, u16)>,
}

/// The end of a descriptor's socket pair that the process keeps.
pub struct FileEnd {
    pub writer: Owned<OwnedFd>,
    /// The program's descriptor that the last command came through.
    pub program: RawFd,
    /// A byte is in the socket.
    pub readable: bool,
    /// The number in its tokens.
    number: u32,
    kernel: KernelFile,
}

impl System {
    /// A state without descriptors, whose devices are not open yet.
    pub fn new(configs: Vec<Config>, epoll: Arc<Epoll>) -> System {
        System {
            epoll,
            configs,
            devices: None,
            ports: WeakTable::default(),
            listeners: WeakTable::default(),
            next_listener: 0,
            files: FxHashMap::default(),
            routes: Routes::default(),
            ephemeral_ports: None,
        }
    }

    /// Keeps the other end of a descriptor, whose tokens have this number.
    pub fn add_file(&mut self, file: FileId, number: u32, writer: Owned<OwnedFd>, program: RawFd) {
        let end = FileEnd {
            writer,
            program,
            readable: false,
            number,
            kernel: KernelFile::Unused,
        };
        self.files.insert(file, end);
    }

    /// Whether the descriptor is open.
    pub fn has_file(&self, file: FileId) -> bool {
        self.files.contains_key(&file)
    }

    /// A command comes through this descriptor.
    pub fn use_file(&mut self, file: FileId, program: RawFd) {
        if let Some(end) = self.files.get_mut(&file) {
            end.program = program;
        }
    }

    /// The command is executed.
    pub fn end_command(&mut self) {
        self.routes.forget();
    }

    /// The program has closed a descriptor.
    pub fn remove_file(&mut self, file: FileId) {
        self.files.remove(&file);
    }

    /// Whether the program has closed a descriptor, and all copies of it.
    pub fn is_hung_up(&self, file: FileId) -> bool {
        let Some(end) = self.files.get(&file) else {
            return false;
        };
        // The program may have closed this end, too, and may use its number for something else.
        end.writer.is_unchanged() && hangs_up(end.writer.as_fd())
    }

    /// The listener of this number.
    pub fn listener(&self, number: u32) -> Option<Arc<NamedSocket>> {
        self.listeners.get(&number)
    }

    /// Accepts connections to a name. Does nothing if that has been done.
    pub fn start(&mut self, listener: &Arc<NamedSocket>) -> Result<()> {
        if listener.listens.load(Ordering::Relaxed) {
            return Ok(());
        }
        let fd = listener.socket.as_raw_fd();
        names::listen(fd)?;
        self.next_listener = self.next_listener.wrapping_add(1);
        let number = self.next_listener;
        self.epoll.add(fd, Token::Listener(number))?;
        self.listeners.insert(number, listener);
        listener.listens.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Takes the name of a port at an address, unless this process has it.
    fn reserve_at(&mut self, port: Port, gid: &Gid) -> Result<Arc<NamedSocket>> {
        let key = (port, *gid);
        if let Some(own) = self.ports.get(&key) {
            return Ok(own);
        }
        let listener = NamedSocket::new(names::bind(&names::of_port(port, gid))?);
        self.ports.insert(key, &listener);
        Ok(listener)
    }

    fn open_devices(&mut self) -> &[CmDevice] {
        let configs = &self.configs;
        self.devices.get_or_insert_with(|| {
            configs
                .iter()
                .filter_map(|config| {
                    let device = Device::open(config).inspect_err(|error| {
                        log::warn!("uroce: rdma_cm does without {}: {error}", config.name);
                    });
                    let device = device.ok()?;
                    device.net.claim_mad_port();
                    Some(CmDevice {
                        default_gid: default_gid(&device),
                        gone: false,
                        device,
                        node_guid: transport::node_guid(config),
                        index: transport::NO_KERNEL_INDEX as u32,
                    })
                })
                .collect()
        })
    }

    /// The devices that are open. The caller closes them, without the lock of the process's state.
    pub fn take_devices(&mut self) -> Vec<Arc<Device>> {
        let devices = self.devices.take().unwrap_or_default();
        devices.into_iter().map(|open| open.device).collect()
    }

    /// The device that sends a message, and the index of the source GID.
    pub fn sender(&self, message: &Outgoing) -> Option<(Arc<Device>, u8)> {
        self.devices.iter().flatten().find_map(|open| {
            let index = gid_index(&open.device, &message.route.sgid)?;
            Some((Arc::clone(&open.device), index))
        })
    }

    /// The GIDs of the devices that are open.
    pub fn gids(&self) -> Vec<Gid> {
        let open = self.devices.iter().flatten();
        let tables = open.map(|open| open.device.net.gids());
        tables
            .flatten()
            .flatten()
            .filter_map(|entry| entry.cm_gid())
            .collect()
    }

    /// Lists the changes of the devices' interfaces since the last call, by position.
    pub fn interface_changes(&mut self) -> Vec<(usize, InterfaceChange)> {
        let mut changes = Vec::new();
        for (position, open) in self.devices.iter_mut().flatten().enumerate() {
            let gone = !interface_exists(open.device.net.ifindex());
            let gid = default_gid(&open.device);
            let moved = open
                .default_gid
                .zip(gid)
                .is_some_and(|(before, now)| before != now);
            if gone && !open.gone {
                changes.push((position, InterfaceChange::Gone));
            } else if moved {
                changes.push((position, InterfaceChange::Address));
            }
            open.gone = gone;
            open.default_gid = gid.or(open.default_gid);
        }
        changes
    }

    /// Takes port 4791 where it has become free. Returns whether this process has it everywhere.
    pub fn claim_ports(&self) -> bool {
        let mut complete = true;
        for open in self.devices.iter().flatten() {
            complete &= open.device.net.claim_mad_port();
        }
        complete
    }
}

fn default_gid(device: &Device) -> Option<Gid> {
    Some(device.net.gids().first().copied()??.gid)
}

/// Whether this network namespace has an interface of this index.
fn interface_exists(ifindex: u32) -> bool {
    let mut name = [0; libc::IFNAMSIZ];
    // SAFETY: `name` has room for IF_NAMESIZE characters.
    !unsafe { libc::if_indextoname(ifindex, name.as_mut_ptr()) }.is_null()
}

fn gid_index(device: &Device, gid: &Gid) -> Option<u8> {
    let gids = device.net.gids();
    let is_it = |entry: transport::GidEntry| entry.cm_gid() == Some(*gid);
    let index = gids.iter().position(|entry| entry.is_some_and(is_it));
    index.and_then(|index| u8::try_from(index).ok())
}

fn info_of(open: &CmDevice) -> DeviceInfo {
    let net = &open.device.net;
    let gids = net.gids();
    let present = gids
        .iter()
        .zip(0..)
        .filter_map(|(entry, index)| Some((index, entry.as_ref()?.cm_gid()?)));
    let port = net.port_state();
    DeviceInfo {
        node_guid: open.node_guid,
        index: open.index,
        ifindex: net.ifindex(),
        gids: present.collect(),
        active_mtu: match port.active_mtu {
            4096.. => 5,
            2048.. => 4,
            1024.. => 3,
            512.. => 2,
            _ => 1,
        },
        active: port.active,
        flush: open.device.profile.has_flush(),
    }
}

impl CmOs for System {
    type Reservation = Vec<Arc<NamedSocket>>;

    fn devices(&mut self) -> Vec<DeviceInfo> {
        self.open_devices().iter().map(info_of).collect()
    }

    fn route(&mut self, from: Option<IpAddr>, to: SocketAddr) -> Result<IpAddr> {
        self.routes.source(from, to)
    }

    fn interface(&mut self, to: IpAddr) -> u32 {
        self.routes.interface(to)
    }

    fn awaits_neighbour(&mut self, ifindex: u32, from: IpAddr, to: SocketAddr) -> bool {
        self.routes.await_neighbour(ifindex, from, to)
    }

    fn reserve(&mut self, port: Port, at: &[Gid]) -> Result<Vec<Arc<NamedSocket>>> {
        at.iter().map(|gid| self.reserve_at(port, gid)).collect()
    }

    fn reserve_where_free(&mut self, port: Port, at: &[Gid]) -> Vec<Arc<NamedSocket>> {
        let reserved = at.iter().filter_map(|gid| self.reserve_at(port, gid).ok());
        reserved.collect()
    }

    fn reserve_prefix(&mut self) -> Result<(u32, Vec<Arc<NamedSocket>>)> {
        let (prefix, socket) = names::bind_prefix(random::random)?;
        let listener = NamedSocket::new(socket);
        self.start(&listener)?;
        Ok((prefix, vec![listener]))
    }

    fn listen(&mut self, reserved: &Vec<Arc<NamedSocket>>) -> Result<()> {
        reserved
            .iter()
            .try_for_each(|listener| self.start(listener))
    }

    fn ephemeral_ports(&mut self) -> (u16, u16) {
        *self.ephemeral_ports.get_or_insert_with(|| {
            let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
            let text = text.unwrap_or_default();
            let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
            match (numbers.next().flatten(), numbers.next().flatten()) {
                (Some(first), Some(last)) if 0 < first && first <= last => (first, last),
                _ => EPHEMERAL_PORTS,
            }
        })
    }

    fn may_use_low_ports(&mut self) -> bool {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let bits = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
        bits.is_some_and(|bits| bits >> CAP_NET_BIND_SERVICE & 1 != 0)
    }

    fn bind_v6_only(&mut self) -> bool {
        let text = std::fs::read_to_string("/proc/sys/net/ipv6/bindv6only");
        text.is_ok_and(|text| text.trim() == "1")
    }

    fn random(&mut self) -> u32 {
        random::random()
    }

    fn kernel(
        &mut self,
        file: FileId,
        command: Command,
        input: Vec<u8>,
        buffer: Buffer<'_>,
    ) -> Result<()> {
        let end = self.files.get_mut(&file).ok_or(Errno(libc::EBADF))?;
        let fd = end.kernel.open(&self.epoll, end.number)?;
        kernel_file::write(fd, command, input, buffer)
    }

    fn kernel_descriptor(&mut self, file: FileId) -> Option<RawFd> {
        let end = self.files.get_mut(&file)?;
        end.kernel.open(&self.epoll, end.number).ok()
    }

    fn close_kernel(&mut self, file: FileId) {
        if let Some(end) = self.files.get_mut(&file) {
            end.kernel = KernelFile::Absent;
        }
    }

    fn set_readable(&mut self, file: FileId, readable: bool) {
        let Some(end) = self.files.get_mut(&file) else {
            return;
        };
        if readable && !end.readable {
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            end.readable = crate::cancellation::send(end.writer.as_raw_fd(), &[0], flags) == 1;
        } else if !readable && end.readable && inode_of(end.program) == Some(file) {
            let mut byte = 0_u8;
            // SAFETY: one writable byte; the descriptor is the program's end of the pair, as just checked.
            let got = unsafe {
                let at = (&raw mut byte).cast();
                libc::recv(end.program, at, 1, libc::MSG_DONTWAIT)
            };
            end.readable = got != 1;
        }
    }
}

/// The number that identifies an open socket; None if the descriptor is not a socket. The program sees a
/// device file there.
pub fn inode_of(fd: RawFd) -> Option<FileId> {
    if fd < 0 {
        return None;
    }
    let _kernels = Bypass::new();
    // SAFETY: zeros are a valid `stat`, which is writable; a closed descriptor is an error.
    let stat = unsafe {
        let mut stat: libc::stat = core::mem::zeroed();
        (libc::fstat(fd, &mut stat) == 0).then_some(stat)
    }?;
    (stat.st_mode & libc::S_IFMT == libc::S_IFSOCK).then_some(stat.st_ino)
}

/// Whether the other end of a socket pair is closed.
pub fn hangs_up(fd: BorrowedFd<'_>) -> bool {
    let mut poll = libc::pollfd {
        fd: fd.as_raw_fd(),
        events: 0,
        revents: 0,
    };
    // SAFETY: one pollfd, exclusively borrowed for the call.
    let reported = unsafe { libc::poll(&mut poll, 1, 0) };
    reported == 1 && poll.revents & libc::POLLHUP != 0
}

/// Sets or clears a status flag of a descriptor.
fn set_nonblocking(fd: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: the descriptor is open, as it is borrowed.
    let failed = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } != 0;
    if failed { Err(Errno::last()) } else { Ok(()) }
}

/// The two ends of an open device file, and the number that identifies it.
pub struct DeviceFile {
    /// The end for the program.
    pub program: OwnedFd,
    /// This process's end, close-on-exec.
    pub own: Owned<OwnedFd>,
    pub id: FileId,
}

impl DeviceFile {
    /// Opens a socket pair of that type. `flags` are those of open(2): O_NONBLOCK and O_CLOEXEC count for the
    /// program's end. Fails as socketpair(2) does.
    pub fn open(socket_type: i32, flags: i32) -> Result<DeviceFile> {
        let mut fds = [-1; 2];
        let kind = socket_type | libc::SOCK_CLOEXEC;
        let own = names::open(|| {
            // SAFETY: `fds` has room for two descriptors.
            let failed = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) } != 0;
            if failed { -1 } else { fds[1] }
        })?;
        // SAFETY: socketpair has just opened it, and nothing else knows it.
        let program = unsafe { OwnedFd::from_raw_fd(fds[0]) };
        if flags & libc::O_NONBLOCK != 0 {
            set_nonblocking(program.as_fd())?;
        }
        if flags & libc::O_CLOEXEC == 0 {
            // SAFETY: the descriptor is open; F_SETFD takes no pointers.
            unsafe { libc::fcntl(program.as_raw_fd(), libc::F_SETFD, 0) };
        }
        let id = inode_of(program.as_raw_fd()).ok_or(Errno(libc::EBADF))?;
        Ok(DeviceFile { program, own, id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_that_failed_is_tried_again() {
        let epoll = Arc::new(Epoll::new().unwrap());
        let mut system = System::new(Vec::new(), Arc::clone(&epoll));
        let name = format!("uroce-cm.tests.{}", std::process::id());
        let listener = NamedSocket::new(names::bind(&name).unwrap());
        // As with too many watches.
        let fd = listener.socket.as_raw_fd();
        epoll.add(fd, Token::Connection(0)).unwrap();
        for _ in 0..2 {
            assert_eq!(system.start(&listener), Err(Errno(libc::EEXIST)));
        }
        drop(listener);
        let listener = NamedSocket::new(names::bind(&name).unwrap());
        for _ in 0..2 {
            assert_eq!(system.start(&listener), Ok(()));
        }
        assert!(system.listener(system.next_listener).is_some());
    }
}
