//! Page sizes: of the base page, and of the page at an address, which may be a huge page.

use ibverbs_abi::Errno;
use libc::{EINVAL, c_void};
use std::fs::File;
use std::io::{BufRead, BufReader};

/// Address bits per level of the page table: 1 << 9 pages are the next page size.
const LEVEL: u32 = 9;

/// The base page size in bytes; None if sysconf(3) does not report it.
pub fn base() -> Option<usize> {
    // SAFETY: sysconf takes and returns an integer.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) })
        .ok()
        .filter(|n| n.is_power_of_two())
}

/// The size in bytes of the kernel's page at `address`; `page`, the base page size, if the address is not
/// mapped or the size is unknown.
///
/// Reading /proc/self/smaps takes milliseconds in a large process, because the kernel walks the page
/// tables of all lower mappings first. So it is read only where [`probe`] finds no huge page.
pub fn at(address: usize, page: usize) -> usize {
    if let Some(size) = probe(address, page) {
        return size;
    }
    match File::open("/proc/self/smaps") {
        Ok(file) => find(BufReader::new(file), address).unwrap_or(page),
        Err(_) => page,
    }
}

/// The size in bytes of the hugetlbfs page around `address`. None if there is none, on kernels before
/// 5.16, and for pages of a DAX device, to which other rules apply.
///
/// mremap(2) of one base page to its own size changes nothing. In a hugetlbfs mapping it fails with EINVAL
/// unless the address is the beginning of a huge page. So the kernel answers for the present mapping.
fn probe(address: usize, page: usize) -> Option<usize> {
    let in_huge_page = |size: usize| {
        // A multiple of `size` that is not the beginning of a larger page, and lies in the same larger page
        // as `address`.
        let place = address & !(size - 1);
        let place = match place & ((size << LEVEL) - 1) {
            0 => place.wrapping_add(size),
            _ => place,
        };
        // SAFETY: without flags the mapping does not move, and with its old size it does not change.
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

/// The KernelPageSize of the mapping around `address`, in bytes, from the text of smaps.
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

/// Start and end address in the first line of a mapping: `START-END PERMISSIONS ...`.
fn mapping(line: &[u8]) -> Option<(usize, usize)> {
    let dash = line.iter().position(|&c| c == b'-')?;
    let (start, rest) = line.split_at(dash);
    let rest = rest.get(1..)?;
    let end = rest.get(..rest.iter().position(|&c| c == b' ')?)?;
    let hex = |digits| usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    Some((hex(start)?, hex(end)?))
}

/// The number in front of `kB`.
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
