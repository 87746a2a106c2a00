//! Page sizes: the base page, and the page that stands at an address (which may be a huge one).

use ibverbs_abi::Errno;
use libc::{EINVAL, c_void};
use std::fs::File;
use std::io::{BufRead, BufReader};

/// Each level of the page table has this many address bits, so 1 << 9 pages are the next size.
const LEVEL: u32 = 9;

/// The base page size in bytes; None when the system does not say.
pub fn base() -> Option<usize> {
    // SAFETY: sysconf takes a number and returns one.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) })
        .ok()
        .filter(|n| n.is_power_of_two())
}

/// The size in bytes of the kernel's pages at `address`; `page`, the base page size, when the address
/// is not mapped or nothing tells.
///
/// smaps tells, but its lines are preceded by those of all lower mappings, each with a walk through
/// its page table: milliseconds in a large process. So that is for what [`probe`] does not know.
pub fn at(address: usize, page: usize) -> usize {
    if let Some(size) = probe(address, page) {
        return size;
    }
    match File::open("/proc/self/smaps") {
        Ok(file) => find(BufReader::new(file), address).unwrap_or(page),
        Err(_) => page,
    }
}

/// The size of the hugetlbfs page around `address`. None where there is none, on a kernel before
/// 5.16, and for the pages of a DAX device, which have other rules.
///
/// A part of a mapping moved nowhere and kept as large as it is (mremap(2)) is left as it is, but a
/// hugetlbfs mapping must be named by the beginning of a huge page: EINVAL, when asked for another
/// page. So the question is answered by the mapping that is there at this moment.
fn probe(address: usize, page: usize) -> Option<usize> {
    let in_huge_page = |size: usize| {
        // A multiple of `size` that no larger page begins at, and that lies within that one if
        // there is one.
        let place = address & !(size - 1);
        let place = match place & ((size << LEVEL) - 1) {
            0 => place.wrapping_add(size),
            _ => place,
        };
        // SAFETY: without flags the mapping stays where it is, and with its old size as the new one
        // it stays what it is.
        let same = unsafe { libc::mremap(place as *mut c_void, page, page, 0) };
        same == libc::MAP_FAILED && Errno::last() == Errno(EINVAL)
    };
    if !in_huge_page(page) {
        return None;
    }
    match in_huge_page(page << LEVEL) {
        true => Some(page << (2 * LEVEL)),
        false => Some(page << LEVEL),
    }
}

/// Reads smaps up to the mapping that holds `address`, and from it the KernelPageSize line.
fn find(mut smaps: impl BufRead, address: usize) -> Option<usize> {
    let mut line = Vec::with_capacity(256);
    let mut inside = false;
    loop {
        line.clear();
        if smaps.read_until(b'\n', &mut line).ok()? == 0 {
            return None;
        }
        if !inside {
            inside = mapping(&line).is_some_and(|(start, end)| start <= address && address < end);
        } else if let Some(rest) = line.strip_prefix(b"KernelPageSize:") {
            let size = decimal(rest)?.checked_mul(1024)?;
            return size.is_power_of_two().then_some(size);
        }
    }
}

/// The addresses of a mapping's first line: `START-END PERMISSIONS ...`.
fn mapping(line: &[u8]) -> Option<(usize, usize)> {
    let dash = line.iter().position(|&c| c == b'-')?;
    let (start, rest) = line.split_at(dash);
    let rest = rest.get(1..)?;
    let end = rest.get(..rest.iter().position(|&c| c == b' ')?)?;
    let hex = |digits| usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    Some((hex(start)?, hex(end)?))
}

/// The number before `kB`.
fn decimal(text: &[u8]) -> Option<usize> {
    std::str::from_utf8(text)
        .ok()?
        .split_ascii_whitespace()
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &[u8] = b"\
55d0c0a00000-55d0c0a01000 r--p 00000000 08:01 12 /bin/a-b c\n\
Size:                  4 kB\nKernelPageSize:        4 kB\nMMUPageSize:           4 kB\n\
VmFlags: rd mr\n\
7f0000000000-7f0000400000 rw-s 00000000 00:0f 77 /anon_hugepage (deleted)\n\
Size:               4096 kB\nKernelPageSize:     2048 kB\nAnonHugePages:   0 kB\n\
VmFlags: rd wr\n\
7f0001000000-7f0001001000 rw-p 00000000 00:00 0 \n\
Size:                  4 kB\n";

    #[test]
    fn the_mapping_decides() {
        assert_eq!(find(SMAPS, 0x55d0_c0a0_0fff), Some(4096));
        assert_eq!(find(SMAPS, 0x7f00_003f_ffff), Some(2 << 20));
        assert_eq!(find(SMAPS, 0x7f00_0040_0000), None);
        // A mapping whose file was cut off.
        assert_eq!(find(SMAPS, 0x7f00_0100_0000), None);
    }

    #[test]
    fn nonsense_is_no_size() {
        for line in ["x", "", "3", "99999999999999999999999", "18014398509481984"] {
            let text = format!("1000-2000 rw-p\nKernelPageSize: {line} kB\n");
            assert_eq!(find(text.as_bytes(), 0x1000), None, "{line}");
        }
        assert_eq!(find(&b"\xff-\xfe x\n-\n1-\n"[..], 0), None);
    }

    #[test]
    fn this_process() {
        let here = 0u8;
        let page = base().unwrap();
        assert_eq!(probe((&raw const here).addr(), page), None);
        assert_eq!(at((&raw const here).addr(), page), page);
        assert_eq!(at(1, page), page);
    }
}
