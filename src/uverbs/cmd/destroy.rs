//! Destroying objects: one shape for those that have only a handle, one for those with events.

use core::mem::{MaybeUninit, size_of};

use ibverbs_abi::*;
use libc::c_int;

use crate::uverbs::{
    Destroyed, destroyed,
    fallback::{self, Needs, Route},
    ioctl::Command,
    state::{Op, state},
    write::{self, Placed},
};

/// How to destroy one type of object.
pub struct Destroy {
    pub op: Op,
    pub object: u32,
    pub method: u32,
    /// The attribute with the handle.
    pub handle: u32,
    /// The legacy command.
    pub write: u32,
}

impl Destroy {
    /// Sends the ioctl if the kernel may know it.
    ///
    /// # Safety
    /// `context` is open.
    #[inline(always)]
    unsafe fn ioctl(&self, context: *mut ibv_context, handle: u32) -> Result<Route, Errno> {
        // SAFETY: by the contract; the command has no pointers.
        unsafe {
            if !state(context).may_ioctl(self.op) {
                return Ok(Route::Write);
            }
            let mut cmd = Command::<1>::new(self.object, self.method);
            cmd.object(self.handle, handle);
            fallback::execute(context, self.op, Needs::default(), &mut cmd)
        }
    }

    /// Destroys an object whose legacy command is nothing but its handle.
    ///
    /// # Safety
    /// `context` is open.
    #[inline(always)]
    pub unsafe fn handle_only(&self, context: *mut ibv_context, handle: u32) -> c_int {
        // SAFETY: by the contract.
        let ret = match unsafe { self.ioctl(context, handle) } {
            Ok(Route::Done) => 0,
            Ok(_) => {
                let mut request = Cmd {
                    hdr: ib_uverbs_cmd_hdr::default(),
                    core_payload: handle,
                };
                // SAFETY: the request is on this stack, the context open by the contract.
                unsafe {
                    write::execute_request(context, self.write, Placed::alone(&raw mut request))
                }
            }
            Err(error) => error.0,
        };
        match destroyed(ret) {
            Destroyed::Yes => 0,
            Destroyed::Return(ret) => ret,
        }
    }

    /// Destroys an object whose legacy command is extended: a comp_mask and the handle.
    ///
    /// # Safety
    /// `context` is open.
    pub unsafe fn handle_only_ex(&self, context: *mut ibv_context, handle: u32) -> c_int {
        // SAFETY: by the contract.
        let ret = match unsafe { self.ioctl(context, handle) } {
            Ok(Route::Done) => 0,
            Ok(_) => {
                let mut request = CmdEx {
                    hdr: ex_hdr::default(),
                    core_payload: [0u32 /* comp_mask */, handle],
                };
                // SAFETY: the request is on this stack, the context open by the contract.
                unsafe {
                    write::execute_ex::<_, ()>(
                        context,
                        self.write,
                        Placed::alone(&raw mut request),
                        Placed::nothing(),
                    )
                }
            }
            Err(error) => error.0,
        };
        match destroyed(ret) {
            Destroyed::Yes => 0,
            Destroyed::Return(ret) => ret,
        }
    }

    /// Destroys an object that has events. `Ok` tells how many the kernel has reported of it in all,
    /// which are to be waited for; `Err` is what to return without waiting.
    ///
    /// The legacy command is the response's address, the handle and a reserved word for all of them.
    ///
    /// # Safety
    /// `context` is open.
    #[inline(always)]
    pub unsafe fn with_events<R: Copy + Default>(
        &self,
        context: *mut ibv_context,
        handle: u32,
        response_attr: u32,
    ) -> Result<R, Errno> {
        let mut response = R::default();
        // SAFETY: the command's pointers are to this stack, the context is open by the contract.
        let ret = unsafe {
            let route = if state(context).may_ioctl(self.op) {
                let mut cmd = Command::<2>::new(self.object, self.method);
                cmd.output(response_attr, &raw mut response);
                cmd.object(self.handle, handle);
                fallback::execute(context, self.op, Needs::default(), &mut cmd)
            } else {
                Ok(Route::Write)
            };
            match route {
                Ok(Route::Done) => 0,
                Ok(_) => {
                    let mut request = MaybeUninit::<Cmd<ib_uverbs_destroy_qp>>::uninit();
                    (&raw mut (*request.as_mut_ptr()).core_payload).write(ib_uverbs_destroy_qp {
                        response: 0,
                        qp_handle: handle,
                        reserved: 0,
                    });
                    write::execute(
                        context,
                        self.write,
                        Placed::alone(request.as_mut_ptr()),
                        Placed::alone(&raw mut response),
                    )
                }
                Err(error) => error.0,
            }
        };
        match destroyed(ret) {
            Destroyed::Yes => Ok(response),
            Destroyed::Return(ret) => Err(Errno(ret)),
        }
    }
}

/// The requests of all objects with events have one layout, so one serves for all.
const _: () = {
    assert!(size_of::<ib_uverbs_destroy_cq>() == size_of::<ib_uverbs_destroy_qp>());
    assert!(size_of::<ib_uverbs_destroy_srq>() == size_of::<ib_uverbs_destroy_qp>());
    assert!(
        core::mem::offset_of!(ib_uverbs_destroy_cq, cq_handle)
            == core::mem::offset_of!(ib_uverbs_destroy_qp, qp_handle)
    );
    assert!(
        core::mem::offset_of!(ib_uverbs_destroy_srq, srq_handle)
            == core::mem::offset_of!(ib_uverbs_destroy_qp, qp_handle)
    );
};
