//! The drivers that providers registered.
//!
//! A provider registers its driver from an ELF constructor: before `main`, or during a dlopen of this
//! library or the program. So the registry's lock is never held across dlopen or a call into a
//! provider, and [`drivers`] returns a copy.

use core::ffi::{CStr, c_int};

use ibverbs_abi::{ibv_device, verbs_device, verbs_device_ops};

#[cfg(test)]
use super::abi::V34;
use super::{
    abi::{Numbered, ProviderAbi},
    identify,
};
use crate::memory::lock::ForkLock;

/// A registered driver.
#[derive(Clone, Copy)]
pub struct Driver {
    /// The provider's table. It stays valid, because providers are never unloaded: see [`keep_loaded`].
    pub ops: &'static verbs_device_ops,
    /// The layout of its provider.
    pub abi: &'static ProviderAbi,
    /// The driver's place in the order: see [`ranked`].
    rank: u32,
    /// How many drivers had registered before this one.
    serial: usize,
}

// SAFETY: the table is a constant of the provider, and its pointers are to constants and functions.
unsafe impl Send for Driver {}
// SAFETY: the table and what it points to are constants, which no thread writes.
unsafe impl Sync for Driver {}

impl Driver {
    /// A driver that is not registered.
    #[cfg(test)]
    pub fn new(ops: &'static verbs_device_ops) -> Self {
        Driver {
            ops,
            abi: &V34,
            rank: 0,
            serial: 0,
        }
    }

    /// The driver's name; "(null)" if its provider has none.
    pub fn name(&self) -> &'static CStr {
        if self.ops.name.is_null() {
            return c"(null)";
        }
        // SAFETY: a provider's name is a string constant of the provider.
        unsafe { CStr::from_ptr(self.ops.name) }
    }
}

/// A driver matches a device, and does not support the version of its kernel ABI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub device: String,
    pub driver: String,
    /// The interface versions that are supported, and the one that the device has.
    pub reason: String,
}

struct Registry {
    drivers: Vec<Driver>,
    rank: u32,
    /// The files of providers that could not be loaded, with the reasons.
    not_loaded: Vec<(String, String)>,
    /// The devices that no driver accepts.
    unserved: Vec<String>,
    refused: Vec<Refused>,
}

static REGISTRY: ForkLock<Registry> = ForkLock::new(Registry {
    drivers: Vec::new(),
    rank: 0,
    not_loaded: Vec::new(),
    unserved: Vec::new(),
    refused: Vec::new(),
});

/// Calls `work` with the registry. It must not call this function, nor anything outside this file.
fn while_locked<R: Default>(work: impl FnOnce(&mut Registry) -> R) -> R {
    // Not locked by this thread already, unless a signal handler loads a provider: that gets nothing.
    REGISTRY.with(work).unwrap_or_default()
}

/// Takes the lock, so that a child of fork finds it free. [`after_fork`] releases it.
pub fn before_fork() {
    REGISTRY.prepare_fork(|_| ());
}

/// Releases the lock in the parent and in the child; called by the thread that forked.
pub fn after_fork() {
    REGISTRY.after_fork();
}

/// Registers the driver of a provider of ABI `PABI`. NULL is ignored. So is, with a warning on stderr, a
/// provider whose layout cannot be determined ([`identify`]). Any thread may call it.
///
/// # Safety
/// `ops` and all that it points to stay valid and unchanged as long as the library is loaded.
pub unsafe extern "C" fn verbs_register_driver<const PABI: u32>(ops: *const verbs_device_ops) {
    // SAFETY: `ops` is NULL or a table that stays valid, as the caller promises.
    let Some(ops) = (unsafe { ops.as_ref() }) else {
        return;
    };
    let Some(abi) = identify::of_caller::<PABI>(ops) else {
        return;
    };
    keep_loaded(ops);
    while_locked(|registry| insert(&mut registry.drivers, ops, abi, registry.rank));
}

/// Makes the file that contains a provider's table stay loaded, also if the program that loaded it by dlopen
/// closes it. A program that contains the provider itself cannot be unloaded: nothing is done for it.
fn keep_loaded(ops: &'static verbs_device_ops) {
    const PINNED: c_int = libc::RTLD_NOLOAD | libc::RTLD_NODELETE | libc::RTLD_LAZY;
    // SAFETY: dladdr fills the structure if it succeeds, with the name of a file that is loaded. RTLD_NOLOAD
    // runs no code of the file.
    unsafe {
        let mut info: libc::Dl_info = core::mem::zeroed();
        if libc::dladdr(core::ptr::from_ref(ops).cast(), &mut info) != 0 {
            libc::dlopen(info.dli_fname, PINNED);
        }
    }
}

/// The layout of a device's provider, which calls as one of ABI `PABI`; `None` if it is not known. Any thread
/// may call it.
///
/// # Safety
/// `device` is alive.
#[inline]
pub unsafe fn abi_of_device<const PABI: u32>(
    device: *mut ibv_device,
) -> Option<&'static ProviderAbi> {
    match ProviderAbi::numbered(PABI) {
        Numbered::One(abi) => Some(abi),
        // SAFETY: the device is alive, as the caller promises.
        _ => unsafe { abi_of_ambiguous_device::<PABI>(device) },
    }
}

/// [`abi_of_device`] for an ABI that stands for several layouts. mlx5's devices over VFIO have a table that
/// was never registered.
///
/// # Safety
/// `device` is alive.
#[cold]
unsafe fn abi_of_ambiguous_device<const PABI: u32>(
    device: *mut ibv_device,
) -> Option<&'static ProviderAbi> {
    // SAFETY: the device is alive, and every ibv_device is the start of a verbs_device.
    let ops = unsafe { (*device.cast::<verbs_device>()).ops };
    let registered = abi_of(ops).filter(|abi| abi.number == PABI);
    registered.or_else(|| identify::of_caller::<PABI>(ops))
}

/// The layout of the provider that registered `ops`; `None` if none did.
fn abi_of(ops: *const verbs_device_ops) -> Option<&'static ProviderAbi> {
    while_locked(|registry| {
        let mut drivers = registry.drivers.iter();
        drivers
            .find(|driver| core::ptr::eq(driver.ops, ops))
            .map(|driver| driver.abi)
    })
}

/// Inserts a driver after all drivers of the same or a lower rank.
fn insert(
    drivers: &mut Vec<Driver>,
    ops: &'static verbs_device_ops,
    abi: &'static ProviderAbi,
    rank: u32,
) {
    let serial = drivers.len();
    let at = drivers.partition_point(|driver| driver.rank <= rank);
    let driver = Driver {
        ops,
        abi,
        rank,
        serial,
    };
    drivers.insert(at, driver);
}

/// Runs `load`. Drivers that register during it get the rank `rank`, drivers that register later get
/// the rank `after`. Drivers are ordered by rank, and within a rank by the time of registration.
pub fn ranked(rank: u32, after: u32, load: impl FnOnce()) {
    while_locked(|registry| registry.rank = rank);
    load();
    while_locked(|registry| registry.rank = after);
}

/// All registered drivers, in the order in which devices are offered to them.
pub fn drivers() -> Vec<Driver> {
    while_locked(|registry| registry.drivers.clone())
}

/// How many drivers have registered.
pub fn count() -> usize {
    while_locked(|registry| registry.drivers.len())
}

/// The drivers that registered after the first `count`, in the order of [`drivers`].
pub fn drivers_since(count: usize) -> Vec<Driver> {
    while_locked(|registry| {
        let since = registry.drivers.iter().filter(|d| d.serial >= count);
        since.copied().collect()
    })
}

/// Records that the provider `file` could not be loaded, for IBV_EXPLAIN.
pub fn loading_failed(file: String, reason: String) {
    while_locked(|registry| registry.not_loaded.push((file, reason)));
}

/// Records the devices that no driver accepts, for IBV_EXPLAIN.
pub fn set_unserved(devices: Vec<String>) {
    while_locked(|registry| registry.unserved = devices);
}

/// The devices that no driver accepted when the list was made last.
pub fn unserved() -> Vec<String> {
    while_locked(|registry| registry.unserved.clone())
}

/// Records that a driver does not support a device that it matches, for IBV_EXPLAIN.
pub fn refused(refused: Refused) {
    while_locked(|registry| {
        if !registry.refused.contains(&refused) {
            registry.refused.push(refused);
        }
    });
}

/// Lists the devices that a driver matches and does not support, with the driver.
pub fn refusals() -> Vec<Refused> {
    while_locked(|registry| registry.refused.clone())
}

/// The files of providers that could not be loaded, with the reasons, in the order of the attempts.
pub fn not_loaded() -> Vec<(String, String)> {
    while_locked(|registry| registry.not_loaded.clone())
}

#[cfg(test)]
pub fn lock_during(work: impl FnOnce()) {
    while_locked(|_| work());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ops(name: &'static CStr) -> &'static verbs_device_ops {
        Box::leak(Box::new(verbs_device_ops {
            name: name.as_ptr(),
            match_min_abi_version: 0,
            match_max_abi_version: 0,
            match_table: core::ptr::null(),
            static_providers: core::ptr::null_mut(),
            match_device: None,
            alloc_context: None,
            import_context: None,
            alloc_device: None,
            uninit_device: None,
        }))
    }

    #[test]
    fn order_is_by_rank_then_by_time() {
        let mut drivers = Vec::new();
        for (name, rank) in [
            (c"early", 0),
            (c"third", 3),
            (c"late", 9),
            (c"second", 2),
            (c"third'", 3),
        ] {
            insert(&mut drivers, ops(name), &V34, rank);
        }
        let names: Vec<_> = drivers.iter().map(Driver::name).collect();
        assert_eq!(names, [c"early", c"second", c"third", c"third'", c"late"]);
        let since: Vec<_> = drivers
            .iter()
            .filter(|d| d.serial >= 3)
            .map(Driver::name)
            .collect();
        assert_eq!(since, [c"second", c"third'"]);
    }

    #[test]
    fn registering_null_or_a_nameless_driver_is_harmless() {
        let before = count();
        // SAFETY: NULL is allowed.
        unsafe { verbs_register_driver::<34>(core::ptr::null()) };
        assert_eq!(count(), before);
        let mut drivers = Vec::new();
        let mut nameless = *ops(c"x");
        nameless.name = core::ptr::null();
        insert(&mut drivers, Box::leak(Box::new(nameless)), &V34, 0);
        assert_eq!(drivers[0].name(), c"(null)");
    }
}
