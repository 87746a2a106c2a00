//! Hexadecimal numbers in sysfs files.

/// Reads the number at the start of `text` as C's `%hx` does: blanks before it, a sign and `0x` are
/// allowed, and what is too long for 16 bits is cut.
pub fn hex16(text: &[u8]) -> Option<u16> {
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
}
