//! DMA handles: hints about how a device accesses memory (TLP processing hints).

use libc::c_int;

use super::dispatch::dispatch;
use crate::abi::*;

dispatch! {
    /// Allocates a DMA handle; `ibv_dealloc_dmah` frees it (ibv_alloc_dmah(3)). Returns NULL with errno
    /// set if it fails.
    ibv_alloc_dmah(context: *mut ibv_context, attr: *mut ibv_dmah_init_attr) -> *mut ibv_dmah
        => [context] alloc_dmah(context, attr);

    /// Frees a DMA handle (ibv_alloc_dmah(3)). Returns 0 or an errno value.
    ibv_dealloc_dmah(dmah: *mut ibv_dmah) -> c_int => [(*dmah).context] dealloc_dmah(dmah);
}
