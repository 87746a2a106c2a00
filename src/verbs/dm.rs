//! Device memory (DM): the verbs that are not inline in verbs.h.

use libc::c_int;

use super::dispatch::dispatch;
use crate::abi::*;

dispatch! {
    /// Imports device memory that another process allocated; `ibv_unimport_dm` ends that
    /// (ibv_import_dm(3)). Returns NULL with errno set if it fails.
    ibv_import_dm(context: *mut ibv_context, dm_handle: u32) -> *mut ibv_dm
        => [context] import_dm(context, dm_handle);

    /// Frees an imported handle, but not the device memory itself (ibv_import_dm(3)).
    ibv_unimport_dm(dm: *mut ibv_dm) => [(*dm).context] unimport_dm(dm);

    /// Returns a file descriptor of a dma-buf that covers the device memory; the caller closes it
    /// (ibv_dm_export_dmabuf_fd(3)). Returns -1 with errno set if it fails.
    ibv_dm_export_dmabuf_fd(dm: *mut ibv_dm) -> c_int => [(*dm).context] dm_export_dmabuf_fd(dm);
}
