//! The commands of a process to rdma_cm, and its thread.
//!
//! Not here: what a command does (`manager.rs`); the state (`state.rs`); forks, and the end of the process
//! (`lifecycle.rs`).
//!
//! The thread exists while a descriptor is open, or a peer has not confirmed that a connection ended. It
//! gets messages from the devices of this process and from other processes, runs timers, and notices that
//! the program has closed a descriptor. Where this process does not have port 4791, it takes the port as
//! soon as that is free.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ibverbs_abi::{Errno, Result};
use ibverbs_os::thread;
use rustc_hash::FxHashMap;

use super::epoll::{Epoll, Token};
use super::forward;
use super::inbound::Inbound;
use super::input::{Command, Input};
use super::lifecycle::{GIVEN_UP, register_exit_handler};
use super::manager::{Caller, Manager};
use super::names::Blocking;
use super::os::FileId;
use super::send::{enqueue, is_on_this_host, send_all};
use super::state::{
    CONFIGS, ENDED, OPEN_FILES, ProcessState, QUEUE, SENDING, STARTED, STATE, WANTS_PORT, is_known,
    known_files,
};
use super::system::{DeviceFile, InterfaceChange, System};
use super::{EACCES, Failure};
use crate::config::Config;
use crate::device::gsi::{Handlers, LostPeer, ReceivedMad, set_handlers};
use crate::device::{Device, clock};
use roce::cm::agent::{Agent, Incoming, prefix_of};
use roce::cm::mad::{CmMad, Recipient};
use roce::engine::Time;

/// How often the process tries to get port 4791 while another one has it.
const CLAIM_INTERVAL: Duration = Duration::from_millis(500);
/// How long a request waits for somebody to listen before it is rejected. Programs connect a second time
/// while their peer is about to listen again (perftest), and the kernel takes longer for a connection
/// than uroce.
const REJECT_DELAY: Duration = Duration::from_millis(50);
/// The most requests that wait in this way.
const ORPHANS_MAX: usize = 256;
/// How many of them the thread handles before it lets commands run.
const HANDLED_MAX: usize = 64;

/// An interface of a device has changed since the thread last looked. Set before [`QUEUE`] is locked, read
/// afterwards.
static CHANGED: AtomicBool = AtomicBool::new(false);

/// Adds a device that ids can be bound to. Devices are identified by their names.
pub fn configure(config: &Config) {
    let mut configs = CONFIGS.lock();
    match configs.iter_mut().find(|other| other.name == config.name) {
        Some(known) => known.clone_from(config),
        None => configs.push(config.clone()),
    }
}

/// Lets the MADs that devices receive from now on reach this process's ids, or the process that
/// they are for.
pub fn serve() {
    set_handlers(Handlers {
        on_mad,
        on_change,
        on_lost,
    });
}

/// An interface has changed: the thread finds out what that means for ids.
fn on_change() {
    CHANGED.store(true, Ordering::Relaxed);
    let epoll = QUEUE.lock().epoll.clone();
    if let Some(epoll) = epoll {
        epoll.wake();
    }
}

/// Gets the peer of a queue pair that has ended.
fn on_lost(lost: LostPeer) {
    let mut queue = QUEUE.lock();
    let Some(epoll) = queue.epoll.clone() else {
        return;
    };
    // Without memory, the program finds out by its requests.
    if queue.lost.try_reserve(1).is_ok() {
        queue.lost.push(lost);
    }
    drop(queue);
    epoll.wake();
}

/// Gets a message from a thread that receives for a device.
fn on_mad(received: ReceivedMad) {
    let ReceivedMad { src, dst, mad } = received;
    let message = Incoming { src, dst, mad };
    if !enqueue(message.clone()) {
        forward::forward_unparsed(&message);
    }
}

/// Opens the device file: returns a new descriptor without ids. Starts the thread if there is none.
pub fn open(flags: i32) -> Result<OwnedFd> {
    register_exit_handler();
    serve();
    let opened = DeviceFile::open(libc::SOCK_STREAM, flags)?;
    let (program, writer, file) = (opened.program, opened.own, opened.id);
    let mut state = STATE.lock();
    if state.is_none() {
        *state = Some(Box::new(start()?));
    }
    let Some(state) = state.as_mut() else {
        return Err(Errno(libc::EAGAIN));
    };
    GIVEN_UP.store(0, Ordering::Relaxed);
    state.next_file = state.next_file.wrapping_add(1);
    let number = state.next_file;
    state.epoll.add(writer.as_raw_fd(), Token::File(number))?;
    state.files.insert(number, file);
    let raw = program.as_raw_fd();
    state.manager.os().add_file(file, number, writer, raw);
    state.manager.open(file);
    known_files().lock().push(file);
    OPEN_FILES.fetch_add(1, Ordering::Relaxed);
    Ok(program)
}

/// Starts the thread of a new state.
fn start() -> Result<ProcessState> {
    let epoll = Arc::new(Epoll::new()?);
    let system = System::new(CONFIGS.lock().clone(), Arc::clone(&epoll));
    let serial = STARTED.fetch_add(1, Ordering::Relaxed) + 1;
    let watched = Arc::clone(&epoll);
    let spawned = thread::spawn("uroce-cm", move || {
        run(&watched, serial);
        drop(watched);
        ENDED.fetch_max(serial, Ordering::Release);
    });
    spawned.map_err(|error| {
        ENDED.fetch_max(serial, Ordering::Release);
        Errno(error.raw_os_error().unwrap_or(libc::EAGAIN))
    })?;
    QUEUE.lock().epoll = Some(Arc::clone(&epoll));
    WANTS_PORT.store(true, Ordering::Relaxed);
    Ok(ProcessState {
        manager: Manager::new(system, Agent::new()),
        epoll,
        files: FxHashMap::default(),
        next_file: 0,
        orphan_reqs: VecDeque::new(),
        serial,
    })
}

/// Executes a command that the program has written to a descriptor. EACCES in a child of the process that
/// opened it, or if it has been closed meanwhile.
pub fn execute(
    file: FileId,
    fd: RawFd,
    command: Command,
    input: Input<'_>,
    caller: &mut Caller<'_>,
) -> Result<(), Failure> {
    let mut locked = STATE.lock();
    let state = locked.as_mut();
    let Some(state) = state.filter(|state| state.manager.os.has_file(file)) else {
        return Err(match command {
            Command::GetEvent if !is_known(file) => Failure::Closed,
            _ => EACCES.into(),
        });
    };
    let os = state.manager.os();
    os.use_file(file, fd);
    if let Ok(other) = caller.other_file {
        os.use_file(other, input.u32(12) as RawFd);
    }
    let before = state.manager.deadline();
    let now = clock::now();
    let result = state.manager.execute(file, command, input, caller, now);
    state.manager.os().end_command();
    let sends = state.take_sends();
    let after = state.manager.deadline();
    state.epoll.wake_if_earlier(before, after);
    drop(locked);
    send_all(&sends, Blocking::Briefly);
    if command == Command::GetEvent {
        drop(SENDING.lock());
    }
    result
}

impl ProcessState {
    /// Handles a message. `passed_on`: another process received it, and passed it on to this one.
    fn receive(&mut self, message: &Incoming, passed_on: bool) {
        let now = clock::now();
        let Some(recipient) = CmMad::parse(&message.mad).map(|mad| mad.recipient()) else {
            return;
        };
        let own = match recipient {
            Recipient::Id(id) => self.manager.has_prefix(prefix_of(id)),
            Recipient::Service(_) => true,
        };
        // A message for a process that is gone is answered here, if it needs an answer.
        if !own && !passed_on && forward::forward(message, recipient) != Err(GONE) {
            return;
        }
        let Some(request) = self.manager.receive(message, now) else {
            return;
        };
        if !passed_on && forward::forward(message, recipient) != Err(GONE) {
            return;
        }
        if self.orphan_reqs.len() < ORPHANS_MAX {
            let at = now.after(REJECT_DELAY);
            self.orphan_reqs.push_back((at, message.clone()));
        } else {
            self.manager.reject_orphan(message, &request);
        }
    }

    fn next_orphan(&mut self, now: Time) -> Option<Incoming> {
        let (at, _) = self.orphan_reqs.front()?;
        if *at > now {
            return None;
        }
        self.orphan_reqs.pop_front().map(|(_, message)| message)
    }

    /// Rejects the requests that have waited long enough, unless somebody listens now.
    fn reject_overdue(&mut self) {
        let now = clock::now();
        while let Some(message) = self.next_orphan(now) {
            let Some(request) = self.manager.receive(&message, now) else {
                continue;
            };
            if forward::forward(&message, request.recipient()) == Err(GONE) {
                self.manager.reject_orphan(&message, &request);
            }
        }
    }

    fn follow_interfaces(&mut self) {
        for (device, change) in self.manager.os().interface_changes() {
            match change {
                InterfaceChange::Address => self.manager.address_changed(device),
                InterfaceChange::Gone => self.manager.device_removed(device, clock::now()),
            }
        }
        self.manager.addresses_changed();
        // Port 4791 at new addresses.
        WANTS_PORT.store(true, Ordering::Relaxed);
    }

    fn take_kernel_events(&mut self, number: u32) {
        if let Some(file) = self.files.get(&number) {
            self.manager.take_kernel_events(*file);
        }
    }
}

/// The other process has ended, or nobody has the name.
const GONE: Errno = Errno(libc::ECONNREFUSED);

/// Messages of devices, [`HANDLED_MAX`] at most, and whether there are more.
fn take_queued() -> (Vec<Incoming>, bool) {
    let mut queue = QUEUE.lock();
    let count = queue.messages.len().min(HANDLED_MAX);
    let messages = queue.messages.drain(..count).collect();
    (messages, !queue.messages.is_empty())
}

/// The thread's main function.
fn run(epoll: &Arc<Epoll>, serial: u32) {
    let mut tokens = Vec::new();
    let mut inbound = Inbound::new(Arc::clone(epoll));
    loop {
        inbound.serve(&tokens, clock::now(), |number| {
            let mut locked = STATE.lock();
            let state = locked.as_mut().filter(|state| state.serial == serial)?;
            let os = state.manager.os();
            Some((os.listener(number), os.gids()))
        });
        let mut locked = STATE.lock();
        let Some(state) = locked.as_mut().filter(|state| state.serial == serial) else {
            return;
        };
        for token in tokens {
            match token {
                Token::Waker => epoll.clear(),
                Token::Listener(_) | Token::Connection(_) => {}
                Token::File(number) => state.close_file(number),
                Token::Kernel(number) => state.take_kernel_events(number),
            }
        }
        for message in &inbound.take_messages() {
            state.receive(message, true);
        }
        if inbound.take_closed() {
            // Perhaps port 4791 is free now.
            WANTS_PORT.store(true, Ordering::Relaxed);
        }
        for prefix in inbound.take_closed_prefixes(clock::now()) {
            if forward::is_gone(prefix) {
                state.manager.process_ended(prefix, is_on_this_host);
            }
        }
        let (messages, has_more) = take_queued();
        for message in &messages {
            state.receive(message, false);
        }
        // Only after the last message, as a peer may have disconnected before it ended.
        if !has_more {
            let lost = std::mem::take(&mut QUEUE.lock().lost);
            lost.iter().for_each(|lost| state.manager.peer_lost(lost));
        }
        if CHANGED.swap(false, Ordering::Relaxed) {
            state.follow_interfaces();
        }
        state.manager.handle_timeouts(clock::now());
        state.reject_overdue();
        let sends = state.take_sends();
        // At exit(3) the manager has no files any more, but the program's threads wait at the descriptors.
        let all_closed = state.files.is_empty();
        if all_closed && state.manager.is_done() && state.orphan_reqs.is_empty() {
            let devices = state.manager.os().take_devices();
            let mut queue = QUEUE.lock();
            queue.epoll = None;
            queue.messages.clear();
            queue.lost.clear();
            drop(queue);
            *locked = None;
            let sending = SENDING.lock();
            drop(locked);
            send_all(&sends, Blocking::No);
            drop((sending, sends));
            forward::close_connections();
            devices.into_iter().for_each(Device::close);
            return;
        }
        let until = match has_more {
            true => Some(Time(0)),
            false => state
                .next_wakeup()
                .into_iter()
                .chain(inbound.deadline())
                .min(),
        };
        let sending = SENDING.lock();
        drop(locked);
        send_all(&sends, Blocking::No);
        drop((sending, sends));
        tokens = epoll.wait(until);
    }
}

impl ProcessState {
    /// When the thread has to wake up by itself. Tries to get port 4791 if that is due.
    fn next_wakeup(&mut self) -> Option<Time> {
        let reject_at = self.orphan_reqs.front().map(|(at, _)| *at);
        let deadline = self.manager.deadline().into_iter().chain(reject_at).min();
        if !WANTS_PORT.load(Ordering::Relaxed) {
            return deadline;
        }
        let complete = self.manager.os().claim_ports();
        WANTS_PORT.store(!complete, Ordering::Relaxed);
        let next = (!complete).then(|| clock::now().after(CLAIM_INTERVAL));
        deadline.into_iter().chain(next).min()
    }
}
