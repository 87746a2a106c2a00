//! The blocks of a pcapng file (draft-ietf-opsawg-pcapng): section header, interface, packet. Pure.
//!
//! Written here because the `pcap-file` crate allocates for the options of each packet and encodes each block
//! twice. It reads the files in the tests.

use std::time::SystemTime;

use super::frame::Frame;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// LINKTYPE_RAW: the packet begins with an IPv4 or IPv6 header.
const LINKTYPE_RAW: u16 = 101;

const OPT_END: u16 = 0;
const OPT_COMMENT: u16 = 1;
const SHB_USER_APPLICATION: u16 = 4;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;
const EPB_DROP_COUNT: u16 = 4;

/// Bytes of a block that are not its body: type and length in front, length behind.
const FRAMING: usize = 12;
/// The most bytes that a packet's block has in addition to the packet and its comment.
pub const PACKET_OVERHEAD: usize = FRAMING + 20 + 3 + (4 + 4) + (4 + 8) + (4 + 3) + 4;

/// Whether this side sent or received a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Received,
    Sent,
}

/// Appends a section header, which begins a file.
pub fn section(to: &mut Vec<u8>, application: &str) {
    block(to, SECTION_HEADER, |to| {
        put(to, BYTE_ORDER_MAGIC);
        // Version 1.0, section of unknown length.
        to.extend(1_u16.to_ne_bytes());
        to.extend(0_u16.to_ne_bytes());
        to.extend((-1_i64).to_ne_bytes());
        option(to, SHB_USER_APPLICATION, application.as_bytes());
        option(to, OPT_END, &[]);
    });
}

/// Appends the description of an interface. The first of a section has number 0, the next 1, and so on.
pub fn interface(to: &mut Vec<u8>, name: &str, snaplen: u32) {
    block(to, INTERFACE_DESCRIPTION, |to| {
        to.extend(LINKTYPE_RAW.to_ne_bytes());
        to.extend(0_u16.to_ne_bytes());
        put(to, snaplen);
        option(to, IF_NAME, name.as_bytes());
        // Timestamps are in units of 10^-9 s.
        option(to, IF_TSRESOL, &[9]);
        option(to, OPT_END, &[]);
    });
}

/// A packet to record.
pub struct PacketBlock<'a> {
    pub interface: u32,
    pub at: SystemTime,
    pub direction: Direction,
    pub frame: &'a Frame<'a>,
    /// Packets that were not recorded since the last one.
    pub missing: u64,
    pub comment: &'a str,
    /// Bytes of the packet to record; usize::MAX for all.
    pub snaplen: usize,
}

impl PacketBlock<'_> {
    /// An upper bound of the block's length.
    pub fn max_len(&self) -> usize {
        PACKET_OVERHEAD + 48 + self.frame.datagram.len() + self.comment.len()
    }

    /// Appends the block.
    pub fn write(&self, to: &mut Vec<u8>) {
        let since_epoch = self.at.duration_since(SystemTime::UNIX_EPOCH);
        let nanoseconds = since_epoch.map_or(0, |time| time.as_nanos() as u64);
        let headers = self.frame.headers();
        let (headers, datagram) = (headers.bytes(), self.frame.datagram);
        let len = headers.len() + datagram.len();
        let captured = len.min(self.snaplen);
        block(to, ENHANCED_PACKET, |to| {
            put(to, self.interface);
            put(to, (nanoseconds >> 32) as u32);
            put(to, nanoseconds as u32);
            put(to, captured as u32);
            put(to, len as u32);
            to.extend_from_slice(headers);
            to.extend_from_slice(&datagram[..captured.saturating_sub(headers.len())]);
            pad(to);
            let direction: u32 = match self.direction {
                Direction::Received => 1,
                Direction::Sent => 2,
            };
            option(to, EPB_FLAGS, &direction.to_ne_bytes());
            if self.missing > 0 {
                option(to, EPB_DROP_COUNT, &self.missing.to_ne_bytes());
            }
            if !self.comment.is_empty() {
                option(to, OPT_COMMENT, self.comment.as_bytes());
            }
            option(to, OPT_END, &[]);
        });
    }
}

/// The length of the longest run of whole blocks at the start of `blocks` that is not longer than `room`.
/// All blocks are this module's.
pub fn whole_blocks(blocks: &[u8], room: u64) -> usize {
    if blocks.len() as u64 <= room {
        return blocks.len();
    }
    let mut end = 0;
    while let Some(Some(len)) = blocks.get(end + 4..).map(|rest| rest.first_chunk()) {
        let next = end + u32::from_ne_bytes(*len) as usize;
        if next as u64 > room {
            break;
        }
        end = next;
    }
    end
}

/// Appends a block whose body `body` appends. Blocks are aligned to four bytes, so the body is, too.
fn block(to: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = to.len();
    put(to, kind);
    put(to, 0);
    body(to);
    let len = (to.len() - start + 4) as u32;
    put(to, len);
    to[start + 4..start + 8].copy_from_slice(&len.to_ne_bytes());
}

fn option(to: &mut Vec<u8>, code: u16, value: &[u8]) {
    to.extend(code.to_ne_bytes());
    to.extend((value.len() as u16).to_ne_bytes());
    to.extend_from_slice(value);
    pad(to);
}

fn put(to: &mut Vec<u8>, value: u32) {
    to.extend(value.to_ne_bytes());
}

/// Pads to a multiple of four bytes. Every block begins at one.
fn pad(to: &mut Vec<u8>) {
    to.resize(to.len().next_multiple_of(4), 0);
}
