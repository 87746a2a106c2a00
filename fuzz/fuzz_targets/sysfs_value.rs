//! Parses numbers, device numbers, GUIDs, GIDs and P_Keys in the format of sysfs files, and compares the
//! results with those of the libc functions that the C library uses.
#![no_main]

use std::ffi::{CStr, CString};

use ibverbs::{
    discover::value::{guid, hex16, pair, unsigned},
    verbs::gid_table::sysfs::parse_gid,
};
use libfuzzer_sys::fuzz_target;

/// The first `N` numbers of a string, if sscanf finds that many.
fn scanned<const N: usize, T: Copy + Default>(text: &CStr, format: &CStr) -> Option<[T; N]> {
    let mut values = [T::default(); N];
    let [a, b, c, d] =
        core::array::from_fn(|i| values.get_mut(i).map_or(core::ptr::null_mut(), |v| v));
    // SAFETY: both are C strings; the format has N conversions of T's size, whose targets are N values.
    // Further arguments are not used.
    let found = unsafe { libc::sscanf(text.as_ptr(), format.as_ptr(), a, b, c, d) };
    (found == N as i32).then_some(values)
}

/// Whether the result depends on the version of glibc: up to 2.41 it parses 0x without digits as 0 (bug
/// 12701). Later versions, ISO C and this library reject it.
fn ambiguous(text: &[u8]) -> bool {
    [text, b"\0"]
        .concat()
        .windows(3)
        .any(|part| matches!(part, [b'0', b'x' | b'X', next] if !next.is_ascii_hexdigit()))
}

fuzz_target!(|bytes: &[u8]| {
    // A file's value is a C string; the largest buffer that a caller passes has 41 bytes.
    let bytes = &bytes[..bytes.len().min(40)];
    let text = CString::new(bytes.split(|&c| c == 0).next().unwrap_or_default()).unwrap();
    let value = text.to_bytes();
    if ambiguous(value) {
        return;
    }

    // SAFETY: a C string.
    let number = unsafe { libc::strtoul(text.as_ptr(), core::ptr::null_mut(), 10) };
    assert_eq!(unsigned(value), number);
    let numbers = scanned::<2, u32>(&text, c"%u:%u").map(|[a, b]| (a, b));
    assert_eq!(pair(value), numbers);
    let words = scanned::<4, u16>(&text, c"%hx:%hx:%hx:%hx");
    let number = words.map(|w| w.iter().fold(0, |sum, &w| sum << 16 | u64::from(w)));
    assert_eq!(guid(value), number);
    // The C library reads a P_Key into 8 bytes.
    let key = CString::new(&value[..value.len().min(7)]).unwrap();
    if !ambiguous(key.to_bytes()) {
        let word = scanned::<1, u16>(&key, c"%hx").map(|[w]| w);
        assert_eq!(hex16(key.to_bytes()).map(|hex| hex.value), word);
    }

    let mut gid = Some(Vec::new());
    for at in (0..40).step_by(5) {
        let word = text.to_bytes_with_nul().get(at..).and_then(|rest| {
            let rest = CStr::from_bytes_until_nul(rest).ok()?;
            scanned::<1, u16>(rest, c"%hx")
        });
        gid = gid.zip(word).map(|(mut gid, [word])| {
            gid.extend(word.to_be_bytes());
            gid
        });
    }
    assert_eq!(parse_gid(value).0.map(Vec::from), gid);
});
