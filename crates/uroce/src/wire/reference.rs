//! Payload by reference: where it lies in the sender's memory, in place of its bytes. Only between processes
//! of one host, never in a datagram. One such packet stands for several, with the PSNs of all of them.

/// Bytes at an address of the sender's process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The address of the first byte.
    pub address: u64,
    /// Their number, not 0.
    pub len: u32,
}

/// Who has lent the memory, and when: the receiver finds out whether the reference is still valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loan {
    /// The sending queue pair.
    pub qpn: u32,
    /// The sender counts it up when the memory may change.
    pub epoch: u32,
}

/// The payload of some packets of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Of the memory.
    pub loan: Loan,
    /// The packets that it stands for: at least 1, and at most one per byte.
    pub packets: u32,
    /// What it came through, as the receiver calls it; not part of what is sent.
    pub source: u32,
    parts: [Part; MAX_PARTS],
    count: usize,
}

/// Parts of a reference at most. With two of them, and a BTH, it fits an entry of a ring.
const MAX_PARTS: usize = 3;
const HEAD_LEN: usize = 4 + 4 + 4;
const PART_LEN: usize = 8 + 4;

impl Reference {
    /// The most bytes of payload: the receiver copies them at once, and other threads wait for it.
    pub const MAX_LEN: u32 = 1 << 20;

    /// A reference to memory in parts, for one packet. None if there are none or too many, if one is empty,
    /// or if they have more than [`Reference::MAX_LEN`] bytes.
    pub fn new(loan: Loan, parts: impl IntoIterator<Item = Part>) -> Option<Reference> {
        let mut reference = Reference {
            loan,
            packets: 1,
            source: 0,
            parts: [Part::default(); MAX_PARTS],
            count: 0,
        };
        let mut left = Reference::MAX_LEN;
        for part in parts {
            left = left.checked_sub(part.len).filter(|_| part.len > 0)?;
            *reference.parts.get_mut(reference.count)? = part;
            reference.count += 1;
        }
        (reference.count > 0).then_some(reference)
    }

    /// The parts, in their order.
    pub fn parts(&self) -> &[Part] {
        &self.parts[..self.count]
    }

    /// Bytes of payload.
    pub fn payload_len(&self) -> u32 {
        self.parts().iter().map(|part| part.len).sum()
    }

    /// The number of bytes that [`Reference::write`] writes, a multiple of 4.
    pub fn encoded_len(&self) -> usize {
        HEAD_LEN + self.count * PART_LEN
    }

    /// Writes the reference to the start of `buffer`, which has room for it.
    pub fn write(&self, buffer: &mut [u8]) {
        let Loan { qpn, epoch } = self.loan;
        let (head, rest) = buffer.split_at_mut(HEAD_LEN);
        let words = [qpn, epoch, self.packets];
        for (word, to) in words.iter().zip(head.chunks_exact_mut(4)) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        for (part, to) in self.parts().iter().zip(rest.chunks_exact_mut(PART_LEN)) {
            to[..8].copy_from_slice(&part.address.to_ne_bytes());
            to[8..].copy_from_slice(&part.len.to_ne_bytes());
        }
    }

    /// Parses what [`Reference::write`] has written. None if it is not valid.
    pub fn parse(bytes: &[u8]) -> Option<Reference> {
        let word = |at| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let loan = Loan {
            qpn: word(0)?,
            epoch: word(4)?,
        };
        let packets = word(8)?;
        let parts = bytes[HEAD_LEN..].chunks_exact(PART_LEN);
        if !parts.remainder().is_empty() {
            return None;
        }
        let parts = parts.map(|bytes| {
            let (address, len) = bytes.split_at(8);
            Part {
                address: address.try_into().map_or(0, u64::from_ne_bytes),
                len: len.try_into().map_or(0, u32::from_ne_bytes),
            }
        });
        let reference = Reference {
            packets,
            ..Reference::new(loan, parts)?
        };
        let is_valid = (1..=reference.payload_len()).contains(&packets);
        is_valid.then_some(reference)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LOAN: Loan = Loan { qpn: 3, epoch: 9 };

    fn part(address: u64, len: u32) -> Part {
        Part { address, len }
    }

    #[test]
    fn what_is_written_parses_to_the_same() {
        let parts = [part(u64::MAX, 1), part(7, 4096), part(0, 1000)];
        for count in 1..=3 {
            let mut reference = Reference::new(LOAN, parts[..count].iter().copied()).unwrap();
            reference.packets = 1;
            let mut bytes = vec![0; reference.encoded_len()];
            reference.write(&mut bytes);
            assert!(bytes.len() % 4 == 0 && bytes.len() <= 48);
            assert_eq!(Reference::parse(&bytes), Some(reference));
            assert_eq!(Reference::parse(&bytes[1..]), None);
            bytes[8..12].fill(0);
            assert_eq!(Reference::parse(&bytes), None);
        }
    }

    #[test]
    fn what_is_empty_or_too_long_is_refused() {
        let refused: [&[Part]; 5] = [
            &[],
            &[part(1, 0)],
            &[part(1, 1); 4],
            &[part(1, Reference::MAX_LEN + 1)],
            &[part(1, u32::MAX), part(1, 2)],
        ];
        for parts in refused {
            assert_eq!(
                Reference::new(LOAN, parts.iter().copied()),
                None,
                "{parts:?}"
            );
        }
        let longest = Reference::new(LOAN, [part(1, Reference::MAX_LEN)]).unwrap();
        assert_eq!(longest.payload_len(), Reference::MAX_LEN);
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(reference) = Reference::parse(&bytes) {
                prop_assert!((1..=Reference::MAX_LEN).contains(&reference.payload_len()));
                let mut again = vec![0; reference.encoded_len()];
                reference.write(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }
    }
}
