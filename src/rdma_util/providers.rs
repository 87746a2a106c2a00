//! Selection of the providers of a static program. `RDMA_STATIC_PROVIDERS(a,b)` of verbs.h refers to
//! `verbs_provider_a` and `verbs_provider_b`. So the linker takes their objects from the archives, and their
//! constructors register them. `export/archive.rs` defines `verbs_provider_none` and `verbs_provider_all`.

use core::ffi::c_void;

/// The variadic function to which verbs.h passes the provider tables. It does nothing: the references are
/// enough. A variadic function's caller removes the arguments, so one declared argument suffices here.
pub extern "C" fn ibv_static_providers(_unused: *mut c_void) {}
