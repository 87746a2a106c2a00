//! A capture: its buffer, its file, and the thread that writes the one to the other.
//!
//! Lock order: `devices`, then `output`, then `buffer`. The thread never takes `devices`. `output` is locked
//! while the file is written; `buffer` is not.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use ibverbs_os::thread;

use super::buffer::{Buffer, Taken};
use super::frame::Frame;
use super::output::{CaptureFile, Identity};
use super::pcapng::Direction;
use super::settings::CaptureSettings;
use crate::sync::Mutex;

/// How long the writer lets packets collect. A process that is killed loses what has collected.
const INTERVAL: Duration = Duration::from_millis(10);
/// How long the exit of the process waits for the writer.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// A capture.
pub struct Capture {
    settings: CaptureSettings,
    /// The process that opened it.
    pid: u32,
    buffer: Mutex<Buffer>,
    devices: Mutex<OpenDevices>,
    /// None before the first device is opened, and after a failure.
    output: Mutex<Option<CaptureFile>>,
    /// A warning was printed.
    warned: AtomicBool,
    /// The identity of the file. Its lock is held for an instant only, because a child of fork takes it.
    identity: Mutex<Option<Identity>>,
}

#[derive(Default)]
struct OpenDevices {
    /// The number of open devices.
    count: usize,
    thread: Option<JoinHandle<()>>,
}

impl Capture {
    /// A capture that has no file yet.
    pub fn new(settings: CaptureSettings) -> Capture {
        Capture {
            settings,
            pid: std::process::id(),
            buffer: Mutex::new(Buffer::new()),
            devices: Mutex::default(),
            output: Mutex::default(),
            warned: AtomicBool::new(false),
            identity: Mutex::default(),
        }
    }

    /// A device is opened: opens the file and starts the thread if they are not there. Returns the number of
    /// the device's interface; None if nothing can be recorded.
    pub fn add_user(self: &Arc<Self>, device: &str) -> Option<u32> {
        let mut devices = self.devices.lock();
        if self.buffer.lock().failed {
            return None;
        }
        let opened = self.open_output().and_then(|()| {
            if devices.thread.is_none() {
                let capture = self.clone();
                let thread = thread::spawn("uroce-pcap", move || capture.run())?;
                self.buffer.lock().writer = Some(thread.thread().clone());
                devices.thread = Some(thread);
            }
            Ok(())
        });
        if let Err(error) = opened {
            self.fail(&mut self.output.lock(), &error);
            return None;
        }
        devices.count += 1;
        let mut buffer = self.buffer.lock();
        let interface = buffer.interface(device);
        buffer.flush = true;
        buffer.wake_writer();
        Some(interface)
    }

    /// A device is closed. Without any, the writer writes what is left and ends; the file stays open.
    pub fn remove_user(&self) {
        if self.pid != std::process::id() {
            return;
        }
        let mut devices = self.devices.lock();
        devices.count -= 1;
        if devices.count > 0 {
            return;
        }
        let Some(thread) = devices.thread.take() else {
            return;
        };
        let mut buffer = self.buffer.lock();
        buffer.stop = true;
        buffer.wake_writer();
        drop(buffer);
        let _ = thread.join();
        let mut buffer = self.buffer.lock();
        buffer.stop = false;
        buffer.writer = None;
    }

    fn open_output(&self) -> io::Result<()> {
        let mut output = self.output.lock();
        if output.is_none() {
            let opened = CaptureFile::open(&self.settings, self.pid)?;
            log::info!("uroce: packets are recorded in {}", opened.path().display());
            *self.identity.lock() = Some(opened.identity());
            *output = Some(opened);
        }
        Ok(())
    }

    /// Records a packet.
    pub fn record(
        &self,
        interface: u32,
        at: SystemTime,
        direction: Direction,
        frame: &Frame,
        note: Option<&str>,
    ) {
        let snaplen = self.settings.snaplen.unwrap_or(usize::MAX);
        let mut buffer = self.buffer.lock();
        buffer.record(interface, at, direction, frame, note, snaplen);
    }

    /// The writer.
    fn run(&self) {
        let mut taken = Taken::default();
        loop {
            self.wait();
            let mut output = self.output.lock();
            let mut buffer = self.buffer.lock();
            buffer.take(&mut taken);
            drop(buffer);
            if let Some(open) = output.as_mut() {
                let written = write(open, &taken);
                *self.identity.lock() = Some(open.identity());
                if let Err(error) = written {
                    self.fail(&mut output, &error);
                }
            }
            drop(output);
            taken.bytes.clear();
            let mut buffer = self.buffer.lock();
            if buffer.is_empty() {
                buffer.flush = false;
                if buffer.stop {
                    return;
                }
            }
        }
    }

    /// Blocks until there is something to write, and then for [`INTERVAL`], for more.
    fn wait(&self) {
        while !self.buffer.lock().has_work() {
            std::thread::park();
        }
        let until = Instant::now() + INTERVAL;
        while self.buffer.lock().may_wait() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::park_timeout(left);
        }
    }

    /// Waits until everything is written, for [`EXIT_TIMEOUT`] at most.
    pub fn flush_at_exit(&self) {
        let end = Instant::now() + EXIT_TIMEOUT;
        let flushing = |start: bool| {
            let mut buffer = self.buffer.try_lock_until(end)?;
            // Without a writer there is nothing left.
            buffer.writer.as_ref()?;
            if start {
                buffer.flush = true;
                buffer.wake_writer();
            }
            buffer.flush.then_some(())
        };
        let mut start = true;
        while flushing(start).is_some() && Instant::now() < end {
            start = false;
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Records nothing any more. Prints a warning, once per process.
    fn fail(&self, output: &mut Option<CaptureFile>, error: &io::Error) {
        self.buffer.lock().fail();
        *self.identity.lock() = None;
        let (start, path) = match output.take() {
            Some(open) => {
                let path = open.path().to_owned();
                open.close();
                (
                    "Warning: no more packets are recorded in IBV_UROCE_PCAP file",
                    path,
                )
            }
            None => {
                let path = self.settings.path(self.pid);
                (
                    "Warning: no packets are recorded in IBV_UROCE_PCAP file",
                    path,
                )
            }
        };
        if !self.warned.swap(true, Ordering::Relaxed) {
            let text = format!("{start} '{}': {error}", path.display());
            log::warn!("{text}");
            // The program may have closed it.
            let line = format!("libibverbs: {text}\n");
            let _ = io::stderr().write_all(line.as_bytes());
        }
    }

    /// The file's descriptor.
    #[cfg(test)]
    pub fn descriptor(&self) -> Option<std::os::fd::RawFd> {
        self.identity.lock().map(|identity| identity.fd)
    }

    /// Closes the child's copy of the file, in a child of the process that opened it.
    pub fn close_in_child(&self) {
        // A thread of the parent may have been about to change it: then the file stays open.
        let identity = self.identity.try_lock().and_then(|identity| *identity);
        if let Some(identity) = identity.filter(Identity::holds) {
            // SAFETY: the descriptor is that of the parent's file, and the child has no thread that uses it.
            unsafe { libc::close(identity.fd) };
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if let Some(output) = self.output.get_mut().take() {
            output.close();
        }
    }
}

fn write(output: &mut CaptureFile, taken: &Taken) -> io::Result<()> {
    for name in &taken.interfaces {
        output.add_interface(name)?;
    }
    output.write(&taken.bytes)
}
