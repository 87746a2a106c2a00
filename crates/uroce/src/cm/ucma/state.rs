//! The state of rdma_cm in a process, and questions about it.
//!
//! Not here: what changes it (`process.rs`, `lifecycle.rs`).
//!
//! Lock order: [`STATE`], [`SENDING`], [`CONFIGS`], [`known_files`], [`QUEUE`].

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use ibverbs_abi::Errno;
use rustc_hash::FxHashMap;

use super::epoll::Epoll;
use super::id::IdState;
use super::manager::Manager;
use super::os::FileId;
use super::system::{System, inode_of};
use crate::config::Config;
use crate::device::clock;
use crate::device::gsi::LostPeer;
use crate::sync::Mutex;
use roce::cm::agent::Incoming;
use roce::engine::Time;

/// Messages that may wait for the thread. Further ones are lost, as on the network.
pub(super) const INCOMING_MAX: usize = 4096;
/// The state of rdma_cm in this process, while it has its thread.
pub(super) struct ProcessState {
    pub(super) manager: Manager<System>,
    pub(super) epoll: Arc<Epoll>,
    /// The descriptors, by the numbers of their tokens.
    pub(super) files: FxHashMap<u32, FileId>,
    pub(super) next_file: u32,
    /// REQs without a listener, with the time at which they are rejected unless there is one then.
    pub(super) orphan_reqs: VecDeque<(Time, Incoming)>,
    /// Distinguishes the thread of this state from that of an earlier one.
    pub(super) serial: u32,
}

/// Messages of devices that the thread has not handled.
pub(super) struct Queue {
    pub(super) messages: VecDeque<Incoming>,
    /// Peers that have ended. One for each queue pair at most.
    pub(super) lost: Vec<LostPeer>,
    /// The thread is to be woken up; None if there is no thread.
    pub(super) epoll: Option<Arc<Epoll>>,
}

pub(super) static STATE: Mutex<Option<Box<ProcessState>>> = Mutex::new(None);
pub(super) static QUEUE: Mutex<Queue> = Mutex::new(Queue {
    messages: VecDeque::new(),
    lost: Vec::new(),
    epoll: None,
});
/// Held while the thread sends; taken before [`STATE`] is released. A thread that has seen the effect of a
/// message on the state waits here until the answer is sent, because a program may end as soon as it has an
/// event.
pub(super) static SENDING: Mutex<()> = Mutex::new(());
/// The devices of the library's list.
pub(super) static CONFIGS: Mutex<Vec<Config>> = Mutex::new(Vec::new());
/// Descriptors that are open here, or were in the parent. While it is 0, no descriptor is examined. Relaxed:
/// a thread that uses a descriptor got it from the one that opened it.
pub(super) static OPEN_FILES: AtomicUsize = AtomicUsize::new(0);
/// This process does not have port 4791 at all addresses. Read and written with [`STATE`] locked.
pub(super) static WANTS_PORT: AtomicBool = AtomicBool::new(false);

/// How many threads have been started, and the last one of them that has closed all that it had. Written with
/// [`STATE`] locked, and by the thread when it ends.
pub(super) static STARTED: AtomicU32 = AtomicU32::new(0);
pub(super) static ENDED: AtomicU32 = AtomicU32::new(0);

impl ProcessState {
    /// Ends what belongs to a descriptor that the program has closed.
    pub(super) fn close_file(&mut self, number: u32) {
        let Some(file) = self.files.remove(&number) else {
            return;
        };
        self.manager.close(file, clock::now());
        self.manager.os().remove_file(file);
        known_files().lock().retain(|other| *other != file);
        OPEN_FILES.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The descriptor's file, if it is one of rdma_cm.
pub fn file_of(fd: RawFd) -> Option<FileId> {
    if OPEN_FILES.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let file = inode_of(fd)?;
    is_known(file).then_some(file)
}

/// The state of an id of this process, and whether it is of RDMA_PS_UDP.
pub fn id_state(number: u32) -> Option<(IdState, bool)> {
    let locked = STATE.lock();
    let id = locked.as_ref()?.manager.id_of(number)?;
    Some((id.state, id.is_datagram()))
}

/// The port space of an id, and the address of its peer.
pub fn destination(number: u32) -> Option<(u16, SocketAddr)> {
    let locked = STATE.lock();
    let id = locked.as_ref()?.manager.id_of(number)?;
    Some((id.space, id.dst.and_then(|dst| dst.ip())?))
}

/// The ids of a file, and their states.
pub fn ids_of(file: FileId) -> Option<Vec<(u32, IdState)>> {
    let locked = STATE.lock();
    Some(locked.as_ref()?.manager.states_of(file))
}

/// The id and the type of an event that the program has not read.
pub fn unread_event() -> Option<(u32, u32)> {
    let locked = STATE.lock();
    locked.as_ref()?.manager.unread_event()
}

/// Whether a file of rdma_cm is open in this process, or was when it was forked.
pub fn is_known(file: FileId) -> bool {
    known_files().lock().contains(&file)
}

/// The file of a descriptor that a command names. ENOENT if it is closed, EINVAL if it is another one.
pub fn file_of_other(fd: RawFd) -> Result<FileId, Errno> {
    // SAFETY: fcntl with F_GETFD takes no pointers.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return Err(Errno(libc::ENOENT));
    }
    file_of(fd).ok_or(Errno(libc::EINVAL))
}

/// The files of this process and of its parents: a child of fork gets errors for those that it inherited.
pub(super) fn known_files() -> &'static Mutex<Vec<FileId>> {
    static FILES: Mutex<Vec<FileId>> = Mutex::new(Vec::new());
    &FILES
}
