//! Memory that two processes share, for the measures without RDMA.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::round_trips::ping_pong;

/// Memory shared with the children of this process.
struct Mapping {
    at: *mut u8,
    len: usize,
}

impl Mapping {
    fn new(len: usize) -> io::Result<Self> {
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a new mapping touches no memory that exists.
        let at = unsafe { libc::mmap(ptr::null_mut(), len, access, kind, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { at: at.cast(), len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and ends with it.
        unsafe { libc::munmap(self.at.cast(), self.len) };
    }
}

/// One message at a time, behind the number of the messages that were sent. The reader counts itself.
pub struct Ring {
    memory: Mapping,
    size: usize,
    received: std::cell::Cell<u64>,
    sent: std::cell::Cell<u64>,
}

/// The message begins in the line of the number, as it does in a ring of small entries.
const HEAD: usize = 8;

impl Ring {
    /// Creates a ring for messages of `size` bytes, in one direction.
    pub fn new(size: usize) -> io::Result<Self> {
        Ok(Self {
            memory: Mapping::new(HEAD + size)?,
            size,
            received: 0.into(),
            sent: 0.into(),
        })
    }

    fn number(&self) -> &AtomicU64 {
        // SAFETY: the first 8 bytes of the mapping, which is aligned to a page; all accesses are atomic.
        unsafe { AtomicU64::from_ptr(self.memory.at.cast()) }
    }

    /// The receiver must have received the last message.
    pub fn send(&self, message: &[u8]) {
        let len = message.len().min(self.size);
        // SAFETY: the mapping has `size` bytes behind the number. The other process does not read them until
        // the number has changed.
        unsafe { ptr::copy_nonoverlapping(message.as_ptr(), self.memory.at.add(HEAD), len) };
        self.sent.set(self.sent.get() + 1);
        self.number().store(self.sent.get(), Ordering::Release);
    }

    /// Waits for the next message, polling.
    pub fn receive(&self, message: &mut [u8]) {
        let next = self.received.get() + 1;
        while self.number().load(Ordering::Acquire) < next {
            std::hint::spin_loop();
        }
        self.received.set(next);
        let len = message.len().min(self.size);
        // SAFETY: as in `send`: the sender has written the message, and writes the next only after an answer.
        unsafe { ptr::copy_nonoverlapping(self.memory.at.add(HEAD), message.as_mut_ptr(), len) };
    }
}

/// A child, which is killed and reaped when this value is dropped.
pub struct Child(libc::pid_t);

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: kill(2) and waitpid(2) touch no memory of this process; the child is not yet reaped.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, ptr::null_mut(), 0);
        }
    }
}

/// Runs `work`, which does not return, in a child.
pub fn fork_with<T>(work: impl FnOnce() -> T) -> io::Result<Child> {
    // SAFETY: the child runs only `work`, which takes no lock that another thread may hold.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: the child's signal at its parent's end; no memory is involved.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            work();
            // SAFETY: _exit ends the process.
            unsafe { libc::_exit(1) }
        }
        id => Ok(Child(id)),
    }
}

/// Ping-pong by process_vm_writev: each side writes a message whose last 8 bytes are its number into the
/// private memory of the other, which reads these bytes in a loop. `size` is a multiple of 8.
pub fn process_vm(size: usize, count: usize) -> io::Result<f64> {
    let words = (size / 8).max(1);
    // At the same address in both processes.
    let inbox: Vec<AtomicU64> = (0..words).map(|_| AtomicU64::new(0)).collect();
    let last = &inbox[words - 1];
    let mut message = vec![0_u64; words];
    let mut deliver = |to: libc::pid_t, number: u64| {
        message[words - 1] = number;
        write_to(to, &message, inbox.as_ptr().cast())
    };
    let wait = |number: u64| {
        while last.load(Ordering::Acquire) < number {
            std::hint::spin_loop();
        }
    };
    allow_any_tracer();
    // SAFETY: getpid(2) has no conditions.
    let parent = unsafe { libc::getpid() };
    let child = fork_with(|| {
        allow_any_tracer();
        (1..).try_for_each(|number| {
            wait(number);
            deliver(parent, number)
        })
    })?;
    let mut number = 0;
    ping_pong(count, || {
        number += 1;
        deliver(child.0, number)?;
        wait(number);
        Ok(())
    })
}

/// Yama lets only parents write to other processes unless these allow it.
fn allow_any_tracer() {
    // SAFETY: prctl(2) with this operation takes a number. Without Yama it fails, and is not needed.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY) };
}

fn write_to(to: libc::pid_t, message: &[u64], at: *const libc::c_void) -> io::Result<()> {
    let len = size_of_val(message);
    let here = libc::iovec {
        iov_base: message.as_ptr().cast_mut().cast(),
        iov_len: len,
    };
    let there = libc::iovec {
        iov_base: at.cast_mut(),
        iov_len: len,
    };
    // SAFETY: `here` is `message`, of `len` bytes, which the kernel only reads. `there` is memory of the
    // other process, which reads it by atomic accesses.
    let written = unsafe { libc::process_vm_writev(to, &here, 1, &there, 1, 0) };
    match usize::try_from(written) {
        Ok(written) if written == len => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
