//! Values of keys, and the parts of a text that they are read from.

use std::net::IpAddr;
use std::time::Duration;

use crate::rule::{CERTAIN, Network, Pattern};
use crate::table::ERRNOS;

/// The longest name of a device, in bytes.
const MAX_DEVICE_NAME: usize = 63;
/// The largest errno value.
const MAX_ERRNO: i32 = 4095;

/// A part of a line, and its column from 0.
#[derive(Clone, Copy)]
pub(crate) struct Span<'a> {
    pub(crate) text: &'a str,
    pub(crate) at: usize,
}

/// An error: the reason, and the column from 0.
pub(crate) type Wrong = (usize, String);

impl<'a> Span<'a> {
    pub(crate) fn wrong<T>(&self, why: impl Into<String>) -> Result<T, Wrong> {
        Err((self.at, why.into()))
    }

    pub(crate) fn trimmed(self) -> Span<'a> {
        let text = self.text.trim_start();
        Span {
            text: text.trim_end(),
            at: self.at + self.text.len() - text.len(),
        }
    }

    pub(crate) fn split(self, separator: char) -> impl Iterator<Item = Span<'a>> {
        let mut at = self.at;
        self.text.split(separator).map(move |text| {
            let part = Span { text, at };
            at += text.len() + 1;
            part
        })
    }

    /// The parts in front of a separator and behind it.
    pub(crate) fn split_once(self, separator: char) -> Option<(Span<'a>, Span<'a>)> {
        let (before, after) = self.text.split_once(separator)?;
        let at = self.at + before.len() + 1;
        Some((
            Span {
                text: before,
                ..self
            },
            Span { text: after, at },
        ))
    }
}

pub(crate) fn names(all: impl Iterator<Item = &'static str>) -> String {
    all.collect::<Vec<_>>().join(", ")
}

/// A text from outside, for messages: on one line, and not long.
pub(crate) fn shown(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(40)
        .flat_map(char::escape_default)
        .collect();
    if text.chars().nth(40).is_some() {
        shown += "...";
    }
    shown
}

/// A decimal number, or a hexadecimal one after `0x`.
pub(crate) fn number(value: Span) -> Result<u64, Wrong> {
    let parsed = match value.text.strip_prefix("0x") {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            u64::from_str_radix(digits, 16).ok()
        }
        _ if value.text.bytes().all(|byte| byte.is_ascii_digit()) => value.text.parse().ok(),
        _ => None,
    };
    match parsed {
        Some(number) => Ok(number),
        None => value.wrong(format!("expected a number, found '{}'", shown(value.text))),
    }
}

/// How often a rule applies at most.
pub(crate) fn times(value: Span) -> Result<u64, Wrong> {
    match number(value)? {
        0 => value.wrong(
            "count=0 never applies: leave the rule out, or remove it with `uroce-ctl clear`",
        ),
        times => Ok(times),
    }
}

pub(crate) fn qp_number(value: Span) -> Result<u32, Wrong> {
    let qpn = number(value)?;
    match u32::try_from(qpn) {
        Ok(qpn) if qpn < 1 << 24 => Ok(qpn),
        _ => value.wrong("a queue pair number has 24 bits"),
    }
}

/// A number with `ns`, `us`, `ms`, `s` or `m` behind it.
pub(crate) fn duration(value: Span) -> Result<Duration, Wrong> {
    let digits = value.text.bytes().take_while(u8::is_ascii_digit).count();
    let unit = match &value.text[digits..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        _ => 0_u64,
    };
    let count: Option<u64> = value.text[..digits].parse().ok();
    match count.and_then(|count| count.checked_mul(unit)) {
        Some(nanos) if unit > 0 => Ok(Duration::from_nanos(nanos)),
        _ => {
            let found = shown(value.text);
            value.wrong(format!(
                "expected a time such as 5ms, found '{found}' (units: ns, us, ms, s, m)"
            ))
        }
    }
}

pub(crate) fn probability(value: Span) -> Result<u64, Wrong> {
    let (text, whole) = match value.text.strip_suffix('%') {
        Some(text) => (text, 100.0),
        None => (value.text, 1.0),
    };
    let is_decimal = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let parsed = text.parse::<f64>().ok().filter(|_| is_decimal);
    match parsed.map(|number| number / whole) {
        Some(p) if (0.0..=1.0).contains(&p) => Ok((p * CERTAIN as f64).round() as u64),
        _ => {
            let found = shown(value.text);
            value.wrong(format!(
                "expected a probability (0 to 1, or 0% to 100%), found '{found}'"
            ))
        }
    }
}

/// A number with `K`, `M` or `G` behind it, which multiply by powers of `unit`.
fn scaled(value: Span, unit: u64) -> Result<u64, Wrong> {
    let (digits, factor) = match value.text.as_bytes().last() {
        Some(b'K') => (&value.text[..value.text.len() - 1], unit),
        Some(b'M') => (&value.text[..value.text.len() - 1], unit * unit),
        Some(b'G') => (&value.text[..value.text.len() - 1], unit * unit * unit),
        _ => (value.text, 1),
    };
    let count = number(Span {
        text: digits,
        ..value
    })?;
    match count.checked_mul(factor).filter(|number| *number > 0) {
        Some(number) => Ok(number),
        None => value.wrong("this is 0, or too large"),
    }
}

/// Bits per second: K, M and G are powers of 1000.
pub(crate) fn bits(value: Span) -> Result<u64, Wrong> {
    scaled(value, 1000)
}

/// Bytes: K, M and G are powers of 1024.
pub(crate) fn bytes(value: Span) -> Result<u64, Wrong> {
    scaled(value, 1024)
}

/// An address, or the addresses that have the same first bits.
pub(crate) fn network(value: Span) -> Result<Network, Wrong> {
    let (address, prefix) = match value.text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (value.text, None),
    };
    let Ok(address) = address.parse::<IpAddr>() else {
        return value.wrong(format!(
            "expected an address, found '{}'",
            shown(value.text)
        ));
    };
    let whole: u8 = if address.is_ipv4() { 32 } else { 128 };
    let is_number = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit());
    let prefix = match prefix {
        None => Some(whole),
        Some(text) => Some(text)
            .filter(is_number)
            .and_then(|text| text.parse().ok()),
    };
    match prefix.filter(|bits| *bits <= whole) {
        Some(prefix) => Ok(Network { address, prefix }),
        None => value.wrong(format!("an address has {whole} bits")),
    }
}

pub(crate) fn device(value: Span) -> Result<String, Wrong> {
    let fits = (1..=MAX_DEVICE_NAME).contains(&value.text.len());
    let is_name = value.text.bytes().all(|byte| byte.is_ascii_graphic());
    match fits && is_name {
        true => Ok(value.text.into()),
        false => value.wrong("expected the name of a device"),
    }
}

pub(crate) fn sizes(value: Span) -> Result<(u64, u64), Wrong> {
    let Some((least, largest)) = value.split_once('-') else {
        let size = number(value)?;
        return Ok((size, size));
    };
    let empty = |part: Span| part.text.is_empty();
    if empty(least) && empty(largest) {
        return value.wrong("expected bytes: N, N-M, N- or -M");
    }
    let or = |part: Span, default: u64| match empty(part) {
        true => Ok(default),
        false => number(part),
    };
    let range = (or(least, 0)?, or(largest, u64::MAX)?);
    match range.0 <= range.1 {
        true => Ok(range),
        false => value.wrong("the first size is larger than the second"),
    }
}

pub(crate) fn named<T: Copy>(value: Span, table: &[(&'static str, T)]) -> Result<T, Wrong> {
    match table.iter().find(|(name, _)| *name == value.text) {
        Some((_, found)) => Ok(*found),
        None => {
            let all = names(table.iter().map(|(name, _)| *name));
            value.wrong(format!(
                "unknown name '{}'; there are: {all}",
                shown(value.text)
            ))
        }
    }
}

pub(crate) fn pattern(
    value: Span,
    all: impl Iterator<Item = &'static str> + Clone,
) -> Result<Pattern, Wrong> {
    let pattern = Pattern::new(value.text);
    match all.clone().any(|name| pattern.matches(name)) {
        true => Ok(pattern),
        false => {
            let found = shown(value.text);
            let short = value.text.strip_prefix("ibv_").unwrap_or("");
            let hint = match all.clone().any(|name| name == short) {
                true => format!("; did you mean '{short}'?"),
                false => String::new(),
            };
            value.wrong(format!("'{found}' matches none of: {}{hint}", names(all)))
        }
    }
}

pub(crate) fn error_number(value: Span) -> Result<i32, Wrong> {
    if let Some((_, errno)) = ERRNOS.iter().find(|(name, _)| *name == value.text) {
        return Ok(*errno);
    }
    let errno: Option<i32> = value.text.parse().ok();
    match errno.filter(|errno| (1..=MAX_ERRNO).contains(errno)) {
        Some(errno) => Ok(errno),
        None => {
            let all = names(ERRNOS.iter().map(|(name, _)| *name));
            let found = shown(value.text);
            value.wrong(format!(
                "unknown errno '{found}'; there are: {all}, and 1 to {MAX_ERRNO}"
            ))
        }
    }
}
