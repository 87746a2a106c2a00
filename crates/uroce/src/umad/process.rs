//! The state of the device files in a process, and its thread.
//!
//! The thread exists while a descriptor is open. It gets MADs from the devices of this process and from other
//! processes, runs timeouts, and notices that the program has closed a descriptor. Where this process does
//! not have port 4791, it takes the port as soon as that is free, at new addresses too: MADs come there.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ibverbs_abi::{Errno, Result};
use ibverbs_os::thread;
use rustc_hash::FxHashMap;

use super::agents::{Agents, FileId, Resent, wanted};
use super::builtin::forward_or_refuse;
use super::datagram::Mad;
use super::others::{Reserved, bind_prefix, of_requests};
use super::path::Path;
use super::port::{Destination, OpenPort, addresses, facts, gid_index, has_smi, lid_of};
use super::queue::QUEUE;
use super::user_mad::{Layout, Message, Register, Registration};
use super::{sa, sma};
use crate::cancellation;
use crate::cm::ucma::epoll::{Epoll, Token};
use crate::cm::ucma::inbound::Inbound;
use crate::cm::ucma::named::{NamedSocket, WeakTable};
use crate::cm::ucma::names::{self, Incoming};
use crate::cm::ucma::{DeviceFile, hangs_up};
use crate::config::Config;
use crate::descriptors::Owned;
use crate::device::{Device, clock};
use crate::sync::Mutex;
use roce::engine::Time;

/// How often the process tries to get port 4791 while another one has it.
const CLAIM_INTERVAL: Duration = Duration::from_millis(500);

const EACCES: Errno = Errno(libc::EACCES);
const EINVAL: Errno = Errno(libc::EINVAL);

/// The end of a descriptor's socket pair that the process keeps.
struct FileEnd {
    /// The number in its tokens.
    number: u32,
    writer: Owned<OwnedFd>,
}

pub(super) struct ProcessState {
    agents: Agents<Reserved>,
    ports: Vec<OpenPort>,
    epoll: Arc<Epoll>,
    files: FxHashMap<FileId, FileEnd>,
    /// Names of requests that this process has: several agents may share them.
    names: WeakTable<String, NamedSocket>,
    /// Sockets with a name, by the number in their [`Token`].
    listeners: WeakTable<u32, NamedSocket>,
    /// The name of the agents' prefix.
    _prefix: Arc<NamedSocket>,
    next_number: u32,
    /// Distinguishes the thread of this state from that of an earlier one.
    serial: u32,
    /// The time at which port 4791 is to be taken; None if this process has it.
    claim_at: Option<Time>,
}

pub(super) static STATE: Mutex<Option<Box<ProcessState>>> = Mutex::new(None);
static STARTED: AtomicU32 = AtomicU32::new(0);

/// A MAD to send.
struct Send {
    device: Arc<Device>,
    path: Path,
    mad: Mad,
}

/// Opens a port of a device: returns a new descriptor without agents. Starts the thread if there is none.
/// Fails as the system calls do that open the device.
pub fn open(config: &Config, port: u8, flags: i32) -> Result<OwnedFd> {
    // A message is read as a whole.
    let opened = DeviceFile::open(libc::SOCK_SEQPACKET, flags)?;
    let (program, writer, file) = (opened.program, opened.own, opened.id);
    let mut locked = STATE.lock();
    if locked.is_none() {
        *locked = Some(Box::new(start()?));
    }
    let state = locked.as_mut().ok_or(Errno(libc::EAGAIN))?;
    let opened = state.open(config, port, file, writer);
    // Without any descriptor it ends.
    state.epoll.wake();
    opened.map(|()| program)
}

/// Starts the thread of a new state.
fn start() -> Result<ProcessState> {
    let epoll = Arc::new(Epoll::new()?);
    let (prefix, socket) = bind_prefix()?;
    let named = NamedSocket::new(socket);
    let serial = STARTED.fetch_add(1, Ordering::Relaxed) + 1;
    let mut state = ProcessState {
        agents: Agents::new(prefix),
        ports: Vec::new(),
        epoll: Arc::clone(&epoll),
        files: FxHashMap::default(),
        names: WeakTable::default(),
        listeners: WeakTable::default(),
        _prefix: Arc::clone(&named),
        next_number: 0,
        serial,
        claim_at: None,
    };
    state.listen(&named)?;
    let watched = Arc::clone(&epoll);
    let spawned = thread::spawn_detached("uroce-mad", move || run(&watched, serial));
    spawned.map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EAGAIN)))?;
    QUEUE.lock().epoll = Some(epoll);
    Ok(state)
}

/// Calls `call` with the state, if the descriptor is one of this process; else EACCES.
fn with_file<T>(file: FileId, call: impl FnOnce(&mut ProcessState) -> Result<T>) -> Result<T> {
    let mut locked = STATE.lock();
    let state = locked.as_mut().ok_or(EACCES)?;
    if !state.files.contains_key(&file) {
        return Err(EACCES);
    }
    call(state)
}

/// The layout of a descriptor's messages.
pub fn layout_of(file: FileId) -> Result<Layout> {
    with_file(file, |state| state.agents.layout_of(file).ok_or(EACCES))
}

/// Registers an agent, and returns its number. `second`: by REGISTER_AGENT2.
pub fn register(file: FileId, request: &Register, second: bool) -> Result<u32> {
    with_file(file, |state| state.register(file, request, second))
}

/// Removes an agent.
pub fn unregister(file: FileId, slot: u32) -> Result<()> {
    with_file(file, |state| state.agents.unregister(file, slot))
}

/// Gives the descriptor's messages a P_Key index from now on.
pub fn enable_pkey(file: FileId) -> Result<()> {
    with_file(file, |state| state.agents.enable_pkey(file))
}

/// Sends a message of a program.
pub fn send(file: FileId, message: Message) -> Result<()> {
    let sends = with_file(file, |state| {
        let before = state.agents.deadline();
        let send = state.send(file, message)?;
        state.flush();
        let after = state.agents.deadline();
        state.epoll.wake_if_earlier(before, after);
        Ok(send)
    })?;
    send_all(&Vec::from_iter(sends));
    Ok(())
}

/// Sends MADs. The caller has no lock.
fn send_all(sends: &[Send]) {
    for Send { device, path, mad } in sends {
        device.send_mad(path.sgid_index, path.dgid, path.traffic_class, mad);
    }
}

impl ProcessState {
    fn open(
        &mut self,
        config: &Config,
        port: u8,
        file: FileId,
        writer: Owned<OwnedFd>,
    ) -> Result<()> {
        self.close_hung_up();
        let at = self.port(config, port)?;
        self.next_number = self.next_number.wrapping_add(1);
        let number = self.next_number;
        self.epoll.add(writer.as_raw_fd(), Token::File(number))?;
        self.files.insert(file, FileEnd { number, writer });
        self.agents.open(file, at);
        Ok(())
    }

    /// The place of a port in the list, which opens its device if that is not open yet.
    fn port(&mut self, config: &Config, number: u8) -> Result<u32> {
        let is_it = |port: &OpenPort| port.device.name == config.name && port.number == number;
        if let Some(at) = self.ports.iter().position(is_it) {
            return Ok(at as u32);
        }
        let errno = |error: std::io::Error| Errno(error.raw_os_error().unwrap_or(libc::ENODEV));
        let device = Device::open(config).map_err(errno)?;
        self.ports.push(OpenPort { device, number });
        self.claim();
        Ok(self.ports.len() as u32 - 1)
    }

    /// Takes port 4791 where it is free.
    fn claim(&mut self) {
        let mut complete = true;
        for port in &self.ports {
            complete &= port.device.net.claim_mad_port();
        }
        self.claim_at = (!complete).then(|| clock::now().after(CLAIM_INTERVAL));
    }

    /// Ends what belongs to descriptors that the program has closed, as the kernel does at once.
    fn close_hung_up(&mut self) {
        let agents = &mut self.agents;
        self.files.retain(|file, end| {
            // The program may have closed this end, too, and may use its number for something else.
            let is_open = end.writer.is_unchanged() && !hangs_up(end.writer.as_fd());
            if !is_open {
                agents.close(*file);
            }
            is_open
        });
    }

    /// Accepts connections to a name.
    fn listen(&mut self, named: &Arc<NamedSocket>) -> Result<()> {
        let fd = named.socket.as_raw_fd();
        names::listen(fd)?;
        self.next_number = self.next_number.wrapping_add(1);
        self.epoll.add(fd, Token::Listener(self.next_number))?;
        self.listeners.insert(self.next_number, named);
        Ok(())
    }

    fn register(&mut self, file: FileId, request: &Register, second: bool) -> Result<u32> {
        self.close_hung_up();
        let at = self.agents.port_of(file).ok_or(EACCES)?;
        let device = Arc::clone(&self.ports[at as usize].device);
        let has_smi = has_smi(&device);
        self.agents.may_register(file, request, has_smi)?;
        let wanted = wanted(request);
        let reserved = wanted.map(|wanted| self.reserve(&device, &wanted));
        let reserved = reserved.transpose()?;
        self.agents
            .register(file, (request, second), has_smi, reserved)
    }

    /// Takes the names of requests at all addresses of a device. EINVAL if another process has one.
    fn reserve(&mut self, device: &Device, wanted: &Registration) -> Result<Reserved> {
        let mut reserved = Vec::new();
        for gid in addresses(device) {
            let name = of_requests(wanted, &gid);
            if let Some(own) = self.names.get(&name) {
                reserved.push(own);
                continue;
            }
            let socket = names::bind(&name).map_err(|error| match error {
                Errno(libc::EADDRINUSE) => EINVAL,
                other => other,
            })?;
            let named = NamedSocket::new(socket);
            self.listen(&named)?;
            self.names.insert(name, &named);
            reserved.push(named);
        }
        Ok(reserved)
    }

    /// Handles a message of a program: returns what is to be sent, or delivers what this process answers.
    fn send(&mut self, file: FileId, mut message: Message) -> Result<Option<Send>> {
        self.agents.prepare(file, &mut message)?;
        let at = self.agents.port_of(file).ok_or(EACCES)?;
        let destination = self.ports[at as usize].route(at, &message)?;
        let mad = message.mad;
        let path = match destination {
            Destination::Network(path) => Some(path),
            _ => None,
        };
        self.agents.sent(file, message, path, clock::now())?;
        let port = &self.ports[at as usize];
        let answered = match destination {
            Destination::Network(path) => {
                let device = Arc::clone(&port.device);
                return Ok(Some(Send { device, path, mad }));
            }
            Destination::Here => {
                let facts = facts(&port.device, port.number);
                sma::respond(&mad, &facts).map(|mad| mad.to_vec())
            }
            Destination::SubnetAdministration => {
                let facts = facts(&port.device, port.number);
                sa::respond(&mad, &facts, |gid| lid_of(&port.device, gid))
            }
            Destination::Nowhere => None,
        };
        if let Some(data) = answered {
            let mut head = mad;
            head[..4].copy_from_slice(&data[..4]);
            let from = port.own_address(&mad);
            self.agents.deliver(at, &from, &head, &data);
        }
        Ok(None)
    }

    /// Handles a MAD. Returns the device that it came to, if it is for none of this process's agents.
    fn receive(&mut self, incoming: &Incoming) -> Option<Arc<Device>> {
        let is_its = |port: &OpenPort| gid_index(&port.device, &incoming.dst).is_some();
        for at in 0..self.ports.len() {
            if is_its(&self.ports[at]) {
                let from = self.ports[at].sender(incoming);
                let mad = &incoming.mad;
                if self.agents.deliver(at as u32, &from, mad, mad) {
                    return None;
                }
            }
        }
        let port = self.ports.iter().find(|port| is_its(port))?;
        Some(Arc::clone(&port.device))
    }

    /// Handles the MADs of devices and of other processes. Returns those of devices that are for none of this
    /// process's agents.
    fn receive_all(&mut self, passed_on: &[Incoming]) -> Vec<(Arc<Device>, Incoming)> {
        for message in passed_on {
            self.receive(message);
        }
        let queued = std::mem::take(&mut QUEUE.lock().messages);
        let others = queued
            .into_iter()
            .filter_map(|message| Some((self.receive(&message)?, message)));
        others.collect()
    }

    fn sends_of(&self, resent: Vec<Resent>) -> Vec<Send> {
        let device = |path: &Path| {
            let port = self.ports.get(path.port as usize)?;
            Some(Arc::clone(&port.device))
        };
        let sends = resent.into_iter().filter_map(|Resent { path, mad }| {
            let device = device(&path)?;
            Some(Send { device, path, mad })
        });
        sends.collect()
    }

    /// Passes on what the program has to read. Where a descriptor is full, the thread goes on when the
    /// program has read.
    fn flush(&mut self) {
        for file in self.agents.unread() {
            let Some(end) = self.files.get(&file) else {
                continue;
            };
            let fd = end.writer.as_raw_fd();
            let is_empty = self
                .agents
                .flush(file, |message| write(&end.writer, message));
            let events = if is_empty { 0 } else { libc::EPOLLOUT };
            self.epoll.watch(fd, Token::File(end.number), events);
        }
    }

    fn deadline(&self) -> Option<Time> {
        self.agents
            .deadline()
            .into_iter()
            .chain(self.claim_at)
            .min()
    }
}

/// Writes a message to a descriptor. Returns false if it does not take one now.
fn write(writer: &Owned<OwnedFd>, message: &[u8]) -> bool {
    if !writer.is_unchanged() {
        return true;
    }
    let fd: RawFd = writer.as_raw_fd();
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    cancellation::send(fd, message, flags) >= 0 || Errno::last() != Errno(libc::EAGAIN)
}

/// The thread's main function.
fn run(epoll: &Arc<Epoll>, serial: u32) {
    let mut tokens = Vec::new();
    let mut inbound = Inbound::new(Arc::clone(epoll));
    loop {
        inbound.serve(&tokens, clock::now(), |number| {
            let locked = STATE.lock();
            let state = locked.as_ref().filter(|state| state.serial == serial)?;
            let gids = state.ports.iter().flat_map(|port| addresses(&port.device));
            Some((state.listeners.get(&number), gids.collect()))
        });
        let mut locked = STATE.lock();
        let Some(state) = locked.as_mut().filter(|state| state.serial == serial) else {
            return;
        };
        if tokens.contains(&Token::Waker) {
            epoll.clear();
        }
        state.close_hung_up();
        let others = state.receive_all(&inbound.take_messages());
        let now = clock::now();
        let closed = inbound.take_closed();
        // There may be new addresses.
        let changed = std::mem::take(&mut QUEUE.lock().interface_changed);
        if closed || changed || state.claim_at.is_some_and(|at| at <= now) {
            state.claim();
        }
        let resent = state.agents.handle_timeouts(now);
        let sends = state.sends_of(resent);
        state.flush();
        if state.files.is_empty() {
            drop((others, sends));
            return end(&mut locked);
        }
        let until = state.deadline().into_iter().chain(inbound.deadline()).min();
        drop(locked);
        send_all(&sends);
        for (device, message) in &others {
            forward_or_refuse(device, message);
        }
        tokens = epoll.wait(until);
    }
}

/// Ends the state, which has no descriptors any more. The devices are closed with the state locked: a
/// descriptor that the program opens meanwhile opens the device anew, and is to get port 4791.
fn end(state: &mut Option<Box<ProcessState>>) {
    let mut queue = QUEUE.lock();
    queue.epoll = None;
    queue.messages.clear();
    drop(queue);
    let ports = state
        .take()
        .map(|mut ended| std::mem::take(&mut ended.ports));
    let ports = ports.into_iter().flatten();
    ports.for_each(|port| port.device.close());
}

/// The devices of a state that a child of fork gives up.
pub(super) fn forget_devices(state: &mut ProcessState) {
    std::mem::forget(std::mem::take(&mut state.ports));
}
