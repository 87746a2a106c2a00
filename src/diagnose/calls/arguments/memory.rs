//! The arguments of calls about memory regions that have failed.

use core::ffi::c_int;

use ibverbs_abi::*;

use super::{Arguments, Kind, object, reason, reg_mr, with};
use crate::diagnose::facts;

/// The arguments of an ibv_advise_mr that has failed.
pub fn advise_mr(pd: *mut ibv_pd, list: *const ibv_sge, count: u32) -> Arguments {
    let mut all = vec![object("pd", Kind::Pd, pd as usize)];
    for at in 0..count as usize {
        // SAFETY: any bytes are an SGE. The call may have failed because the list is not readable.
        let sge = unsafe { facts::copy_of::<ibv_sge>(list.wrapping_add(at).addr()) };
        let Some(sge) = sge else {
            break;
        };
        let access = with(|shadow| shadow.mrs.by_lkey(sge.lkey).map(|mr| mr.access)).flatten();
        let lkey = sge.lkey;
        all.push(reason(
            access.is_none(),
            format!(
                "lkey {lkey:#x} of element {at} belongs to no memory region that is known here"
            ),
            "the advice is about regions, by their lkeys",
            "use lkey of a region that is registered",
        ));
        all.push(reason(
            access.is_some_and(|access| access & IBV_ACCESS_ON_DEMAND == 0),
            format!("the region with the lkey {lkey:#x}, of element {at}, lacks IBV_ACCESS_ON_DEMAND"),
            "only regions with on-demand paging take advice: the pages of others are pinned and present",
            "register the region with IBV_ACCESS_ON_DEMAND (odp_caps of ibv_query_device_ex), or give no \
             advice",
        ));
    }
    all
}

/// Whether an ibv_reg_dmabuf_mr asks only whether the device has dma-bufs, as UCX and NCCL do: it registers
/// no memory, by a descriptor that no file has, and the errno value is the answer (EBADF: it has).
pub fn probes_dmabuf(offset: u64, iova: u64, fd: c_int) -> bool {
    (offset, iova, fd) == (0, 0, -1)
}

/// The arguments of an ibv_reg_dmabuf_mr that has failed.
pub fn reg_dmabuf_mr(pd: *mut ibv_pd, fd: c_int, access: c_int) -> Arguments {
    let mut all = reg_mr(pd, access);
    // A dma-buf is an anonymous file that is named so.
    let file = std::fs::read_link(format!("/proc/self/fd/{fd}"));
    let is_buffer = |file: &std::path::PathBuf| file.to_string_lossy().contains("dmabuf");
    all.push(match file {
        Ok(file) => reason(
            !is_buffer(&file),
            format!("fd {fd} is no dma-buf, but {}", file.display()),
            "only memory that a driver has exported, of a GPU for example, has such a descriptor",
            "pass the descriptor of a dma-buf, or register ordinary memory with ibv_reg_mr",
        ),
        Err(_) => reason(
            true,
            format!("fd {fd} is no open file"),
            "the descriptor was closed, or never opened",
            "check what the call that exports the dma-buf returned",
        ),
    });
    all
}
