//! Software devices: RDMA devices without a kernel driver. `uroce` makes them, and only
//! those that the environment variable IBV_UROCE names.
//!
//! This file is the only place of the library that knows `uroce`. A library built without the cargo
//! feature of that name has `no_software.rs` in its place. The verbs that the kernel answers for other
//! devices (GIDs, P_Keys, completion channels) call the device's `verbs_software_ops` instead.

use core::ffi::CStr;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::sync::OnceLock;

use once_cell::race::OnceBox;

use ibverbs_abi::{
    CmListener, CmNotice, ib_uverbs_async_event_desc, ibv_context, ibv_cq, ibv_device,
    verbs_context_ops, verbs_device, verbs_device_ops, verbs_software_core, verbs_software_ops,
};
use ibverbs_faults::{Action, Facts};
use uroce::{CaptureSettings, Config, ParsedConfig, SharedMemoryPeers};

use super::context::{_verbs_init_and_alloc_context, verbs_uninit_context};
use super::status::{DeviceStatus, QpStatus};
use super::{device, ops};
use crate::discover::sysfs;
use crate::{env, log};

/// The library's functions that a software device calls.
static CORE: verbs_software_core = verbs_software_core {
    init_and_alloc_context: _verbs_init_and_alloc_context::<34>,
    default_ops: ops::software_defaults(),
    set_ops,
    uninit_context: verbs_uninit_context::<34>,
};

/// The `verbs_device_ops` of all software devices, by which [`of_device`] recognises them; NULL until
/// the first one is created.
static OPS: AtomicPtr<verbs_device_ops> = AtomicPtr::new(ptr::null_mut());

/// # Safety
/// `context` is initialised, and no other thread uses its ops during the call.
unsafe fn set_ops(context: *mut ibv_context, table: &verbs_context_ops) {
    // SAFETY: the caller's context is initialised and its ops are unused by others; a whole
    // `verbs_context_ops` has its slots in the library's order.
    unsafe { ops::set_all(context, table) }
}

/// The device's `verbs_software_ops`, or `None` if it is not a software device.
///
/// # Safety
/// `device` is alive.
pub unsafe fn of_device<'a>(device: *mut ibv_device) -> Option<&'a verbs_software_ops> {
    let software = OPS.load(Ordering::Relaxed);
    if software.is_null() {
        return None;
    }
    // SAFETY: the device is alive, and every ibv_device is the start of a verbs_device.
    let ops = unsafe { (*device.cast::<verbs_device>()).ops };
    // SAFETY: these `verbs_device_ops` are the first field of uroce's `verbs_software_ops`, a static.
    ptr::eq(ops, software).then(|| unsafe { &*software.cast() })
}

/// The `verbs_software_ops` of a context's device, or `None` if that is not a software device.
///
/// # Safety
/// `context` is open.
#[inline]
pub unsafe fn of_context<'a>(context: *mut ibv_context) -> Option<&'a verbs_software_ops> {
    if !exist() {
        return None;
    }
    // SAFETY: the context is open, as the caller promises.
    unsafe { of_context_among_others(context) }
}

/// Whether the process has software devices. This is the cheapest test: processes without them end here.
#[inline]
pub fn exist() -> bool {
    !OPS.load(Ordering::Relaxed).is_null()
}

/// The rest of [`of_context`], out of line.
///
/// # Safety
/// `context` is open.
#[cold]
#[inline(never)]
unsafe fn of_context_among_others<'a>(context: *mut ibv_context) -> Option<&'a verbs_software_ops> {
    // SAFETY: an open context holds a reference to its device, so the device is alive.
    unsafe { of_device((*context).device) }
}

/// Takes the locks that a child of fork needs. [`after_fork`] releases them.
pub fn before_fork() {
    uroce::before_fork();
}

/// Releases the locks in the parent and in the child, which also gives up what it has inherited.
///
/// # Safety
/// This thread has called [`before_fork`], and has not called this since.
pub unsafe fn after_fork(is_child: bool) {
    // SAFETY: `before_fork` called uroce's in this thread.
    unsafe { uroce::after_fork(is_child) };
}

/// Decides which action of IBV_FAULTS applies to a packet, if one does.
type PacketFaults = fn(&Facts) -> Option<Action>;

static PACKET_FAULTS: OnceLock<PacketFaults> = OnceLock::new();

/// Software devices that are opened from now on ask `decide` about each packet that they receive
/// or send.
pub fn set_packet_faults(decide: PacketFaults) {
    // The same at each call.
    let _ = PACKET_FAULTS.set(decide);
    uroce::set_packet_hook(packet_fault);
}

fn packet_fault(packet: &uroce::PacketFacts<'_>) -> Option<uroce::PacketFault> {
    let facts = Facts {
        device: packet.device,
        qpn: Some(packet.qpn),
        opcode: Some(packet.operation),
        size: Some(packet.len),
        call: None,
        takes_receive: packet.takes_receive,
        sent: packet.sent,
        peer: Some(packet.peer),
    };
    match PACKET_FAULTS.get()?(&facts)? {
        Action::Drop => Some(uroce::PacketFault::Drop),
        Action::Corrupt => Some(uroce::PacketFault::Corrupt),
        Action::Duplicate => Some(uroce::PacketFault::Duplicate),
        Action::Delay(latency) => Some(uroce::PacketFault::Delay(latency.time)),
        Action::Ecn => Some(uroce::PacketFault::Mark),
        Action::Rnr => Some(uroce::PacketFault::ReceiverNotReady),
        _ => None,
    }
}

/// Raises an async event of a software device. Does nothing if the context is of another device.
///
/// # Safety
/// `context` is open.
pub unsafe fn raise_event(context: *mut ibv_context, event: &ib_uverbs_async_event_desc) {
    // SAFETY: the context is open, as the caller promises, and the function is its device's.
    unsafe {
        if let Some(software) = of_context(context) {
            (software.raise_event)(context, event);
        }
    }
}

/// Removes the GIDs of a software device that this process has open, or lets them come back. The device
/// raises the events. Nothing happens to other devices.
pub fn set_gids(device: &str, present: bool) {
    uroce::set_gids(device, present);
}

/// The software devices that this process has open. Not for a thread that is in a function of theirs.
pub fn status() -> Vec<DeviceStatus> {
    uroce::status().into_iter().map(device_status).collect()
}

/// How many completions of a software device's CQ the program has not polled; None for another device.
///
/// # Safety
/// `cq` is alive, and its context is open.
pub unsafe fn unread_completions(cq: *mut ibv_cq) -> Option<usize> {
    // SAFETY: the queue is alive and its context open, as the caller promises.
    unsafe { of_context((*cq).context).map(|_| uroce::unread_completions(cq)) }
}

/// The request and the status of a completion of a queue pair that reports an error and was not polled;
/// None if
/// there is none, or the CQ is of another device.
///
/// # Safety
/// `cq` is alive, and its context is open.
pub unsafe fn unread_failure(cq: *mut ibv_cq, qpn: u32) -> Option<(u64, u32)> {
    // SAFETY: the queue is alive and its context open, as the caller promises.
    unsafe { of_context((*cq).context).and_then(|_| uroce::unread_failure(cq, qpn)) }
}

/// Calls `hook` for the program's calls of librdmacm, and on software devices for commands that fail and for
/// events.
pub fn set_cm_hook(hook: fn(&CmNotice)) {
    uroce::set_cm_hook(hook);
    uroce::watch_librdmacm(hook);
}

/// The ids of rdma_cm of a descriptor, and their states; None if it is another file.
pub fn cm_ids(fd: i32) -> Option<Vec<(u32, &'static str)>> {
    uroce::ids_of_descriptor(fd)
}

/// The id and the type of an event of rdma_cm that the program has not read.
pub fn unread_cm_event() -> Option<(u32, u32)> {
    uroce::unread_event()
}

/// A program of this host that listens at nearly the destination of an id of rdma_cm.
pub fn listener_alike(id: u32) -> Option<CmListener> {
    uroce::listener_alike(id)
}

fn device_status(of: uroce::DeviceStatus) -> DeviceStatus {
    DeviceStatus {
        name: of.name,
        counters: of.counters,
        queue_pairs: of.queue_pairs.into_iter().map(qp_status).collect(),
    }
}

fn qp_status(of: uroce::QpStatus) -> QpStatus {
    QpStatus {
        qpn: of.qpn,
        kind: of.service,
        state: of.state,
        peer: of.peer,
        attributes: vec![
            ("path_mtu", of.path_mtu.into()),
            ("send_wqes", of.send_wqes.into()),
            ("recv_wqes", of.recv_wqes.into()),
            ("sq_psn", of.sq_psn.into()),
            ("rq_psn", of.rq_psn.into()),
            ("access", of.access.into()),
            ("qkey", of.qkey.into()),
            ("max_dest_rd_atomic", of.max_dest_rd_atomic.into()),
            ("has_srq", of.has_srq.into()),
        ],
        counters: of.counters,
    }
}

/// The value of IBV_UROCE, if it asks for devices. A privileged program gets none.
fn requested() -> Option<&'static CStr> {
    let value = env::get(c"IBV_UROCE").filter(|_| env::trusted())?;
    (!matches!(value.to_bytes(), b"" | b"0")).then_some(value)
}

/// The devices that IBV_UROCE asks for. The first reading of a file that it names counts, so that the program
/// finds the same devices by all ways. A child of fork(2) does not wait for a thread that was reading it.
fn parsed() -> Option<&'static ParsedConfig> {
    static PARSED: OnceBox<ParsedConfig> = OnceBox::new();
    let value = requested()?;
    Some(PARSED.get_or_init(|| Box::new(uroce::read_config(value.to_bytes()))))
}

/// Whether IBV_UROCE asks for devices, valid or not.
pub fn is_requested() -> bool {
    requested().is_some()
}

/// Whether the process sees the files of software devices; IBV_UROCE_VIEW=0 switches that off.
fn shows_files() -> bool {
    env::get(c"IBV_UROCE_VIEW").is_none_or(|value| value != c"0")
}

/// The processes of this host that exchange packets with this one through shared memory (IBV_UROCE_LOCAL).
/// With another value they may access memory directly, too.
fn shared_memory_peers() -> Option<SharedMemoryPeers> {
    match env::get(c"IBV_UROCE_LOCAL").map(CStr::to_bytes) {
        Some(b"0") => None,
        Some(b"any") => Some(SharedMemoryPeers::AnyUser),
        _ => Some(SharedMemoryPeers::SameUser),
    }
}

/// Shows the files of these devices to the process, and to `ibv_read_sysfs_file`.
fn install_view(devices: Vec<Config>) {
    uroce::install_view(devices);
    sysfs::set_software_reader(uroce::read_view_file);
}

/// Reads IBV_UROCE_LIDS, in a program whose IBV_UROCE is obeyed: one that is not privileged.
fn read_lids() {
    uroce::enable_lids(env::get(c"IBV_UROCE_LIDS").is_some_and(|value| value == c"1"));
}

/// Shows the files of the devices from the time when the library is loaded: programs look for them before
/// they call the library.
extern "C" fn show_files() {
    if let Some(parsed) = parsed().filter(|_| shows_files()) {
        read_lids();
        install_view(parsed.devices.clone());
    }
}

#[used]
// SAFETY: the dynamic linker calls the functions in this section, with arguments that this one ignores.
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = show_files;

/// Hides the files of software devices from the calling thread, while the library looks for the kernel's
/// devices. In the shared library they are hidden from it anyway, as its own calls are not redirected.
pub fn hide_files() -> Option<impl Drop> {
    cfg!(feature = "static").then(uroce::ViewBypass::new)
}

/// The software devices of the library's list, in the order of IBV_UROCE.
#[derive(Default)]
pub struct SoftwareDevices {
    configured: Vec<ConfiguredDevice>,
}

/// A device that IBV_UROCE names.
struct ConfiguredDevice {
    config: Config,
    /// N of `uverbsN`, if the process sees the device's files.
    uverbs: Option<u32>,
    /// NULL until the device's interface exists.
    device: *mut verbs_device,
    /// Whether the reason why the device cannot be created was printed.
    warned: bool,
}

// SAFETY: any thread may use a device of the list: its reference count is atomic, and the rest of it
// does not change.
unsafe impl Send for ConfiguredDevice {}

impl SoftwareDevices {
    /// No device.
    pub const fn new() -> Self {
        SoftwareDevices {
            configured: Vec::new(),
        }
    }

    /// Reads IBV_UROCE; called once. A setuid program gets no devices. Bad entries are reported on
    /// stderr and skipped.
    pub fn initialize(&mut self) {
        let Some(parsed) = parsed() else {
            return;
        };
        start_capture();
        read_lids();
        uroce::enable_shared_memory(shared_memory_peers());
        uroce::enable_direct_access(env::get(c"IBV_UROCE_LOCAL").is_none_or(|v| v != c"packets"));
        for entry in &parsed.rejected {
            warn("bad IBV_UROCE entry ", entry);
        }
        let shown = shows_files();
        if shown {
            install_view(parsed.devices.clone());
        }
        let numbers = uroce::FIRST_UVERBS..;
        let devices = parsed.devices.iter().cloned().zip(numbers);
        let configured = |(config, number)| ConfiguredDevice::new(config, shown.then_some(number));
        self.configured = devices.map(configured).collect();
    }

    /// Creates the devices that do not exist yet and whose interface does. A device stays in the list
    /// even if its interface disappears later.
    pub fn refresh(&mut self) {
        if !self.configured.is_empty() {
            uroce::redirect_new_objects();
        }
        self.configured
            .iter_mut()
            .for_each(ConfiguredDevice::create);
    }

    /// The devices that exist. The list keeps its references.
    pub fn devices(&self) -> impl Iterator<Item = *mut ibv_device> {
        let devices = self.configured.iter().map(|entry| entry.device.cast());
        devices.filter(|device: &*mut ibv_device| !device.is_null())
    }
}

impl ConfiguredDevice {
    fn new(config: Config, uverbs: Option<u32>) -> Self {
        ConfiguredDevice {
            config,
            uverbs,
            device: ptr::null_mut(),
            warned: false,
        }
    }

    fn create(&mut self) {
        if !self.device.is_null() {
            return;
        }
        if let Err(error) = uroce::check(&self.config) {
            if !self.warned {
                warn(
                    "IBV_UROCE device ",
                    &format!("'{}': {error}", self.config.name),
                );
            }
            self.warned = true;
            return;
        }
        self.device = uroce::new_device(&CORE, self.config.clone(), self.uverbs);
        if !self.device.is_null() {
            // SAFETY: the device was created above, so it is alive; this is the list's reference.
            unsafe {
                OPS.store((*self.device).ops.cast_mut(), Ordering::Relaxed);
                device::hold(self.device.cast());
            }
        }
    }
}

/// Reads IBV_UROCE_PCAP and the variables that go with it. The caller has checked that the program is not
/// privileged.
fn start_capture() {
    let Some(name) = env::get(c"IBV_UROCE_PCAP") else {
        return;
    };
    let limit = env::get(c"IBV_UROCE_PCAP_LIMIT").map(CStr::to_bytes);
    let snaplen = env::get(c"IBV_UROCE_PCAP_SNAPLEN").map(CStr::to_bytes);
    let (settings, rejected) = CaptureSettings::parse(name.to_bytes(), limit, snaplen);
    for text in rejected {
        warn("", &text);
    }
    if let Some(settings) = settings {
        uroce::start_capture(settings);
    }
}

fn warn(about: &str, text: &str) {
    log::print(&[
        b"Warning: ignoring ",
        about.as_bytes(),
        text.as_bytes(),
        b"\n",
    ]);
}
