//! Destroying objects: a table of the functions for those without events, and what those with events share.

use core::mem::{MaybeUninit, offset_of, size_of};

use ibverbs_abi::*;
use libc::c_int;

use super::to_c;
use crate::uverbs::{
    Destroyed, destroyed,
    fallback::{self, Fallback, Needs},
    ioctl::Command,
    state::{Op, state},
    uhw::Buffer,
    write,
};

/// The commands that destroy one type of object, in each form that the kernel may know.
struct Destroy {
    /// UVERBS_OBJECT_*
    object: u32,
    /// UVERBS_METHOD_*
    method: u32,
    /// The attribute of the handle.
    handle: u32,
    legacy: Legacy,
}

/// The legacy form of a command.
#[derive(Clone, Copy)]
enum Legacy {
    /// The command has no form but the ioctl.
    None,
    /// IB_USER_VERBS_CMD_*, and the bit that remembers a kernel without the ioctl.
    Plain(u32, Op),
    /// IB_USER_VERBS_EX_CMD_*, and the bit.
    Extended(u32, Op),
}

/// Defines the functions that destroy an object of which the kernel reports no events:
/// `FUNCTION(OBJECT: TYPE): CONTEXT, HANDLE; UVERBS OBJECT, METHOD, ATTRIBUTE; LEGACY`.
macro_rules! destroy_commands {
    ($(
        $(#[$doc:meta])*
        $name:ident($at:ident: $type:ty): $context:expr, $handle:expr;
            $object:expr, $method:expr, $attr:expr; $legacy:expr;
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The object is live, and its context open.
        pub unsafe extern "C" fn $name($at: *mut $type) -> c_int {
            const DESTROY: Destroy = Destroy {
                object: $object,
                method: $method,
                handle: $attr,
                legacy: $legacy,
            };
            // SAFETY: the object is live, and its context open.
            to_c(|| unsafe {
                let $at = &*$at;
                DESTROY.handle_only($context, $handle)
            })
        }
    )*};
}

destroy_commands! {
    /// Destroys an address handle.
    ibv_cmd_destroy_ah(ah: ibv_ah): ah.context, ah.handle;
        UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY, UVERBS_ATTR_DESTROY_AH_HANDLE;
        Legacy::Plain(IB_USER_VERBS_CMD_DESTROY_AH, Op::DestroyAh);
    /// Destroys a completion counter.
    ibv_cmd_destroy_comp_cntr(counter: ibv_comp_cntr): counter.context, counter.handle;
        UVERBS_OBJECT_COMP_CNTR, UVERBS_METHOD_COMP_CNTR_DESTROY,
        UVERBS_ATTR_DESTROY_COMP_CNTR_HANDLE; Legacy::None;
    /// Destroys a set of counters.
    ibv_cmd_destroy_counters(set: verbs_counters): set.counters.context, set.handle;
        UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_DESTROY,
        UVERBS_ATTR_DESTROY_COUNTERS_HANDLE; Legacy::None;
    /// Frees device memory.
    ibv_cmd_free_dm(dm: verbs_dm): dm.dm.context, dm.handle;
        UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE, UVERBS_ATTR_FREE_DM_HANDLE; Legacy::None;
    /// Frees a DMA handle.
    ibv_cmd_free_dmah(dmah: verbs_dmah): dmah.dmah.context, dmah.handle;
        UVERBS_OBJECT_DMAH, UVERBS_METHOD_DMAH_FREE, UVERBS_ATTR_FREE_DMA_HANDLE; Legacy::None;
    /// Destroys a flow. As in rdma-core, this command shares the bit of address handles.
    ibv_cmd_destroy_flow(flow: ibv_flow): flow.context, flow.handle;
        UVERBS_OBJECT_FLOW, UVERBS_METHOD_FLOW_DESTROY, UVERBS_ATTR_DESTROY_FLOW_HANDLE;
        Legacy::Extended(IB_USER_VERBS_EX_CMD_DESTROY_FLOW, Op::DestroyAh);
    /// Destroys a flow action.
    ibv_cmd_destroy_flow_action(action: verbs_flow_action): action.action.context, action.handle;
        UVERBS_OBJECT_FLOW_ACTION, UVERBS_METHOD_FLOW_ACTION_DESTROY,
        UVERBS_ATTR_DESTROY_FLOW_ACTION_HANDLE; Legacy::None;
    /// Deregisters a memory region.
    ibv_cmd_dereg_mr(mr: verbs_mr): mr.ibv_mr.context, mr.ibv_mr.handle;
        UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, UVERBS_ATTR_DESTROY_MR_HANDLE;
        Legacy::Plain(IB_USER_VERBS_CMD_DEREG_MR, Op::DeregMr);
    /// Deallocates a memory window.
    ibv_cmd_dealloc_mw(mw: ibv_mw): mw.context, mw.handle;
        UVERBS_OBJECT_MW, UVERBS_METHOD_MW_DESTROY, UVERBS_ATTR_DESTROY_MW_HANDLE;
        Legacy::Plain(IB_USER_VERBS_CMD_DEALLOC_MW, Op::DeallocMw);
    /// Deallocates a PD.
    ibv_cmd_dealloc_pd(pd: ibv_pd): pd.context, pd.handle;
        UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, UVERBS_ATTR_DESTROY_PD_HANDLE;
        Legacy::Plain(IB_USER_VERBS_CMD_DEALLOC_PD, Op::DeallocPd);
    /// Destroys an indirection table. As in rdma-core, this command shares the bit of address handles.
    ibv_cmd_destroy_rwq_ind_table(table: ibv_rwq_ind_table):
        table.context, table.ind_tbl_handle as u32;
        UVERBS_OBJECT_RWQ_IND_TBL, UVERBS_METHOD_RWQ_IND_TBL_DESTROY,
        UVERBS_ATTR_DESTROY_RWQ_IND_TBL_HANDLE;
        Legacy::Extended(IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL, Op::DestroyAh);
    /// Closes an XRC domain.
    ibv_cmd_close_xrcd(domain: verbs_xrcd): domain.xrcd.context, domain.handle;
        UVERBS_OBJECT_XRCD, UVERBS_METHOD_XRCD_DESTROY, UVERBS_ATTR_DESTROY_XRCD_HANDLE;
        Legacy::Plain(IB_USER_VERBS_CMD_CLOSE_XRCD, Op::CloseXrcd);
}

impl Destroy {
    /// Destroys an object of which the kernel reports no events.
    ///
    /// # Safety
    /// `context` is open.
    #[inline(always)]
    unsafe fn handle_only(&self, context: *mut ibv_context, handle: u32) -> Result<(), Errno> {
        // SAFETY: `context` is open, the request is a local, and the ioctl has no pointers.
        let result = unsafe {
            match self.legacy {
                Legacy::None => self.ioctl(handle).execute(context),
                Legacy::Plain(method, op) => match self.by_ioctl(context, op, handle) {
                    Ok(Fallback::Done) => Ok(()),
                    Ok(_) => write::execute_payload(context, method, handle),
                    Err(errno) => Err(errno),
                },
                Legacy::Extended(method, op) => match self.by_ioctl(context, op, handle) {
                    Ok(Fallback::Done) => Ok(()),
                    Ok(_) => {
                        let mut request = CmdEx {
                            hdr: ex_hdr::default(),
                            core_payload: [0u32 /* comp_mask */, handle],
                        };
                        write::execute_ex_request(context, method, Buffer::core(&raw mut request))
                    }
                    Err(errno) => Err(errno),
                },
            }
        };
        destroyed(result).map(|_| ())
    }

    /// The ioctl.
    #[inline(always)]
    fn ioctl(&self, handle: u32) -> Command<1> {
        let mut cmd = Command::<1>::new(self.object, self.method);
        cmd.object(self.handle, handle);
        cmd
    }

    /// # Safety
    /// `context` is open.
    #[inline(always)]
    unsafe fn by_ioctl(
        &self,
        context: *mut ibv_context,
        op: Op,
        handle: u32,
    ) -> Result<Fallback, Errno> {
        // SAFETY: `context` is open, and the command has no pointers.
        unsafe {
            if !state(context).may_ioctl(op) {
                return Ok(Fallback::Write);
            }
            fallback::send(context, op, Needs::default(), &mut self.ioctl(handle))
        }
    }
}

/// The commands that destroy a type of object with events.
pub struct WithEvents {
    /// UVERBS_OBJECT_*
    pub object: u32,
    /// UVERBS_METHOD_*
    pub method: u32,
    /// The attribute of the handle.
    pub handle: u32,
    /// The attribute of the response.
    pub response: u32,
    /// The bit that remembers a kernel without the ioctl.
    pub op: Op,
    /// The legacy command, IB_USER_VERBS_CMD_*.
    pub write: u32,
}

impl WithEvents {
    /// Destroys an object. Returns the number of events that the kernel has reported for it,
    /// which the program must have acknowledged before the object is freed; `None` if there is nothing to
    /// wait for.
    ///
    /// # Safety
    /// `context` is open; the kernel's response, that of the ioctl too, is an `R`.
    #[inline(always)]
    pub unsafe fn destroy<R: Copy + Default>(
        &self,
        context: *mut ibv_context,
        handle: u32,
    ) -> Result<Option<R>, Errno> {
        let mut reported = R::default();
        // SAFETY: `context` is open.
        let route = if unsafe { state(context) }.may_ioctl(self.op) {
            let mut cmd = Command::<2>::new(self.object, self.method);
            cmd.output(self.response, &raw mut reported);
            cmd.object(self.handle, handle);
            // SAFETY: `context` is open, and the only output is a local.
            unsafe { fallback::send(context, self.op, Needs::default(), &mut cmd) }
        } else {
            Ok(Fallback::Write)
        };
        let result = match route {
            Ok(Fallback::Done) => return Ok(Some(reported)),
            // SAFETY: `context` is open, and the command's response is an `R`.
            Ok(_) => unsafe { self.by_write(context, handle, &mut reported) },
            Err(errno) => Err(errno),
        };
        Ok((destroyed(result)? == Destroyed::Object).then_some(reported))
    }

    /// # Safety
    /// As for [`WithEvents::destroy`].
    #[inline(always)]
    unsafe fn by_write<R>(
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
