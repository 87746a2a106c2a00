//! Commands of DMA handles (provider ABI 59 and later).

use ibverbs_abi::*;
use libc::c_int;

use super::to_c;
use crate::uverbs::ioctl::Command;

/// Allocates a DMA handle with the hints that the mask of `attr` names.
///
/// # Safety
/// `context` is open; `dmah` and `attr` are live.
pub unsafe extern "C" fn ibv_cmd_alloc_dmah(
    context: *mut ibv_context,
    dmah: *mut verbs_dmah,
    attr: *const ibv_dmah_init_attr,
) -> c_int {
    to_c(|| {
        // SAFETY: `dmah` and `attr` are live.
        let (dmah, attr) = unsafe { (&mut *dmah, &*attr) };
        let has = |bit: u32| attr.comp_mask & bit != 0;
        let mut cmd = Command::<4>::new(UVERBS_OBJECT_DMAH, UVERBS_METHOD_DMAH_ALLOC);
        let handle = cmd.new_object(UVERBS_ATTR_ALLOC_DMAH_HANDLE);
        if has(IBV_DMAH_INIT_ATTR_MASK_CPU_ID) {
            cmd.u32(UVERBS_ATTR_ALLOC_DMAH_CPU_ID, attr.cpu_id);
        }
        // SAFETY: the inputs are empty, or a member of `attr`; `context` is open.
        unsafe {
            if has(IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE) {
                let (id, nothing) = (UVERBS_ATTR_ALLOC_DMAH_TPH_MEM_TYPE, [0u8; 0]);
                cmd.input_enum(id, attr.tph_mem_type, nothing.as_ptr(), 0);
            }
            if has(IBV_DMAH_INIT_ATTR_MASK_PH) {
                cmd.input(UVERBS_ATTR_ALLOC_DMAH_PH, &raw const attr.ph, 1);
            }
            cmd.execute(context)?;
        }
        dmah.handle = cmd.created(handle);
        dmah.dmah.context = context;
        Ok(())
    })
}
