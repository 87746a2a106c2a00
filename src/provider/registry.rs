//! The drivers that providers registered.
//!
//! A provider registers from an ELF constructor: before main, or inside our own dlopen. So the lock
//! here is held for moments only, never across dlopen or a call into a provider, and [`drivers`]
//! hands out a copy.

use core::ffi::CStr;

use ibverbs_abi::verbs_device_ops;
use parking_lot::Mutex;

/// A registered driver.
#[derive(Clone, Copy)]
pub struct Driver {
    /// The provider's table. Providers are never unloaded, so it stays.
    pub ops: &'static verbs_device_ops,
    /// Where the driver stands among the others: see [`ranked`].
    rank: u32,
    /// How many drivers had registered before.
    serial: usize,
}

// SAFETY: the table is the provider's constant, and its pointers lead to constants and functions.
unsafe impl Send for Driver {}
// SAFETY: as above; nothing ever writes to it.
unsafe impl Sync for Driver {}

impl Driver {
    /// A driver that is not registered.
    #[cfg(test)]
    pub fn new(ops: &'static verbs_device_ops) -> Self {
        Driver {
            ops,
            rank: 0,
            serial: 0,
        }
    }

    /// The driver's name, as its provider tells it.
    pub fn name(&self) -> &'static CStr {
        if self.ops.name.is_null() {
            return c"(null)";
        }
        // SAFETY: a provider's name is a string constant of the provider.
        unsafe { CStr::from_ptr(self.ops.name) }
    }
}

struct Registry {
    drivers: Vec<Driver>,
    rank: u32,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    drivers: Vec::new(),
    rank: 0,
});

/// Registers a provider's driver.
///
/// # Safety
/// `ops` and what it points to stay, unchanged, as long as the library is loaded; NULL is ignored.
pub unsafe extern "C" fn verbs_register_driver_34(ops: *const verbs_device_ops) {
    // SAFETY: the provider hands a table that stays.
    if let Some(ops) = unsafe { ops.as_ref() } {
        let mut registry = REGISTRY.lock();
        let rank = registry.rank;
        insert(&mut registry.drivers, ops, rank);
    }
}

/// Behind all drivers of the same or a lower rank.
fn insert(drivers: &mut Vec<Driver>, ops: &'static verbs_device_ops, rank: u32) {
    let serial = drivers.len();
    let at = drivers.partition_point(|driver| driver.rank <= rank);
    drivers.insert(at, Driver { ops, rank, serial });
}

/// Runs `load`, and gives what registers meanwhile the rank `rank`: drivers stand in the order of
/// their ranks, whenever they came. Returns to `after` for what registers later.
pub fn ranked(rank: u32, after: u32, load: impl FnOnce()) {
    REGISTRY.lock().rank = rank;
    load();
    REGISTRY.lock().rank = after;
}

/// The drivers of now, in the order in which devices are offered to them.
pub fn drivers() -> Vec<Driver> {
    REGISTRY.lock().drivers.clone()
}

/// How many drivers have registered.
pub fn count() -> usize {
    REGISTRY.lock().drivers.len()
}

/// The drivers that registered since there were `count`.
pub fn drivers_since(count: usize) -> Vec<Driver> {
    REGISTRY
        .lock()
        .drivers
        .iter()
        .filter(|driver| driver.serial >= count)
        .copied()
        .collect()
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
            insert(&mut drivers, ops(name), rank);
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
        // SAFETY: NULL is what is tested.
        unsafe { verbs_register_driver_34(core::ptr::null()) };
        assert_eq!(count(), before);
        let mut drivers = Vec::new();
        let mut nameless = *ops(c"x");
        nameless.name = core::ptr::null();
        insert(&mut drivers, Box::leak(Box::new(nameless)), 0);
        assert_eq!(drivers[0].name(), c"(null)");
    }
}
