//! Numbers in sysfs files, parsed as C's strtoul and sscanf parse them.

/// `strtoul(text, NULL, 10)`: white space, a sign, digits up to the first other character. 0 without digits,
/// `u64::MAX` on overflow.
pub fn unsigned(mut text: &[u8]) -> u64 {
    scan(&mut text, 10).unwrap_or(0)
}

/// `sscanf(text, "%u:%u")`: a device number as sysfs prints it.
pub fn pair(mut text: &[u8]) -> Option<(u32, u32)> {
    let first = scan(&mut text, 10)? as u32;
    text = text.strip_prefix(b":")?;
    Some((first, scan(&mut text, 10)? as u32))
}

/// `sscanf(text, "%hx:%hx:%hx:%hx")`: a GUID as sysfs prints it, in host byte order.
pub fn guid(mut text: &[u8]) -> Option<u64> {
    let mut guid = 0;
    for part in 0..4 {
        if part > 0 {
            text = text.strip_prefix(b":")?;
        }
        guid = guid << 16 | u64::from(scan(&mut text, 16)? as u16);
    }
    Some(guid)
}

/// A number, and whether it overflows C's `unsigned long`: then C sets errno to ERANGE.
pub struct Hex16 {
    pub value: u16,
    pub overflow: bool,
}

/// `sscanf(text, "%hx")`: a P_Key, or a group of a GID.
pub fn hex16(mut text: &[u8]) -> Option<Hex16> {
    let (value, overflow) = scan_checked(&mut text, 16)?;
    Some(Hex16 {
        value: value as u16,
        overflow,
    })
}

/// Parses one number and removes it from the start of `text`. A negative number wraps, as in C.
fn scan(text: &mut &[u8], radix: u32) -> Option<u64> {
    Some(scan_checked(text, radix)?.0)
}

/// [`scan`], and whether the number overflows; its value is `u64::MAX` then.
fn scan_checked(text: &mut &[u8], radix: u32) -> Option<(u64, bool)> {
    let mut rest = *text;
    while let [b' ' | b'\t'..=b'\r', tail @ ..] = rest {
        rest = tail;
    }
    let negative = rest.first() == Some(&b'-');
    if let [b'-' | b'+', tail @ ..] = rest {
        rest = tail;
    }
    if radix == 16 {
        if let [b'0', b'x' | b'X', tail @ ..] = rest {
            rest = tail;
        }
    }
    let mut value = 0_u64;
    let mut overflow = false;
    let mut digits = 0;
    while let Some(digit) = rest.first().and_then(|&c| char::from(c).to_digit(radix)) {
        let next = value
            .checked_mul(radix.into())
            .and_then(|v| v.checked_add(digit.into()));
        overflow |= next.is_none();
        value = next.unwrap_or(u64::MAX);
        digits += 1;
        rest = rest.get(1..)?;
    }
    if digits == 0 {
        return None;
    }
    *text = rest;
    let value = match (overflow, negative) {
        (true, _) => u64::MAX,
        (false, true) => value.wrapping_neg(),
        (false, false) => value,
    };
    Some((value, overflow))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_types_and_abi_versions() {
        assert_eq!(unsigned(b"1: CA"), 1);
        assert_eq!(unsigned(b" \t+7"), 7);
        assert_eq!(unsigned(b""), 0);
        assert_eq!(unsigned(b"CA"), 0);
        assert_eq!(unsigned(b"-1") as u32, u32::MAX);
        assert_eq!(unsigned(b"99999999999999999999999"), u64::MAX);
        assert_eq!(unsigned(b"-99999999999999999999999"), u64::MAX);
    }

    #[test]
    fn device_numbers() {
        assert_eq!(pair(b"231:192"), Some((231, 192)));
        assert_eq!(pair(b"231: 192x"), Some((231, 192)));
        assert_eq!(pair(b"231 :192"), None);
        assert_eq!(pair(b"231:"), None);
        assert_eq!(pair(b"231"), None);
        assert_eq!(pair(b""), None);
        assert_eq!(pair(b"x:1"), None);
    }

    #[test]
    fn guids() {
        assert_eq!(guid(b"0200:00ff:fe00:0901"), Some(0x0200_00ff_fe00_0901));
        assert_eq!(guid(b"12:3:4:0x5"), Some(0x0012_0003_0004_0005));
        assert_eq!(guid(b"12345:3:4:5"), Some(0x2345_0003_0004_0005));
        assert_eq!(guid(b"0200:00ff:fe00"), None);
        assert_eq!(guid(b"nonsense"), None);
        assert_eq!(guid(b""), None);
    }

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
            (b"11111111111111111", Some(0xffff)),
            (b"-11111111111111111", Some(0xffff)),
        ] {
            assert_eq!(hex16(text).map(|hex| hex.value), value, "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn takes_any_bytes(text: Vec<u8>) {
            unsigned(&text);
            pair(&text);
            guid(&text);
        }

        #[test]
        fn agrees_with_libc(text in "[ \\t]{0,2}[-+]?[0-9a-f:x]{0,24}") {
            let c = std::ffi::CString::new(text.as_str()).unwrap();
            // SAFETY: `c` is NUL-terminated, and the end pointer may be NULL.
            let expected = unsafe { libc::strtoul(c.as_ptr(), core::ptr::null_mut(), 10) };
            proptest::prop_assert_eq!(unsigned(text.as_bytes()), expected);
            let (mut a, mut b) = (0_u32, 0_u32);
            // SAFETY: both strings are NUL-terminated and the two conversions have their targets.
            let n = unsafe { libc::sscanf(c.as_ptr(), c"%u:%u".as_ptr(), &raw mut a, &raw mut b) };
            proptest::prop_assert_eq!(pair(text.as_bytes()), (n == 2).then_some((a, b)));
        }
    }
}
