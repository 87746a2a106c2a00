//! Passing MADs on: peers send all to port 4791, which one process per address has.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use ibverbs_abi::Errno;
use ibverbs_host::unix::own_user;
use rustc_hash::FxHashMap;

use super::host::Port;
use super::names::{self, Blocking};
use crate::cm::agent::{Incoming, prefix_of};
use crate::cm::mad::{CmMad, Recipient};
use crate::descriptors::Owned;
use crate::sync::Mutex;

/// Connections that are kept. If there are more, all are closed.
const CONNECTIONS_MAX: usize = 64;
/// Port numbers below this one belong to privileged processes.
const LOW_PORTS: u16 = 1024;

const ECONNREFUSED: Errno = Errno(libc::ECONNREFUSED);

/// Connections to other processes, by the prefixes of their communication IDs.
static CONNECTIONS: Mutex<Option<FxHashMap<u32, Arc<Owned<OwnedFd>>>>> = Mutex::new(None);

/// Passes a message on to the process that it is for. ECONNREFUSED if there is none. Does not block.
pub fn forward(message: &Incoming, recipient: Recipient) -> Result<(), Errno> {
    match recipient {
        Recipient::Id(id) => send(prefix_of(id), message, |_| true, Blocking::No),
        Recipient::Service(service_id) => {
            let port = Port::of_service(service_id);
            // Not kept: another process may have the port next time.
            let fd = names::connect(&names::of_port(port, &message.dst))?;
            let user = names::peer_user(&fd);
            let trusted = port.number >= LOW_PORTS || matches!(user, Some(0));
            if !trusted && user != Some(own_user()) {
                return Err(ECONNREFUSED);
            }
            names::send(fd.as_raw_fd(), message, Blocking::No)
        }
    }
}

/// Delivers a message to a process of this host, so that it does not depend on the process with port 4791.
/// Returns false if there is no such process, or it does not take messages of this user.
pub fn deliver(message: &Incoming, recipient: Recipient, blocking: Blocking) -> bool {
    let own = own_user();
    let takes = |user: u32| own == 0 || own == user;
    let result = match recipient {
        Recipient::Id(id) => send(prefix_of(id), message, takes, blocking),
        Recipient::Service(service_id) => {
            let port = Port::of_service(service_id);
            names::connect(&names::of_port(port, &message.dst)).and_then(
                |fd| match names::peer_user(&fd) {
                    Some(user) if takes(user) => names::send(fd.as_raw_fd(), message, blocking),
                    _ => Err(ECONNREFUSED),
                },
            )
        }
    };
    result.is_ok()
}

/// [`forward`] in a process that has no rdma_cm open.
pub fn forward_unparsed(message: &Incoming) {
    if let Some(mad) = CmMad::parse(&message.mad) {
        let _ = forward(message, mad.recipient());
    }
}

/// Sends to a process by the connection that is kept, or by a new one. No lock is held while it blocks: other
/// processes wait for what this one's thread sends.
fn send(
    prefix: u32,
    message: &Incoming,
    takes: impl Fn(u32) -> bool,
    blocking: Blocking,
) -> Result<(), Errno> {
    let taken = |fd: &Owned<OwnedFd>| names::peer_user(fd).is_some_and(&takes);
    let kept = CONNECTIONS
        .lock()
        .get_or_insert_default()
        .get(&prefix)
        .cloned();
    if let Some(fd) = kept {
        if !taken(&fd) {
            return Err(ECONNREFUSED);
        }
        match names::send(fd.as_raw_fd(), message, blocking) {
            // The process has ended, and another one may have its prefix.
            Err(Errno(libc::EPIPE | libc::ECONNRESET | libc::ENOTCONN)) => {
                CONNECTIONS.lock().get_or_insert_default().remove(&prefix);
            }
            other => return other,
        }
    }
    let fd = names::connect(&names::of_process(prefix))?;
    if !taken(&fd) {
        return Err(ECONNREFUSED);
    }
    let result = names::send(fd.as_raw_fd(), message, blocking);
    let mut connections = CONNECTIONS.lock();
    let connections = connections.get_or_insert_default();
    if connections.len() >= CONNECTIONS_MAX {
        connections.clear();
    }
    connections.insert(prefix, Arc::new(fd));
    result
}

/// Locks the connections while the process is copied. [`after_fork`] unlocks them.
pub fn before_fork() {
    core::mem::forget(CONNECTIONS.lock());
}

/// Unlocks the connections in parent and child. The child has closed its copies (`descriptors.rs`).
///
/// # Safety
/// This thread has called [`before_fork`], and has not called this since.
pub unsafe fn after_fork(is_child: bool) {
    // SAFETY: `before_fork` locked it in this thread, as the caller promises, so nothing else has a
    // reference to the connections.
    unsafe {
        if is_child {
            (*CONNECTIONS.data_ptr()).take();
        }
        CONNECTIONS.force_unlock();
    }
}
