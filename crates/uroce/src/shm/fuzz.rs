//! Entry point of the fuzz target: a peer writes anything into the memory of a channel while both
//! ends use it.

use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::time::Duration;

use super::ring::BODY_MAX;
use super::segment::{SEGMENT_LEN, Segment};
use super::{Channel, Ends, Receiver};
use crate::descriptors;
use roce::engine::{Addresses, Fragment};
use roce::wire::{Flow, MAX_PACKET, Packet, gid_of};

/// The most packets that one step sends: more than a ring holds.
const MAX_SENT: usize = 640;
/// The most packets that one call of [`Channel::receive`] passes on.
const MAX_RECEIVED: usize = 64;

/// Two ends of a channel, and a third mapping of its memory.
struct Fixture {
    ends: [Channel; 2],
    hostile: Segment,
    /// The next line that is written to as if a record were published there, of each ring.
    forged: [u64; 2],
}

impl Fixture {
    fn new() -> Option<Fixture> {
        let (first, memory) = Segment::create().ok()?;
        let (second, hostile) = (Segment::open(&memory).ok()?, Segment::open(&memory).ok()?);
        let connections = UnixDatagram::pair().ok()?;
        let (first_end, second_end) = ends();
        let channel = |ends, segment, connection: UnixDatagram| {
            let connection = descriptors::open(|| Ok(OwnedFd::from(connection))).ok()?;
            Some(Channel::new(ends, segment, Arc::new(connection), None))
        };
        Some(Fixture {
            ends: [
                channel(first_end, first, connections.0)?,
                channel(second_end, second, connections.1)?,
            ],
            hostile,
            forged: [0; 2],
        })
    }

    /// Sends copies of a packet until the ring is full, `count` at most.
    fn send(&self, end: usize, (bytes, is_fragment): (&[u8], bool), count: usize) {
        let Some(mut sender) = self.ends[end].sender(Duration::ZERO) else {
            return;
        };
        for _ in 0..count.min(MAX_SENT) {
            let Some(room) = sender.room() else {
                break;
            };
            if is_fragment {
                sender.write_fragment(room, |to| {
                    to.get_mut(..bytes.len())?.copy_from_slice(bytes);
                    Some(bytes.len())
                });
            } else {
                sender.push(room, bytes, 3);
            }
        }
        let _ = sender.finish();
    }

    /// Receives, and checks what the memory cannot change: who the packets are from, and their bounds.
    /// Returns how many entries were taken.
    fn receive(&self, end: usize) -> usize {
        let channel = &self.ends[end];
        let mut checks = Checks { channel, passed: 0 };
        let count = channel.receive(&mut checks);
        assert!(checks.passed <= count && count <= MAX_RECEIVED);
        count
    }

    /// Writes a word of the next line, with any lower bits, and a packet behind it.
    fn forge(&mut self, ring: usize, low: u32, packet: &[u8], lines: u64) {
        let ring_of = [self.hostile.outgoing(), self.hostile.incoming()];
        ring_of[ring].forge(self.hostile.key(), self.forged[ring], low, packet);
        self.forged[ring] += lines;
    }
}

/// Checks what is received, and counts it.
struct Checks<'a> {
    channel: &'a Channel,
    passed: usize,
}

impl Receiver for Checks<'_> {
    fn packet(&mut self, packet: &Packet<'_>, from: &Addresses) {
        self.passed += 1;
        assert!(packet.payload.len() < BODY_MAX);
        assert_eq!(from.src_port, self.channel.flow().dst_port);
    }

    fn fragment(&mut self, fragment: &Fragment<'_>, from: &Addresses) {
        self.passed += 1;
        assert!(fragment.payload.len() < BODY_MAX);
        assert_eq!(from.src_port, self.channel.flow().dst_port);
    }
}

fn ends() -> (Ends, Ends) {
    let ip = |host| Ipv4Addr::new(127, 0, 0, host).into();
    let ends = |src, src_port, dst, dst_port| Ends {
        flow: Flow {
            src: ip(src),
            dst: ip(dst),
            src_port,
            dst_port,
        },
        gid: gid_of(ip(src)),
        peer_gid: gid_of(ip(dst)),
        in_grh: [ip(src), ip(dst)],
    };
    (ends(1, 4791, 2, 61440), ends(2, 61440, 1, 4791))
}

/// The bytes as steps: an end sends, receives or sleeps, or something is written into the shared memory.
pub fn channel(mut data: &[u8]) {
    let Some(mut fixture) = Fixture::new() else {
        return;
    };
    while let [kind, len, rest @ ..] = data {
        let (input, rest) = rest.split_at(usize::from(*len).min(rest.len()));
        data = rest;
        let end = usize::from(kind >> 7);
        match kind & 7 {
            0 | 1 => {
                let count = 1 + 16 * usize::from(kind >> 3 & 0xf);
                fixture.send(end, (input, kind & 1 != 0), count);
            }
            2 | 3 => {
                fixture.receive(end);
            }
            4 => {
                let _ = fixture.ends[end].prepare_sleep();
                fixture.ends[end].end_sleep();
            }
            5 => {
                let long = input.repeat(1 + MAX_PACKET / input.len().max(1));
                let is_fragment = kind & 8 != 0;
                fixture.send(end, (&long[..long.len().min(MAX_PACKET)], is_fragment), 8);
            }
            6 => {
                let (head, packet) = input.split_at(input.len().min(4));
                let low = head.iter().fold(0, |low, byte| low << 8 | u32::from(*byte));
                fixture.forge(end, low, packet, u64::from(kind >> 3 & 3));
            }
            _ => {
                let (head, bytes) = input.split_at(input.len().min(4));
                let at = head.iter().fold(0, |at, byte| at << 8 | usize::from(*byte));
                fixture.hostile.overwrite(at % SEGMENT_LEN, bytes);
            }
        }
    }
    // Whatever was written, an end has taken all records soon: each takes a line at least.
    for end in [0, 1] {
        let mut calls = (0..8192).map(|_| fixture.receive(end));
        assert!(calls.any(|count| count == 0));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_bytes(data in prop::collection::vec(any::<u8>(), 0..2000)) {
            super::channel(&data);
        }

        #[test]
        fn many_steps(
            steps in prop::collection::vec(
                (any::<u8>(), prop::collection::vec(any::<u8>(), 0..60)),
                0..60,
            ),
        ) {
            let mut data = Vec::new();
            for (kind, input) in steps {
                data.extend([kind, input.len() as u8]);
                data.extend(input);
            }
            super::channel(&data);
        }
    }
}
