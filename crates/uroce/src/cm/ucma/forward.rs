//! Passing MADs on: peers send all to port 4791, which one process per address has.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use ibverbs_abi::{Errno, Result};
use ibverbs_os::unix::{Peer, own_user};
use rustc_hash::FxHashMap;

use super::names::{self, Blocking};
use super::os::Port;
use crate::descriptors::Owned;
use crate::sync::Mutex;
use roce::cm::agent::{Incoming, prefix_of};
use roce::cm::mad::{CmMad, Recipient};

/// Connections that are kept. If there are more, all are closed.
const CONNECTIONS_MAX: usize = 64;
/// Port numbers below this one belong to privileged processes.
const LOW_PORTS: u16 = 1024;

const ECONNREFUSED: Errno = Errno(libc::ECONNREFUSED);

/// Connections to other processes, by the prefixes of their communication IDs.
static CONNECTIONS: Mutex<Option<FxHashMap<u32, Arc<Owned<OwnedFd>>>>> = Mutex::new(None);

/// Passes a message on to the process that it is for. ECONNREFUSED if there is none. Does not block.
pub fn forward(message: &Incoming, recipient: Recipient) -> Result<()> {
    let gets = |peer: &Peer| match recipient {
        Recipient::Id(_) => true,
        Recipient::Service(service_id) => {
            let is_low = Port::of_service(service_id).number < LOW_PORTS;
            !is_low || peer.user == 0 || peer.is_own_user()
        }
    };
    send(message, recipient, gets, Blocking::No)
}

/// Delivers a message to a process of this host, so that it does not depend on the process with port 4791.
/// Returns false if there is no such process, or it does not take messages of this user.
pub fn deliver(message: &Incoming, recipient: Recipient, blocking: Blocking) -> bool {
    // In another user namespace root may be another user.
    let takes =
        |peer: &Peer| peer.is_own_user() || own_user() == 0 && peer.is_in_own_user_namespace();
    send(message, recipient, takes, blocking).is_ok()
}

fn send(
    message: &Incoming,
    recipient: Recipient,
    takes: impl Fn(&Peer) -> bool,
    blocking: Blocking,
) -> Result<()> {
    match recipient {
        Recipient::Id(id) => send_to_process(prefix_of(id), message, takes, blocking),
        Recipient::Service(service_id) => {
            let port = Port::of_service(service_id);
            // Not kept: another process may have the port next time.
            let fd = names::connect(&names::of_port(port, &message.dst))?;
            if !is_taken(&fd, takes) {
                return Err(ECONNREFUSED);
            }
            names::send(fd.as_raw_fd(), message, blocking)
        }
    }
}

/// Whether the process at the other end of a connection takes messages.
fn is_taken(fd: &OwnedFd, takes: impl Fn(&Peer) -> bool) -> bool {
    Peer::of(fd).is_ok_and(|peer| takes(&peer))
}

/// [`forward`] in a process that has no rdma_cm open.
pub fn forward_unparsed(message: &Incoming) {
    if let Some(mad) = CmMad::parse(&message.mad) {
        let _ = forward(message, mad.recipient());
    }
}

/// Sends to a process by the connection that is kept, or by a new one. No lock is held while it blocks: other
/// processes wait for what this one's thread sends.
fn send_to_process(
    prefix: u32,
    message: &Incoming,
    takes: impl Fn(&Peer) -> bool,
    blocking: Blocking,
) -> Result<()> {
    let kept = CONNECTIONS
        .lock()
        .get_or_insert_default()
        .get(&prefix)
        .cloned();
    if let Some(fd) = kept {
        if !is_taken(&fd, &takes) {
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
    let fd = names::connect(&names::of_prefix(prefix))?;
    if !is_taken(&fd, &takes) {
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

/// Whether no process has a prefix.
pub fn is_gone(prefix: u32) -> bool {
    names::connect(&names::of_prefix(prefix)).err() == Some(ECONNREFUSED)
}

/// Closes the connections that are kept.
pub fn close_connections() {
    let closed = CONNECTIONS.lock().take();
    drop(closed);
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
