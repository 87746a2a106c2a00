//! Bitmaps: arrays of C's `unsigned long`. Bit `n` of the map is bit `n % 64` of word `n / 64`.

use core::ffi::c_ulong;

const BITS: usize = c_ulong::BITS as usize;

/// The words that contain the bits `start..end`, as `(index, mask)`. No mask is 0.
fn words(start: usize, end: usize) -> impl Iterator<Item = (usize, c_ulong)> {
    let mut at = start;
    core::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let (index, low) = (at / BITS, at % BITS);
        let high = (end - index * BITS).min(BITS);
        at = (index + 1) * BITS;
        Some((index, (!0 << low) & (!0 >> (BITS - high))))
    })
}

/// Clears the bits `start..end`.
///
/// # Safety
/// `bitmap` has at least `end` bits, and no other thread uses them during the call.
pub unsafe extern "C" fn bitmap_zero_region(bitmap: *mut c_ulong, start: c_ulong, end: c_ulong) {
    for (index, mask) in words(start as usize, end as usize) {
        // SAFETY: `words` yields words with bits below `end`, which the bitmap has.
        unsafe { *bitmap.add(index) &= !mask };
    }
}

/// Sets the bits `start..end`.
///
/// # Safety
/// `bitmap` has at least `end` bits, and no other thread uses them during the call.
pub unsafe extern "C" fn bitmap_fill_region(bitmap: *mut c_ulong, start: c_ulong, end: c_ulong) {
    for (index, mask) in words(start as usize, end as usize) {
        // SAFETY: `words` yields words with bits below `end`, which the bitmap has.
        unsafe { *bitmap.add(index) |= mask };
    }
}

/// Returns the first set bit of `start..end`, or `end` if there is none.
///
/// # Safety
/// `bitmap` has at least `end` bits, and no other thread writes them during the call.
pub unsafe extern "C" fn bitmap_find_first_bit(
    bitmap: *const c_ulong,
    start: c_ulong,
    end: c_ulong,
) -> c_ulong {
    words(start as usize, end as usize)
        // SAFETY: `words` yields words with bits below `end`, which the bitmap has.
        .map(|(index, mask)| (index, unsafe { *bitmap.add(index) } & mask))
        .find(|&(_, set)| set != 0)
        .map_or(end, |(index, set)| {
            (index * BITS) as c_ulong + c_ulong::from(set.trailing_zeros())
        })
}

/// Returns the first bit of the first run of `size` clear bits among the first `bits`, or `bits` if there is
/// none.
///
/// # Safety
/// `bitmap` has at least `bits` bits, and no other thread writes them during the call.
pub unsafe extern "C" fn bitmap_find_free_region(
    bitmap: *mut c_ulong,
    bits: c_ulong,
    size: c_ulong,
) -> c_ulong {
    let (bits, size) = (bits as usize, size as usize);
    let mut start = 0;
    while bits.checked_sub(start).is_some_and(|left| size <= left) {
        let taken = words(start, start + size)
            // SAFETY: `start + size` is at most `bits`, and the bitmap has that many.
            .map(|(index, mask)| (index, unsafe { *bitmap.add(index) } & mask))
            .filter(|&(_, set)| set != 0)
            .last();
        match taken {
            None => return start as c_ulong,
            // A free run cannot begin at or before the last set bit.
            Some((index, set)) => start = index * BITS + set.ilog2() as usize + 1,
        }
    }
    bits as c_ulong
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bit(bitmap: &[c_ulong], n: usize) -> bool {
        bitmap[n / BITS] >> (n % BITS) & 1 == 1
    }

    proptest! {
        #[test]
        fn as_bit_by_bit(
            words in prop::collection::vec(prop_oneof![Just(0), Just(!0), any::<c_ulong>()], 4),
            a in 0usize..=256, b in 0usize..=256, size in 0usize..=256,
        ) {
            let (start, end) = (a.min(b), a.max(b));
            let bits = |w: &[c_ulong]| (0..256).map(|n| bit(w, n)).collect::<Vec<_>>();
            let was = bits(&words);
            let in_range = |n: usize| (start..end).contains(&n);

            let mut w = words.clone();
            // SAFETY: the bitmap has 256 bits.
            unsafe { bitmap_fill_region(w.as_mut_ptr(), start as _, end as _) };
            prop_assert_eq!(bits(&w), (0..256).map(|n| was[n] || in_range(n)).collect::<Vec<_>>());
            let mut w = words.clone();
            // SAFETY: the bitmap has 256 bits.
            unsafe { bitmap_zero_region(w.as_mut_ptr(), start as _, end as _) };
            prop_assert_eq!(bits(&w), (0..256).map(|n| was[n] && !in_range(n)).collect::<Vec<_>>());

            let first = (start..end).find(|&n| was[n]).unwrap_or(end);
            // SAFETY: the bitmap has 256 bits.
            let found = unsafe { bitmap_find_first_bit(words.as_ptr(), start as _, end as _) };
            prop_assert_eq!(found as usize, first);

            let mut w = words.clone();
            let free = (0..=end.saturating_sub(size))
                .find(|&at| at + size <= end && was[at..at + size].iter().all(|set| !set))
                .unwrap_or(end);
            // SAFETY: the bitmap has 256 bits.
            let found = unsafe { bitmap_find_free_region(w.as_mut_ptr(), end as _, size as _) };
            prop_assert_eq!(found as usize, free);
        }
    }
}
