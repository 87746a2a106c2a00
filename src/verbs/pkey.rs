//! The P_Key table of a port, as sysfs shows it.

use core::fmt::Write;

use libc::{EINVAL, c_char, c_int};

use crate::abi::*;
use crate::discover::sysfs::ibv_read_sysfs_file;
use crate::sys;

/// Reads the hexadecimal number at the start of `text` as C's `%hx` does: blanks before it, a sign
/// and `0x` are allowed, and what is too long for 16 bits is cut.
fn hex16(text: &[u8]) -> Option<u16> {
    let text = text.trim_ascii_start();
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let digits = match text {
        [b'0', b'x' | b'X', rest @ ..] => rest,
        _ => text,
    };
    let mut value = None;
    for digit in digits.iter().map_while(|&c| char::from(c).to_digit(16)) {
        value = Some((value.unwrap_or(0_u16) << 4) | digit as u16);
    }
    value.map(|v| if negative { v.wrapping_neg() } else { v })
}

/// A NUL-terminated path in an array, which is longer than any that is written into it here.
struct Path([u8; 32], usize);

impl Write for Path {
    fn write_str(&mut self, s: &str) -> core::fmt::Result {
        let end = self.1 + s.len();
        // The last byte stays NUL.
        if end >= self.0.len() {
            return Err(core::fmt::Error);
        }
        self.0[self.1..end].copy_from_slice(s.as_bytes());
        self.1 = end;
        Ok(())
    }
}

/// Reports a P_Key, in network order (ibv_query_pkey(3)). Returns 0 or -1; errno is what opening
/// or reading the sysfs file left, EINVAL for a device that is not in sysfs.
///
/// # Safety
///
/// `context` is an open context; `pkey` is writable.
pub unsafe extern "C" fn ibv_query_pkey(
    context: *mut ibv_context,
    port_num: u8,
    index: c_int,
    pkey: *mut u16,
) -> c_int {
    // SAFETY: every device of this library begins a `verbs_device`, and the context holds it.
    let sysfs = unsafe { (*(*context).device.cast::<verbs_device>()).sysfs };
    if sysfs.is_null() {
        sys::set_errno(EINVAL);
        return -1;
    }
    let mut path = Path([0; 32], 0);
    if write!(path, "ports/{port_num}/pkeys/{index}").is_err() {
        sys::set_errno(EINVAL);
        return -1;
    }
    let mut text = [0_u8; 8];
    // SAFETY: the device holds its sysfs description, whose path ends in a NUL, as `path` does; the
    // buffer is as long as it is said to be.
    let len = unsafe {
        ibv_read_sysfs_file(
            (&raw const (*sysfs).ibdev_path).cast(),
            path.0.as_ptr().cast::<c_char>(),
            text.as_mut_ptr().cast(),
            text.len(),
        )
    };
    let Ok(len) = usize::try_from(len) else {
        return -1;
    };
    let Some(value) = text.get(..len).and_then(hex16) else {
        return -1;
    };
    // SAFETY: the caller's P_Key is writable.
    unsafe { *pkey = value.to_be() };
    0
}

/// Finds the first place of a P_Key (network order) in the port's table (ibv_get_pkey_index(3)).
/// Returns the place, or -1 if the table ends before it is found.
///
/// # Safety
///
/// `context` is an open context.
pub unsafe extern "C" fn ibv_get_pkey_index(
    context: *mut ibv_context,
    port_num: u8,
    pkey: u16,
) -> c_int {
    let mut found = 0;
    for index in 0..=c_int::MAX {
        // SAFETY: an open context, and a P_Key of this function's own.
        if unsafe { ibv_query_pkey(context, port_num, index, &mut found) } < 0 {
            break;
        }
        if found == pkey {
            return index;
        }
    }
    -1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_sscanf_reads_them() {
        for (text, value) in [
            (&b"0xffff"[..], Some(0xffff)),
            (b"0x7fff\0", Some(0x7fff)),
            (b"ffff", Some(0xffff)),
            (b" \t0X8001 ", Some(0x8001)),
            (b"0x12345", Some(0x2345)),
            (b"-1", Some(0xffff)),
            (b"+2", Some(2)),
            (b"0", Some(0)),
            (b"1g", Some(1)),
            (b"", None),
            (b"0x", None),
            (b"\n", None),
            (b"pkey", None),
            (b"-", None),
        ] {
            assert_eq!(hex16(text), value, "{text:?}");
        }
    }

    #[test]
    fn the_longest_path_fits() {
        let mut path = Path([0; 32], 0);
        write!(path, "ports/{}/pkeys/{}", u8::MAX, c_int::MIN).unwrap();
        assert_eq!(&path.0[..path.1], b"ports/255/pkeys/-2147483648");
        assert_eq!(path.0[31], 0);
        assert!(write!(path, "too long now").is_err());
    }
}
