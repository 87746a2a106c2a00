//! `IBV_UROCE_PCAP`: writes every packet that uroce sends and receives to a file that Wireshark reads.
//!
//! | file | responsible for |
//! |---|---|
//! | `settings.rs` | the environment variables (pure) |
//! | `frame.rs` | IP and UDP headers in front of a datagram (pure) |
//! | `pcapng.rs` | the blocks of the file format (pure) |
//! | `buffer.rs` | packets on their way to the writer, from any thread |
//! | `output.rs` | the file: its name, its bound on size |
//! | `writer.rs` | the thread that writes |
//!
//! A process has one capture, of all its devices. A thread that sends or receives copies the packet into a
//! buffer; a thread of the capture writes the buffer to the file. So no system call of the capture is made
//! while packets are processed. Packets beyond what the writer can keep up with are not recorded; the next
//! recorded packet has their number.
//!
//! Fork: the child closes its copy of the parent's file and forgets the capture. If it opens a device, it
//! gets a capture, a file and a thread of its own.
//!
//! Not here: which packets exist. `transport` calls [`Tap::record`] for each.

mod buffer;
mod frame;
mod output;
mod pcapng;
mod settings;
#[cfg(test)]
pub mod tests;
mod writer;

use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

pub use frame::Frame;
pub use pcapng::Direction;
pub use settings::CaptureSettings;
use writer::Capture;

use crate::sync::Mutex;

/// The settings of the capture, from the environment. Never set if there is no capture.
static SETTINGS: OnceLock<CaptureSettings> = OnceLock::new();

/// The capture of this process, once a device was opened. Locked across a fork.
pub(crate) static CURRENT: Mutex<Option<Arc<Capture>>> = Mutex::new(None);

/// Lets devices that are opened from now on record their packets. Later calls have no effect.
pub fn start_capture(settings: CaptureSettings) {
    // Locked across a fork: no child inherits settings that are half set.
    let _current = CURRENT.lock();
    let _ = SETTINGS.set(settings);
}

/// Where a device's packets are recorded. The device's name is that of an interface in the file.
pub struct Tap {
    capture: Arc<Capture>,
    interface: u32,
}

impl Tap {
    /// The tap of a device that is being opened; None if nothing is to be recorded, or the file cannot be
    /// written. Then a warning says so, once.
    pub fn open(device: &str) -> Option<Tap> {
        let settings = SETTINGS.get()?;
        let mut current = CURRENT.lock();
        let capture = current.get_or_insert_with(|| Arc::new(Capture::new(settings.clone())));
        Tap::of(capture.clone(), device)
    }

    fn of(capture: Arc<Capture>, device: &str) -> Option<Tap> {
        let interface = capture.add_user(device)?;
        Some(Tap { capture, interface })
    }

    /// Records a packet. `note` becomes its comment.
    #[cold]
    pub fn record(&self, at: SystemTime, direction: Direction, frame: &Frame, note: Option<&str>) {
        self.capture
            .record(self.interface, at, direction, frame, note);
    }
}

impl Drop for Tap {
    /// The last one lets the writer write what is left, and ends it.
    fn drop(&mut self) {
        self.capture.remove_user();
    }
}

/// Writes what is recorded so far. Called when the process exits: waits for a second at most.
pub fn flush_at_exit() {
    let current = CURRENT.try_lock().and_then(|current| current.clone());
    if let Some(capture) = current {
        capture.flush_at_exit();
    }
}

/// Locks the capture, so that none starts while the process is copied. [`after_fork`] unlocks it.
pub fn before_fork() {
    core::mem::forget(CURRENT.lock());
}

/// Unlocks in the parent and in the child. The child closes the parent's file and forgets the capture.
///
/// # Safety
/// This thread has called [`before_fork`], and has not called this since.
pub unsafe fn after_fork(is_child: bool) {
    // SAFETY: `before_fork` locked it in this thread, so no other thread has a reference to the content
    // until it is unlocked here.
    unsafe {
        if is_child {
            if let Some(capture) = (*CURRENT.data_ptr()).take() {
                capture.close_in_child();
                // The capture's locks may be held by threads that the child does not have.
                core::mem::forget(capture);
            }
        }
        CURRENT.force_unlock();
    }
}
