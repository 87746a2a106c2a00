//! [`Net`]: the network side of a device. It follows the network interface, and has the GID
//! table, the state of the port and the queue pair numbers.
//!
//! Not here: the sockets (`sockets.rs`), sending (`outbox.rs`), receiving (`inbox.rs`), the GIDs that follow
//! from an interface (`gid_table.rs`), the numbers that are free (`ports.rs`).
//!
//! Specification: annex A17 (RoCEv2).

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use ibverbs_netlink::{RtnlClient, RtnlMonitor};

use super::gid_table::{self, GidAddress, GidType};
use super::ingress::Ingress;
use super::interface::{self, Interface};
use super::ports::{self, QpnAllocator};
use super::socket_table::SocketTable;
use super::sockets::Sockets;
use super::{GidEntry, NetChange, PortState};
use crate::capture::Tap;
use crate::config::Config;
use crate::descriptors::{self, Owned};
use crate::random::random;
use crate::sync::Mutex;
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
    /// Changed with `control` locked.
    pub(super) sockets: Sockets,
    /// The checks of received datagrams.
    pub ingress: Ingress,
    /// epoll has reported the monitor as readable.
    pub(super) monitor_readable: AtomicBool,
    /// epoll has reported the channels as readable.
    pub(super) channels_readable: AtomicBool,
    /// Packets that could not be sent.
    pub unsent: AtomicU64,
    control: Mutex<NetState>,
}

/// The state that sending and receiving do not need.
struct NetState {
    qpns: QpnAllocator,
    /// The times of `qpns` are counted from here.
    opened: Instant,
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
        let ifindex = interface.link.index;
        let sockets = Sockets::new(ifindex)?;
        if let Some(monitor) = &monitor {
            sockets.watch(monitor.fd(), MONITOR_TOKEN)?;
        }
        let mut gids = Vec::new();
        gid_table::update(&mut gids, &interface.gids);
        let net = Net {
            config: config.clone(),
            ifindex,
            sockets,
            ingress: Ingress::new(ifindex, tap),
            monitor_readable: AtomicBool::new(false),
            channels_readable: AtomicBool::new(false),
            unsent: AtomicU64::new(0),
            control: Mutex::new(NetState {
                qpns: QpnAllocator::default(),
                opened: Instant::now(),
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
        self.sockets.fd()
    }

    /// The sockets as they are now, and what follows from them.
    pub fn table(&self) -> Arc<SocketTable> {
        self.sockets.table()
    }

    /// Makes [`Net::fd`] readable with this descriptor too; [`Net::receive`] notes that for
    /// [`Net::take_channels_readable`].
    pub fn watch_channels(&self, fd: RawFd) -> io::Result<()> {
        self.sockets.watch(fd, CHANNELS_TOKEN)
    }

    /// Whether the descriptor of [`Net::watch_channels`] was readable since the last call.
    pub fn take_channels_readable(&self) -> bool {
        let readable = &self.channels_readable;
        readable.load(Ordering::Relaxed) && readable.swap(false, Ordering::AcqRel)
    }

    /// A number for a new queue pair, random within the range of this process, and not one that was freed in
    /// the last 60 s (`MIN_CYCLE` in `ports.rs` has the exception). ENOMEM if there is none left.
    pub fn alloc_qpn(&self) -> io::Result<u32> {
        let mut control = self.control.lock();
        let now = control.opened.elapsed();
        if let Some(qpn) = control.qpns.alloc(now, random) {
            return Ok(qpn);
        }
        self.open_another_port(&mut control)?;
        control.qpns.alloc(now, random).ok_or_else(out_of_qpns)
    }

    /// Frees the number of a queue pair, and closes its port if no queue pair needs it.
    pub fn free_qpn(&self, qpn: u32) {
        let mut control = self.control.lock();
        let now = control.opened.elapsed();
        if let Some(port) = control.qpns.free(qpn, now) {
            self.sockets.close_port(port);
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

    fn open_port(&self, control: &mut NetState, port: u16) -> io::Result<()> {
        self.sockets.open_port(port, &control.gids)?;
        control.qpns.add_port(port);
        Ok(())
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
        self.sockets.update(&control.gids);
        NetChange {
            gids: gids_changed,
            became_active: state.active && !was_active,
            became_inactive: was_active && !state.active,
        }
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
        let token = self.sockets.join(group)?;
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
        self.sockets.leave(token);
    }

    /// [`Sockets::claim_mad_port`].
    pub fn claim_mad_port(&self) -> bool {
        self.sockets.claim_mad_port(&self.control.lock().gids)
    }
}

fn out_of_qpns() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOMEM)
}
