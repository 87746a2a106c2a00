//! The device files `/dev/infiniband/umadN` (rdma/ib_user_mad.h, ABI version 5): management datagrams (MADs)
//! of programs such as ibping(8), perfquery(8) and smpquery(8), and the agents that answer them.
//!
//! | file | responsible for |
//! |---|---|
//! | `datagram.rs` | MADs as bytes (pure) |
//! | `user_mad.rs` | messages and requests of programs as bytes (pure) |
//! | `agents.rs` | the agents of a process: whom a MAD is for, timeouts (pure) |
//! | `facts.rs` | a port as the built-in agents describe it (pure) |
//! | `sma.rs`, `pma.rs`, `sa.rs` | subnet management, counters, subnet administration (pure) |
//! | `port.rs`, `path.rs` | ports of open devices, and where MADs go |
//! | `builtin.rs` | the requests that a device answers by itself |
//! | `others.rs` | the other processes of the host |
//! | `queue.rs` | MADs that wait for the thread |
//! | `process.rs` | the state of the process, and its thread |
//!
//! A MAD travels as a datagram to queue pair 0 or 1 of the peer, at port 4791. The process that has the port
//! answers requests to the device itself, from its own counters, and passes on the rest to the process whose
//! agent they are for. The communication manager's MADs are `cm`'s.
//!
//! A descriptor is one end of a pair of sockets that keep messages apart (SOCK_SEQPACKET), so that read(2),
//! poll(2) and epoll(7) work on it, and that closing it is noticed.
//!
//! Lock order: the state of the process; the MADs that wait for its thread; the devices that are open. The
//! first is not held while MADs are sent.

mod agents;
mod builtin;
mod datagram;
mod facts;
mod others;
mod path;
mod pma;
mod port;
mod process;
mod queue;
mod sa;
mod sma;
#[cfg(test)]
mod tests;
mod user_mad;

use core::ffi::{c_int, c_void};
use std::os::fd::{OwnedFd, RawFd};

use ibverbs_abi::{Errno, Result};

use crate::cancellation;
use crate::cm::ucma::user_memory::{read_into, write_user};
use crate::config::Config;
use crate::device::gsi::{OtherHandlers, set_other_handlers};
use process::STATE;
use queue::QUEUE;
use user_mad::{
    ENABLE_PKEY, FLAG_USER_RMPP, FLAGS_AT, Message, REGISTER_AGENT, REGISTER_AGENT2, REGISTER_LEN,
    REGISTER2_LEN, Register, UNREGISTER_AGENT,
};

const EINVAL: Errno = Errno(libc::EINVAL);
const EBADF: Errno = Errno(libc::EBADF);

/// Lets the devices of this process answer MADs from now on, and pass on those for other processes.
pub fn serve() {
    set_other_handlers(OtherHandlers {
        on_mad: builtin::on_mad,
        on_change: queue::interface_changed,
    });
}

/// Opens the device file of a port: a descriptor for [`write`] and [`ioctl`], from which messages are read.
/// `flags` are those of open(2); O_NONBLOCK and O_CLOEXEC count. Fails as opening a device does.
pub fn open(config: &Config, port: u8, flags: c_int) -> Result<OwnedFd> {
    let _no_cancellation = cancellation::disable();
    serve();
    process::open(config, port, flags)
}

fn file_of(fd: RawFd) -> Result<agents::FileId> {
    crate::cm::ucma::inode_of(fd).ok_or(EBADF)
}

/// write(2) for a descriptor of [`open`]: sends a message. Returns the number of bytes, or the kernel's
/// error: EINVAL, EIO for an agent that there is not, EFAULT. EACCES in a child of the process that opened
/// the descriptor.
pub fn write(fd: RawFd, buffer: *const c_void, len: usize) -> Result<isize> {
    let _no_cancellation = cancellation::disable();
    let errno = Errno::last();
    let file = file_of(fd)?;
    let layout = process::layout_of(file)?;
    if len < Message::min_len(layout) {
        return Err(EINVAL);
    }
    // Of a message that is too long, one byte more than fits.
    let mut bytes = vec![0; len.min(Message::max_len(layout) + 1)];
    read_into(buffer.addr(), &mut bytes)?;
    process::send(file, Message::parse(&bytes, layout)?)?;
    errno.set();
    Ok(len as isize)
}

/// ioctl(2) for a descriptor of [`open`]: registers agents. Fails as the kernel does.
pub fn ioctl(fd: RawFd, request: u32, argument: usize) -> Result<c_int> {
    let _no_cancellation = cancellation::disable();
    let errno = Errno::last();
    let file = file_of(fd)?;
    match request {
        REGISTER_AGENT => {
            let mut bytes = [0; REGISTER_LEN];
            read_into(argument, &mut bytes)?;
            let slot = process::register(file, &Register::parse(&bytes), false)?;
            report_slot(file, argument, slot)?;
        }
        REGISTER_AGENT2 => {
            let mut bytes = [0; REGISTER2_LEN];
            read_into(argument, &mut bytes)?;
            let Some(parsed) = Register::parse2(&bytes) else {
                if bytes[FLAGS_AT] & !1 != 0 || bytes[FLAGS_AT + 1..FLAGS_AT + 4] != [0; 3] {
                    // The flags that there are.
                    write_user(argument + FLAGS_AT, &FLAG_USER_RMPP.to_ne_bytes())?;
                }
                return Err(EINVAL);
            };
            let slot = process::register(file, &parsed, true)?;
            report_slot(file, argument, slot)?;
        }
        UNREGISTER_AGENT => {
            let mut slot = [0; 4];
            read_into(argument, &mut slot)?;
            process::unregister(file, u32::from_ne_bytes(slot))?;
        }
        ENABLE_PKEY => process::enable_pkey(file)?,
        _ => return Err(Errno(libc::ENOTTY)),
    }
    errno.set();
    Ok(0)
}

/// Writes the number of a new agent to where the program wants it.
fn report_slot(file: agents::FileId, at: usize, slot: u32) -> Result<()> {
    write_user(at, &slot.to_ne_bytes()).inspect_err(|_| {
        let _ = process::unregister(file, slot);
    })
}

/// Takes the locks that a child of fork needs. Those of devices are taken after them.
pub fn before_fork() {
    core::mem::forget(STATE.lock());
    core::mem::forget(QUEUE.lock());
    core::mem::forget(builtin::CLEARED.lock());
}

/// Releases the locks in the parent and in the child, which has no thread and none of the agents.
///
/// # Safety
/// This thread has called [`before_fork`], and has not called this since.
pub unsafe fn after_fork(is_child: bool) {
    // SAFETY: `before_fork` has locked all of them in this thread, as the caller says, so nothing else has a
    // reference to their values.
    unsafe {
        if is_child {
            let queue = &mut *QUEUE.data_ptr();
            queue.messages.clear();
            queue.epoll.take();
            if let Some(mut state) = (*STATE.data_ptr()).take() {
                // `device/fork.rs` takes care of these.
                process::forget_devices(&mut state);
            }
            (*builtin::CLEARED.data_ptr()).clear();
        }
        builtin::CLEARED.force_unlock();
        QUEUE.force_unlock();
        STATE.force_unlock();
    }
}
