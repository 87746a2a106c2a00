//! Reading and writing the program's memory at addresses that it passes in commands: EFAULT if it is not
//! mapped, as from the kernel, and no crash.

use ibverbs_abi::{Errno, Result};

use super::HEADER_LEN;

const EFAULT: Errno = Errno(libc::EFAULT);

/// Bytes of the longest command, with its header.
pub const START_MAX: usize = 328;

/// Reads the command that a program writes: as many of the first [`START_MAX`] bytes as it says that there
/// are, or, if these are not all readable, the header alone. EFAULT if that is not readable.
pub fn read_start(at: usize, len: usize) -> Result<([u8; START_MAX], usize)> {
    let mut bytes = [0; START_MAX];
    for len in [len.min(START_MAX), HEADER_LEN.min(len)] {
        if read_into(at, &mut bytes[..len]).is_ok() {
            return Ok((bytes, len));
        }
    }
    Err(EFAULT)
}

/// Reads as many bytes as `to` has. EFAULT if they are not all readable.
pub fn read_into(at: usize, to: &mut [u8]) -> Result<()> {
    let len = to.len();
    if len == 0 {
        return Ok(());
    }
    let local = iovec(to.as_mut_ptr() as usize, len);
    let remote = iovec(at, len);
    // SAFETY: `local` is `to`, which is writable; the kernel checks `remote`.
    let got = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    match usize::try_from(got) {
        Ok(got) if got == len => Ok(()),
        Ok(_) => Err(EFAULT),
        Err(_) if is_forbidden() => {
            // SAFETY: the program has passed the address for reading. A fault is the program's, as with
            // a read of its own.
            unsafe { core::ptr::copy_nonoverlapping(at as *const u8, to.as_mut_ptr(), len) };
            Ok(())
        }
        Err(_) => Err(EFAULT),
    }
}

/// Reads a part's address and length, as writev(2) gets it. EFAULT if it is not readable.
pub fn read_iovec(at: *const libc::iovec) -> Result<libc::iovec> {
    const WORD: usize = size_of::<usize>();
    let mut bytes = [0; 2 * WORD];
    read_into(at.addr(), &mut bytes)?;
    let word = |at: usize| {
        let mut word = [0; WORD];
        word.copy_from_slice(&bytes[at..at + WORD]);
        usize::from_ne_bytes(word)
    };
    Ok(iovec(word(0), word(WORD)))
}

/// Writes bytes to an address. EFAULT if it is not writable; some may be written then.
pub fn write_user(at: usize, bytes: &[u8]) -> Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let local = iovec(bytes.as_ptr() as usize, bytes.len());
    let remote = iovec(at, bytes.len());
    // SAFETY: `local` is `bytes`, which are readable; the kernel checks `remote`, which the program has
    // passed for the response.
    let put = unsafe { libc::process_vm_writev(libc::getpid(), &local, 1, &remote, 1, 0) };
    match usize::try_from(put) {
        Ok(put) if put == bytes.len() => {
            // Once more, for memcheck: valgrind does not know that this call writes to the process itself.
            // SAFETY: the kernel has just written to all of it. Only the program can have unmapped it since:
            // a fault is the program's, as with a write of its own.
            unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()) };
            Ok(())
        }
        Ok(_) => Err(EFAULT),
        Err(_) if is_forbidden() => {
            // SAFETY: the program has passed the address for the response. A fault is the program's, as
            // with a write of its own.
            unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()) };
            Ok(())
        }
        Err(_) => Err(EFAULT),
    }
}

/// Writes a value to an address of the program, as [`write_user`] does.
pub fn write_value<T: Copy>(to: *mut T, value: &T) -> Result<()> {
    // SAFETY: the value is readable for its size. Its padding is copied only.
    let bytes = unsafe {
        core::slice::from_raw_parts(core::ptr::from_ref(value).cast::<u8>(), size_of::<T>())
    };
    write_user(to.addr(), bytes)
}

fn iovec(at: usize, len: usize) -> libc::iovec {
    libc::iovec {
        iov_base: core::ptr::with_exposed_provenance_mut(at),
        iov_len: len,
    }
}

/// Whether a sandbox forbids the system call that has just failed.
fn is_forbidden() -> bool {
    matches!(Errno::last(), Errno(libc::EPERM | libc::ENOSYS))
}
