//! The parts of scatter/gather lists.

use roce::engine::Sge;

/// Returns the only part of a scatter/gather list that holds its bytes `offset .. offset + len`: if
/// the list has one entry, as most have, which is long enough.
#[inline]
pub fn only_part(sges: &[Sge], offset: u64, len: usize) -> Option<Sge> {
    let [sge] = sges else { return None };
    let rest = u64::from(sge.len).checked_sub(offset)?;
    (len as u64 <= rest).then(|| Sge {
        addr: sge.addr.wrapping_add(offset),
        len: len as u32,
        lkey: sge.lkey,
    })
}

/// The parts of a scatter/gather list that hold its bytes `offset .. offset + len`.
pub fn parts(sges: &[Sge], offset: u64, len: usize) -> impl Iterator<Item = Sge> {
    let (mut skip, mut left) = (offset, len as u64);
    sges.iter().filter_map(move |sge| {
        let skipped = skip.min(u64::from(sge.len));
        skip -= skipped;
        let len = (u64::from(sge.len) - skipped).min(left);
        left -= len;
        (len > 0).then(|| Sge {
            addr: sge.addr.wrapping_add(skipped),
            len: len as u32,
            lkey: sge.lkey,
        })
    })
}
