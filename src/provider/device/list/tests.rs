//! Tests of the device list, with fake drivers and devices.

use core::{
    cell::RefCell,
    ffi::{CStr, c_char, c_int},
    ptr,
    sync::atomic::{AtomicUsize, Ordering},
};

use ibverbs_abi::{
    IBV_NODE_CA, IBV_TRANSPORT_IB, VERBS_MATCH_DRIVER_ID, VERBS_MATCH_MODALIAS, verbs_device_ops,
    verbs_match_ent, verbs_match_ent_u,
};

use super::*;
use crate::discover::sysfs::set_field;

/// How many devices are allocated and not yet freed.
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// Held by each test that counts devices, so that they run one at a time.
static ONE_AT_A_TIME: parking_lot::Mutex<()> = parking_lot::Mutex::new(());

unsafe extern "C" fn alloc_device(_: *mut verbs_sysfs_dev) -> *mut verbs_device {
    LIVE.fetch_add(1, Ordering::Relaxed);
    // SAFETY: calloc accepts any size.
    unsafe { libc::calloc(1, size_of::<verbs_device>()).cast() }
}

unsafe extern "C" fn alloc_nothing(_: *mut verbs_sysfs_dev) -> *mut verbs_device {
    ptr::null_mut()
}

unsafe extern "C" fn uninit_device(device: *mut verbs_device) {
    LIVE.fetch_sub(1, Ordering::Relaxed);
    // SAFETY: alloc_device allocated it, and this is its last use.
    unsafe { libc::free(device.cast()) };
}

fn entry(kind: u32, u: verbs_match_ent_u) -> verbs_match_ent {
    verbs_match_ent {
        driver_data: ptr::null_mut(),
        u,
        vendor: 0,
        device: 0,
        kind: kind as u8,
    }
}

fn leak(name: &'static CStr, matches: verbs_match_ent) -> &'static mut verbs_device_ops {
    let end = entry(0, verbs_match_ent_u { driver_id: 0 });
    Box::leak(Box::new(verbs_device_ops {
        name: name.as_ptr(),
        match_min_abi_version: 1,
        match_max_abi_version: 2,
        match_table: Box::leak(Box::new([matches, end])).as_ptr(),
        static_providers: ptr::null_mut(),
        match_device: None,
        alloc_context: None,
        import_context: None,
        alloc_device: Some(alloc_device),
        uninit_device: Some(uninit_device),
    }))
}

fn by_name(name: &'static CStr, pattern: &'static CStr) -> &'static mut verbs_device_ops {
    let u = verbs_match_ent_u {
        modalias: pattern.as_ptr(),
    };
    leak(name, entry(VERBS_MATCH_MODALIAS, u))
}

fn by_id(name: &'static CStr, driver_id: u64) -> &'static mut verbs_device_ops {
    leak(
        name,
        entry(VERBS_MATCH_DRIVER_ID, verbs_match_ent_u { driver_id }),
    )
}

/// Drivers in three groups: registered at the start, loaded for devices, loaded as deferred.
#[derive(Default)]
struct Fake {
    registered: Vec<Driver>,
    first: Vec<Driver>,
    deferred: Vec<Driver>,
    configured: bool,
    calls: RefCell<Vec<&'static str>>,
}

fn drivers(ops: Vec<&'static mut verbs_device_ops>) -> Vec<Driver> {
    ops.into_iter().map(|ops| Driver::new(ops)).collect()
}

impl Drivers for Fake {
    fn all(&self) -> Vec<Driver> {
        self.registered.clone()
    }

    fn configured(&self) -> bool {
        self.configured
    }

    fn load_for(&mut self, devices: &mut [SysfsDevice]) {
        assert!(!devices.is_empty());
        self.configured = true;
        self.calls.borrow_mut().push("load_for");
        let first = core::mem::take(&mut self.first);
        self.registered.extend(first);
    }

    fn load_deferred(&mut self) -> Vec<Driver> {
        self.calls.borrow_mut().push("load_deferred");
        let deferred = core::mem::take(&mut self.deferred);
        self.registered.extend(&deferred);
        deferred
    }
}

fn device(uverbs: &str, name: &str, index: c_int) -> SysfsDevice {
    let mut device = SysfsDevice::new().unwrap();
    assert!(set_field(&mut device.sysfs_name, &[uverbs.as_bytes()]));
    assert!(set_field(&mut device.ibdev_name, &[name.as_bytes()]));
    assert!(set_field(
        &mut device.ibdev_path,
        &[b"/nowhere/", name.as_bytes()]
    ));
    device.ibdev_idx = index;
    device.abi_ver = 2;
    device.node_type = IBV_NODE_CA;
    device
}

fn text(chars: &[c_char]) -> String {
    String::from_utf8(field(chars).to_vec()).unwrap()
}

impl DeviceList<Fake> {
    fn with(registered: Vec<&'static mut verbs_device_ops>) -> Self {
        let drivers = Fake {
            registered: drivers(registered),
            ..Fake::default()
        };
        DeviceList {
            devices: Vec::new(),
            drivers,
        }
    }

    fn names(&self) -> Vec<String> {
        // SAFETY: the list has a reference to each of its devices.
        self.devices()
            .map(|device| unsafe { text(&(*device).name) })
            .collect()
    }

    fn driver_of(&self, at: usize) -> &'static CStr {
        // SAFETY: the list has a reference to its devices, whose drivers' tables are leaked boxes.
        unsafe { CStr::from_ptr((*(*self.devices[at].0.as_ptr()).ops).name) }
    }
}

const RXE: &CStr = c"rdma_device:*Nrxe*";

#[test]
fn follows_the_kernel_and_keeps_references() {
    let _guard = ONE_AT_A_TIME.lock();
    let before = LIVE.load(Ordering::Relaxed);
    let mut list = DeviceList::with(vec![by_name(c"rxe", RXE)]);
    // Discovery returns the last device first, and the list reverses that.
    list.update(vec![
        device("uverbs1", "rxe1", 2),
        device("uverbs0", "rxe0", 1),
    ]);
    assert_eq!(list.names(), ["rxe0", "rxe1"]);
    assert!(list.drivers.calls.borrow().is_empty());
    let old: Vec<_> = list.devices().collect();

    // SAFETY: the list has a reference to the device.
    unsafe {
        let first = &*old[0].cast::<verbs_device>();
        assert_eq!(first.refcount, 1);
        assert_eq!(first.device.transport_type, IBV_TRANSPORT_IB);
        assert_eq!(text(&first.device.dev_name), "uverbs0");
        assert_eq!(text(&first.device.ibdev_path), "/nowhere/rxe0");
        assert!(text(&first.device.dev_path).ends_with("/class/infiniband_verbs/uverbs0"));
        super::super::hold(old[1]);
    }

    // A device that is still there stays the same object; new ones come first; one that is gone stays
    // alive as long as the program has a reference.
    list.update(vec![
        device("uverbs2", "rxe2", 3),
        device("uverbs0", "rxe0", 1),
    ]);
    assert_eq!(list.names(), ["rxe2", "rxe0"]);
    assert_eq!(list.devices().nth(1), Some(old[0]));
    assert_eq!(LIVE.load(Ordering::Relaxed) - before, 3);
    // SAFETY: the reference was taken above.
    unsafe {
        assert_eq!(text(&(*old[1]).name), "rxe1");
        put(old[1]);
    }
    assert_eq!(LIVE.load(Ordering::Relaxed) - before, 2);

    // Another device under an old name. The old one is held, so that the new one cannot have its address.
    // SAFETY: the list has a reference to the device.
    unsafe { super::super::hold(old[0]) };
    list.update(vec![device("uverbs0", "rxe0", 9)]);
    assert_eq!(list.names(), ["rxe0"]);
    assert_ne!(list.devices().next(), Some(old[0]));
    // SAFETY: the reference was taken above.
    unsafe { put(old[0]) };
    list.update(vec![]);
    assert_eq!(list.devices().len(), 0);
    assert_eq!(LIVE.load(Ordering::Relaxed), before);
}

#[test]
fn without_an_index_the_creation_time_decides() {
    let at = |sec, nsec| {
        let mut device = device("uverbs0", "rxe0", -1);
        device.time_created = libc::timespec {
            tv_sec: sec,
            tv_nsec: nsec,
        };
        device
    };
    assert!(same(&at(1, 2), &at(1, 2)));
    assert!(!same(&at(1, 2), &at(1, 3)));
    assert!(!same(&at(1, 2), &at(2, 2)));
    let mut indexed = at(1, 2);
    indexed.ibdev_idx = 4;
    assert!(!same(&at(1, 2), &indexed));
    let mut later = at(5, 5);
    later.ibdev_idx = 4;
    assert!(same(&indexed, &later));
    assert!(!same(&at(1, 2), &device("uverbs1", "rxe0", -1)));
}

#[test]
fn loads_what_devices_need_and_then_the_deferred() {
    let _guard = ONE_AT_A_TIME.lock();
    let mut list = DeviceList::with(vec![]);
    list.drivers.first = drivers(vec![by_name(c"rxe", RXE)]);
    list.drivers.deferred = drivers(vec![by_name(c"siw", c"rdma_device:*Nsiw*")]);
    list.update(vec![]);
    assert!(
        list.drivers.calls.borrow().is_empty(),
        "no device, no provider"
    );
    list.update(vec![device("uverbs0", "rxe0", 1)]);
    assert_eq!(list.names(), ["rxe0"]);
    assert_eq!(*list.drivers.calls.borrow(), ["load_for"]);
    list.update(vec![
        device("uverbs1", "siw0", 2),
        device("uverbs0", "rxe0", 1),
    ]);
    assert_eq!(list.names(), ["siw0", "rxe0"]);
    assert_eq!(
        *list.drivers.calls.borrow(),
        ["load_for", "load_for", "load_deferred"]
    );
    list.update(vec![]);
}

#[test]
fn the_driver_id_goes_before_the_order_of_drivers() {
    let _guard = ONE_AT_A_TIME.lock();
    let ops = || vec![by_name(c"name", RXE), by_id(c"id", 14)];
    let mut list = DeviceList::with(ops());
    let with_id = |id| {
        let mut device = device("uverbs0", "rxe0", id as c_int);
        device.driver_id = id;
        device
    };
    list.update(vec![with_id(14)]);
    assert_eq!(list.driver_of(0), c"id");
    list.update(vec![with_id(0)]);
    assert_eq!(list.driver_of(0), c"name");
    list.update(vec![with_id(15)]);
    assert_eq!(list.driver_of(0), c"name");
    list.update(vec![]);
}

#[test]
fn a_driver_that_does_not_accept_the_device() {
    let _guard = ONE_AT_A_TIME.lock();
    unsafe extern "C" fn never(_: *mut verbs_sysfs_dev) -> bool {
        false
    }
    let (broken, foreign) = (by_name(c"broken", RXE), by_name(c"foreign", RXE));
    let (picky, no_alloc) = (by_name(c"picky", RXE), by_name(c"no_alloc", RXE));
    broken.alloc_device = Some(alloc_nothing);
    foreign.match_min_abi_version = 3;
    foreign.match_max_abi_version = 4;
    picky.match_device = Some(never);
    no_alloc.alloc_device = None;
    let all = vec![broken, foreign, picky, no_alloc, by_name(c"right", RXE)];
    let mut list = DeviceList::with(all);
    list.update(vec![device("uverbs0", "rxe0", 1)]);
    assert_eq!(list.driver_of(0), c"right");
    list.update(vec![]);

    let (empty, by_function) = (by_name(c"empty", RXE), by_name(c"by_function", c"nothing"));
    unsafe extern "C" fn always(_: *mut verbs_sysfs_dev) -> bool {
        true
    }
    empty.match_table = ptr::null();
    by_function.match_device = Some(always);
    let mut list = DeviceList::with(vec![empty, by_function]);
    list.update(vec![device("uverbs0", "rxe0", 1)]);
    assert_eq!(list.driver_of(0), c"by_function");
    list.update(vec![]);
}
