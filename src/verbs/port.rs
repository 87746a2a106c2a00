//! A port's attributes and speed.
//!
//! `struct ibv_port_attr` has grown: 48 bytes in programs that call the symbol `ibv_query_port`
//! itself, 52 since `port_cap_flags2`, 56 since `active_speed_ex`. A program says how long its own
//! is through `verbs_context.query_port`; a provider does not say how long it thinks it is, so it
//! only ever gets a buffer that is long enough for the longest.

use core::mem::MaybeUninit;
use core::ptr;

use libc::c_int;

use super::dispatch::dispatch;
use crate::abi::*;
use crate::provider::ops::ops;
use crate::uverbs::cmd::port::{PORT_ATTR_V34, with_whole};

/// How long the attributes are for callers of the symbol `ibv_query_port`: up to and with `flags`,
/// and the padding behind it, which the struct had at its end.
const OLDEST_PORT_ATTR: usize = 48;

/// Reports a port's attributes in a struct of `port_attr_len` bytes; what lies behind the
/// attributes this library knows is zeroed. `active_speed_ex` is the library's to fill in, if the
/// provider has not: providers of ABI 34 may be older than that member. This is
/// `verbs_context.query_port`, which the inline `ibv_query_port` of verbs.h calls. Returns 0 or an
/// errno value; then a struct without `port_cap_flags2` is left alone, and others are zeroed.
///
/// # Safety
///
/// `context` is an open context; `port_attr_len` bytes at `port_attr` are writable.
pub unsafe extern "C" fn lib_query_port(
    context: *mut ibv_context,
    port_num: u8,
    port_attr: *mut ibv_port_attr,
    port_attr_len: usize,
) -> c_int {
    if port_attr_len >= size_of::<ibv_port_attr>() {
        // SAFETY: the caller's struct has that many bytes, at least those the provider may write.
        return unsafe {
            ptr::write_bytes(port_attr.cast::<u8>(), 0, port_attr_len);
            with_whole(port_attr, || {
                (ops(context).query_port)(context, port_num, port_attr)
            })
        };
    }
    if port_attr_len >= PORT_ATTR_V34 {
        // SAFETY: the caller's bytes. Its library filled them in place, so a failure left zeros.
        unsafe { ptr::write_bytes(port_attr.cast::<u8>(), 0, port_attr_len) };
    }
    let mut whole = MaybeUninit::<ibv_port_attr>::zeroed();
    // SAFETY: the context is open; the provider gets the longest attributes there are.
    let err = unsafe { (ops(context).query_port)(context, port_num, whole.as_mut_ptr()) };
    if err == 0 {
        // SAFETY: shorter than `whole`, every byte of which was initialised, and as long as the
        // caller's own.
        unsafe {
            ptr::copy_nonoverlapping(whole.as_ptr().cast::<u8>(), port_attr.cast(), port_attr_len)
        };
    }
    err
}

/// Reports a port's attributes as they were before `port_cap_flags2` (ibv_query_port(3)): the
/// caller's struct has 48 bytes. Returns 0 or an errno value.
///
/// # Safety
///
/// `context` is an open context; 48 bytes at `port_attr` are writable.
pub unsafe extern "C" fn ibv_query_port(
    context: *mut ibv_context,
    port_num: u8,
    port_attr: *mut _compat_ibv_port_attr,
) -> c_int {
    // SAFETY: the caller's promise, in bytes.
    unsafe { lib_query_port(context, port_num, port_attr.cast(), OLDEST_PORT_ATTR) }
}

dispatch! {
    /// Reports a port's speed in units of 100 Mb/s (ibv_query_port_speed(3)). Returns 0 or an errno
    /// value.
    ibv_query_port_speed(context: *mut ibv_context, port_num: u32, port_speed: *mut u64) -> c_int
        => [context] query_port_speed(context, port_num, port_speed);
}
