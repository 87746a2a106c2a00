//! The ioctl engine: a command as a list of attributes, built on the stack and handed to the kernel.
//!
//! An attribute holds an object's handle, a value of at most eight bytes, or a pointer to a buffer
//! (kernel: Documentation/core-api and `rdma/rdma_user_ioctl_cmds.h`).

use core::mem::{MaybeUninit, size_of};

use ibverbs_abi::*;
use libc::{EINVAL, c_int};

use super::{state::state, valgrind, write::Uhw};

/// An attribute's place in its command.
#[derive(Clone, Copy)]
pub struct Slot(usize);

/// A command with room for `N` attributes, laid out as the kernel reads it.
#[repr(C)]
pub struct Command<const N: usize> {
    hdr: ib_uverbs_ioctl_hdr,
    attrs: [MaybeUninit<ib_uverbs_attr>; N],
    len: usize,
    /// Something did not fit the format: the command answers EINVAL instead of being sent.
    malformed: bool,
}

impl<const N: usize> Command<N> {
    /// An empty command for a method of an object type (UVERBS_OBJECT_*, UVERBS_METHOD_*).
    #[inline(always)]
    pub fn new(object: u32, method: u32) -> Self {
        Command {
            hdr: ib_uverbs_ioctl_hdr {
                length: 0,
                object_id: object as u16,
                method_id: method as u16,
                num_attrs: 0,
                reserved1: 0,
                driver_id: 0,
                reserved2: 0,
                attrs: [],
            },
            attrs: [const { MaybeUninit::uninit() }; N],
            len: 0,
            malformed: false,
        }
    }

    #[inline(always)]
    fn push(&mut self, id: u32, len: usize, data: u64) -> Slot {
        let slot = self.len;
        if len > u16::MAX as usize || slot >= N {
            self.malformed = true;
            return Slot(usize::MAX);
        }
        self.attrs[slot].write(ib_uverbs_attr {
            attr_id: id as u16,
            len: len as u16,
            flags: UVERBS_ATTR_F_MANDATORY as u16,
            attr_data: ib_uverbs_attr_data { reserved: 0 },
            data,
        });
        self.len = slot + 1;
        Slot(slot)
    }

    /// An existing object, by its handle.
    #[inline(always)]
    pub fn object(&mut self, id: u32, handle: u32) {
        self.push(id, 0, handle.into());
    }

    /// The object (or file descriptor) that the command makes; [`Command::made`] tells its handle.
    #[inline(always)]
    pub fn new_object(&mut self, id: u32) -> Slot {
        self.push(id, 0, 0)
    }

    /// A file descriptor; none for -1.
    #[inline(always)]
    pub fn fd(&mut self, id: u32, fd: c_int) -> Option<Slot> {
        (fd != -1).then(|| self.push(id, 0, fd as i64 as u64))
    }

    /// A 64-bit value; the kernel's enumerations too.
    #[inline(always)]
    pub fn u64(&mut self, id: u32, value: u64) {
        self.push(id, 8, value);
    }

    /// A 32-bit value.
    #[inline(always)]
    pub fn u32(&mut self, id: u32, value: u32) {
        self.push(id, 4, value.into());
    }

    /// `len` bytes for the kernel to read: up to eight of them travel in the attribute itself.
    ///
    /// # Safety
    /// `data` is readable for `len` bytes until the command is executed.
    #[inline(always)]
    pub unsafe fn input(&mut self, id: u32, data: *const u8, len: usize) -> Slot {
        // SAFETY: by the contract.
        let data = unsafe { inline_data(data, len) };
        self.push(id, len, data)
    }

    /// As [`Command::input`], for an attribute whose meaning `elem` tells (UVERBS_ATTR_TYPE_ENUM_IN).
    ///
    /// # Safety
    /// As for [`Command::input`].
    pub unsafe fn input_enum(&mut self, id: u32, elem: u8, data: *const u8, len: usize) {
        // SAFETY: by the contract.
        let slot = unsafe { self.input(id, data, len) };
        if let Some(attr) = self.attr(slot) {
            attr.attr_data = ib_uverbs_attr_data {
                enum_data: ib_uverbs_attr_enum_data {
                    elem_id: elem,
                    reserved: 0,
                },
            };
        }
    }

    /// A buffer of `len` bytes for the kernel to fill.
    #[inline(always)]
    pub fn output_bytes(&mut self, id: u32, data: *mut u8, len: usize) {
        self.push(id, len, data as u64);
    }

    /// A value for the kernel to fill.
    #[inline(always)]
    pub fn output<T>(&mut self, id: u32, value: *mut T) {
        self.push(id, size_of::<T>(), value as u64);
    }

    /// The provider's own data, in and out.
    ///
    /// # Safety
    /// The buffers that `uhw` describes are live until the command is executed.
    #[inline(always)]
    pub unsafe fn uhw(&mut self, uhw: &Uhw) {
        if let Some((data, len)) = uhw.input() {
            // SAFETY: by the contract.
            unsafe { self.input(UVERBS_ATTR_UHW_IN, data, len) };
        }
        if let Some((data, len)) = uhw.output() {
            self.output_bytes(UVERBS_ATTR_UHW_OUT, data, len);
        }
    }

    /// Lets a kernel that does not know the attribute ignore it.
    #[inline(always)]
    pub fn optional(&mut self, slot: Option<Slot>) {
        if let Some(attr) = slot.and_then(|slot| self.attr(slot)) {
            attr.flags &= !(UVERBS_ATTR_F_MANDATORY as u16);
        }
    }

    /// The handle of the object that the executed command made.
    #[inline(always)]
    pub fn made(&mut self, slot: Slot) -> u32 {
        self.attr(slot).map_or(0, |attr| attr.data as u32)
    }

    #[inline(always)]
    fn attr(&mut self, slot: Slot) -> Option<&mut ib_uverbs_attr> {
        // SAFETY: the first `len` attributes are those that push() has written.
        (slot.0 < self.len).then(|| unsafe { self.attrs[slot.0].assume_init_mut() })
    }

    /// Appends attributes that stand elsewhere, in a provider's buffer; false if they do not fit.
    pub(super) fn append(&mut self, attrs: &[ib_uverbs_attr]) -> bool {
        let Some(room) = self.attrs.get_mut(self.len..self.len + attrs.len()) else {
            return false;
        };
        for (to, from) in room.iter_mut().zip(attrs) {
            to.write(*from);
        }
        self.len += attrs.len();
        true
    }

    /// The attributes so far.
    pub(super) fn attrs(&self) -> &[ib_uverbs_attr] {
        // SAFETY: the first `len` attributes are those that push() and append() have written, and
        // MaybeUninit has the layout of what it holds.
        unsafe { core::slice::from_raw_parts(self.attrs.as_ptr().cast(), self.len) }
    }

    /// Sends the command. On failure errno is set and returned.
    ///
    /// # Safety
    /// `context` is open, and what the attributes point to is live and writable as they say.
    #[inline(always)]
    pub unsafe fn execute(&mut self, context: *mut ibv_context) -> Result<(), Errno> {
        if self.malformed {
            Errno(EINVAL).set();
            return Err(Errno(EINVAL));
        }
        let len = self.len;
        // SAFETY: the attributes follow the header (repr(C), checked below) and `len` are written;
        // the rest is the caller's contract.
        unsafe { submit(context, (&raw mut *self).cast(), len) }
    }
}

/// The attributes must directly follow the header.
const _: () = assert!(core::mem::offset_of!(Command<1>, attrs) == size_of::<ib_uverbs_ioctl_hdr>());

/// What an input attribute carries: the bytes themselves if they fit, else their address.
///
/// # Safety
/// `data` is readable for `len` bytes if these are at most eight.
#[inline(always)]
pub(super) unsafe fn inline_data(data: *const u8, len: usize) -> u64 {
    if len > size_of::<u64>() {
        return data as u64;
    }
    let mut bytes = [0; size_of::<u64>()];
    // SAFETY: by the contract, and `len` is at most the array's.
    unsafe { core::ptr::copy_nonoverlapping(data, bytes.as_mut_ptr(), len) };
    u64::from_ne_bytes(bytes)
}

/// Completes the header of a command of `len` attributes and sends it.
///
/// # Safety
/// `hdr` is followed by `len` initialised attributes; `context` is open.
pub(super) unsafe fn submit(
    context: *mut ibv_context,
    hdr: *mut ib_uverbs_ioctl_hdr,
    len: usize,
) -> Result<(), Errno> {
    // SAFETY: by the contract the header and its attributes are ours to write, and the context's
    // state is valid; the kernel checks everything that the attributes point to.
    unsafe {
        (*hdr).num_attrs = len as u16;
        (*hdr).length =
            (size_of::<ib_uverbs_ioctl_hdr>() + len * size_of::<ib_uverbs_attr>()) as u16;
        (*hdr).reserved1 = 0;
        (*hdr).reserved2 = 0;
        (*hdr).driver_id = state(context).driver_id;
        if libc::ioctl((*context).cmd_fd, RDMA_VERBS_IOCTL as libc::c_ulong, hdr) != 0 {
            return Err(Errno::last());
        }
        let mut attr = hdr.add(1).cast::<ib_uverbs_attr>().cast_const();
        let end = attr.add(len);
        while attr != end {
            if (*attr).flags & UVERBS_ATTR_F_VALID_OUTPUT as u16 != 0 && (*attr).len != 0 {
                valgrind::make_mem_defined((*attr).data, (*attr).len.into());
            }
            attr = attr.add(1);
        }
    }
    Ok(())
}
