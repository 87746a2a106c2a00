//! Names that a program gives its objects (ibverbs_rs_name_qp(3)). They are kept in the shadow, if something
//! shows them: IBV_EXPLAIN, or the control socket. `calls/forgetting.rs` forgets them with their objects.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};

use ibverbs_abi::*;

use super::finding::{Kind, Object};
use super::shadow::{self, Named};
use super::wrap::is_wrapped;
use super::{ATTACHES, Ordering};

/// Longer names are cut.
const MAX_LENGTH: usize = 63;

/// The kinds of objects by their numbers in names.h, from 1 on.
const KINDS: [Kind; 8] = [
    Kind::Context,
    Kind::Pd,
    Kind::Mr,
    Kind::Mw,
    Kind::Ah,
    Kind::Cq,
    Kind::Srq,
    Kind::Qp,
];

/// Gives an object a name, or takes it if `name` is NULL or empty (ibverbs_rs_name_qp(3)). Returns 0, EINVAL
/// for NULL or an unknown type, or ENOSPC if there are too many names. Thread-safe.
///
/// # Safety
///
/// `object` is NULL or alive and of this type; `name` is NULL or a string.
pub unsafe extern "C" fn ibverbs_rs_set_name(
    object_type: c_uint,
    object: *const c_void,
    name: *const c_char,
) -> c_int {
    let kind = (object_type as usize)
        .checked_sub(1)
        .and_then(|at| KINDS.get(at).copied());
    let Some(kind) = kind.filter(|_| !object.is_null()) else {
        return libc::EINVAL;
    };
    if !ATTACHES.load(Ordering::Relaxed) {
        return 0;
    }
    // SAFETY: the object is alive and of this kind, and the name is a string or NULL, as the caller promises.
    // A live object's context is open.
    let new = unsafe {
        let context = context_of(kind, object);
        if !is_wrapped(context) {
            return 0;
        }
        let name = (!name.is_null()).then(|| printable(CStr::from_ptr(name).to_bytes()));
        Named {
            object: of(kind, object),
            context: context as usize,
            device: device_name(context),
            name: name.unwrap_or_default(),
            serial: 0,
        }
    };
    let errno = Errno::last();
    let kept = shadow::with(|shadow| shadow.names.set(new));
    errno.set();
    match kept {
        Some(false) => libc::ENOSPC,
        _ => 0,
    }
}

/// The context of an object. All structures but that of a context begin with it.
///
/// # Safety
/// `object` is alive and of this kind.
unsafe fn context_of(kind: Kind, object: *const c_void) -> *mut ibv_context {
    match kind {
        Kind::Context => object.cast_mut().cast(),
        // SAFETY: the object is alive, as the caller promises, and its first member is its context.
        _ => unsafe { object.cast::<*mut ibv_context>().read() },
    }
}

/// The object as messages know it.
///
/// # Safety
/// `object` is alive and of this kind.
unsafe fn of(kind: Kind, object: *const c_void) -> Object {
    let address = object as usize;
    match kind {
        // SAFETY: the object is a live queue pair, as the caller promises.
        Kind::Qp => Object::qp(address, unsafe { (*object.cast::<ibv_qp>()).qp_num }),
        Kind::Context => Object {
            kind,
            address,
            // SAFETY: the object is an open context, as the caller promises.
            label: unsafe { device_name(object.cast_mut().cast()) }.into(),
        },
        _ => Object::at(kind, address),
    }
}

/// # Safety
/// `context` is open.
unsafe fn device_name(context: *mut ibv_context) -> String {
    // SAFETY: the context is open, as the caller promises, and its device has a name.
    let name = unsafe { CStr::from_ptr((&raw const (*(*context).device).name).cast()) };
    name.to_string_lossy().into_owned()
}

/// A name without what would spoil a line: control characters and quotes, and with at most [`MAX_LENGTH`]
/// bytes.
fn printable(name: &[u8]) -> String {
    let mut text = String::new();
    for c in String::from_utf8_lossy(name).chars() {
        let c = match c {
            '"' => '\'',
            c if c.is_control() => '?',
            c => c,
        };
        if text.len() + c.len_utf8() > MAX_LENGTH {
            break;
        }
        text.push(c);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_and_printable() {
        assert_eq!(printable(b"client \"3\"\n"), "client '3'?");
        assert_eq!(printable(&[b'x'; 100]).len(), MAX_LENGTH);
        let text = printable("\u{e9}".repeat(40).as_bytes());
        assert_eq!((text.len(), text.chars().count()), (62, 31));
        assert_eq!(printable(b"\xff"), "\u{fffd}");
    }
}
