//! Packets that threads have recorded and the writer has not written yet.

use std::fmt::Write;
use std::thread::Thread;
use std::time::SystemTime;

use super::frame::Frame;
use super::pcapng::{Direction, PacketBlock};

/// Bytes of packets that wait for the writer. Packets beyond that are not recorded.
const BUFFER_MAX: usize = 16 << 20;
/// This number of waiting bytes wakes the writer up at once.
const URGENT: usize = 1 << 20;
/// An upper bound of a comment's length, in bytes.
const COMMENT_MAX: usize = 128;

/// An interface of the file: a device.
struct CapturedDevice {
    name: String,
    /// Packets that were not recorded since the last one that was.
    missing: u64,
}

/// The state that a capture's lock protects.
pub struct Buffer {
    /// Blocks.
    bytes: Vec<u8>,
    interfaces: Vec<CapturedDevice>,
    /// How many interfaces the writer knows.
    interfaces_taken: usize,
    /// The comment of the packet that is being recorded. Kept, so that no packet allocates.
    comment: String,
    /// The thread that writes; None if there is none.
    pub writer: Option<Thread>,
    /// The writer sleeps until it is woken up.
    writer_sleeps: bool,
    /// The writer is to end when it has written everything.
    pub stop: bool,
    /// The writer is to write everything now, and then to clear this.
    pub flush: bool,
    /// The file cannot be written: nothing is recorded any more.
    pub failed: bool,
}

/// The records that the writer takes over.
#[derive(Default)]
pub struct Taken {
    /// Names of interfaces, to be described in front of the blocks.
    pub interfaces: Vec<String>,
    /// Blocks.
    pub bytes: Vec<u8>,
}

impl Buffer {
    /// A buffer without a record.
    pub fn new() -> Buffer {
        Buffer {
            bytes: Vec::new(),
            interfaces: Vec::new(),
            interfaces_taken: 0,
            comment: String::with_capacity(COMMENT_MAX),
            writer: None,
            writer_sleeps: false,
            stop: false,
            flush: false,
            failed: false,
        }
    }

    /// The number of the interface with this name, which is added if it is new.
    pub fn interface(&mut self, name: &str) -> u32 {
        let known = self.interfaces.iter().position(|known| known.name == name);
        let number = known.unwrap_or_else(|| {
            self.interfaces.push(CapturedDevice {
                name: name.into(),
                missing: 0,
            });
            self.interfaces.len() - 1
        });
        number as u32
    }

    /// Adds a packet, and wakes the writer up if it has to be.
    pub fn record(
        &mut self,
        interface: u32,
        at: SystemTime,
        direction: Direction,
        frame: &Frame,
        note: Option<&str>,
        snaplen: usize,
    ) {
        let Some(origin) = self.interfaces.get_mut(interface as usize) else {
            return;
        };
        if self.failed {
            return;
        }
        comment(&mut self.comment, frame, note);
        let block = PacketBlock {
            interface,
            at,
            direction,
            frame,
            missing: origin.missing,
            comment: &self.comment,
            snaplen,
        };
        let len = block.max_len();
        if self.bytes.len() + len > BUFFER_MAX || self.bytes.try_reserve(len).is_err() {
            origin.missing += 1;
            return;
        }
        let before = self.bytes.len();
        block.write(&mut self.bytes);
        origin.missing = 0;
        if self.writer_sleeps || before < URGENT && self.bytes.len() >= URGENT {
            self.wake_writer();
        }
    }

    /// Wakes the writer up, if there is one.
    pub fn wake_writer(&mut self) {
        self.writer_sleeps = false;
        if let Some(writer) = &self.writer {
            writer.unpark();
        }
    }

    /// Whether the writer has something to do. If not, it has to be woken up from now on.
    pub fn has_work(&mut self) -> bool {
        self.writer_sleeps = self.bytes.is_empty() && !self.stop && !self.flush;
        !self.writer_sleeps
    }

    /// Whether the writer may wait for more packets to come.
    pub fn may_wait(&self) -> bool {
        self.bytes.len() < URGENT && !self.stop && !self.flush
    }

    /// Moves everything to `taken`, whose bytes are empty and whose memory is used again.
    pub fn take(&mut self, taken: &mut Taken) {
        core::mem::swap(&mut self.bytes, &mut taken.bytes);
        let new = &self.interfaces[self.interfaces_taken..];
        taken.interfaces = new.iter().map(|new| new.name.clone()).collect();
        self.interfaces_taken = self.interfaces.len();
    }

    /// Forgets everything and records nothing any more.
    pub fn fail(&mut self) {
        self.failed = true;
        self.bytes = Vec::new();
    }

    /// Whether there are no packets.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Writes the comment of a packet: what its recorded bytes cannot show.
fn comment(text: &mut String, frame: &Frame, note: Option<&str>) {
    text.clear();
    if let Some(port) = frame.hidden_port() {
        // Writing to a string cannot fail.
        let _ = write!(text, "UDP destination port {port}");
    }
    if let Some(note) = note {
        if !text.is_empty() {
            text.push_str("; ");
        }
        text.push_str(note);
    }
}
