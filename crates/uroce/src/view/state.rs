//! The view's state in the process: the devices that it shows, the descriptors that lead to files
//! of the tree, and the working directory where that concerns the tree.
//!
//! All of it is behind one lock, which a fork waits for. Calls that do not concern the tree take no lock:
//! [`is_marked`] and [`tracks_cwd`] rule out nearly all of them by one load. The load is relaxed: a thread
//! that uses a descriptor or a working directory got it from the thread that opened or changed it.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::Arc;

use ibverbs_abi::Errno;

use super::kernel;
use super::paths::may_concern;
use super::tree::{Character, Node, Shown, Tree};
use super::working_directory::WorkingDirectories;
use crate::config::Config;
use crate::profile::Fabric;
use crate::sync::Mutex;
use crate::transport;

/// The first N of the `uverbsN` of software devices. The kernel's numbers are below RDMA_MAX_PORTS (1024),
/// so that no device of the kernel gets the same name, whenever it appears.
pub const FIRST_UVERBS: u32 = 1024;

/// The first N of the `umadN` of software devices. libibumad knows 64 files; the kernel numbers its own from
/// 0, one for each port.
const FIRST_UMAD: u32 = 32;
/// The number behind the last one.
const UMAD_END: u32 = 64;

/// Descriptors that the view can give out: 0 to this.
pub const DESCRIPTOR_MAX: usize = 1 << 16;

/// The target of an open descriptor.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The path, without links.
    pub path: String,
    pub node: Node,
    /// Device and inode of the file that the descriptor refers to, by which a descriptor is recognised
    /// that the program has closed and the kernel has given out again.
    identity: (u64, u64),
    /// The number of directory entries that getdents64(2) has returned.
    pub position: usize,
}

/// The devices and their tree.
#[derive(Clone, Default)]
pub struct Devices {
    pub configs: Arc<Vec<Config>>,
    pub tree: Arc<Tree>,
}

struct ViewState {
    configured: Vec<Config>,
    /// Configured devices that have been found, in the order of `devices.configs`.
    found: Vec<usize>,
    devices: Option<Devices>,
    opened: Option<BTreeMap<c_int, Opened>>,
    cwds: WorkingDirectories,
    /// The process that forks, while [`before_fork`] has this locked.
    forking: u32,
}

static STATE: Mutex<ViewState> = Mutex::new(ViewState {
    configured: Vec::new(),
    found: Vec::new(),
    devices: None,
    opened: None,
    cwds: WorkingDirectories::new(),
    forking: 0,
});

/// A bit for each descriptor: whether it may be in `ViewState::opened`. Written with [`STATE`] locked.
static MARKS: [AtomicU64; DESCRIPTOR_MAX / 64] = [const { AtomicU64::new(0) }; DESCRIPTOR_MAX / 64];
/// Whether relative paths may concern the tree. Written with [`STATE`] locked.
static TRACKS_CWD: AtomicBool = AtomicBool::new(false);

/// Makes the view show these devices. Called once.
pub fn configure(configured: Vec<Config>) {
    let mut state = STATE.lock();
    state.configured = configured;
    state.cwds.set_program(std::process::id());
}

/// Locks the state, so that it is whole in a child of fork. [`after_fork`] unlocks it.
pub fn before_fork() {
    let mut state = STATE.lock();
    state.forking = std::process::id();
    core::mem::forget(state);
}

/// Unlocks the state in the parent and in the child.
///
/// # Safety
/// This thread has called [`before_fork`], and has not called this since.
pub unsafe fn after_fork() {
    // SAFETY: `before_fork` locked it in this thread, as the caller says, so nothing else uses the value.
    unsafe {
        let state = &mut *STATE.data_ptr();
        let process = std::process::id();
        if process != state.forking {
            state.cwds.forked(state.forking, process);
        }
        STATE.force_unlock();
    }
}

/// The devices whose interface exists or has existed, and their tree.
pub fn devices() -> Devices {
    let mut state = STATE.lock();
    let missing = |index: &usize| !state.found.contains(index);
    let missing: Vec<_> = (0..state.configured.len()).filter(missing).collect();
    if missing.is_empty() {
        if let Some(devices) = &state.devices {
            return devices.clone();
        }
    }
    state.find(&missing)
}

impl ViewState {
    fn find(&mut self, missing: &[usize]) -> Devices {
        let is_first = self.devices.is_none();
        let mut known = self.devices.take().unwrap_or_default();
        let mut shown = known.tree.devices().to_vec();
        for index in missing {
            let config = &self.configured[*index];
            let Ok(description) = transport::describe(config) else {
                continue;
            };
            self.found.push(*index);
            let mut parent = kernel::netdev_parent(&description.netdev);
            let mut location = config.location.clone();
            if let Some(found) = location.pci.as_ref().and_then(kernel::pci_function) {
                // It is a function that the host has: its files are the kernel's.
                (location.pci, parent) = (None, Some(found));
            }
            shown.push(Shown {
                name: config.name.clone(),
                uverbs: FIRST_UVERBS + *index as u32,
                umad: first_umad(&self.configured, *index),
                netdev_path: kernel::netdev_path(&description.netdev),
                parent,
                netdev: description.netdev,
                profile: config.profile,
                location,
            });
        }
        if shown.len() != known.configs.len() || is_first {
            let configs = self
                .found
                .iter()
                .map(|index| self.configured[*index].clone());
            known = Devices {
                configs: Arc::new(configs.collect()),
                tree: Arc::new(Tree::new(shown, rdma_cm())),
            };
        }
        self.devices = Some(known.clone());
        known
    }
}

/// N of `umadN` of a device's first port: behind those of the devices before it. None for a device that is
/// not of InfiniBand or RoCE, or if libibumad would not find all its ports.
fn first_umad(configured: &[Config], index: usize) -> Option<u32> {
    let ports = |config: &Config| match config.profile.fabric {
        Fabric::Unspecified => 0,
        _ => config.profile.limits.ports,
    };
    let before: u32 = configured[..index].iter().map(ports).sum();
    let (first, own) = (FIRST_UMAD + before, ports(&configured[index]));
    (own > 0 && first + own <= UMAD_END).then_some(first)
}

/// The connection manager's device.
fn rdma_cm() -> Option<Character> {
    /// The major number of miscellaneous devices, and a minor number that no kernel gives them.
    const DEFAULT: (u32, u32) = (10, 4791);
    // librdmacm asks the kernel for the number of its rdma_cm, and compares.
    let (major, minor) = kernel::device_number("/sys/class/misc/rdma_cm/dev").unwrap_or(DEFAULT);
    Some(Character::RdmaCm(major, minor))
}

/// Whether `fd` may lead to a file of the tree.
#[inline]
pub fn is_marked(fd: c_int) -> bool {
    let Some(word) = MARKS.get(fd as usize / 64) else {
        return false;
    };
    word.load(Ordering::Relaxed) >> (fd % 64) & 1 != 0
}

/// Whether relative paths may concern the tree.
#[inline]
pub fn tracks_cwd() -> bool {
    TRACKS_CWD.load(Ordering::Relaxed)
}

/// Records what a descriptor leads to. False if its number is too large.
pub fn add(fd: c_int, path: &str, node: Node) -> bool {
    let Some(identity) = kernel::identity(fd) else {
        return false;
    };
    let Some(word) = MARKS.get(fd as usize / 64) else {
        return false;
    };
    let opened = Opened {
        path: path.to_owned(),
        node,
        identity,
        position: 0,
    };
    let mut state = STATE.lock();
    state.opened.get_or_insert_default().insert(fd, opened);
    word.fetch_or(1 << (fd % 64), Ordering::Relaxed);
    true
}

/// Records what a new descriptor leads to, if another one leads to the same file. Preserves errno.
pub fn adopt(fd: c_int) {
    let errno = Errno::last();
    if let Some(identity) = kernel::identity(fd) {
        let mut state = STATE.lock();
        let opened = state.opened.get_or_insert_default();
        let known = opened.values().find(|known| known.identity == identity);
        let known = known.map(|known| (known.path.clone(), known.node.clone()));
        drop(state);
        if let Some((path, node)) = known {
            add(fd, &path, node);
        }
    }
    errno.set();
}

/// Returns the target of a descriptor, if that is in the tree, and a program asks.
#[inline]
pub fn opened(fd: c_int) -> Option<Opened> {
    if is_marked(fd) {
        opened_marked(fd)
    } else {
        None
    }
}

/// [`opened`] for a descriptor that is marked. It is a function of its own, so that the others need no stack
/// and no address of a thread's variable.
#[cold]
#[inline(never)]
fn opened_marked(fd: c_int) -> Option<Opened> {
    if crate::bypass::is_active() {
        return None;
    }
    let identity = kernel::identity(fd);
    let mut state = STATE.lock();
    let opened = state.opened.get_or_insert_default();
    let found = opened.get(&fd)?;
    if Some(found.identity) == identity {
        return Some(found.clone());
    }
    opened.remove(&fd);
    MARKS[fd as usize / 64].fetch_and(!(1 << (fd % 64)), Ordering::Relaxed);
    None
}

/// Sets how far getdents64(2) has come.
pub fn set_position(fd: c_int, position: usize) {
    let mut state = STATE.lock();
    if let Some(opened) = state.opened.get_or_insert_default().get_mut(&fd) {
        opened.position = position;
    }
}

/// The working directory, where it concerns the tree.
pub fn cwd() -> Option<String> {
    if !tracks_cwd() {
        return None;
    }
    virtual_cwd().or_else(|| kernel::cwd().filter(|cwd| may_concern(cwd.as_bytes())))
}

/// The working directory, if it is one of the tree that the kernel does not have.
pub fn virtual_cwd() -> Option<String> {
    if !tracks_cwd() {
        return None;
    }
    let state = STATE.lock();
    state.cwds.of(std::process::id()).map(str::to_owned)
}

/// Takes note that this process has changed its working directory: to a directory of the tree, or to one of
/// the kernel's. If neither the old one nor the new one concerns the tree, it takes no lock and allocates
/// nothing.
pub fn set_cwd(directory: Option<String>) {
    let concerns = directory.is_some() || kernel::with_cwd(may_concern).unwrap_or(false);
    if !concerns && !tracks_cwd() {
        return;
    }
    let mut state = STATE.lock();
    let tracks = state.cwds.set(std::process::id(), directory, concerns);
    TRACKS_CWD.store(tracks, Ordering::Relaxed);
}
