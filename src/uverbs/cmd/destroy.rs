//! Destroying objects: those that have only a handle, and those with events.

use core::mem::{MaybeUninit, offset_of, size_of};

use ibverbs_abi::*;

use crate::uverbs::{
    Destroyed, destroyed,
    fallback::{self, Fallback, Needs},
    ioctl::Command,
    state::{Op, state},
    uhw::Buffer,
    write,
};

/// The commands that destroy one type of object.
pub struct Destroy {
    pub op: Op,
    /// UVERBS_OBJECT_*
    pub object: u32,
    /// UVERBS_METHOD_*
    pub method: u32,
    /// The attribute of the handle.
    pub handle: u32,
    /// The legacy command, IB_USER_VERBS_CMD_* or IB_USER_VERBS_EX_CMD_*.
    pub write: u32,
}

impl Destroy {
    /// Destroys an object whose legacy command has no more than the handle.
    ///
    /// # Safety
    /// `context` is open.
    #[inline(always)]
    pub unsafe fn handle_only(&self, context: *mut ibv_context, handle: u32) -> Result<(), Errno> {
        // SAFETY: `context` is open.
        let result = match unsafe { self.by_ioctl(context, handle) } {
            Ok(Fallback::Done) => Ok(()),
            // SAFETY: `context` is open.
            Ok(_) => unsafe { write::execute_payload(context, self.write, handle) },
            Err(errno) => Err(errno),
        };
        destroyed(result).map(|_| ())
    }

    /// Destroys an object whose legacy command is extended: a comp_mask and the handle.
    ///
    /// # Safety
    /// `context` is open.
    pub unsafe fn handle_only_ex(
        &self,
        context: *mut ibv_context,
        handle: u32,
    ) -> Result<(), Errno> {
        // SAFETY: `context` is open.
        let result = match unsafe { self.by_ioctl(context, handle) } {
            Ok(Fallback::Done) => Ok(()),
            // SAFETY: `context` is open.
            Ok(_) => unsafe { self.by_write_ex(context, handle) },
            Err(errno) => Err(errno),
        };
        destroyed(result).map(|_| ())
    }

    /// # Safety
    /// `context` is open.
    #[inline(always)]
    unsafe fn by_ioctl(&self, context: *mut ibv_context, handle: u32) -> Result<Fallback, Errno> {
        // SAFETY: `context` is open.
        if !unsafe { state(context) }.may_ioctl(self.op) {
            return Ok(Fallback::Write);
        }
        let mut cmd = Command::<1>::new(self.object, self.method);
        cmd.object(self.handle, handle);
        // SAFETY: `context` is open, and the command has no pointers.
        unsafe { fallback::send(context, self.op, Needs::default(), &mut cmd) }
    }

    /// # Safety
    /// `context` is open.
    unsafe fn by_write_ex(&self, context: *mut ibv_context, handle: u32) -> Result<(), Errno> {
        let mut request = CmdEx {
            hdr: ex_hdr::default(),
            core_payload: [0u32 /* comp_mask */, handle],
        };
        // SAFETY: `context` is open, and the request is a local of this function.
        unsafe { write::execute_ex_request(context, self.write, Buffer::core(&raw mut request)) }
    }

    /// Destroys an object that has events. Returns the number of events that the kernel has reported for it,
    /// which the program must have acknowledged before the object is freed; `None` if there is nothing to
    /// wait for.
    ///
    /// # Safety
    /// `context` is open; the kernel's response, in the attribute `response` too, is an `R`.
    #[inline(always)]
    pub unsafe fn with_events<R: Copy + Default>(
        &self,
        context: *mut ibv_context,
        handle: u32,
        response: u32,
    ) -> Result<Option<R>, Errno> {
        let mut reported = R::default();
        // SAFETY: `context` is open.
        let route = if unsafe { state(context) }.may_ioctl(self.op) {
            let mut cmd = Command::<2>::new(self.object, self.method);
            cmd.output(response, &raw mut reported);
            cmd.object(self.handle, handle);
            // SAFETY: `context` is open, and the only output is a local.
            unsafe { fallback::send(context, self.op, Needs::default(), &mut cmd) }
        } else {
            Ok(Fallback::Write)
        };
        let result = match route {
            Ok(Fallback::Done) => return Ok(Some(reported)),
            // SAFETY: `context` is open, and the command's response is an `R`.
            Ok(_) => unsafe { self.by_write_with_events(context, handle, &mut reported) },
            Err(errno) => Err(errno),
        };
        Ok((destroyed(result)? == Destroyed::Object).then_some(reported))
    }

    /// # Safety
    /// As for [`Destroy::with_events`].
    #[inline(always)]
    unsafe fn by_write_with_events<R>(
        &self,
        context: *mut ibv_context,
        handle: u32,
        reported: &mut R,
    ) -> Result<(), Errno> {
        let mut request = MaybeUninit::<Cmd<ib_uverbs_destroy_qp>>::uninit();
        // SAFETY: `context` is open, the request is a local of this function, and the response is an `R`.
        unsafe {
            (&raw mut (*request.as_mut_ptr()).core_payload).write(ib_uverbs_destroy_qp {
                response: 0,
                qp_handle: handle,
                reserved: 0,
            });
            write::execute(
                context,
                self.write,
                Buffer::core(request.as_mut_ptr()),
                Buffer::core(reported),
            )
        }
    }
}

/// Destroys an object for which there is only the ioctl `method`, with the handle in attribute `id`.
///
/// # Safety
/// `context` is open.
pub unsafe fn by_ioctl_only(
    context: *mut ibv_context,
    (object, method): (u32, u32),
    id: u32,
    handle: u32,
) -> Result<(), Errno> {
    let mut cmd = Command::<1>::new(object, method);
    cmd.object(id, handle);
    // SAFETY: `context` is open, and the command has no pointers.
    destroyed(unsafe { cmd.execute(context) }).map(|_| ())
}

/// The plain requests of objects with events have one layout: the response's address, the handle, and a
/// reserved word.
const _: () = {
    assert!(size_of::<ib_uverbs_destroy_cq>() == size_of::<ib_uverbs_destroy_qp>());
    assert!(size_of::<ib_uverbs_destroy_srq>() == size_of::<ib_uverbs_destroy_qp>());
    assert!(
        offset_of!(ib_uverbs_destroy_cq, cq_handle) == offset_of!(ib_uverbs_destroy_qp, qp_handle)
    );
    assert!(
        offset_of!(ib_uverbs_destroy_srq, srq_handle)
            == offset_of!(ib_uverbs_destroy_qp, qp_handle)
    );
};
