//! [`Manager`]: the commands of a process's rdma_cm files. Each object that it uses owns its data and can be
//! tested alone: ids and ports (`id_table.rs`, `listeners.rs`), memberships (`memberships.rs`), unread events
//! (`event_queue.rs`), neighbours (`neighbour.rs`), connections on the wire ([`Agent`]), reserved prefixes
//! (`prefixes.rs`). The files of commands have its other methods; no data are theirs.

use ibverbs_abi::{Errno, Result};

use super::event_queue::{EventQueues, PendingEvent};
use super::events::{EventType, Notice};
use super::id::{Id, IdState};
use super::id_table::IdTable;
use super::input::{Command, Input, ReplyWriter};
use super::kernel_commands::KernelCm;
use super::memberships::Memberships;
use super::neighbour::NeighbourQueries;
use super::os::{CmOs, DeviceInfo, FileId};
use super::prefixes::Prefixes;
use super::{EINVAL, Failure};
use roce::cm::agent::{Agent, Outgoing};
use roce::engine::Time;

const ENOSPC: Errno = Errno(libc::ENOSPC);

/// Bytes of an event that programs without enhanced connection establishment know.
const EVENT_LEN_MIN: usize = 324;

/// The caller's side of a command: where its response goes, and what else it names.
pub struct Caller<'a> {
    /// The length of the program's buffer for the response.
    pub out_len: usize,
    /// Copies the response to the program. EFAULT if its buffer is not writable.
    pub respond: &'a mut dyn FnMut(&[u8]) -> Result<()>,
    /// The value of an option.
    pub option: &'a [u8],
    /// The file of the descriptor in MIGRATE_ID; the error if it is no such file.
    pub other_file: Result<FileId>,
}

impl Caller<'_> {
    /// Copies a response of a fixed length. ENOSPC if the buffer is shorter.
    pub fn reply(&mut self, reply: ReplyWriter) -> Result<()> {
        self.reply_some(reply.0.len(), reply)
    }

    /// Copies as much of the response as fits the buffer. ENOSPC if that is less than `min` bytes.
    pub fn reply_some(&mut self, min: usize, reply: ReplyWriter) -> Result<()> {
        self.need(min)?;
        (self.respond)(&reply.0[..self.out_len.min(reply.0.len())])
    }

    /// ENOSPC if the buffer is shorter than this.
    pub fn need(&self, len: usize) -> Result<()> {
        if self.out_len < len {
            Err(ENOSPC)
        } else {
            Ok(())
        }
    }
}

/// The rdma_cm files of a process, with their ids, multicast memberships and events.
pub struct Manager<H: CmOs> {
    pub(super) os: H,
    pub(super) agent: Agent,
    pub(super) ids: IdTable<H::Reservation>,
    pub(super) memberships: Memberships,
    pub(super) neighbours: NeighbourQueries,
    pub(super) events: EventQueues,
    prefixes: Prefixes<H::Reservation>,
}

impl<H: CmOs> Manager<H> {
    /// A manager without files.
    pub fn new(os: H, agent: Agent) -> Manager<H> {
        Manager {
            os,
            agent,
            ids: IdTable::default(),
            memberships: Memberships::default(),
            neighbours: NeighbourQueries::default(),
            events: EventQueues::default(),
            prefixes: Prefixes::default(),
        }
    }

    /// Whether messages for communication IDs with this prefix are this process's.
    pub fn has_prefix(&self, prefix: u32) -> bool {
        self.prefixes.has(prefix)
    }

    /// [`Prefixes::reserve`].
    pub(super) fn reserve_id(&mut self) -> Result<()> {
        self.prefixes.reserve(&mut self.os, &mut self.agent)
    }

    /// The operating system.
    pub fn os(&mut self) -> &mut H {
        &mut self.os
    }

    /// A new descriptor of the program.
    pub fn open(&mut self, file: FileId) {
        self.events.open(file);
    }

    /// The program has closed a descriptor: destroys its ids.
    pub fn close(&mut self, file: FileId, now: Time) {
        self.os.close_kernel(file);
        for (id, _) in self.ids.of_file(file) {
            self.destroy(id, now);
        }
        self.events.close(file);
    }

    /// [`Agent::repeat_first_messages`].
    pub fn repeat_first_messages(&mut self, now: Time) {
        self.agent.repeat_first_messages(now);
    }

    /// Whether there is nothing left to do: no descriptor, and no connection whose end a peer is to confirm.
    pub fn is_done(&self) -> bool {
        self.events.are_closed() && self.agent.is_done()
    }

    /// The messages to send, in their order; the manager forgets them.
    pub fn take_outgoing(&mut self) -> Vec<Outgoing> {
        self.agent.take_outgoing()
    }

    /// When [`Manager::handle_timeouts`] is due.
    pub fn deadline(&self) -> Option<Time> {
        self.agent
            .deadline()
            .into_iter()
            .chain(self.neighbours.next())
            .min()
    }

    /// Executes a command. Errors are the kernel's.
    pub fn execute(
        &mut self,
        file: FileId,
        command: Command,
        input: Input<'_>,
        caller: &mut Caller<'_>,
        now: Time,
    ) -> Result<(), Failure> {
        if let Some(executed) = self.execute_in_kernel(file, command, input, caller) {
            return executed.map_err(Failure::Errno);
        }
        let executed = match command {
            Command::GetEvent => return self.get_event(file, caller),
            Command::CreateId => self.create_id(file, input, caller, now),
            Command::DestroyId => {
                caller.need(4)?;
                let id = self.ids.find_any(file, input.u32(8))?;
                let reported = self.destroy(id, now);
                caller.reply(ReplyWriter::default().u32(reported))
            }
            Command::BindIp => self.bind_ip(file, input),
            Command::Bind => self.bind_command(file, input),
            Command::ResolveIp => self.resolve_ip(file, input, now),
            Command::ResolveAddr => self.resolve_command(file, input, now),
            Command::ResolveRoute => {
                let id = self.ids.find_bound(file, input.u32(0))?;
                self.resolve_route(id)
            }
            Command::QueryRoute => self.query_route(file, input, caller),
            Command::Query => self.query(file, input, caller),
            Command::Connect => self.connect(file, input, now),
            Command::Listen => self.listen(file, input),
            Command::Accept => self.accept(file, input, now),
            Command::Reject => self.reject(file, input, now),
            Command::Disconnect => self.disconnect(file, input, now),
            Command::InitQpAttr => self.init_qp_attr(file, input, caller),
            Command::SetOption => self.set_option(file, input, caller),
            Command::Notify => self.notify(file, input),
            Command::JoinIpMcast => self.join_ip(file, input, caller),
            Command::JoinMcast => self.join_command(file, input, caller),
            Command::ResolveIbService => self.resolve_ib_service(file, input),
            Command::WriteCmEvent => self.write_event(file, input),
            Command::LeaveMcast => self.leave(file, input, caller),
            Command::MigrateId => self.migrate(file, input, caller),
        };
        executed.map_err(Failure::Errno)
    }

    /// An id.
    pub fn id_of(&self, number: u32) -> Option<&Id<H::Reservation>> {
        self.ids.get(number)
    }

    /// The ids of a file, and their states.
    pub fn states_of(&self, file: FileId) -> Vec<(u32, IdState)> {
        self.ids.of_file(file)
    }

    /// The id and the type of an event that the program has not read.
    pub fn unread_event(&self) -> Option<(u32, u32)> {
        self.events.any_unread()
    }

    /// The device that an id is bound to.
    pub(super) fn device_of(&mut self, number: u32) -> Option<DeviceInfo> {
        let device = self.ids.get(number)?.device?;
        self.os.devices().into_iter().nth(device)
    }

    fn create_id(
        &mut self,
        file: FileId,
        input: Input<'_>,
        caller: &mut Caller<'_>,
        now: Time,
    ) -> Result<()> {
        use super::id::{qp_type, space};
        caller.need(4)?;
        let port_space = input.u16(16);
        let kind = match port_space {
            space::TCP => qp_type::RC,
            space::UDP | space::IPOIB => qp_type::UD,
            space::IB => input.u8(18),
            _ => return Err(EINVAL),
        };
        let random = self.os.random();
        let id = Id::new(file, input.u64(0), port_space, kind, random);
        let number = self.ids.insert(id);
        let result = caller.reply(ReplyWriter::default().u32(number));
        if result.is_err() {
            self.destroy(number, now);
        }
        result
    }

    /// Destroys an id. Returns how many of its events the program has read.
    pub(super) fn destroy(&mut self, number: u32, now: Time) -> u32 {
        let Some(id) = self.ids.remove(number) else {
            return 0;
        };
        if let Some(connection) = id.connection {
            self.agent.destroy(connection, now);
        }
        if let Some(kernel) = id.devices.in_kernel() {
            KernelCm(&mut self.os).destroy(id.file, kernel);
        }
        self.neighbours.stop_waiting(number);
        self.memberships.remove_all(&id);
        let of_it = |event: &PendingEvent| event.id == number;
        let dropped = self.events.take(&mut self.os, id.file, of_it);
        for request in dropped.iter().filter_map(|event| event.request) {
            self.destroy(request, now);
        }
        id.events_reported
    }

    fn get_event(&mut self, file: FileId, caller: &mut Caller<'_>) -> Result<(), Failure> {
        caller.need(EVENT_LEN_MIN)?;
        let event = self.events.read(&mut self.os, file, |bytes| {
            caller.reply_some(EVENT_LEN_MIN, ReplyWriter(bytes.to_vec()))
        })?;
        if let Some(id) = self.ids.get_mut(event.id) {
            id.events_reported = id.events_reported.wrapping_add(1);
            id.backlog += u32::from(event.request.is_some());
        }
        if let Some(multicast) = event.multicast.and_then(|at| self.memberships.get_mut(at)) {
            multicast.events_reported = multicast.events_reported.wrapping_add(1);
        }
        Ok(())
    }

    /// Moves an id and its unread events to the file that the command is written to.
    fn migrate(&mut self, file: FileId, input: Input<'_>, caller: &mut Caller<'_>) -> Result<()> {
        caller.need(4)?;
        let from = caller.other_file?;
        let number = self.ids.find(from, input.u32(8))?;
        if from != file {
            let id = self.ids.existing(number)?;
            KernelCm(&mut self.os).migrate(id, from, file)?;
            id.file = file;
            let of_it = |event: &PendingEvent| event.id == number;
            for event in self.events.take(&mut self.os, from, of_it) {
                if let Some(request) = event.request {
                    let id = self.ids.existing(request)?;
                    // If the kernel has no memory for it, the program's next command for the id fails.
                    let _ = KernelCm(&mut self.os).migrate(id, from, file);
                    id.file = file;
                }
                self.events.push(&mut self.os, file, event);
            }
        }
        let reported = self.ids.existing(number)?.events_reported;
        caller.reply(ReplyWriter::default().u32(reported))
    }

    /// The MAC address of a device's interface has changed (bonding): reports it for the ids that are bound
    /// to the device.
    pub fn address_changed(&mut self, device: usize) {
        for number in self.ids.of_device(device) {
            self.report(number, Notice::plain(EventType::AddrChange));
        }
    }

    /// The interface of a device is gone: reports it, ends the connections of the ids that are bound to the
    /// device, and leaves them to be destroyed.
    pub fn device_removed(&mut self, device: usize, now: Time) {
        for number in self.ids.of_device(device) {
            self.report(number, Notice::plain(EventType::DeviceRemoval));
            let Some(id) = self.ids.get_mut(number) else {
                continue;
            };
            id.state = IdState::Removed;
            if let Some(connection) = id.connection.take() {
                self.agent.destroy(connection, now);
            }
        }
    }
}
