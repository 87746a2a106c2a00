//! The device file `/dev/infiniband/rdma_cm` (rdma/rdma_user_cm.h, ABI version 4): descriptors, and the
//! commands that programs write to them.
//!
//! | file | responsible for |
//! |---|---|
//! | `input.rs`, `address.rs` | commands and socket addresses as bytes (pure) |
//! | `manager.rs` | a process's commands, over the objects that follow (pure) |
//! | `id.rs`, `id_table.rs`, `port_owners.rs`, `table.rs` | ids, those of each descriptor and port (pure) |
//! | `listeners.rs` | the ids that listen: whom a request is for (pure) |
//! | `event_queue.rs` | unread events of each descriptor (pure) |
//! | `prefixes.rs` | reserved prefixes of communication IDs |
//! | `bind.rs`, `resolve.rs`, `neighbour.rs`, `connect.rs` | the commands that make a connection |
//! | `kernel.rs`, `kernel_commands.rs` | ids on the kernel's devices; commands to its rdma_cm (pure) |
//! | `kernel_file.rs` | the kernel's device file |
//! | `memberships.rs` | memberships in multicast groups (pure) |
//! | `query.rs`, `options.rs`, `multicast.rs` | the other commands |
//! | `peer.rs`, `messages.rs` | what peers do; messages as ids have them |
//! | `events.rs`, `reports.rs` | events as bytes; reporting them |
//! | `os.rs` | what the commands need of the operating system |
//! | `system.rs`, `routes.rs`, `named.rs` | the operating system: devices, routes, ports |
//! | `names.rs`, `forward.rs`, `inbound.rs`, `trust.rs` | the other processes of the host |
//! | `state.rs`, `process.rs`, `epoll.rs` | the state of the process; its commands and its thread |
//! | `send.rs`, `lifecycle.rs` | sending its messages; forks, exit |
//! | `observe.rs`, `alike.rs` | failures, and listeners that a client has missed, for IBV_EXPLAIN |
//! | `user_memory.rs` | reading and writing the program's memory |
//!
//! Calls: `process.rs` has the state, its lock and the thread, and calls the manager (`manager.rs`, and the
//! files of commands). The manager calls the tables, which are pure and call nobody, the operating system
//! (the trait of `os.rs`, which `system.rs` implements), and the connection manager of `roce::cm`. Messages
//! leave by `send.rs`, without the lock.
//!
//! A descriptor is one end of a pair of sockets, so that poll(2) and epoll(7) work on it, and that closing
//! it is noticed. A byte waits in it while there is an event to get.
//!
//! Lock order: the state of the process; that the thread is sending; the devices that are open. The first is
//! held neither while messages are sent nor while GET_EVENT blocks.

mod address;
#[cfg(test)]
mod addresses;
pub mod alike;
mod bind;
mod connect;
#[cfg(test)]
mod ending;
pub mod epoll;
mod event_queue;
mod events;
#[cfg(any(test, feature = "internals"))]
pub mod fake;
mod forward;
mod id;
mod id_table;
pub mod inbound;
pub mod input;
mod kernel;
mod kernel_commands;
mod kernel_file;
mod lifecycle;
mod listeners;
mod manager;
mod memberships;
mod messages;
mod multicast;
pub mod named;
pub mod names;
mod neighbour;
pub mod observe;
mod options;
mod os;
mod peer;
mod port_owners;
mod prefixes;
mod process;
mod query;
mod reports;
mod resolve;
mod routes;
mod send;
mod state;
mod system;
mod table;
#[cfg(test)]
mod tests;
mod trust;
pub mod user_memory;
#[cfg(test)]
mod waiting;

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use std::os::fd::{OwnedFd, RawFd};

use ibverbs_abi::{Errno, Result};

use crate::cancellation;
use input::{COMMANDS, Command, Input};
use manager::Caller;
use user_memory::write_user;

pub use lifecycle::{after_close, after_fork, before_fork};
pub use process::{configure, serve};
pub use system::{DeviceFile, hangs_up, inode_of};

/// Bytes of `rdma_ucm_cmd_hdr`.
const HEADER_LEN: usize = 8;
/// The longest value of an option.
const OPTION_MAX: usize = 1 << 16;

const EINVAL: Errno = Errno(libc::EINVAL);
const ENODEV: Errno = Errno(libc::ENODEV);
const EAGAIN: Errno = Errno(libc::EAGAIN);
const EACCES: Errno = Errno(libc::EACCES);

/// Opens the device file: a descriptor for [`write`]. `flags` are those of open(2); O_NONBLOCK and O_CLOEXEC
/// count. Fails as socketpair(2) does, and with EAGAIN if no thread can be started.
pub fn open(flags: c_int) -> Result<OwnedFd> {
    let _no_cancellation = cancellation::disable();
    process::open(flags)
}

/// write(2) for a descriptor of [`open`]: executes the command in the buffer. Returns None if the descriptor
/// is another one, else the number of bytes or the error, which is the kernel's.
///
/// GET_EVENT blocks while there is no event, unless O_NONBLOCK is set for the descriptor; it is a
/// cancellation point then. It goes on blocking if another thread closes the descriptor meanwhile, as in the
/// kernel, where the call holds the file: programs close the channel while a thread waits for events, and
/// end.
///
/// # Safety
/// A command names memory of the program for its response, which is written if it is mapped. The program
/// passes memory that it owns, as with the kernel.
pub unsafe fn write(fd: RawFd, buffer: *const c_void, len: usize) -> Option<Result<isize>> {
    let file = state::file_of(fd)?;
    let errno = Errno::last();
    // SAFETY: the caller passes a command with memory of the program.
    let result = unsafe { write_to(file, fd, buffer, len) };
    if result.is_ok() {
        // A command may have tried what fails.
        errno.set();
    }
    Some(result)
}

/// [`write`] for a file that has been found.
///
/// # Safety
/// As for [`write`].
unsafe fn write_to(
    file: os::FileId,
    fd: RawFd,
    buffer: *const c_void,
    len: usize,
) -> Result<isize> {
    loop {
        let result = {
            let _no_cancellation = cancellation::disable();
            execute(file, fd, buffer as usize, len)
        };
        match result {
            Ok(()) => return Ok(len as isize),
            Err(Failure::NoEvent) => {}
            Err(Failure::Closed) => return Err(block_until_signal()),
            Err(Failure::Errno(error)) => return Err(error),
        }
        let mut byte = 0_u8;
        // SAFETY: one writable byte. MSG_PEEK leaves it in the socket. Nothing here has a destructor, so
        // that the thread may be cancelled.
        let got = unsafe { libc::recv(fd, (&raw mut byte).cast(), 1, libc::MSG_PEEK) };
        let error = match got {
            1.. => continue,
            0 => Errno(libc::EIO),
            _ => Errno::last(),
        };
        // It is closed, or another file has its number by now, which fails in its own way.
        if error != Errno(libc::EINTR) && state::file_of(fd) != Some(file) {
            return Err(block_until_signal());
        }
        return Err(error);
    }
}

/// Blocks as GET_EVENT does without an event: for good, until a signal handler returns that was installed
/// without SA_RESTART (EINTR). A cancellation point.
fn block_until_signal() -> Errno {
    let mut never_posted = MaybeUninit::<libc::sem_t>::uninit();
    // SAFETY: sem_init initialises the semaphore that sem_wait uses; no other thread knows it. Nothing here
    // has a destructor, so that the thread may be cancelled.
    unsafe {
        libc::sem_init(never_posted.as_mut_ptr(), 0, 0);
        libc::sem_wait(never_posted.as_mut_ptr());
    }
    Errno::last()
}

/// Why a command has not succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// GET_EVENT: there is no event yet.
    NoEvent,
    /// GET_EVENT: another thread has closed the descriptor since the call began, or the process ends.
    Closed,
    Errno(Errno),
}

impl Failure {
    /// The error of a call that does not block. The kernel's calls hold the file, so it is not closed there.
    fn errno(self) -> Errno {
        match self {
            Failure::NoEvent | Failure::Closed => EAGAIN,
            Failure::Errno(error) => error,
        }
    }
}

impl From<Errno> for Failure {
    fn from(error: Errno) -> Failure {
        Failure::Errno(error)
    }
}

fn execute(file: os::FileId, fd: RawFd, buffer: usize, len: usize) -> Result<(), Failure> {
    if len < HEADER_LEN {
        return Err(EINVAL.into());
    }
    let (start, start_len) = user_memory::read_start(buffer, len)?;
    let header = Input(&start[..HEADER_LEN]);
    let (number, in_len, out_len) = (header.u32(0), header.u16(4), header.u16(6));
    if number >= COMMANDS || usize::from(in_len) + HEADER_LEN > len {
        return Err(EINVAL.into());
    }
    let command = Command::of(number).ok_or(Errno(libc::ENOSYS))?;
    let (in_len, out_len) = (usize::from(in_len), usize::from(out_len));
    let wanted = match command.min_len() {
        Some(min) if in_len < min => return Err(EINVAL.into()),
        Some(_) => command.len().min(in_len),
        None => command.len(),
    };
    let mut bytes = Vec::new();
    let input = match start[..start_len].get(HEADER_LEN..HEADER_LEN + wanted) {
        Some(input) => Input(input),
        None => {
            bytes.resize(wanted, 0);
            user_memory::read_into(buffer.wrapping_add(HEADER_LEN), &mut bytes)?;
            Input(&bytes)
        }
    };
    let mut option = Vec::new();
    if command == Command::SetOption {
        let len = input.u32(20) as usize;
        if len > OPTION_MAX {
            return Err(EINVAL.into());
        }
        option.resize(len, 0);
        user_memory::read_into(input.u64(0) as usize, &mut option)?;
    }
    let other_file = match command {
        Command::MigrateId => state::file_of_other(input.u32(12) as RawFd),
        _ => Err(EINVAL),
    };
    let response = command.response_at().map(|at| input.u64(at) as usize);
    let mut responded = [0; observe::EXCERPT];
    let mut respond = |bytes: &[u8]| {
        let excerpt = bytes.len().min(observe::EXCERPT);
        responded[..excerpt].copy_from_slice(&bytes[..excerpt]);
        match response {
            Some(at) => write_user(at, bytes),
            None => Ok(()),
        }
    };
    let mut caller = Caller {
        out_len,
        respond: &mut respond,
        option: &option,
        other_file,
    };
    let blocks = command == Command::GetEvent && !is_nonblocking(fd);
    let result = process::execute(file, fd, command, input, &mut caller);
    observe::executed(command, &input, result, &responded);
    match blocks {
        true => result,
        false => result.map_err(|failure| failure.errno().into()),
    }
}

/// Whether a descriptor has O_NONBLOCK. False if it has been closed.
fn is_nonblocking(fd: RawFd) -> bool {
    // SAFETY: fcntl with F_GETFL takes no pointers.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    flags >= 0 && flags & libc::O_NONBLOCK != 0
}
