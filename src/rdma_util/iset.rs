//! An allocator of aligned ranges of 64-bit numbers. libmlx5 allocates I/O virtual addresses with it.

use std::collections::BTreeMap;
use std::sync::Mutex;

use ibverbs_abi::Errno;
use libc::{EINVAL, ENOSPC, c_int};

use crate::sys::lock;

/// The free ranges: the first number of each, with its last number. They neither overlap nor touch.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds a range and merges it with its neighbours. EINVAL if it overlaps the set, is empty, or exceeds
    /// 64 bits.
    fn insert(&mut self, first: u64, length: u64) -> Result<(), Errno> {
        let last = length
            .checked_sub(1)
            .and_then(|more| first.checked_add(more))
            .ok_or(Errno(EINVAL))?;
        let before = self.0.range(..=last).next_back().map(|(&f, &l)| (f, l));
        if before.is_some_and(|(_, end)| end >= first) {
            return Err(Errno(EINVAL));
        }
        let start = match before {
            Some((start, end)) if end + 1 == first => start,
            _ => first,
        };
        let after = last.checked_add(1).and_then(|next| self.0.remove(&next));
        self.0.insert(start, after.unwrap_or(last));
        Ok(())
    }

    /// Removes the lowest range of `length` numbers that begins at a multiple of `alignment`, and returns its
    /// first number. EINVAL if `length` is 0 or `alignment` no power of two; ENOSPC if no range is free.
    fn take(&mut self, length: u64, alignment: u64) -> Result<u64, Errno> {
        if !alignment.is_power_of_two() || length == 0 {
            return Err(Errno(EINVAL));
        }
        let fitting = self.0.iter().find_map(|(&first, &last)| {
            let start = first.checked_next_multiple_of(alignment)?;
            let end = start.checked_add(length - 1)?;
            (end <= last).then_some((first, last, start, end))
        });
        let (first, last, start, end) = fitting.ok_or(Errno(ENOSPC))?;
        self.0.remove(&first);
        if first < start {
            self.0.insert(first, start - 1);
        }
        if end < last {
            self.0.insert(end + 1, last);
        }
        Ok(start)
    }
}

/// `struct iset`, which is opaque to C.
#[derive(Debug, Default)]
pub struct Iset(Mutex<Ranges>);

/// Creates an empty set; [`iset_destroy`] frees it.
pub extern "C" fn iset_create() -> *mut Iset {
    Box::into_raw(Box::default())
}

/// Frees a set.
///
/// # Safety
/// `set` is from [`iset_create`], and is not used again.
pub unsafe extern "C" fn iset_destroy(set: *mut Iset) {
    // SAFETY: `iset_create` returned a box's address, and the set is not used again.
    drop(unsafe { Box::from_raw(set) });
}

/// Adds the numbers `start` to `start + length - 1`. Returns 0, or EINVAL (also in errno) if some of them are
/// in the set, or the range is empty or exceeds 64 bits. Any thread may call it.
///
/// # Safety
/// `set` is a live set.
pub unsafe extern "C" fn iset_insert_range(set: *mut Iset, start: u64, length: u64) -> c_int {
    // SAFETY: the set is alive, as the caller promises.
    let set = unsafe { &*set };
    lock(&set.0)
        .insert(start, length)
        .map_or_else(Errno::returned, |()| 0)
}

/// Removes a range of `length` numbers that begins at a multiple of `alignment`, a power of two, and writes
/// its first number to `start`. Archives since rdma-core v47 call it. Returns 0, or EINVAL or ENOSPC, which
/// is in errno too. Any thread may call it.
///
/// # Safety
/// `set` is a live set, and `start` is writable.
pub unsafe extern "C" fn iset_alloc_range_aligned(
    set: *mut Iset,
    length: u64,
    start: *mut u64,
    alignment: u64,
) -> c_int {
    // SAFETY: the set is alive, as the caller promises.
    let set = unsafe { &*set };
    match lock(&set.0).take(length, alignment) {
        Ok(first) => {
            // SAFETY: `start` is writable, as the caller promises.
            unsafe { *start = first };
            0
        }
        Err(errno) => errno.returned(),
    }
}

/// [`iset_alloc_range_aligned`] as archives before rdma-core v47 call it: the alignment is `length`.
///
/// # Safety
/// `set` is a live set, and `start` is writable.
pub unsafe extern "C" fn iset_alloc_range(set: *mut Iset, length: u64, start: *mut u64) -> c_int {
    // SAFETY: the set is alive and `start` writable, as the caller promises.
    unsafe { iset_alloc_range_aligned(set, length, start, length) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_limits_of_64_bits() {
        let mut set = Ranges::default();
        assert_eq!(set.insert(u64::MAX, 1), Ok(()));
        assert_eq!(set.insert(u64::MAX, 2), Err(Errno(EINVAL)));
        assert_eq!(set.insert(5, 0), Err(Errno(EINVAL)));
        assert_eq!(set.insert(0, u64::MAX), Ok(()));
        assert_eq!(set.0, BTreeMap::from([(0, u64::MAX)]));
        assert_eq!(set.take(1 << 63, 1 << 63), Ok(0));
        assert_eq!(set.take(1 << 63, 1 << 63), Ok(1 << 63));
        assert_eq!(set.take(1, 1), Err(Errno(ENOSPC)));
        assert_eq!(set.take(3, 3), Err(Errno(EINVAL)));
    }

    proptest! {
        #[test]
        fn as_number_by_number(
            steps in prop::collection::vec((any::<bool>(), 0u64..200, 0u64..40, 0u32..6), 1..60),
        ) {
            let (mut set, mut model) = (Ranges::default(), BTreeSet::new());
            for (insert, start, length, shift) in steps {
                let (numbers, alignment) = (start..start + length, 1 << shift);
                if insert {
                    let expected = if length == 0 || numbers.clone().any(|n| model.contains(&n)) {
                        Err(Errno(EINVAL))
                    } else {
                        model.extend(numbers);
                        Ok(())
                    };
                    prop_assert_eq!(set.insert(start, length), expected);
                } else {
                    let fits = |&at: &u64| (at..at + length).all(|n| model.contains(&n));
                    let expected = match (0..256).step_by(alignment).find(fits) {
                        _ if length == 0 => Err(Errno(EINVAL)),
                        None => Err(Errno(ENOSPC)),
                        Some(at) => Ok(at),
                    };
                    if let Ok(at) = expected {
                        for n in at..at + length {
                            model.remove(&n);
                        }
                    }
                    prop_assert_eq!(set.take(length, alignment as u64), expected);
                }
                let all: BTreeSet<u64> = set.0.iter().flat_map(|(&f, &l)| f..=l).collect();
                prop_assert_eq!(&all, &model);
                prop_assert!(set.0.iter().zip(set.0.iter().skip(1)).all(|((_, &l), (&f, _))| l + 1 < f));
            }
        }
    }

    #[test]
    fn through_the_c_functions() {
        let set = iset_create();
        let mut at = 0;
        // SAFETY: the set is alive until it is destroyed, and `at` is writable.
        unsafe {
            assert_eq!(iset_insert_range(set, 0x1800, 0x4000), 0);
            assert_eq!(iset_alloc_range(set, 0x1000, &mut at), 0);
            assert_eq!(at, 0x2000);
            assert_eq!(iset_alloc_range_aligned(set, 0x800, &mut at, 0x800), 0);
            assert_eq!(at, 0x1800);
            assert_eq!(iset_alloc_range(set, 0x1001, &mut at), EINVAL);
            assert_eq!(iset_alloc_range(set, 0x8000, &mut at), ENOSPC);
            assert_eq!(Errno::last(), Errno(ENOSPC));
            iset_destroy(set);
        }
    }
}
