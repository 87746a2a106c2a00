//! The ioctl path: a command as a list of attributes, which is built on the stack and passed to the kernel
//! (kernel: `rdma/rdma_user_ioctl_cmds.h`).
//!
//! An attribute holds an object's handle, a value of at most eight bytes, or a pointer to a buffer.

use core::mem::{MaybeUninit, size_of};

use ibverbs_abi::*;
use libc::{EINVAL, c_int};

use super::{Status, state::state, uhw::Uhw, valgrind};

/// An attribute's index in its command.
#[derive(Clone, Copy)]
pub struct AttrIndex(usize);

/// A command with room for `N` attributes, laid out as the kernel reads it.
#[repr(C)]
pub struct Command<const N: usize> {
    hdr: ib_uverbs_ioctl_hdr,
    attrs: [MaybeUninit<ib_uverbs_attr>; N],
    len: usize,
    /// An attribute did not fit: execute() fails with EINVAL and sends nothing.
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
    fn push(&mut self, id: u32, len: usize, data: u64) -> AttrIndex {
        let slot = self.len;
        if len > u16::MAX as usize || slot >= N {
            self.malformed = true;
            return AttrIndex(usize::MAX);
        }
        self.attrs[slot].write(ib_uverbs_attr {
            attr_id: id as u16,
            len: len as u16,
            flags: UVERBS_ATTR_F_MANDATORY as u16,
            attr_data: ib_uverbs_attr_data { reserved: 0 },
            data,
        });
        self.len = slot + 1;
        AttrIndex(slot)
    }

    /// An existing object, by its handle.
    #[inline(always)]
    pub fn object(&mut self, id: u32, handle: u32) {
        self.push(id, 0, handle.into());
    }

    /// The object (or file descriptor) that the command creates; [`Command::created`] returns its handle.
    #[inline(always)]
    pub fn new_object(&mut self, id: u32) -> AttrIndex {
        self.push(id, 0, 0)
    }

    /// A file descriptor; none for -1.
    #[inline(always)]
    pub fn fd(&mut self, id: u32, fd: c_int) -> Option<AttrIndex> {
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
    pub unsafe fn input(&mut self, id: u32, data: *const u8, len: usize) -> AttrIndex {
        // SAFETY: `data` is readable for `len` bytes.
        let data = unsafe { inline_data(data, len) };
        self.push(id, len, data)
    }

    /// As [`Command::input`], for an attribute of type UVERBS_ATTR_TYPE_ENUM_IN: `elem` selects what the
    /// data is.
    ///
    /// # Safety
    /// As for [`Command::input`].
    pub unsafe fn input_enum(&mut self, id: u32, elem: u8, data: *const u8, len: usize) {
        // SAFETY: `data` is readable for `len` bytes.
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
            // SAFETY: the provider's input is live.
            unsafe { self.input(UVERBS_ATTR_UHW_IN, data, len) };
        }
        if let Some((data, len)) = uhw.output() {
            self.output_bytes(UVERBS_ATTR_UHW_OUT, data, len);
        }
    }

    /// Lets a kernel ignore the attribute if it does not know it.
    #[inline(always)]
    pub fn optional(&mut self, slot: Option<AttrIndex>) {
        if let Some(attr) = slot.and_then(|slot| self.attr(slot)) {
            attr.flags &= !(UVERBS_ATTR_F_MANDATORY as u16);
        }
    }

    /// The handle of the object that the executed command created.
    #[inline(always)]
    pub fn created(&mut self, slot: AttrIndex) -> u32 {
        self.attr(slot).map_or(0, |attr| attr.data as u32)
    }

    #[inline(always)]
    fn attr(&mut self, slot: AttrIndex) -> Option<&mut ib_uverbs_attr> {
        // SAFETY: the first `len` attributes are those that push() has written.
        (slot.0 < self.len).then(|| unsafe { self.attrs[slot.0].assume_init_mut() })
    }

    /// Appends the attributes of a provider's buffer; EINVAL if they do not fit.
    pub(super) fn append(&mut self, attrs: &[ib_uverbs_attr]) -> Result<(), Errno> {
        let Some(room) = self.attrs.get_mut(self.len..self.len + attrs.len()) else {
            return Errno(EINVAL).fail();
        };
        for (to, from) in room.iter_mut().zip(attrs) {
            to.write(*from);
        }
        self.len += attrs.len();
        Ok(())
    }

    /// The attributes so far.
    pub(super) fn attrs(&self) -> &[ib_uverbs_attr] {
        // SAFETY: the first `len` attributes are those that push() and append() have written, and
        // MaybeUninit has the layout of what it holds.
        unsafe { core::slice::from_raw_parts(self.attrs.as_ptr().cast(), self.len) }
    }

    /// Sends the command.
    ///
    /// # Safety
    /// `context` is open, and what the attributes point to is live and writable as they say.
    #[inline(always)]
    pub unsafe fn execute(&mut self, context: *mut ibv_context) -> Result<(), Errno> {
        if self.malformed {
            return Errno(EINVAL).fail();
        }
        let len = self.len;
        // SAFETY: the attributes follow the header (repr(C), checked below), and push() and append() have
        // written `len` of them; `context` is open, and what they point to is valid.
        unsafe { submit(context, (&raw mut *self).cast(), len) }
    }

    /// As [`Command::execute`].
    ///
    /// # Safety
    /// As for [`Command::execute`].
    #[inline(always)]
    pub(super) unsafe fn status(&mut self, context: *mut ibv_context) -> Status {
        // SAFETY: `context` is open, and what the attributes point to is valid.
        unsafe { self.execute(context) }.into()
    }
}

/// The attributes must directly follow the header.
const _: () = assert!(core::mem::offset_of!(Command<1>, attrs) == size_of::<ib_uverbs_ioctl_hdr>());

/// The data of an input attribute: the bytes themselves if they fit, else their address.
///
/// # Safety
/// `data` is readable for `len` bytes if these are at most eight.
#[inline(always)]
pub(super) unsafe fn inline_data(data: *const u8, len: usize) -> u64 {
    if len > size_of::<u64>() {
        return data as u64;
    }
    let mut bytes = [0; size_of::<u64>()];
    // SAFETY: `data` is readable for `len` bytes, which are at most the array's eight.
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
    // SAFETY: the command is this thread's, and `context` is open; the kernel checks every pointer in it.
    unsafe {
        (*hdr).num_attrs = len as u16;
        (*hdr).length =
            (size_of::<ib_uverbs_ioctl_hdr>() + len * size_of::<ib_uverbs_attr>()) as u16;
        (*hdr).reserved1 = 0;
        (*hdr).reserved2 = 0;
        (*hdr).driver_id = state(context).driver_id;
        if libc::ioctl((*context).cmd_fd, RDMA_VERBS_IOCTL as _, hdr) != 0 {
            return Err(Errno::last());
        }
        mark_outputs_defined(hdr.add(1).cast(), len);
    }
    Ok(())
}

/// Reports to valgrind what the kernel has written to the outputs of an executed command.
///
/// # Safety
/// `attrs` points to `len` initialised attributes.
#[inline(always)]
unsafe fn mark_outputs_defined(attrs: *const ib_uverbs_attr, len: usize) {
    let mut attr = attrs;
    // SAFETY: `attr` runs over the `len` attributes.
    unsafe {
        let end = attrs.add(len);
        while attr != end {
            if (*attr).flags & UVERBS_ATTR_F_VALID_OUTPUT as u16 != 0 && (*attr).len != 0 {
                valgrind::make_mem_defined((*attr).data, (*attr).len.into());
            }
            attr = attr.add(1);
        }
    }
}
