//! [`Net`]: the network side of a device. It opens sockets, follows the network interface, and has
//! the GID table, the state of the port and the queue pair numbers.
//!
//! Not here: sending (`outbox.rs`), receiving (`inbox.rs`), the GIDs that follow from an interface
//! (`gid_table.rs`), the numbers that are free (`ports.rs`).
//!
//! Invariant: the table of sockets is replaced as a whole, with `control` locked. A sender or
//! receiver keeps the table that it has read, and its sockets, until it is done.
//!
//! Specification: annex A17 (RoCEv2).

mod channels;
mod mad_port;
mod senders;

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use ibverbs_netlink::{RtnlClient, RtnlMonitor};

pub use mad_port::{GSI_QPN, SMI_QPN};
pub use senders::ConnectedPeer;

use super::gid_table::{self, GidAddress, GidKind, GidType};
use super::interface::{self, Interface};
use super::ip_id::Senders;
use super::ports::{self, QpnAllocator};
use super::socket::Socket;
use super::socket_table::{PortSockets, SocketTable};
use super::{GidEntry, NetChange, PortState};
use crate::capture::Tap;
use crate::config::Config;
use crate::descriptors::{self, Owned};
use crate::random::random;
use crate::sync::{Mutex, RwLock};
use roce::engine::Gid;
use roce::wire::{PORT, gid_of, ip_of};

/// How many ports to try while the ones tried are in use.
const PORT_TRIES: u32 = 1000;
/// The epoll token of the [`RtnlMonitor`]. Other tokens are indices into [`SocketTable::receivers`].
pub(super) const MONITOR_TOKEN: u64 = u64::MAX;
/// The epoll token of [`crate::shm::Channels`].
pub(super) const CHANNELS_TOKEN: u64 = u64::MAX - 1;

/// The network side of a device in this process: its sockets, GID table, port state, and queue pair numbers.
/// Thread-safe.
pub struct Net {
    config: Config,
    ifindex: u32,
    epoll: Owned<OwnedFd>,
    /// The sockets that senders and receivers need; replaced as a whole, with `control` locked.
    table: RwLock<Arc<SocketTable>>,
    /// epoll has reported the monitor as readable.
    pub(super) monitor_readable: AtomicBool,
    /// See [`Net::fd`].
    pub(super) lost: AtomicBool,
    /// epoll has reported the channels as readable.
    pub(super) channels_readable: AtomicBool,
    /// Packets that [`Net::receive`] has dropped, by reason.
    pub dropped: Dropped,
    /// Packets that could not be sent.
    pub unsent: AtomicU64,
    /// Where packets are recorded, if they are.
    pub(super) tap: Option<Tap>,
    /// Times are counted from here.
    pub(super) opened: Instant,
    /// Locked only for packets of senders that number them, which are not uroce's.
    pub(super) senders: Mutex<Senders>,
    control: Mutex<NetState>,
}

/// Counters of dropped datagrams.
#[derive(Debug, Default)]
pub struct Dropped {
    /// Headers or lengths that no RoCEv2 packet has.
    pub malformed: AtomicU64,
    /// Wrong ICRC, or right only for an IPv4 header that the sender did not send.
    pub icrc: AtomicU64,
    /// A P_Key other than the default one.
    pub pkey: AtomicU64,
    /// The number of packets that came in through another interface.
    pub interface: AtomicU64,
    /// The device has no queue pair of that number.
    pub queue_pair: AtomicU64,
}

impl Dropped {
    /// Counts a packet for a queue pair that the device does not have.
    #[cold]
    pub fn count_without_queue_pair(&self) {
        self.queue_pair.fetch_add(1, Ordering::Relaxed);
    }
}

/// The state that sending and receiving do not need.
struct NetState {
    qpns: QpnAllocator,
    /// None where notifications are not permitted.
    monitor: Option<Owned<RtnlMonitor>>,
    /// Opened with the device: its network namespace stays the device's, whichever thread uses it.
    rtnl: Owned<RtnlClient>,
    state: PortState,
    gids: Vec<Option<GidAddress>>,
    /// The GIDs are [`Interface::fallback_gids`]: they stay so, whatever addresses the interface gets.
    uses_fallback: bool,
    /// See [`Net::set_gids_present`].
    gids_removed: bool,
    groups: HashMap<IpAddr, Group>,
}

/// A multicast group that this process has joined.
struct Group {
    /// Attached queue pairs.
    refcount: usize,
    /// The epoll token of its socket.
    token: usize,
}

impl Net {
    /// Opens the device's sockets, in the network namespace of the calling thread. Its packets are recorded
    /// if `IBV_UROCE_PCAP` asks for that.
    pub fn open(config: &Config) -> io::Result<Net> {
        Net::open_with_tap(config, Tap::open(&config.name))
    }

    /// [`Net::open`], with packets recorded at `tap`.
    pub(super) fn open_with_tap(config: &Config, tap: Option<Tap>) -> io::Result<Net> {
        // Before the interface is read, so that no change is missed. A sandbox may forbid notifications.
        let monitor = descriptors::open(|| Ok(RtnlMonitor::open()?))
            .inspect_err(|error| log::warn!("uroce: addresses will not be followed: {error}"))
            .ok();
        let mut rtnl = interface::open_rtnl()?;
        let interface = Interface::find_with(&mut rtnl, config)?;
        let epoll = new_epoll()?;
        if let Some(monitor) = &monitor {
            epoll_add(&epoll, monitor.fd(), MONITOR_TOKEN)?;
        }
        let mut gids = Vec::new();
        gid_table::update(&mut gids, &interface.gids);
        let net = Net {
            config: config.clone(),
            ifindex: interface.link.index,
            epoll,
            table: RwLock::default(),
            monitor_readable: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            channels_readable: AtomicBool::new(false),
            dropped: Dropped::default(),
            unsent: AtomicU64::new(0),
            tap,
            opened: Instant::now(),
            senders: Mutex::new(Senders::new()),
            control: Mutex::new(NetState {
                qpns: QpnAllocator::default(),
                monitor,
                rtnl,
                state: interface.port_state(config),
                gids,
                gids_removed: false,
                uses_fallback: interface
                    .fallback_gids(config)
                    .is_some_and(|gids| gids == interface.gids),
                groups: HashMap::new(),
            }),
        };
        net.open_first_port(&interface)?;
        Ok(net)
    }

    /// The index of the device's interface.
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// The GID table, by index; None is an empty entry.
    pub fn gids(&self) -> Vec<Option<GidEntry>> {
        interface::gid_entries(&self.control.lock().gids, self.ifindex)
    }

    /// The port's state, as of the last [`Net::changes`].
    pub fn port_state(&self) -> PortState {
        self.control.lock().state
    }

    /// An epoll descriptor, owned by `self`. Readable when there are datagrams for [`Net::receive`], or a
    /// change that `receive` lets [`Net::changes`] know of. None if `receive` has found that the program has
    /// closed it.
    pub fn fd(&self) -> Option<RawFd> {
        (!self.lost.load(Ordering::Relaxed)).then(|| self.epoll.as_raw_fd())
    }

    pub(super) fn table(&self) -> Arc<SocketTable> {
        Arc::clone(&self.table.read())
    }

    /// A number for a new queue pair, random within the range of this process, and not one that was freed in
    /// the last 60 s (`MIN_CYCLE` in `ports.rs` has the exception). ENOMEM if there is none left.
    pub fn alloc_qpn(&self) -> io::Result<u32> {
        let mut control = self.control.lock();
        if let Some(qpn) = control.qpns.alloc(self.opened.elapsed(), random) {
            return Ok(qpn);
        }
        self.open_another_port(&mut control)?;
        control
            .qpns
            .alloc(self.opened.elapsed(), random)
            .ok_or_else(out_of_qpns)
    }

    /// Frees the number of a queue pair, and closes its port if no queue pair needs it.
    pub fn free_qpn(&self, qpn: u32) {
        let mut control = self.control.lock();
        if let Some(port) = control.qpns.free(qpn, self.opened.elapsed()) {
            self.replace_table(|table| {
                if let Ok(at) = table.find_port(port) {
                    let closed = table.ports.remove(at);
                    closed
                        .sockets
                        .iter()
                        .flatten()
                        .for_each(|socket| self.remove_receiver(table, socket));
                }
            });
        }
    }

    /// Opens port 4791 if it is free at all addresses, else another one. If the only address at which it is
    /// taken is the interface's link-local one, which a device at one address has as its first GID, another
    /// device of the interface has it: then this one uses the fallback GIDs.
    fn open_first_port(&self, interface: &Interface) -> io::Result<()> {
        let mut control = self.control.lock();
        let in_use = |result: &io::Result<()>| {
            let error = result.as_ref().err().map(io::Error::kind);
            error == Some(io::ErrorKind::AddrInUse)
        };
        let result = self.open_port(&mut control, PORT);
        if !in_use(&result) {
            return result;
        }
        let fallback = interface.fallback_gids(&self.config);
        if let Some(gids) = fallback.filter(|_| !control.uses_fallback) {
            gid_table::update(&mut control.gids, &gids);
            control.uses_fallback = true;
            let result = self.open_port(&mut control, PORT);
            if !in_use(&result) {
                return result;
            }
            gid_table::update(&mut control.gids, &interface.gids);
            control.uses_fallback = false;
        }
        self.open_another_port(&mut control)
    }

    fn open_another_port(&self, control: &mut NetState) -> io::Result<()> {
        for _ in 0..PORT_TRIES {
            let port = ports::candidate_port(random());
            match self.open_port(control, port) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                result => return result,
            }
        }
        Err(out_of_qpns())
    }

    /// Opens a port at all addresses, or at none: EADDRINUSE if another socket has it at one of them.
    fn open_port(&self, control: &mut NetState, port: u16) -> io::Result<()> {
        let mut table = SocketTable::clone(&self.table());
        let Err(at) = table.find_port(port) else {
            return Err(io::ErrorKind::AddrInUse.into());
        };
        let mut sockets = vec![None; control.gids.len()];
        let mut failed = None;
        for (socket, local) in sockets.iter_mut().zip(&control.gids) {
            let Some(local) = local.filter(has_socket) else {
                continue;
            };
            match Socket::open(local, port, self.ifindex) {
                Ok(new) => *socket = Some(Arc::new(new)),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    return Err(error);
                }
                // The port remains usable at the other addresses.
                Err(error) => {
                    log::warn!("uroce: no port {port} at {}: {error}", local.ip);
                    failed = Some(error);
                }
            }
        }
        if let Some(error) = failed.filter(|_| sockets.iter().all(Option::is_none)) {
            return Err(error);
        }
        for socket in sockets.iter().flatten() {
            self.add_receiver(&mut table, socket)?;
        }
        table.gids.clone_from(&control.gids);
        let port_sockets = PortSockets::new(port, sockets, &control.gids);
        table.ports.insert(at, port_sockets);
        control.qpns.add_port(port);
        *self.table.write() = Arc::new(table);
        Ok(())
    }

    /// Replaces the table by a changed copy. The caller holds the lock of `control`.
    fn replace_table<T>(&self, change: impl FnOnce(&mut SocketTable) -> T) -> T {
        let mut table = SocketTable::clone(&self.table());
        let result = change(&mut table);
        *self.table.write() = Arc::new(table);
        result
    }

    /// Adds a socket to receive from, and its [`Socket::others`]. Returns its epoll token.
    fn add_receiver(&self, table: &mut SocketTable, socket: &Arc<Socket>) -> io::Result<usize> {
        if let Some(others) = &socket.others {
            self.add_receiver(table, others)?;
        }
        let free = table.receivers.iter().position(Option::is_none);
        let token = free.unwrap_or(table.receivers.len());
        epoll_add(&self.epoll, socket.fd(), token as u64)?;
        if token == table.receivers.len() {
            table.receivers.push(None);
        }
        table.receivers[token] = Some(Arc::clone(socket));
        Ok(token)
    }

    fn remove_receiver(&self, table: &mut SocketTable, socket: &Arc<Socket>) {
        if let Some(others) = &socket.others {
            self.remove_receiver(table, others);
        }
        for receiver in &mut table.receivers {
            if receiver
                .as_ref()
                .is_some_and(|other| Arc::ptr_eq(other, socket))
            {
                *receiver = None;
            }
        }
        // Closing the socket would remove it too, but a thread that is sending may keep it open for a while.
        // SAFETY: `self` and `socket` own the open descriptors; EPOLL_CTL_DEL does not read the event.
        unsafe {
            libc::epoll_ctl(
                self.epoll.as_raw_fd(),
                libc::EPOLL_CTL_DEL,
                socket.fd(),
                std::ptr::null_mut(),
            );
        }
    }

    /// Reads pending notifications of the interface; updates GID table, port state and sockets. Returns what
    /// changed.
    pub fn changes(&self) -> NetChange {
        if !self.monitor_readable.swap(false, Ordering::AcqRel) {
            return NetChange::default();
        }
        let mut control = self.control.lock();
        let control = &mut *control;
        let monitor = control.monitor.as_mut();
        if !monitor.is_some_and(|monitor| monitor.drain(self.ifindex)) {
            return NetChange::default();
        }
        self.read_interface(control)
    }

    /// Asks the kernel for the interface, and updates everything.
    fn read_interface(&self, control: &mut NetState) -> NetChange {
        match Interface::read(&mut control.rtnl, &self.config, self.ifindex) {
            Ok(mut interface) => {
                if let Some(interface) = interface.as_mut().filter(|_| control.uses_fallback) {
                    if let Some(gids) = interface.fallback_gids(&self.config) {
                        interface.gids = gids;
                    }
                }
                self.apply(control, interface.as_ref())
            }
            Err(error) => {
                log::warn!(
                    "uroce: cannot ask for the addresses of {}: {error}",
                    self.config.name
                );
                NetChange::default()
            }
        }
    }

    /// Removes all GIDs, as if the interface had lost its addresses, or lets them come back.
    pub fn set_gids_present(&self, present: bool) -> NetChange {
        let mut control = self.control.lock();
        let control = &mut *control;
        control.gids_removed = !present;
        self.read_interface(control)
    }

    /// Updates everything to the interface as it is now; None if it is gone.
    fn apply(&self, control: &mut NetState, interface: Option<&Interface>) -> NetChange {
        let link = interface.map(|interface| &interface.link);
        let state = interface::port_state(link, &self.config);
        let present = interface.filter(|_| !control.gids_removed);
        let wanted = present.map_or(&[][..], |interface| &interface.gids);
        let was_active = std::mem::replace(&mut control.state, state).active;
        let gids_changed = gid_table::update(&mut control.gids, wanted);
        let gids = &control.gids;
        self.replace_table(|table| {
            table.gids.clone_from(gids);
            let mut ports = std::mem::take(&mut table.ports);
            for port in &mut ports {
                self.update_port(table, port, gids);
            }
            table.ports = ports;
        });
        NetChange {
            gids: gids_changed,
            became_active: state.active && !was_active,
            became_inactive: was_active && !state.active,
        }
    }

    /// Makes a port have exactly one socket for each address of the GID table.
    fn update_port(
        &self,
        table: &mut SocketTable,
        port: &mut PortSockets,
        gids: &[Option<GidAddress>],
    ) {
        port.sockets.resize(gids.len(), None);
        for (socket, local) in port.sockets.iter_mut().zip(gids) {
            let local = local.filter(has_socket);
            if socket.as_ref().map(|socket| socket.local) == local {
                continue;
            }
            if let Some(old) = socket.take() {
                self.remove_receiver(table, &old);
            }
            let Some(local) = local else { continue };
            let opened = Socket::open(local, port.port, self.ifindex).map(Arc::new);
            match opened.and_then(|new| self.add_receiver(table, &new).map(|_| new)) {
                Ok(new) => *socket = Some(new),
                // Another process has the port at the new address: queue pairs cannot use this GID.
                Err(error) => {
                    log::warn!("uroce: no port {} at {}: {error}", port.port, local.ip);
                }
            }
        }
        port.update_senders(gids);
    }

    /// Joins a multicast group, so that datagrams to it reach this process. Each call needs a
    /// [`Net::leave`].
    pub fn join(&self, group: &Gid) -> io::Result<()> {
        let ip = ip_of(group);
        if !ip.is_multicast() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut control = self.control.lock();
        if let Some(group) = control.groups.get_mut(&ip) {
            group.refcount += 1;
            return Ok(());
        }
        let gid = gid_of(ip);
        let group = GidAddress {
            gid,
            ip,
            gid_type: GidType::RoceV2,
        };
        let socket = Arc::new(Socket::join(group, self.ifindex)?);
        let token = self.replace_table(|table| self.add_receiver(table, &socket))?;
        control.groups.insert(ip, Group { refcount: 1, token });
        Ok(())
    }

    /// Reverts one [`Net::join`].
    pub fn leave(&self, group: &Gid) {
        let ip = ip_of(group);
        let mut control = self.control.lock();
        let Some(group) = control.groups.get_mut(&ip) else {
            return;
        };
        group.refcount -= 1;
        if group.refcount > 0 {
            return;
        }
        let token = group.token;
        control.groups.remove(&ip);
        self.replace_table(|table| {
            if let Some(socket) = table.receiver(token).cloned() {
                self.remove_receiver(table, &socket);
            }
        });
    }
}

/// Whether an entry of the GID table has sockets of its own.
fn has_socket(entry: &GidAddress) -> bool {
    entry.kind() != GidKind::SecondName
}

fn out_of_qpns() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOMEM)
}

fn new_epoll() -> io::Result<Owned<OwnedFd>> {
    descriptors::open(|| {
        // SAFETY: epoll_create1 has no preconditions.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if epoll < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: epoll_create1 has just returned the descriptor, so nothing else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(epoll) })
    })
}

fn epoll_add(epoll: &OwnedFd, fd: RawFd, token: u64) -> io::Result<()> {
    let mut event = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: token,
    };
    // SAFETY: the event is readable during the call.
    let ret = unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) };
    if ret == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
