//! Facts that the machine reports: GID table and port of a device, routes, mappings and limits of
//! the process. Called for calls that failed, and once per connection; never for a request or a
//! poll.
//!
//! Opening a file or a socket is a cancellation point, and a thread that is cancelled unlocks and closes
//! nothing. Some of the callers hold the shadow's lock, and the verb that was called may be no cancellation
//! point: so what opens something here disables cancellation.

use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};
use std::fs;
use std::sync::OnceLock;

use ibverbs_abi::*;
use ibverbs_netlink::RtnlClient;

use super::check::gid::{self, AddressKind};
use super::check::memory;
use super::finding::describe;
use super::originals::provider;
use super::sge::Sge;
use crate::memory::shortage;

/// More GID table entries than this are not read.
const MAX_ENTRIES: u32 = 1024;

/// Verbs of a higher layer.
pub struct Hooks {
    /// An entry of the GID table, or None if it is empty or does not exist.
    pub query_gid:
        unsafe fn(context: *mut ibv_context, port: u8, index: u32) -> Option<ibv_gid_entry>,
    /// The names and addresses of verbs.
    pub verbs: fn() -> Vec<(&'static str, usize)>,
}

static HOOKS: OnceLock<&'static Hooks> = OnceLock::new();

pub fn set_hooks(hooks: &'static Hooks) {
    // The same at each call.
    let _ = HOOKS.set(hooks);
}

/// The names and addresses of verbs; none if no device was looked for.
pub fn verbs() -> Vec<(&'static str, usize)> {
    HOOKS.get().map_or_else(Vec::new, |hooks| (hooks.verbs)())
}

/// Looks up what an address vector means on this machine. None if the port cannot be queried.
///
/// # Safety
/// `context` is open and wrapped.
pub unsafe fn address_vector(context: *mut ibv_context, attr: &ibv_ah_attr) -> Option<gid::Facts> {
    let _not_cancelled = disable_cancellation();
    let mut port = ibv_port_attr::default();
    // SAFETY: the context is open and wrapped, as the caller promises, and `port` is writable.
    if unsafe { (provider(context).query_port)(context, attr.port_num, &mut port) } != 0 {
        return None;
    }
    // SAFETY: all members of the union have the same 16 bytes, of any value.
    let dgid = unsafe { attr.grh.dgid.raw };
    let mut facts = gid::Facts {
        ethernet: u32::from(port.link_layer) == IBV_LINK_LAYER_ETHERNET,
        port: attr.port_num,
        has_lid: port.lid != 0,
        is_global: attr.is_global != 0,
        index: attr.grh.sgid_index.into(),
        dgid,
        table: Vec::new(),
        unreachable: None,
        interface: String::new(),
    };
    if !facts.ethernet {
        return Some(facts);
    }
    let entries = (port.gid_tbl_len.max(0) as u32).min(MAX_ENTRIES);
    if let Some(hooks) = HOOKS.get() {
        for index in 0..entries {
            // SAFETY: the context is open, as the caller promises.
            if let Some(entry) = unsafe { (hooks.query_gid)(context, attr.port_num, index) } {
                facts.table.push(gid::GidEntry {
                    index,
                    // SAFETY: all members of the union have the same 16 bytes, of any value.
                    gid: unsafe { entry.gid.raw },
                    kind: entry.gid_type,
                    interface: entry.ndev_ifindex,
                });
            }
        }
    }
    add_route(&mut facts);
    Some(facts)
}

/// Asks the routing table for the way to the destination.
fn add_route(facts: &mut gid::Facts) {
    let Some(source) = facts.source() else { return };
    let interface = source.interface;
    let Ok(mut client) = RtnlClient::open() else {
        return;
    };
    let link = client.link(interface);
    facts.interface = link.map_or_else(|| format!("interface {interface}"), |link| link.name);
    if !matches!(
        AddressKind::of(&facts.dgid),
        AddressKind::Ipv4 | AddressKind::Ipv6
    ) {
        return;
    }
    // Without an interface: with one the kernel takes any IPv4 destination for a neighbour.
    facts.unreachable = match client.route(gid::address(&facts.dgid), None) {
        Err(errno @ Errno(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES)) => {
            Some(describe(errno))
        }
        Ok(route) => match route.kind {
            libc::RTN_UNREACHABLE => Some("the route is of type unreachable".into()),
            libc::RTN_BLACKHOLE => Some("the route is of type blackhole".into()),
            libc::RTN_PROHIBIT => Some("the route is of type prohibit".into()),
            _ => None,
        },
        Err(_) => None,
    };
}

/// Gathers the facts about a registration that failed. `pins`: the device pins the memory.
pub fn registration(
    addr: u64,
    length: u64,
    access: u32,
    pins: bool,
    regions: usize,
) -> memory::Registration {
    let _not_cancelled = disable_cancellation();
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: getrlimit writes one rlimit to `limit`, a local.
    unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    let status = fs::read("/proc/self/status").unwrap_or_default();
    let limited = pins && limit.rlim_cur != libc::RLIM_INFINITY && !may_lock_any(&status);
    memory::Registration {
        addr,
        length,
        access,
        limit: limited.then_some(limit.rlim_cur),
        pinned: shortage::pinned(&status).unwrap_or(0),
        maps: mappings(),
        regions,
    }
}

/// Whether a descriptor is open.
pub fn is_open(fd: i32) -> bool {
    // SAFETY: fcntl takes numbers, and F_GETFD changes nothing.
    unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
}

/// The mappings of the process.
pub fn mappings() -> Vec<memory::Mapping> {
    let _not_cancelled = disable_cancellation();
    let maps = fs::read("/proc/self/maps").unwrap_or_default();
    memory::mappings(&String::from_utf8_lossy(&maps))
}

/// Whether the process has CAP_IPC_LOCK, to which RLIMIT_MEMLOCK does not apply.
fn may_lock_any(status: &[u8]) -> bool {
    const CAP_IPC_LOCK: u64 = 14;
    let text = String::from_utf8_lossy(status);
    let line = text.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    set.is_some_and(|mask| mask >> CAP_IPC_LOCK & 1 != 0)
}

/// The device's limits; None if they cannot be queried.
///
/// # Safety
/// `context` is open and wrapped.
pub unsafe fn device(context: *mut ibv_context) -> Option<ibv_device_attr> {
    // SAFETY: the context is open and wrapped, as the caller promises.
    unsafe { device_ex(context) }.map(|attr| attr.orig_attr)
}

/// As [`device`], with the attributes of ibv_query_device_ex(3). Those that the provider does not have are 0.
///
/// # Safety
/// `context` is open and wrapped.
pub unsafe fn device_ex(context: *mut ibv_context) -> Option<ibv_device_attr_ex> {
    let mut attr = MaybeUninit::<ibv_device_attr_ex>::zeroed();
    let size = size_of::<ibv_device_attr_ex>();
    // SAFETY: the context is open and wrapped, as the caller promises; `attr` has `size` writable bytes,
    // and consists of integers, for which zeros are valid.
    unsafe {
        let query = provider(context).query_device_ex;
        let err = query(context, ptr::null(), attr.as_mut_ptr(), size);
        (err == 0).then(|| attr.assume_init())
    }
}

/// The attributes of a port; None if they cannot be queried.
///
/// # Safety
/// `context` is open and wrapped.
pub unsafe fn port(context: *mut ibv_context, number: u8) -> Option<ibv_port_attr> {
    let mut attr = ibv_port_attr::default();
    // SAFETY: the context is open and wrapped, as the caller promises, and `attr` is writable.
    let err = unsafe { (provider(context).query_port)(context, number, &mut attr) };
    (err == 0).then_some(attr)
}

/// This process, and how often it was made by fork: 0 until [`pid`] is called.
static PID: AtomicU32 = AtomicU32::new(0);
static FORKS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// This thread, and the value of [`FORKS`] that it was asked for at.
    static THREAD: Cell<(i32, u32)> = const { Cell::new((0, 0)) };
}

/// After a fork, in the child: numbers of process and thread are others.
pub fn after_fork_in_child() {
    PID.store(0, Ordering::Relaxed);
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The number of this process. A system call at the first call only, as each verb needs it.
pub fn pid() -> u32 {
    match PID.load(Ordering::Relaxed) {
        0 => {
            let pid = std::process::id();
            PID.store(pid, Ordering::Relaxed);
            pid
        }
        pid => pid,
    }
}

/// This thread's number, as debuggers show it.
pub fn thread() -> i32 {
    let forks = FORKS.load(Ordering::Relaxed);
    match THREAD.get() {
        (0, _) => {}
        (thread, at) if at == forks => return thread,
        _ => {}
    }
    let thread = ask_thread();
    THREAD.set((thread, forks));
    thread
}

/// A thread of this process as messages name it: its number, and its name if it lives.
pub fn thread_text(thread: i32) -> String {
    let _not_cancelled = disable_cancellation();
    match fs::read_to_string(format!("/proc/self/task/{thread}/comm")) {
        Ok(name) => format!("thread {thread} ({})", name.trim_end()),
        Err(_) => format!("thread {thread}, which has ended,"),
    }
}

fn ask_thread() -> i32 {
    // glibc has gettid since 2.30; the prebuilt archive runs on 2.28.
    // SAFETY: gettid has no arguments and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as libc::pid_t }
}

/// Whether memory is on the stack of this thread.
pub fn is_on_stack(addr: u64) -> bool {
    /// Larger stacks are rare.
    const LARGEST: u64 = 64 << 20;
    let here = &raw const addr as u64;
    if addr < here || addr - here > LARGEST {
        return false;
    }
    let mut attr = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut start, mut size) = (ptr::null_mut(), 0);
    // SAFETY: the thread is this one; the attributes are read only if they were filled, and destroyed once.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attr.as_mut_ptr()) != 0 {
            return false;
        }
        libc::pthread_attr_getstack(attr.as_ptr(), &mut start, &mut size);
        libc::pthread_attr_destroy(attr.as_mut_ptr());
    }
    (start as u64..start as u64 + size as u64).contains(&addr)
}

/// Bytes at each end of a buffer that a digest covers.
const SAMPLE: usize = 512;

/// A digest of buffers' data: of both ends of each. Err is the address of memory that is not mapped.
pub fn digest(sges: &[Sge]) -> Result<u64, u64> {
    use core::hash::{BuildHasher, Hasher};
    let mut hasher =
        std::hash::BuildHasherDefault::<std::hash::DefaultHasher>::default().build_hasher();
    let mut bytes = [0; SAMPLE];
    for sge in sges.iter().filter(|sge| sge.length > 0) {
        let length = sge.length as usize;
        let size = length.min(SAMPLE);
        // The program's numbers: where they exceed the address space, no memory is mapped.
        let tail = sge.addr.wrapping_add((length - size) as u64);
        let count = if tail == sge.addr { 1 } else { 2 };
        for at in [sge.addr, tail].into_iter().take(count) {
            // SAFETY: `bytes` has room for `size` bytes.
            if !unsafe { read_memory(at as usize, bytes.as_mut_ptr(), size) } {
                return Err(at);
            }
            hasher.write(&bytes[..size]);
        }
    }
    Ok(hasher.finish() | 1)
}

/// A copy of the value at an address of this process; None if it is not mapped. Async-signal-safe.
///
/// # Safety
/// Any bytes are a valid `T`.
pub unsafe fn copy_of<T>(addr: usize) -> Option<T> {
    let mut copy = MaybeUninit::uninit();
    // SAFETY: the copy is writable, and read only if all of it was written. Any bytes are valid, as the
    // caller promises.
    unsafe { read_memory(addr, copy.as_mut_ptr(), 1).then(|| copy.assume_init()) }
}

/// Reads `count` values from memory of this process, which need not be mapped. If it fails, some bytes of
/// `to` may have been written.
///
/// # Safety
/// `to` has room for `count` values.
pub unsafe fn read_memory<T>(addr: usize, to: *mut T, count: usize) -> bool {
    let size = count * size_of::<T>();
    let local = libc::iovec {
        iov_base: to.cast(),
        iov_len: size,
    };
    let remote = libc::iovec {
        iov_base: ptr::without_provenance_mut(addr),
        iov_len: size,
    };
    // SAFETY: the kernel writes at most `size` bytes to `to`, and checks the other address.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    read == size as isize
}

/// Whether a descriptor has something to read.
pub fn is_readable(fd: i32) -> bool {
    let _not_cancelled = disable_cancellation();
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one pollfd, which is writable.
    fd >= 0 && unsafe { libc::poll(&mut poll, 1, 0) } == 1 && poll.revents & libc::POLLIN != 0
}

/// Whether this thread is the only one of the program.
pub fn is_alone() -> bool {
    threads(thread()).is_empty()
}

/// The program's threads: without this one, and the library's others.
pub fn threads(own: i32) -> Vec<i32> {
    let _not_cancelled = disable_cancellation();
    let entries = fs::read_dir("/proc/self/task").into_iter().flatten();
    let numbers = entries.flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        name.parse().ok()
    });
    let is_ours = |tid: &i32| {
        let name = fs::read_to_string(format!("/proc/self/task/{tid}/comm")).unwrap_or_default();
        name.starts_with("ibverbs-") || name.starts_with("uroce")
    };
    numbers.filter(|tid| *tid != own && !is_ours(tid)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities() {
        assert!(may_lock_any(b"Name: x\nCapEff:\t000001ffffffffff\n"));
        assert!(may_lock_any(b"CapEff:\t0000000000004000\n"));
        assert!(!may_lock_any(b"CapEff:\t0000000000000000\n"));
        assert!(!may_lock_any(b"CapEff: x\nCapPrm: 4000\n"));
    }

    #[test]
    fn this_process_has_mappings() {
        let here = &raw const HOOKS as u64;
        let facts = registration(here, 1, 0, true, 0);
        assert!(
            facts
                .maps
                .iter()
                .any(|mapping| (mapping.start..mapping.end).contains(&here))
        );
        assert!(thread() > 0);
        assert!(!is_readable(-1));
        let local = 0_u8;
        assert!(is_on_stack(&raw const local as u64 + 4096));
        assert!(!is_on_stack(here));
    }

    #[test]
    fn asking_is_no_cancellation_point() {
        let asks = || {
            // SAFETY: the thread is this one; the request stays pending.
            unsafe { libc::pthread_cancel(libc::pthread_self()) };
            assert!(!mappings().is_empty());
            assert!(registration(0, 1, 0, true, 0).pinned < u64::MAX);
            assert!(thread_text(thread()).starts_with("thread "));
            assert!(!threads(0).is_empty());
            assert!(!is_readable(i32::MAX));
            // For the rest of the thread's life.
            ibverbs_abi::disable_cancel_state();
        };
        std::thread::spawn(asks).join().unwrap();
    }

    #[test]
    fn digests() {
        let mut data = vec![1_u8; 2000];
        let sge = Sge {
            addr: data.as_ptr().expose_provenance() as u64,
            length: 2000,
            lkey: 0,
        };
        let first = digest(&[sge]);
        assert_eq!(first, digest(&[sge]));
        data[1999] = 2;
        assert_ne!(first, digest(&[sge]));
        assert_eq!(digest(&[Sge { addr: 16, ..sge }]), Err(16));
        let last = u64::MAX;
        assert_eq!(digest(&[Sge { addr: last, ..sge }]), Err(last));
    }
}
