//! DMA handles: hints for how a device reaches memory.

use libc::c_int;

use super::dispatch::dispatch;
use crate::abi::*;

dispatch! {
    /// Allocates a DMA handle, to be freed by `ibv_dealloc_dmah` (ibv_alloc_dmah(3)). Returns NULL
    /// with errno set if it fails.
    ibv_alloc_dmah(context: *mut ibv_context, attr: *mut ibv_dmah_init_attr) -> *mut ibv_dmah
        => [context] alloc_dmah(context, attr);

    /// Frees a DMA handle (ibv_alloc_dmah(3)). Returns 0 or an errno value.
    ibv_dealloc_dmah(dmah: *mut ibv_dmah) -> c_int => [(*dmah).context] dealloc_dmah(dmah);
}
