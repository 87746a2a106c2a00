//! A copy of the bytes of a READ that waits, from before a later request of the same queue pair.

use super::{Hca, RemoteKey};

/// Bytes of a peer's READ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadCopy {
    va: u64,
    bytes: Vec<u8>,
}

impl ReadCopy {
    /// Copies the range, and takes from an earlier copy what that has. None if there is no memory, or the
    /// peer may not read the range.
    pub fn try_new(
        key: RemoteKey,
        va: u64,
        len: usize,
        earlier: Option<&ReadCopy>,
        hca: &mut impl Hca,
    ) -> Option<ReadCopy> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).ok()?;
        bytes.resize(len, 0);
        hca.read_remote(key, va, &mut bytes).ok()?;
        if let Some(earlier) = earlier {
            let start = usize::try_from(earlier.va.wrapping_sub(va)).unwrap_or(len);
            for (to, from) in bytes.iter_mut().skip(start).zip(&earlier.bytes) {
                *to = *from;
            }
        }
        Some(ReadCopy { va, bytes })
    }

    /// The bytes of the range; None if the copy does not have all of them.
    pub fn get(&self, va: u64, len: usize) -> Option<&[u8]> {
        let start = usize::try_from(va.wrapping_sub(self.va)).ok()?;
        self.bytes.get(start..start.checked_add(len)?)
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
}
