//! Commands to the kernel's rdma_cm, as bytes, through the descriptor behind one of the program's. Which ids
//! are the kernel's is the business of [`super::kernel`].

use ibverbs_abi::Result;

use super::EINVAL;
use super::address::Address;
use super::event_queue::EVENT_LEN;
use super::id::Id;
use super::input::{Command, ReplyWriter};
use super::os::{Buffer, CmOs, FileId};

/// Bytes of `sockaddr_storage`.
pub(super) const STORAGE: usize = 128;
/// Bytes of `rdma_ucm_query_addr_resp`, and where its source address is.
const QUERY_LEN: usize = 280;
const QUERY_SOURCE: usize = 16;

/// The name of an id or a membership in the kernel's events. Not 0, with which the kernel reports
/// nothing.
pub(super) fn cookie(number: u32) -> u64 {
    u64::from(number) + 1
}

/// The number of a [`cookie`].
pub(super) fn number_of(cookie: u64) -> Option<u32> {
    u32::try_from(cookie.checked_sub(1)?).ok()
}

/// Writes a value into a structure, if that is long enough.
pub(super) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(field) = bytes.get_mut(at..at + value.len()) {
        field.copy_from_slice(value);
    }
}

/// The kernel's rdma_cm.
pub(super) struct KernelCm<'a, H>(pub &'a mut H);

impl<H: CmOs> KernelCm<'_, H> {
    /// Passes a command on, with the kernel's number of the id. EINVAL if the kernel does not have it.
    pub fn forward<R>(
        &mut self,
        id: &Id<R>,
        command: Command,
        input: &[u8],
        buffer: Buffer<'_>,
    ) -> Result<()> {
        let kernel = id.devices.in_kernel().ok_or(EINVAL)?;
        let mut bytes = input.to_vec();
        let at = command.id_at().ok_or(EINVAL)?;
        put(&mut bytes, at, &kernel.to_ne_bytes());
        self.0.kernel(id.file, command, bytes, buffer)
    }

    /// Makes the kernel's counterpart of the id with this number, with the same options. Returns the kernel's
    /// number. ENODEV if there is no rdma_cm in the kernel.
    pub fn create<R>(&mut self, number: u32, id: &Id<R>) -> Result<u32> {
        let input = ReplyWriter::default().u64(cookie(number)).u64(0);
        let input = input
            .u16(id.space)
            .u8(id.qp_type)
            .pad_to(Command::CreateId.len());
        let mut response = [0; 4];
        let buffer = Buffer::Response(&mut response);
        self.0.kernel(id.file, Command::CreateId, input.0, buffer)?;
        let kernel = u32::from_ne_bytes(response);
        for (name, value) in &id.settings {
            let input = ReplyWriter::default().u64(0).u32(kernel).u32(0).u32(*name);
            let input = input.u32(value.len() as u32);
            let buffer = Buffer::Option(value);
            // An older kernel may not know it; the id works without it.
            let _ = self.0.kernel(id.file, Command::SetOption, input.0, buffer);
        }
        Ok(kernel)
    }

    /// [`KernelCm::create`], bound to an address.
    pub fn create_bound<R>(&mut self, number: u32, id: &Id<R>, address: &Address) -> Result<u32> {
        let kernel = self.create(number, id)?;
        let input = ReplyWriter::default()
            .u32(kernel)
            .u16(address.len() as u16)
            .u16(0);
        let input = input.address(Some(address), STORAGE);
        self.0
            .kernel(id.file, Command::Bind, input.0, Buffer::Program(0))
            .inspect_err(|_| self.destroy(id.file, kernel))?;
        Ok(kernel)
    }

    /// Destroys an id of the kernel.
    pub fn destroy(&mut self, file: FileId, kernel: u32) {
        let input = ReplyWriter::default().u64(0).u32(kernel).u32(0);
        let mut response = [0; 4];
        let buffer = Buffer::Response(&mut response);
        // It is gone in any case: the error is about the descriptor.
        let _ = self.0.kernel(file, Command::DestroyId, input.0, buffer);
    }

    /// The port number of an id of the kernel.
    pub fn port(&mut self, file: FileId, kernel: u32) -> Result<u16> {
        let mut response = [0; QUERY_LEN];
        let input = ReplyWriter::default().u64(0).u32(kernel).u32(0);
        let buffer = Buffer::Response(&mut response);
        self.0.kernel(file, Command::Query, input.0, buffer)?;
        let source = Address::parse(&response[QUERY_SOURCE..]).ok_or(EINVAL)?;
        Ok(source.port())
    }

    /// Ends a membership.
    pub fn leave(&mut self, file: FileId, membership: u32) -> Result<()> {
        let input = ReplyWriter::default().u64(0).u32(membership).u32(0);
        let mut response = [0; 4];
        let buffer = Buffer::Response(&mut response);
        self.0.kernel(file, Command::LeaveMcast, input.0, buffer)
    }

    /// Moves an id to the descriptor behind another file, if the kernel has it.
    pub fn migrate<R>(&mut self, id: &Id<R>, from: FileId, to: FileId) -> Result<()> {
        let Some(kernel) = id.devices.in_kernel() else {
            return Ok(());
        };
        let fd = self.0.kernel_descriptor(from).ok_or(EINVAL)?;
        let input = ReplyWriter::default().u64(0).u32(kernel).u32(fd as u32);
        let mut response = [0; 4];
        let buffer = Buffer::Response(&mut response);
        self.0.kernel(to, Command::MigrateId, input.0, buffer)
    }

    /// The next event that the kernel has for a file.
    pub fn next_event(&mut self, file: FileId) -> Option<Box<[u8; EVENT_LEN]>> {
        let mut bytes = Box::new([0; EVENT_LEN]);
        let buffer = Buffer::Response(&mut bytes[..]);
        let input = vec![0; Command::GetEvent.len()];
        let got = self.0.kernel(file, Command::GetEvent, input, buffer);
        got.is_ok().then_some(bytes)
    }
}
