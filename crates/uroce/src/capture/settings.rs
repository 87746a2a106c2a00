//! `IBV_UROCE_PCAP`, `IBV_UROCE_PCAP_LIMIT` and `IBV_UROCE_PCAP_SNAPLEN`. Pure.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where packets are recorded, and how many bytes of them. Their meaning is documented in libibverbs-rs(7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureSettings {
    /// The file's name, in which `%p` stands for the process ID and `%%` for `%`.
    name: Vec<u8>,
    /// Bytes that all files of this process may have together; None if there is no bound.
    pub(super) limit: Option<u64>,
    /// Bytes of each packet, from the IP header on; None for all.
    pub(super) snaplen: Option<usize>,
}

const DEFAULT_LIMIT: u64 = 256 << 20;
/// A smaller bound would leave no room for a packet in each of two files.
const LEAST_LIMIT: u64 = 64 << 10;
/// A smaller part of a packet would not have its headers.
const LEAST_SNAPLEN: usize = 64;

impl CaptureSettings {
    /// Reads the values of the three variables. An empty name is no capture. The error is a reason for a
    /// value that was rejected; the default takes its place.
    pub fn parse(
        name: &[u8],
        limit: Option<&[u8]>,
        snaplen: Option<&[u8]>,
    ) -> (Option<CaptureSettings>, Vec<String>) {
        let mut rejected = Vec::new();
        let mut number = |variable: &str, value: Option<&[u8]>| {
            let value = value?;
            let parsed = size(value);
            if parsed.is_none() {
                let value = value.escape_ascii();
                rejected.push(format!(
                    "{variable} '{value}': write a number of bytes, such as 100M"
                ));
            }
            parsed
        };
        let limit = match number("IBV_UROCE_PCAP_LIMIT", limit) {
            None => Some(DEFAULT_LIMIT),
            Some(0) => None,
            Some(bytes) => Some(bytes.max(LEAST_LIMIT)),
        };
        let snaplen = number("IBV_UROCE_PCAP_SNAPLEN", snaplen)
            .filter(|bytes| *bytes > 0)
            .map(|bytes| usize::try_from(bytes).map_or(usize::MAX, |len| len.max(LEAST_SNAPLEN)));
        let settings = CaptureSettings {
            name: name.into(),
            limit,
            snaplen,
        };
        ((!name.is_empty()).then_some(settings), rejected)
    }

    /// The file's path in the process `pid`.
    pub(super) fn path(&self, pid: u32) -> PathBuf {
        let (mut path, mut rest) = (Vec::new(), &self.name[..]);
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            match (byte, after.first()) {
                (b'%', Some(b'p')) => path.extend(pid.to_string().bytes()),
                (b'%', Some(b'%')) => path.push(b'%'),
                _ => {
                    path.push(byte);
                    continue;
                }
            }
            rest = &rest[1..];
        }
        PathBuf::from(OsStr::from_bytes(&path))
    }
}

/// A number with K, M or G (powers of 1024) behind it, or without.
fn size(value: &[u8]) -> Option<u64> {
    let text = core::str::from_utf8(value).ok()?;
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' | b'k' => (&text[..text.len() - 1], 10),
        b'M' | b'm' => (&text[..text.len() - 1], 20),
        b'G' | b'g' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// `path` with `.part` in front of its extension.
pub fn with_part(path: &Path, part: &str) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(".");
    name.push(part);
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str, limit: &str, snaplen: &str) -> CaptureSettings {
        let values = [limit, snaplen].map(|text| Some(text.as_bytes()));
        let (settings, rejected) = CaptureSettings::parse(name.as_bytes(), values[0], values[1]);
        assert_eq!(rejected, [""; 0]);
        settings.unwrap()
    }

    #[test]
    fn names() {
        let path = |name: &str| parse(name, "1G", "0").path(17);
        assert_eq!(path("/tmp/a.pcapng"), Path::new("/tmp/a.pcapng"));
        assert_eq!(path("a%p-%p.pcapng"), Path::new("a17-17.pcapng"));
        assert_eq!(path("100%%p%"), Path::new("100%p%"));
        assert_eq!(path("%x"), Path::new("%x"));
        assert_eq!(CaptureSettings::parse(b"", None, None).0, None);
        let old = |path: &str| with_part(Path::new(path), "old");
        assert_eq!(old("/tmp/a.pcapng"), Path::new("/tmp/a.old.pcapng"));
        assert_eq!(old("trace"), Path::new("trace.old"));
    }

    #[test]
    fn sizes() {
        let settings = parse("a", "3M", "128");
        assert_eq!(
            (settings.limit, settings.snaplen),
            (Some(3 << 20), Some(128))
        );
        assert_eq!(parse("a", "2g", "1k").limit, Some(2 << 30));
        assert_eq!(parse("a", "0", "0").limit, None);
        let least = parse("a", "1", "1");
        assert_eq!(
            (least.limit, least.snaplen),
            (Some(LEAST_LIMIT), Some(LEAST_SNAPLEN))
        );
        for bad in [
            "",
            "x",
            "-1",
            "1T",
            "1 M",
            "K",
            "99999999999999999999",
            "+5",
        ] {
            let (settings, rejected) =
                CaptureSettings::parse(b"a", Some(bad.as_bytes()), Some(bad.as_bytes()));
            let settings = settings.unwrap();
            assert_eq!(settings.limit, Some(DEFAULT_LIMIT), "{bad}");
            assert_eq!(settings.snaplen, None, "{bad}");
            assert_eq!(rejected.len(), 2, "{bad}");
        }
    }
}
