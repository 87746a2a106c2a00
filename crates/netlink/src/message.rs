//! Netlink messages and attributes, as bytes: pure.
//!
//! A malformed message ends its datagram, a malformed attribute ends its message: what precedes it counts.
//! Numbers are in host byte order.

#![forbid(unsafe_code)]

use arrayvec::ArrayVec;
use ibverbs_abi::Errno;

/// Bytes of `struct nlmsghdr`.
pub const HEADER_LEN: usize = 16;
/// Bytes of `struct nlattr`.
const ATTRIBUTE_HEADER_LEN: usize = 4;

/// Message type: to be ignored.
pub const NLMSG_NOOP: u16 = libc::NLMSG_NOOP as u16;
/// Message type: an errno value; 0 acknowledges.
pub const NLMSG_ERROR: u16 = libc::NLMSG_ERROR as u16;
/// Message type: the end of a dump.
pub const NLMSG_DONE: u16 = libc::NLMSG_DONE as u16;
/// Message type: data were lost.
pub const NLMSG_OVERRUN: u16 = libc::NLMSG_OVERRUN as u16;

/// Flag of a request: all objects, not one.
pub const NLM_F_DUMP: u16 = libc::NLM_F_DUMP as u16;
const NLM_F_REQUEST: u16 = libc::NLM_F_REQUEST as u16;
const NLM_F_MULTI: u16 = libc::NLM_F_MULTI as u16;
const NLM_F_DUMP_INTR: u16 = libc::NLM_F_DUMP_INTR as u16;

/// The bits of an attribute's type that are not flags (NLA_F_NESTED, NLA_F_NET_BYTEORDER).
const NLA_TYPE_MASK: u16 = 0x3fff;

/// Space for the longest request: a header, a fixed part and a few attributes.
const REQUEST_MAX: usize = 64;

/// A message to the kernel.
#[derive(Clone)]
pub struct Request {
    bytes: ArrayVec<u8, REQUEST_MAX>,
}

impl Request {
    /// A message of this type, with `flags` in addition to NLM_F_REQUEST, and the family's fixed part.
    pub(crate) fn new(kind: u16, flags: u16, fixed: &[u8]) -> Request {
        let mut bytes = ArrayVec::new();
        for part in [
            &[0; 4][..],
            &kind.to_ne_bytes(),
            &(NLM_F_REQUEST | flags).to_ne_bytes(),
            &[0; 8],
            fixed,
        ] {
            // Cannot fail: the longest fixed part leaves space for attributes.
            let _ = bytes.try_extend_from_slice(part);
        }
        Request { bytes }
    }

    /// Appends an attribute. One for which there is no space is left out; no request of this crate comes
    /// near the limit.
    pub(crate) fn attribute(mut self, kind: u16, value: &[u8]) -> Request {
        let len = ATTRIBUTE_HEADER_LEN + value.len();
        let padding = len.next_multiple_of(4) - len;
        if len + padding <= self.bytes.remaining_capacity() {
            for part in [
                &(len as u16).to_ne_bytes()[..],
                &kind.to_ne_bytes(),
                value,
                &[0; 3][..padding],
            ] {
                let _ = self.bytes.try_extend_from_slice(part);
            }
        }
        self
    }

    /// The message as bytes, with this sequence number, by which its reply is recognized.
    pub fn encode(&mut self, sequence: u32) -> &[u8] {
        let len = self.bytes.len() as u32;
        for (at, value) in [(0, len), (8, sequence)] {
            if let Some(field) = self.bytes.get_mut(at..at + 4) {
                field.copy_from_slice(&value.to_ne_bytes());
            }
        }
        &self.bytes
    }
}

/// A received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// NLMSG_DONE, RTM_NEWROUTE ...
    pub kind: u16,
    /// NLM_F_*.
    pub flags: u16,
    /// The request's; 0 in a notification.
    pub sequence: u32,
    /// The bytes behind the header: the family's fixed part and attributes.
    pub payload: &'a [u8],
}

impl Message<'_> {
    /// Whether other messages of the same reply follow, up to NLMSG_DONE.
    pub fn is_multipart(&self) -> bool {
        self.flags & NLM_F_MULTI != 0
    }

    /// Whether the dumped objects changed during the dump, so that some may be missing.
    pub fn is_dump_interrupted(&self) -> bool {
        self.flags & NLM_F_DUMP_INTR != 0
    }

    /// The outcome of the request, in a message that ends a reply; None in any other.
    pub fn status(&self) -> Option<Result<(), Errno>> {
        if ![NLMSG_ERROR, NLMSG_DONE].contains(&self.kind) {
            return None;
        }
        // A negative errno. NLMSG_DONE of old kernels has no such number.
        match self.payload.first_chunk() {
            Some(&code) if i32::from_ne_bytes(code) < 0 => {
                Some(Err(Errno(i32::from_ne_bytes(code).saturating_neg())))
            }
            _ => Some(Ok(())),
        }
    }
}

/// Whether a reply needs another datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyState {
    /// The reply is complete.
    Complete,
    /// The reply continues in the next datagram.
    Incomplete,
}

/// The messages of a datagram, up to the first malformed one: cut off, or with an impossible length.
pub fn messages(mut datagram: &[u8]) -> impl Iterator<Item = Message<'_>> {
    core::iter::from_fn(move || {
        let &[l0, l1, l2, l3, k0, k1, f0, f1, s0, s1, s2, s3, ..] =
            datagram.first_chunk::<HEADER_LEN>()?;
        let len = u32::from_ne_bytes([l0, l1, l2, l3]) as usize;
        let message = Message {
            kind: u16::from_ne_bytes([k0, k1]),
            flags: u16::from_ne_bytes([f0, f1]),
            sequence: u32::from_ne_bytes([s0, s1, s2, s3]),
            payload: datagram.get(HEADER_LEN..len)?,
        };
        datagram = datagram.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

/// An attribute of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// The type, without flags.
    pub kind: u16,
    /// The value, without padding.
    pub value: &'a [u8],
}

/// The attributes in `bytes`, up to the first malformed one.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = Attribute<'_>> {
    core::iter::from_fn(move || {
        let &[l0, l1, k0, k1] = bytes.first_chunk::<ATTRIBUTE_HEADER_LEN>()?;
        let len = usize::from(u16::from_ne_bytes([l0, l1]));
        let attribute = Attribute {
            kind: u16::from_ne_bytes([k0, k1]) & NLA_TYPE_MASK,
            value: bytes.get(ATTRIBUTE_HEADER_LEN..len)?,
        };
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(attribute)
    })
}

/// The value of the first attribute of this type.
pub(crate) fn find_attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes)
        .find(|attribute| attribute.kind == kind)
        .map(|attribute| attribute.value)
}

/// The number at the start of a value, which may be longer; None if it is shorter.
pub(crate) fn u32_value(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|&bytes| u32::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn requests_are_padded_messages() {
        let mut request = Request::new(26, NLM_F_DUMP, &[2, 0, 0, 0]).attribute(7, b"abcde");
        // On a little-endian machine.
        #[rustfmt::skip]
        assert_eq!(request.encode(9), [
            32, 0, 0, 0, 26, 0, 1, 3, 9, 0, 0, 0, 0, 0, 0, 0,
            2, 0, 0, 0,
            9, 0, 7, 0, b'a', b'b', b'c', b'd', b'e', 0, 0, 0,
        ]);
        let full = request.clone().attribute(8, &[1; 28]);
        assert_eq!(full.clone().encode(9).len(), 64);
        let too_long = request.clone().attribute(8, &[1; 29]);
        assert_eq!(too_long.clone().encode(9), request.encode(9));
    }

    #[test]
    fn datagrams() {
        let one = testing::message(16, 0, 77, &[0; 24]);
        let two = [one.clone(), one.clone()].concat();
        assert_eq!(
            messages(&two)
                .map(|m| (m.sequence, m.payload.len()))
                .collect::<Vec<_>>(),
            [(77, 24), (77, 24)]
        );
        // Cut off at any byte.
        for len in 0..two.len() {
            assert_eq!(messages(&two[..len]).count(), len / one.len());
        }
        for len in [0, 15, 41, u32::MAX] {
            let mut bad = one.clone();
            bad[..4].copy_from_slice(&u32::to_ne_bytes(len));
            assert_eq!(messages(&bad).count(), 0);
        }
    }

    #[test]
    fn ends_of_replies() {
        let end = |kind, payload: &[u8]| {
            let message = Message {
                kind,
                flags: 0,
                sequence: 1,
                payload,
            };
            message.status()
        };
        assert_eq!(end(NLMSG_ERROR, &i32::to_ne_bytes(-2)), Some(Err(Errno(2))));
        assert_eq!(
            end(NLMSG_ERROR, &i32::to_ne_bytes(i32::MIN)),
            Some(Err(Errno(i32::MAX)))
        );
        assert_eq!(end(NLMSG_ERROR, &[0; 20]), Some(Ok(())));
        assert_eq!(end(NLMSG_DONE, &[]), Some(Ok(())));
        assert_eq!(end(libc::RTM_NEWROUTE, &[]), None);
    }

    #[test]
    fn attributes_end_at_the_first_malformed_one() {
        let good = testing::attribute(3 | 0x8000, b"abcde");
        let all = |bytes: &[u8]| attributes(bytes).map(|a| (a.kind, a.value.len())).collect();
        let two: Vec<_> = all(&[good.clone(), good.clone()].concat());
        assert_eq!(two, [(3, 5), (3, 5)]);
        for bad in [&[3, 0, 0, 0][..], &[5, 0, 0, 0], &[4, 0, 0], &[0xff; 4]] {
            let one: Vec<_> = all(&[&good[..], bad].concat());
            assert_eq!(one, [(3, 5)], "{bad:?}");
        }
        // The last one's padding may be missing.
        let cut: Vec<_> = all(&good[..9]);
        assert_eq!(cut, [(3, 5)]);
        assert_eq!(find_attribute(&good, 3), Some(&b"abcde"[..]));
        assert_eq!(find_attribute(&good, 4), None);
    }

    proptest::proptest! {
        #[test]
        fn takes_any_bytes(bytes: Vec<u8>) {
            for message in messages(&bytes) {
                let _ = message.status();
                assert!(attributes(message.payload).count() <= message.payload.len() / 4);
            }
            let _ = attributes(&bytes).count();
        }
    }
}
