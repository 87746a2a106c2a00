//! How a static program gets its providers. `RDMA_STATIC_PROVIDERS(a,b)` in verbs.h names `verbs_provider_a`
//! and `verbs_provider_b`; that pulls their objects out of the archives, and their constructors register them.
//! The tables that are not the providers' own are in `export/plain.rs`.

use core::ffi::c_void;

/// What verbs.h hands the provider tables to. To name them was enough. C's variadic arguments are the
/// caller's to remove.
pub extern "C" fn ibv_static_providers(_unused: *mut c_void) {}
