//! A port's attributes and speed.
//!
//! `struct ibv_port_attr` has grown: it has 48 bytes in programs that call the symbol `ibv_query_port`, 52
//! since `port_cap_flags2` was added, 56 since `active_speed_ex`. Newer programs pass the size of theirs to
//! `verbs_context.query_port`. Providers do not say which size they write, so they always get a buffer of
//! the largest.

use core::mem::MaybeUninit;
use core::ptr;

use libc::c_int;

use super::dispatch::dispatch;
use crate::abi::*;
use crate::provider::ops::ops;
use crate::uverbs::cmd::port::{PORT_ATTR_V34, with_whole};

/// The size in bytes of the attributes for callers of the symbol `ibv_query_port`: through `flags` and the
/// padding after it, with which the struct ended then.
const OLDEST_PORT_ATTR: usize = 48;

/// Reports a port's attributes in a struct of `port_attr_len` bytes. Bytes beyond the known attributes are
/// zeroed. The library fills in `active_speed_ex` if the provider has not, since providers of ABI 34 may be
/// older than that member. This is `verbs_context.query_port`, which the inline `ibv_query_port` of verbs.h
/// calls. Returns 0 or an errno value. On failure, a struct without `port_cap_flags2` is unchanged; others
/// are zeroed.
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
        // SAFETY: `port_attr_len` bytes are writable, as the caller promises, and they are no fewer than a
        // provider may write.
        return unsafe {
            ptr::write_bytes(port_attr.cast::<u8>(), 0, port_attr_len);
            with_whole(port_attr, || {
                (ops(context).query_port)(context, port_num, port_attr)
            })
        };
    }
    if port_attr_len >= PORT_ATTR_V34 {
        // The C library of such programs zeroed the struct and filled it in place.
        // SAFETY: `port_attr_len` bytes are writable, as the caller promises.
        unsafe { ptr::write_bytes(port_attr.cast::<u8>(), 0, port_attr_len) };
    }
    let mut whole = MaybeUninit::<ibv_port_attr>::zeroed();
    // SAFETY: the context is open, as the caller promises; `whole` has the largest size of all releases.
    let err = unsafe { (ops(context).query_port)(context, port_num, whole.as_mut_ptr()) };
    if err == 0 {
        // SAFETY: `port_attr_len` is less than the size of `whole`, whose bytes are all initialised, and
        // that many bytes are writable, as the caller promises.
        unsafe {
            ptr::copy_nonoverlapping(whole.as_ptr().cast::<u8>(), port_attr.cast(), port_attr_len)
        };
    }
    err
}

/// Reports a port's attributes to a program whose struct ends before `port_cap_flags2` and has 48 bytes
/// (ibv_query_port(3)). Returns 0 or an errno value.
///
/// # Safety
///
/// `context` is an open context; 48 bytes at `port_attr` are writable.
pub unsafe extern "C" fn ibv_query_port(
    context: *mut ibv_context,
    port_num: u8,
    port_attr: *mut _compat_ibv_port_attr,
) -> c_int {
    // SAFETY: the context is open and OLDEST_PORT_ATTR bytes are writable, as the caller promises.
    unsafe { lib_query_port(context, port_num, port_attr.cast(), OLDEST_PORT_ATTR) }
}

dispatch! {
    /// Reports a port's speed in units of 100 Mb/s (ibv_query_port_speed(3)). Returns 0 or an errno
    /// value.
    ibv_query_port_speed(context: *mut ibv_context, port_num: u32, port_speed: *mut u64) -> c_int
        => [context] query_port_speed(context, port_num, port_speed);
}
