//! The kernel's device file of rdma_cm.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use ibverbs_abi::{Errno, Result};

use super::epoll::{Epoll, Token};
use super::input::{Command, ReplyWriter};
use super::names;
use super::os::Buffer;
use crate::bypass::Bypass;
use crate::cancellation;
use crate::descriptors::Owned;

/// Where SET_OPTION has the address of the value.
const OPTION_AT: usize = 0;

/// The descriptor behind one of the program's.
pub enum KernelFile {
    /// The file was not needed yet.
    Unused,
    /// The kernel has no rdma_cm, the program may not use it, or the program's descriptor is closed.
    Absent,
    Open(Owned<OwnedFd>),
}

impl KernelFile {
    /// Opens it if it was not needed yet. The thread gets a token with this number when the kernel has an
    /// event. ENODEV if there is no rdma_cm that the program may use.
    pub fn open(&mut self, epoll: &Epoll, number: u32) -> Result<RawFd> {
        if let KernelFile::Unused = self {
            *self = match open(epoll, number) {
                Ok(fd) => KernelFile::Open(fd),
                Err(error) => {
                    log::debug!("uroce: no rdma_cm of the kernel: {error}");
                    KernelFile::Absent
                }
            };
        }
        match self {
            KernelFile::Open(fd) => Ok(fd.as_raw_fd()),
            _ => Err(Errno(libc::ENODEV)),
        }
    }
}

fn open(epoll: &Epoll, number: u32) -> Result<Owned<OwnedFd>> {
    let _kernel_files = Bypass::new();
    let flags = libc::O_RDWR | libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: the path is a C string.
    let fd = names::open(|| unsafe { libc::open(c"/dev/infiniband/rdma_cm".as_ptr(), flags) })?;
    epoll.add(fd.as_raw_fd(), Token::Kernel(number))?;
    Ok(fd)
}

/// Writes a command to the kernel's rdma_cm. Fails as write(2) does.
pub fn write(fd: RawFd, command: Command, mut input: Vec<u8>, buffer: Buffer<'_>) -> Result<()> {
    let (at, address, out_len) = match buffer {
        Buffer::Program(len) => (None, 0, len),
        Buffer::Response(bytes) => (
            command.response_at(),
            bytes.as_mut_ptr().expose_provenance(),
            bytes.len(),
        ),
        Buffer::Option(value) => (Some(OPTION_AT), value.as_ptr().expose_provenance(), 0),
    };
    if let Some(field) = at.and_then(|at| input.get_mut(at..at + 8)) {
        field.copy_from_slice(&(address as u64).to_ne_bytes());
    }
    let header = ReplyWriter::default().u32(command.number());
    let header = header.u16(input.len() as u16).u16(out_len as u16);
    let message = header.bytes(&input).0;
    match cancellation::write(fd, &message) {
        ..0 => Err(Errno::last()),
        _ => Ok(()),
    }
}
