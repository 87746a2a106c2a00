//! What C sees of libibverbs: `#[repr(C)]` types and constants. No behaviour.
#![allow(non_camel_case_types)]
