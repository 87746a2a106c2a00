//! The agents of a process: which of them gets a MAD, what has no answer yet, and what the program has not
//! read. Pure.
//!
//! The upper half of the transaction ID of a request is its agent's number, which begins with the process's
//! prefix: so an answer, which has the same transaction ID, finds process and agent.

use core::time::Duration;
use std::collections::VecDeque;

use ibverbs_abi::{Errno, Result};
use rustc_hash::FxHashMap;

use super::datagram::{
    Header, Mad, class, has_oui, has_rmpp, header_of, is_smp_class, oui_of, put,
};
use super::path::Path;
use super::user_mad::{Address, Layout, Message, Register, Registration, received};
use roce::engine::Time;

/// Agents of a descriptor.
const AGENTS_MAX: usize = 32;
/// Agents of a process: its prefix leaves eight bits.
const NUMBERS: u32 = 256;
/// The first management class version that is not known.
const CLASS_VERSIONS: u8 = 0x83;
/// The first management class that has no place in the kernel's tables.
const CLASSES: u8 = 80;
/// Messages of a descriptor that the program has not read. Further MADs are lost.
const UNREAD_MAX: usize = 4096;

const EINVAL: Errno = Errno(libc::EINVAL);

/// Identifies a descriptor.
pub type FileId = u64;
/// Identifies a port.
pub type PortId = u32;

/// An agent.
struct Agent<R> {
    /// The upper half of its transaction IDs.
    number: u32,
    registration: Option<Registration>,
    /// Registers its requests with other processes, until it is dropped.
    _reservation: Option<R>,
}

/// A request without an answer.
struct Sent {
    agent: u32,
    message: Message,
    retries: u32,
    at: Time,
    /// The path by which the request is sent again. None: nowhere.
    path: Option<Path>,
}

/// An open descriptor.
struct OpenFile<R> {
    port: PortId,
    layout: Layout,
    /// An agent has been registered: the layout cannot change any more.
    used: bool,
    agents: [Option<Agent<R>>; AGENTS_MAX],
    sent: Vec<Sent>,
    unread: VecDeque<Vec<u8>>,
}

/// All agents of a process. `R`: what a registration owns.
pub struct Agents<R> {
    prefix: u32,
    next: u32,
    files: FxHashMap<FileId, OpenFile<R>>,
}

/// A request that is retransmitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resent {
    pub path: Path,
    pub mad: Mad,
}

/// The prefix of the process that a response is for.
pub fn prefix_of(tid: u64) -> u32 {
    (tid >> 40) as u32
}

impl<R> Agents<R> {
    /// No agents yet; their numbers will begin with this prefix of 24 bits.
    pub fn new(prefix: u32) -> Agents<R> {
        Agents {
            prefix,
            next: 0,
            files: FxHashMap::default(),
        }
    }

    /// A program opens a port.
    pub fn open(&mut self, file: FileId, port: PortId) {
        let open = OpenFile {
            port,
            layout: Layout::Old,
            used: false,
            agents: [const { None }; AGENTS_MAX],
            sent: Vec::new(),
            unread: VecDeque::new(),
        };
        self.files.insert(file, open);
    }

    /// The program has closed a descriptor: its agents are gone.
    pub fn close(&mut self, file: FileId) {
        self.files.remove(&file);
    }

    /// The port of a descriptor.
    pub fn port_of(&self, file: FileId) -> Option<PortId> {
        self.files.get(&file).map(|open| open.port)
    }

    /// The layout of a descriptor's messages.
    pub fn layout_of(&self, file: FileId) -> Option<Layout> {
        self.files.get(&file).map(|open| open.layout)
    }

    /// Gives the descriptor's messages a P_Key index from now on. EINVAL if an agent has been
    /// registered.
    pub fn enable_pkey(&mut self, file: FileId) -> Result<()> {
        let open = self.file(file)?;
        if open.used {
            return Err(EINVAL);
        }
        open.layout = Layout::WithPkey;
        Ok(())
    }

    fn file(&mut self, file: FileId) -> Result<&mut OpenFile<R>> {
        self.files.get_mut(&file).ok_or(Errno(libc::EBADF))
    }

    /// Whether an agent of this process gets requests of this class at a port.
    fn takes(&self, port: PortId, of: &Registration) -> bool {
        let files = self.files.values().filter(|open| open.port == port);
        let mut agents = files.flat_map(|open| open.agents.iter().flatten());
        agents.any(|agent| agent.registration.is_some_and(|own| overlaps(&own, of)))
    }

    /// Finds the place that the descriptor has for an agent. EINVAL if the request is invalid, or
    /// another agent gets what it asks for; ENOMEM if there is no place.
    pub fn may_register(&self, file: FileId, request: &Register, has_smi: bool) -> Result<usize> {
        if request.qpn > 1 {
            return Err(EINVAL);
        }
        let open = self.files.get(&file).ok_or(Errno(libc::EBADF))?;
        let slot = open.agents.iter().position(Option::is_none);
        let slot = slot.ok_or(Errno(libc::ENOMEM))?;
        check(request, has_smi)?;
        let is_taken = wanted(request).is_some_and(|of| self.takes(open.port, &of));
        if is_taken { Err(EINVAL) } else { Ok(slot) }
    }

    /// Registers an agent and returns its number in the descriptor. `reservation` belongs to it. `second`: by
    /// REGISTER_AGENT2, with which the first agent of a descriptor gives messages a P_Key index.
    pub fn register(
        &mut self,
        file: FileId,
        (request, second): (&Register, bool),
        has_smi: bool,
        reservation: Option<R>,
    ) -> Result<u32> {
        let slot = self.may_register(file, request, has_smi)?;
        let number = self.free_number().ok_or(Errno(libc::ENOMEM))?;
        let open = self.file(file)?;
        if second && !open.used {
            open.layout = Layout::WithPkey;
        }
        open.used = true;
        open.agents[slot] = Some(Agent {
            number,
            registration: wanted(request),
            _reservation: reservation,
        });
        Ok(slot as u32)
    }

    fn free_number(&mut self) -> Option<u32> {
        let files = self.files.values();
        let agents = files.flat_map(|open| open.agents.iter().flatten());
        let taken: Vec<u32> = agents.map(|agent| agent.number).collect();
        for _ in 0..NUMBERS {
            // One that was not used for long: late answers are for nobody.
            self.next = (self.next + 1) % NUMBERS;
            let number = self.prefix << 8 | self.next;
            if !taken.contains(&number) {
                return Some(number);
            }
        }
        None
    }

    /// Removes an agent. EINVAL if there is none of this number.
    pub fn unregister(&mut self, file: FileId, slot: u32) -> Result<()> {
        let open = self.file(file)?;
        let agent = open.agents.get_mut(slot as usize).ok_or(EINVAL)?;
        let agent = agent.take().ok_or(EINVAL)?;
        // As in the kernel, nothing is reported for them.
        open.sent.retain(|sent| sent.agent != agent.number);
        Ok(())
    }

    /// Gives a message the transaction ID of its agent. EINVAL if there can be no agent of its number, EIO if
    /// there is none.
    pub fn prepare(&self, file: FileId, message: &mut Message) -> Result<()> {
        let open = self.files.get(&file).ok_or(Errno(libc::EBADF))?;
        let slot = open.agents.get(message.id as usize).ok_or(EINVAL)?;
        let agent = slot.as_ref().ok_or(Errno(libc::EIO))?;
        if !header_of(&message.mad).is_response() {
            put(&mut message.mad, 8, &agent.number.to_be_bytes());
        }
        Ok(())
    }

    /// Remembers a message until it is answered. EINVAL if one with the same transaction ID has no answer
    /// yet.
    pub fn sent(
        &mut self,
        file: FileId,
        message: Message,
        path: Option<Path>,
        now: Time,
    ) -> Result<()> {
        let open = self.file(file)?;
        let header = header_of(&message.mad);
        let is_same = |sent: &Sent| {
            let other = header_of(&sent.message.mad);
            (other.tid, other.class) == (header.tid, header.class)
        };
        if !header.is_response() && open.sent.iter().any(is_same) {
            return Err(EINVAL);
        }
        if message.timeout_ms == 0 {
            return Ok(());
        }
        let number = open
            .agents
            .get(message.id as usize)
            .and_then(Option::as_ref);
        let agent = number.ok_or(Errno(libc::EIO))?.number;
        open.sent.push(Sent {
            agent,
            retries: message.retries,
            at: after(now, &message),
            message,
            path,
        });
        Ok(())
    }

    /// Delivers a MAD, or several of one message as one, that has come to a port. Returns false if none of
    /// this process's agents gets it.
    pub fn deliver(&mut self, port: PortId, from: &Address, mad: &Mad, data: &[u8]) -> bool {
        let header = header_of(mad);
        match header.is_response() {
            true => self.deliver_response(port, from, &header, data),
            false => self.deliver_request(port, from, (&header, mad), data),
        }
    }

    fn deliver_response(
        &mut self,
        port: PortId,
        from: &Address,
        header: &Header,
        data: &[u8],
    ) -> bool {
        if prefix_of(header.tid) != self.prefix {
            return false;
        }
        let number = (header.tid >> 32) as u32;
        for open in self.files.values_mut().filter(|open| open.port == port) {
            let is_it = |sent: &Sent| {
                let request = header_of(&sent.message.mad);
                sent.agent == number
                    && (request.tid, request.class) == (header.tid, header.class)
                    && sent.message.to.qpn == from.qpn
            };
            // One that nobody waits for is dropped.
            if let Some(at) = open.sent.iter().position(is_it) {
                let sent = open.sent.swap_remove(at);
                open.push(received(open.layout, sent.message.id, from, data));
            }
        }
        true
    }

    fn deliver_request(
        &mut self,
        port: PortId,
        from: &Address,
        (header, mad): (&Header, &Mad),
        data: &[u8],
    ) -> bool {
        let wanted = registration_of(header, mad);
        for open in self.files.values_mut().filter(|open| open.port == port) {
            let is_it = |agent: &Option<Agent<R>>| {
                let own = agent.as_ref().and_then(|agent| agent.registration);
                own.is_some_and(|own| overlaps(&own, &wanted))
            };
            if let Some(slot) = open.agents.iter().position(is_it) {
                open.push(received(open.layout, slot as u32, from, data));
                return true;
            }
        }
        false
    }

    /// Returns the requests to retransmit now. One without retries left is reported as timed out.
    pub fn handle_timeouts(&mut self, now: Time) -> Vec<Resent> {
        let mut resent = Vec::new();
        for open in self.files.values_mut() {
            let mut at = 0;
            while at < open.sent.len() {
                let sent = &mut open.sent[at];
                if sent.at > now {
                    at += 1;
                } else if sent.retries > 0 {
                    sent.retries -= 1;
                    sent.at = after(now, &sent.message);
                    let mad = sent.message.mad;
                    resent.extend(sent.path.map(|path| Resent { path, mad }));
                    at += 1;
                } else {
                    let sent = open.sent.swap_remove(at);
                    open.push(sent.message.timed_out());
                }
            }
        }
        resent
    }

    /// When [`Agents::handle_timeouts`] is due.
    pub fn deadline(&self) -> Option<Time> {
        let sent = self.files.values().flat_map(|open| &open.sent);
        sent.map(|sent| sent.at).min()
    }

    /// Passes the messages of a descriptor that the program can read to `write`, until it returns false.
    /// Returns whether all are passed.
    pub fn flush(&mut self, file: FileId, mut write: impl FnMut(&[u8]) -> bool) -> bool {
        let Some(open) = self.files.get_mut(&file) else {
            return true;
        };
        while let Some(message) = open.unread.front() {
            if !write(message) {
                return false;
            }
            open.unread.pop_front();
        }
        true
    }

    /// The descriptors with messages to read.
    pub fn unread(&self) -> Vec<FileId> {
        let files = self.files.iter();
        let unread = files.filter(|(_, open)| !open.unread.is_empty());
        unread.map(|(file, _)| *file).collect()
    }
}

impl<R> OpenFile<R> {
    fn push(&mut self, message: Vec<u8>) {
        if self.unread.len() < UNREAD_MAX {
            self.unread.push_back(message);
        }
    }
}

/// The requests that an agent wants to get, if there are any.
pub fn wanted(request: &Register) -> Option<Registration> {
    request.registration.filter(|of| of.methods != 0)
}

/// The requests that a MAD is one of.
pub fn registration_of(header: &Header, mad: &Mad) -> Registration {
    Registration {
        class: header.class,
        class_version: header.class_version,
        oui: if has_oui(header.class) {
            oui_of(mad)
        } else {
            [0; 3]
        },
        methods: 1 << (header.method & 0x7f),
    }
}

/// Whether two agents would get the same requests.
fn overlaps(one: &Registration, other: &Registration) -> bool {
    (one.class, one.class_version) == (other.class, other.class_version)
        && one.methods & other.methods != 0
        && (!has_oui(one.class) || one.oui == other.oui)
}

/// Checks a request as `ib_register_mad_agent` of the kernel does.
fn check(request: &Register, has_smi: bool) -> Result<()> {
    if request.qpn == 0 && !has_smi {
        return Err(Errno(libc::EPROTONOSUPPORT));
    }
    let rmpp = request.rmpp_version;
    if rmpp > 1 {
        return Err(EINVAL);
    }
    let Some(of) = request.registration else {
        let is_valid = !request.user_rmpp;
        return if is_valid { Ok(()) } else { Err(EINVAL) };
    };
    let is_known = of.class < CLASSES || of.class == class::SUBN_DIRECTED_ROUTE;
    let is_valid = of.class_version < CLASS_VERSIONS
        && is_known
        && (!has_oui(of.class) || of.oui != [0; 3])
        && (rmpp == 0 || has_rmpp(of.class))
        && is_smp_class(of.class) == (request.qpn == 0);
    if is_valid { Ok(()) } else { Err(EINVAL) }
}

fn after(now: Time, message: &Message) -> Time {
    now.after(Duration::from_millis(message.timeout_ms.into()))
}
