//! [`Net`]: the sockets of a device, which follow its GID table.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ibverbs_netlink::{RtnlClient, RtnlMonitor};
use parking_lot::{Mutex, RwLock};

use super::gid_table::{self, Slot};
use super::interface::{self, Interface};
use super::ports::{self, Numbers};
use super::socket::Socket;
use super::{GidEntry, NetChange, PortState};
use crate::config::Config;
use crate::engine::Gid;
use crate::random::random;
use crate::wire::{PORT, gid_of, ip_of};

/// How many free ports to try before giving up.
const TRIES: u32 = 1000;
/// What epoll tells of [`RtnlMonitor`]'s socket; other numbers are sockets' places in [`Table::receivers`].
pub(super) const WATCH: u64 = u64::MAX;

/// The network side of a device in this process: sockets, GID table, port state, numbers of queue
/// pairs. Thread-safe.
pub struct Net {
    config: Config,
    ifindex: u32,
    epoll: OwnedFd,
    /// What sending and receiving need; replaced as a whole.
    table: RwLock<Arc<Table>>,
    /// rtnetlink has something to tell.
    pub(super) told: AtomicBool,
    /// Packets that did not reach `each`, by reason.
    pub dropped: Dropped,
    control: Mutex<Control>,
}

/// Datagrams that were no packets for us.
#[derive(Debug, Default)]
pub struct Dropped {
    pub malformed: AtomicU64,
    pub icrc: AtomicU64,
    pub pkey: AtomicU64,
}

/// What changes seldom.
struct Control {
    numbers: Numbers,
    watch: Option<RtnlMonitor>,
    /// Of the namespace that the device was opened in, wherever its threads may be later.
    kernel: RtnlClient,
    state: PortState,
    slots: Vec<Option<Slot>>,
    groups: HashMap<IpAddr, Group>,
}

/// A multicast group: how often it was joined.
struct Group {
    count: usize,
    receiver: usize,
}

/// The sockets.
#[derive(Clone, Default)]
pub(super) struct Table {
    pub slots: Vec<Option<Slot>>,
    /// For each port, in their order, the sockets by GID index.
    ports: Vec<(u16, Vec<Option<Arc<Socket>>>)>,
    /// All sockets, with those of multicast groups, at the places that epoll knows them by.
    pub receivers: Vec<Option<Arc<Socket>>>,
}

impl Table {
    /// The socket that a queue pair sends from.
    pub fn sender(&self, port: u16, gid_index: u8) -> Option<&Arc<Socket>> {
        let (_, sockets) = self.ports.get(self.find(port).ok()?)?;
        sockets.get(usize::from(gid_index))?.as_ref()
    }

    /// Where the port stands, or would.
    fn find(&self, port: u16) -> Result<usize, usize> {
        self.ports.binary_search_by_key(&port, |(port, _)| *port)
    }
}

impl Net {
    /// Opens the device's sockets, in the network namespace of the calling thread.
    pub fn open(config: &Config) -> io::Result<Net> {
        // First, lest a change is missed. A sandbox may not let us hear of changes.
        let watch = RtnlMonitor::open()
            .inspect_err(|error| log::warn!("uroce: addresses will not be followed: {error}"))
            .ok();
        let mut kernel = RtnlClient::open()?;
        let interface = Interface::find_by(&mut kernel, config)?;
        // SAFETY: epoll_create1 has no conditions.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if epoll < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it has just been opened, and is nobody else's.
        let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
        if let Some(watch) = &watch {
            add(&epoll, watch.fd(), WATCH)?;
        }
        let mut slots = Vec::new();
        gid_table::update(&mut slots, &interface.slots);
        let net = Net {
            config: config.clone(),
            ifindex: interface.link.index,
            epoll,
            table: RwLock::default(),
            told: AtomicBool::new(false),
            dropped: Dropped::default(),
            control: Mutex::new(Control {
                numbers: Numbers::default(),
                watch,
                kernel,
                state: interface.port_state(),
                slots,
                groups: HashMap::new(),
            }),
        };
        net.first_port()?;
        Ok(net)
    }

    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// The GID table, by index; None is an empty entry.
    pub fn gids(&self) -> Vec<Option<GidEntry>> {
        interface::entries(&self.control.lock().slots, self.ifindex)
    }

    pub fn port_state(&self) -> PortState {
        self.control.lock().state
    }

    /// An epoll descriptor, readable when [`Net::receive`] or [`Net::changes`] has something to do.
    pub fn fd(&self) -> i32 {
        self.epoll.as_raw_fd()
    }

    pub(super) fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.read())
    }

    /// A number for a new queue pair, random within its range. ENOMEM when there is none.
    pub fn alloc_qpn(&self) -> io::Result<u32> {
        let mut control = self.control.lock();
        if let Some(number) = control.numbers.take(random) {
            return Ok(number);
        }
        self.another_port(&mut control)?;
        control.numbers.take(random).ok_or_else(no_more)
    }

    pub fn free_qpn(&self, qpn: u32) {
        let mut control = self.control.lock();
        if let Some(port) = control.numbers.free(qpn) {
            self.replace(|table| {
                if let Ok(at) = table.find(port) {
                    let (_, sockets) = table.ports.remove(at);
                    sockets
                        .iter()
                        .flatten()
                        .for_each(|socket| self.forget(table, socket));
                }
            });
        }
    }

    /// Port 4791 if all addresses have it free, else another one.
    fn first_port(&self) -> io::Result<()> {
        let mut control = self.control.lock();
        match self.open_port(&mut control, PORT) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                self.another_port(&mut control)
            }
            done => done,
        }
    }

    fn another_port(&self, control: &mut Control) -> io::Result<()> {
        for _ in 0..TRIES {
            let port = ports::candidate(random());
            match self.open_port(control, port) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                done => return done,
            }
        }
        Err(no_more())
    }

    /// Opens the port at all addresses, or none.
    fn open_port(&self, control: &mut Control, port: u16) -> io::Result<()> {
        let mut table = Table::clone(&self.table());
        let Err(at) = table.find(port) else {
            return Err(io::ErrorKind::AddrInUse.into());
        };
        let mut sockets = vec![None; control.slots.len()];
        let mut failed = None;
        for (socket, slot) in sockets.iter_mut().zip(&control.slots) {
            let Some(slot) = slot else { continue };
            match Socket::open(*slot, port, self.ifindex) {
                Ok(new) => *socket = Some(Arc::new(new)),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(error),
                // The others may still do.
                Err(error) => {
                    log::warn!("uroce: no port {port} at {}: {error}", slot.ip);
                    failed = Some(error);
                }
            }
        }
        if let Some(error) = failed.filter(|_| sockets.iter().all(Option::is_none)) {
            return Err(error);
        }
        for socket in sockets.iter().flatten() {
            self.add(&mut table, socket)?;
        }
        table.slots.clone_from(&control.slots);
        table.ports.insert(at, (port, sockets));
        control.numbers.add(port);
        *self.table.write() = Arc::new(table);
        Ok(())
    }

    /// Changes the table. Only called with the control's lock held.
    fn replace<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        let mut table = Table::clone(&self.table());
        let result = change(&mut table);
        *self.table.write() = Arc::new(table);
        result
    }

    /// Receives from the socket from now on. Returns its place.
    fn add(&self, table: &mut Table, socket: &Arc<Socket>) -> io::Result<usize> {
        let free = table.receivers.iter().position(Option::is_none);
        let place = free.unwrap_or(table.receivers.len());
        add(&self.epoll, socket.fd(), place as u64)?;
        if place == table.receivers.len() {
            table.receivers.push(None);
        }
        table.receivers[place] = Some(Arc::clone(socket));
        Ok(place)
    }

    /// Receives from the socket no more.
    fn forget(&self, table: &mut Table, socket: &Arc<Socket>) {
        for place in &mut table.receivers {
            if place
                .as_ref()
                .is_some_and(|other| Arc::ptr_eq(other, socket))
            {
                *place = None;
            }
        }
        // Closing it would do, but a thread that is sending keeps it for a while.
        // SAFETY: both descriptors are open; the event is not looked at.
        unsafe {
            libc::epoll_ctl(
                self.epoll.as_raw_fd(),
                libc::EPOLL_CTL_DEL,
                socket.fd(),
                std::ptr::null_mut(),
            );
        }
    }

    /// Reads what rtnetlink tells, updates table and sockets.
    pub fn changes(&self) -> NetChange {
        if !self.told.swap(false, Ordering::AcqRel) {
            return NetChange::default();
        }
        let mut control = self.control.lock();
        let control = &mut *control;
        let watch = control.watch.as_mut();
        if !watch.is_some_and(|watch| watch.drain(self.ifindex)) {
            return NetChange::default();
        }
        match Interface::read(&mut control.kernel, &self.config, self.ifindex) {
            Ok(interface) => self.follow(control, interface.as_ref()),
            Err(error) => {
                log::warn!(
                    "uroce: cannot ask for the addresses of {}: {error}",
                    self.config.name
                );
                NetChange::default()
            }
        }
    }

    fn follow(&self, control: &mut Control, interface: Option<&Interface>) -> NetChange {
        let state = interface::port_state(interface.map(|interface| &interface.link));
        let wanted = interface.map_or(&[][..], |interface| &interface.slots);
        let was_active = std::mem::replace(&mut control.state, state).active;
        let gids = gid_table::update(&mut control.slots, wanted);
        let slots = &control.slots;
        self.replace(|table| {
            table.slots.clone_from(slots);
            let mut all = std::mem::take(&mut table.ports);
            for (port, sockets) in &mut all {
                self.follow_port(table, *port, sockets, slots);
            }
            table.ports = all;
        });
        NetChange {
            gids,
            became_active: state.active && !was_active,
            became_inactive: was_active && !state.active,
        }
    }

    /// Gives a port a socket for each entry of the GID table, and none else.
    fn follow_port(
        &self,
        table: &mut Table,
        port: u16,
        sockets: &mut Vec<Option<Arc<Socket>>>,
        slots: &[Option<Slot>],
    ) {
        sockets.resize(slots.len(), None);
        for (socket, slot) in sockets.iter_mut().zip(slots) {
            if socket.as_ref().map(|socket| socket.slot) == *slot {
                continue;
            }
            if let Some(old) = socket.take() {
                self.forget(table, &old);
            }
            let Some(slot) = slot else { continue };
            let opened = Socket::open(*slot, port, self.ifindex).map(Arc::new);
            match opened.and_then(|new| self.add(table, &new).map(|_| new)) {
                Ok(new) => *socket = Some(new),
                // Another process has the port at the new address: there is nothing to be had there.
                Err(error) => {
                    log::warn!("uroce: no port {port} at {}: {error}", slot.ip);
                }
            }
        }
    }

    /// Makes datagrams to a multicast group reach this process (counted).
    pub fn join(&self, group: &Gid) -> io::Result<()> {
        let ip = ip_of(group);
        if !ip.is_multicast() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut control = self.control.lock();
        if let Some(group) = control.groups.get_mut(&ip) {
            group.count += 1;
            return Ok(());
        }
        let gid = gid_of(ip);
        let socket = Arc::new(Socket::join(Slot { gid, ip }, self.ifindex)?);
        let receiver = self.replace(|table| self.add(table, &socket))?;
        control.groups.insert(ip, Group { count: 1, receiver });
        Ok(())
    }

    pub fn leave(&self, group: &Gid) {
        let ip = ip_of(group);
        let mut control = self.control.lock();
        let Some(group) = control.groups.get_mut(&ip) else {
            return;
        };
        group.count -= 1;
        if group.count > 0 {
            return;
        }
        let receiver = group.receiver;
        control.groups.remove(&ip);
        self.replace(|table| {
            let socket = table.receivers.get(receiver).cloned().flatten();
            if let Some(socket) = socket {
                self.forget(table, &socket);
            }
        });
    }
}

fn no_more() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOMEM)
}

fn add(epoll: &OwnedFd, fd: i32, number: u64) -> io::Result<()> {
    let mut event = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: number,
    };
    // SAFETY: the event lives during the call.
    let ret = unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) };
    if ret == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
