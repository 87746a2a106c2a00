//! Whether dlopen would take a provider's file, told from a few hundred bytes of it.
//!
//! Meant to be cheaper than dlopen by far, not to be as thorough: "no" and "don't know" make the
//! caller ask dlopen. Format: System V ABI, "ELF header", "Program header", and the LSB's "Symbol
//! versioning".

/// A file's bytes.
pub trait ReadAt {
    /// Fills `buf` from `offset` on; `None` if the file ends before, or cannot be read.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Option<()>;
}

const HEADER_LEN: usize = 64;
const PROGRAM_HEADER_LEN: usize = 56;
const PROGRAM_HEADERS_MAX: u16 = 64;
const DYNAMIC_LEN: usize = 16;
/// Far more than any provider has, of dynamic entries, of needed libraries and of their versions.
const ENTRIES_MAX: u64 = 1024;

const ET_DYN: u16 = 3;
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_STRTAB: u64 = 5;
const DT_VERNEED: u64 = 0x6fff_fffe;
const DT_VERNEEDNUM: u64 = 0x6fff_ffff;
const DT_FLAGS_1: u64 = 0x6fff_fffb;
/// A program that calls itself a shared object, which dlopen does not take.
const DF_1_PIE: u64 = 0x0800_0000;

/// The identification that this program's own loader takes: 64 bits, this byte order, version 1.
const IDENT: [u8; 7] = [
    0x7f,
    b'E',
    b'L',
    b'F',
    2,
    if cfg!(target_endian = "little") { 1 } else { 2 },
    1,
];

const MACHINE: u16 = if cfg!(target_arch = "x86_64") {
    62
} else if cfg!(target_arch = "aarch64") {
    183
} else if cfg!(target_arch = "riscv64") {
    243
} else if cfg!(target_arch = "loongarch64") {
    258
} else if cfg!(target_arch = "powerpc64") {
    21
} else if cfg!(target_arch = "s390x") {
    22
} else {
    0 // Not known, so no file passes, and each is dlopened.
};

/// Whether the file is a whole shared object for this machine that needs no other provider ABI of
/// libibverbs than `abi` (`IBVERBS_PRIVATE_34`).
pub fn is_provider(file: &impl ReadAt, abi: &[u8]) -> bool {
    check(file, abi).unwrap_or(false)
}

fn check(file: &impl ReadAt, abi: &[u8]) -> Option<bool> {
    let mut header = [0; HEADER_LEN];
    file.read_at(0, &mut header)?;
    let right = header.starts_with(&IDENT)
        && u16_at(&header, 16)? == ET_DYN
        && u16_at(&header, 18)? == MACHINE
        && usize::from(u16_at(&header, 54)?) == PROGRAM_HEADER_LEN;
    let (at, count) = (u64_at(&header, 32)?, u16_at(&header, 56)?);
    if !right || count == 0 || count > PROGRAM_HEADERS_MAX {
        return None;
    }

    let mut segments = Segments::default();
    let mut end = 0;
    for index in 0..u64::from(count) {
        let mut segment = [0; PROGRAM_HEADER_LEN];
        file.read_at(
            at.checked_add(index * PROGRAM_HEADER_LEN as u64)?,
            &mut segment,
        )?;
        let (offset, size) = (u64_at(&segment, 8)?, u64_at(&segment, 32)?);
        let part = Part {
            address: u64_at(&segment, 16)?,
            offset,
            size,
        };
        end = end.max(offset.checked_add(size)?);
        match u32_at(&segment, 0)? {
            PT_LOAD => segments.load.push(part),
            PT_DYNAMIC => segments.dynamic = Some(part),
            _ => {}
        }
    }
    needs_only(file, &segments, end, abi)
}

#[derive(Default)]
struct Segments {
    load: Vec<Part>,
    dynamic: Option<Part>,
}

struct Part {
    address: u64,
    offset: u64,
    size: u64,
}

impl Segments {
    /// Where in the file an address is.
    fn offset(&self, address: u64) -> Option<u64> {
        self.load.iter().find_map(|part| {
            let at = address.checked_sub(part.address)?;
            (at < part.size)
                .then(|| part.offset.checked_add(at))
                .flatten()
        })
    }
}

/// Walks the versions that the file needs of its libraries (DT_VERNEED).
/// `end` is the end of what the loader maps of the file.
fn needs_only(file: &impl ReadAt, segments: &Segments, end: u64, abi: &[u8]) -> Option<bool> {
    let dynamic = segments.dynamic.as_ref()?;
    let (mut strings, mut needs, mut count) = (None, None, 0);
    for index in 0..(dynamic.size / DYNAMIC_LEN as u64).min(ENTRIES_MAX) {
        let mut entry = [0; DYNAMIC_LEN];
        file.read_at(
            dynamic.offset.checked_add(index * DYNAMIC_LEN as u64)?,
            &mut entry,
        )?;
        let value = u64_at(&entry, 8)?;
        match u64_at(&entry, 0)? {
            0 => break,
            DT_STRTAB => strings = segments.offset(value),
            DT_VERNEED => needs = segments.offset(value),
            DT_VERNEEDNUM => count = value,
            DT_FLAGS_1 if value & DF_1_PIE != 0 => return None,
            _ => {}
        }
    }
    // The last byte of what is mapped: it is there, or the file was cut. Asked now, for it lies near the
    // dynamic section, which has just been read.
    file.read_at(end.checked_sub(1)?, &mut [0])?;
    let (strings, mut at) = (strings?, needs?);
    let mut versions = 0;
    for _ in 0..count.min(ENTRIES_MAX) {
        let mut need = [0; 16];
        file.read_at(at, &mut need)?;
        let mut version_at = at.checked_add(u32_at(&need, 8)?.into())?;
        for _ in 0..u16_at(&need, 2)? {
            versions += 1;
            if versions > ENTRIES_MAX {
                return None;
            }
            let mut version = [0; 16];
            file.read_at(version_at, &mut version)?;
            let mut name = [0; 32];
            let name_at = strings.checked_add(u32_at(&version, 8)?.into())?;
            file.read_at(name_at, &mut name)?;
            let name = name.split(|&c| c == 0).next()?;
            if name.starts_with(b"IBVERBS_PRIVATE_") && name != abi {
                return Some(false);
            }
            version_at = version_at.checked_add(u32_at(&version, 12)?.into())?;
        }
        at = at.checked_add(u32_at(&need, 12)?.into())?;
    }
    Some(true)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl ReadAt for Vec<u8> {
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Option<()> {
            let rest = self.get(usize::try_from(offset).ok()?..)?;
            buf.copy_from_slice(rest.get(..buf.len())?);
            Some(())
        }
    }

    const ABI: &[u8] = b"IBVERBS_PRIVATE_34";

    fn installed() -> Vec<Vec<u8>> {
        let dir = std::fs::read_dir(super::super::PROVIDER_DIR)
            .into_iter()
            .flatten();
        dir.map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
            .collect()
    }

    #[test]
    fn the_distributions_providers_pass() {
        for provider in installed() {
            assert!(is_provider(&provider, ABI));
            assert!(!is_provider(&provider, b"IBVERBS_PRIVATE_57"));
        }
    }

    #[test]
    fn other_files_do_not() {
        assert!(!is_provider(&vec![], ABI));
        assert!(!is_provider(&b"#!/bin/sh\n".repeat(100), ABI));
        let myself = std::fs::read("/proc/self/exe").unwrap();
        assert!(!is_provider(&myself, ABI), "a program");
        assert!(!is_provider(&myself[..100].to_vec(), ABI));
        for mut provider in installed().into_iter().take(1) {
            provider.truncate(provider.len() / 2);
            assert!(!is_provider(&provider, ABI), "cut in half");
        }
        for provider in installed().into_iter().take(1) {
            for (at, what) in [
                (4, "class"),
                (5, "byte order"),
                (16, "type"),
                (18, "machine"),
            ] {
                let mut other = provider.clone();
                other[at] ^= 3;
                assert!(!is_provider(&other, ABI), "{what}");
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn takes_any_damage(at in 0_usize..4096, to: u8, cut in 0_usize..100_000) {
            for mut provider in installed().into_iter().take(1) {
                let len = provider.len();
                provider[at % len] = to;
                provider.truncate(len - cut % len);
                is_provider(&provider, ABI);
            }
        }
    }
}
