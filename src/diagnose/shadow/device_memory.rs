//! Device memory: what is allocated, and the regions in it.
//!
//! Not here: other regions (`regions.rs`); the calls (`calls/device_memory.rs`).

use core::ffi::{c_int, c_void};

use ibverbs_abi::ibv_dm;

use super::registry::Registry;
use crate::diagnose::finding::{Finding, Kind, Object, Outcome};
use crate::diagnose::rules::Rule;

/// The provider's functions of device memory.
#[derive(Clone, Copy, Default)]
pub struct CopyOps {
    pub to: Option<unsafe extern "C" fn(*mut ibv_dm, u64, *const c_void, usize) -> c_int>,
    pub from: Option<unsafe extern "C" fn(*mut c_void, *mut ibv_dm, u64, usize) -> c_int>,
}

/// Device memory that the program has allocated.
#[derive(Clone, Copy)]
pub struct DeviceMemory {
    pub context: usize,
    pub length: u64,
    /// The provider's functions that copy.
    pub ops: CopyOps,
}

/// The allocations of the process by their addresses, and the regions that are in them.
pub struct DeviceMemories {
    all: Registry<DeviceMemory>,
    /// The allocation of each region.
    regions: Registry<usize>,
}

impl DeviceMemories {
    pub const fn new() -> DeviceMemories {
        DeviceMemories {
            all: Registry::new(),
            regions: Registry::new(),
        }
    }

    pub fn add(&mut self, address: usize, memory: DeviceMemory) {
        self.all.add(address, memory);
    }

    /// Takes an allocation out, before it is freed.
    pub fn take(&mut self, address: usize) -> Option<DeviceMemory> {
        self.all.take(address)
    }

    pub fn get(&self, address: usize) -> Option<&DeviceMemory> {
        self.all.get(&address)
    }

    /// The device of a context is closed. Returns the addresses of the allocations that it still had.
    pub fn close(&mut self, context: usize) -> Vec<usize> {
        let closed = self.all.take_all(|memory| memory.context == context);
        self.regions.take_all(|memory| closed.contains(memory));
        closed
    }

    /// The bytes that a context has allocated.
    pub fn allocated(&self, context: usize) -> u64 {
        let of = self.all.values().filter(|memory| memory.context == context);
        of.map(|memory| memory.length).sum()
    }

    pub fn add_region(&mut self, mr: usize, memory: usize) {
        self.regions.add(mr, memory);
    }

    pub fn remove_region(&mut self, mr: usize) {
        self.regions.take(mr);
    }

    /// The regions in an allocation.
    pub fn regions_of(&self, address: usize) -> impl Iterator<Item = usize> {
        self.regions.of_owner(address)
    }

    /// Reports an access that leaves the allocation.
    pub fn check_range(
        &self,
        address: usize,
        (offset, length): (u64, u64),
        call: &'static str,
        outcome: Outcome,
    ) -> Option<Finding> {
        let size = self.all.get(&address)?.length;
        let excess = (u128::from(offset) + u128::from(length)).saturating_sub(size.into());
        (excess > 0).then(|| {
            Finding::new(Rule::DmRange, Object::at(Kind::Dm, address), call, outcome)
                .with("offset", offset)
                .with("length", length)
                .with("size", size)
                .with("excess", excess)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::finding::is_complete;

    #[test]
    fn ranges_regions_and_sums() {
        let mut of = DeviceMemories::new();
        let memory = |context, length| DeviceMemory {
            context,
            length,
            ops: CopyOps::default(),
        };
        of.add(8, memory(1, 64));
        of.add(16, memory(1, 32));
        of.add(24, memory(2, 128));
        assert_eq!((of.allocated(1), of.allocated(2)), (96, 128));
        let check = |at, range| of.check_range(at, range, "ibv_memcpy_to_dm", Outcome::Called);
        for range in [(0, 64), (64, 0), (60, 4)] {
            assert!(check(8, range).is_none(), "{range:?}");
        }
        for range in [(0, 65), (61, 4), (u64::MAX, 4), (65, 0)] {
            assert!(
                check(8, range).is_some_and(|found| is_complete(&found)),
                "{range:?}"
            );
        }
        assert!(check(9, (0, 65)).is_none());
        of.add_region(1, 8);
        of.add_region(2, 16);
        of.add_region(3, 8);
        of.remove_region(1);
        assert_eq!(of.regions_of(8).collect::<Vec<_>>(), [3]);
        assert_eq!(of.close(1), [8, 16]);
        assert_eq!((of.allocated(1), of.allocated(2)), (0, 128));
    }
}
