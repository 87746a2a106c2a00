//! Reads from a few hundred bytes of a provider's file whether dlopen would accept it, and which provider
//! ABI it imports.
//!
//! This costs a small part of a dlopen and checks less. When the file cannot be understood, the caller
//! calls dlopen, which decides. Format: System V ABI, "ELF Header" and "Program Header"; Linux Standard
//! Base, "Symbol Versioning".

/// Access to the bytes of a file.
pub trait ReadAt {
    /// Fills `buf` with the bytes from `offset` on. `None` if the file ends before, or cannot be read.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Option<()>;
}

const HEADER_LEN: usize = 64;
const PROGRAM_HEADER_LEN: usize = 56;
const PROGRAM_HEADERS_MAX: u16 = 64;
const DYNAMIC_LEN: usize = 16;
/// Limits of the dynamic entries, of the needed libraries and of their versions. No provider has nearly
/// as many; a file with more is left to dlopen.
const ENTRIES_MAX: u64 = 1024;
/// The limit of the string table, in bytes. That of libmlx5 has 20 KB.
const STRINGS_MAX: u64 = 1 << 20;

const ET_DYN: u16 = 3;
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_STRTAB: u64 = 5;
const DT_STRSZ: u64 = 10;
const DT_VERNEED: u64 = 0x6fff_fffe;
const DT_VERNEEDNUM: u64 = 0x6fff_ffff;
const DT_FLAGS_1: u64 = 0x6fff_fffb;
/// Marks a position-independent executable, which has the type ET_DYN too but which dlopen rejects.
const DF_1_PIE: u64 = 0x0800_0000;

/// The identification of files for this machine's dynamic linker: 64 bits, native byte order, version 1.
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
    0 // Unknown machine: no file passes, so each is dlopened.
};

/// What a complete shared object for this machine imports from libibverbs.
#[derive(Debug, PartialEq, Eq)]
pub struct Imports {
    /// The provider ABI that it was built for.
    pub abi: Abi,
    /// The file offset and the length in bytes of the table with all names that the file imports and
    /// exports.
    strings: (u64, u64),
}

/// The version nodes IBVERBS_PRIVATE_* that a file needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abi {
    /// None: the file is no provider, or its libibverbs had no symbol versions.
    None,
    /// The one of this number.
    One(u32),
    /// More than one.
    Several,
}

impl Imports {
    /// Whether one of `names`, of symbols or symbol versions, is among those that the file imports and
    /// exports. False if the names cannot be read.
    pub fn mention(&self, file: &impl ReadAt, names: &[&[u8]]) -> bool {
        let (at, len) = self.strings;
        let mut table = vec![0; len.min(STRINGS_MAX) as usize];
        // Tables share the ends of names, so a name may begin within a longer one.
        file.read_at(at, &mut table).is_some()
            && table
                .split(|&c| c == 0)
                .any(|string| names.iter().any(|name| string.ends_with(name)))
    }
}

/// What the file imports; `None` if it is no complete shared object for this machine, or is not understood.
pub fn imports(file: &impl ReadAt) -> Option<Imports> {
    let mut header = [0; HEADER_LEN];
    file.read_at(0, &mut header)?;
    let matches = header.starts_with(&IDENT)
        && u16_at(&header, 16)? == ET_DYN
        && u16_at(&header, 18)? == MACHINE
        && usize::from(u16_at(&header, 54)?) == PROGRAM_HEADER_LEN;
    let (at, count) = (u64_at(&header, 32)?, u16_at(&header, 56)?);
    if !matches || count == 0 || count > PROGRAM_HEADERS_MAX {
        return None;
    }

    let mut segments = Segments::default();
    let mut end = 0;
    for index in 0..u64::from(count) {
        let mut header = [0; PROGRAM_HEADER_LEN];
        file.read_at(
            at.checked_add(index * PROGRAM_HEADER_LEN as u64)?,
            &mut header,
        )?;
        let segment = Segment {
            address: u64_at(&header, 16)?,
            offset: u64_at(&header, 8)?,
            size: u64_at(&header, 32)?,
        };
        end = end.max(segment.offset.checked_add(segment.size)?);
        match u32_at(&header, 0)? {
            PT_LOAD => segments.load.push(segment),
            PT_DYNAMIC => segments.dynamic = Some(segment),
            _ => {}
        }
    }
    needed(file, &segments, end)
}

#[derive(Default)]
struct Segments {
    load: Vec<Segment>,
    dynamic: Option<Segment>,
}

struct Segment {
    address: u64,
    offset: u64,
    size: u64,
}

impl Segments {
    /// The file offset of a virtual address.
    fn offset(&self, address: u64) -> Option<u64> {
        self.load.iter().find_map(|segment| {
            let at = address.checked_sub(segment.address)?;
            (at < segment.size)
                .then(|| segment.offset.checked_add(at))
                .flatten()
        })
    }
}

/// The parts of the dynamic section that name the needed symbol versions.
#[derive(Default)]
struct Dynamic {
    /// File offset of the string table.
    strings: Option<u64>,
    /// The length of the string table.
    strings_len: u64,
    /// File offset of the first needed library's entry.
    needs: Option<u64>,
    /// How many libraries are needed in some version.
    need_count: u64,
}

/// Reads the dynamic section; `None` for an executable.
fn dynamic(file: &impl ReadAt, segments: &Segments) -> Option<Dynamic> {
    let section = segments.dynamic.as_ref()?;
    let mut dynamic = Dynamic::default();
    for index in 0..(section.size / DYNAMIC_LEN as u64).min(ENTRIES_MAX) {
        let mut entry = [0; DYNAMIC_LEN];
        file.read_at(
            section.offset.checked_add(index * DYNAMIC_LEN as u64)?,
            &mut entry,
        )?;
        let value = u64_at(&entry, 8)?;
        match u64_at(&entry, 0)? {
            0 => break,
            DT_STRTAB => dynamic.strings = segments.offset(value),
            DT_STRSZ => dynamic.strings_len = value,
            DT_VERNEED => dynamic.needs = segments.offset(value),
            DT_VERNEEDNUM => dynamic.need_count = value,
            DT_FLAGS_1 if value & DF_1_PIE != 0 => return None,
            _ => {}
        }
    }
    Some(dynamic)
}

/// The provider ABIs among the symbol versions that the file needs (DT_VERNEED). `end` is the file offset
/// at which its last segment ends.
fn needed(file: &impl ReadAt, segments: &Segments, end: u64) -> Option<Imports> {
    let dynamic = dynamic(file, segments)?;
    // A file without the last byte of its last segment is truncated. That byte is usually near the
    // dynamic section, so the chunk that was just read often contains it.
    file.read_at(end.checked_sub(1)?, &mut [0])?;
    let (strings, mut at) = (dynamic.strings?, dynamic.needs?);
    let mut abi = Abi::None;
    let mut versions = 0;
    for _ in 0..dynamic.need_count.min(ENTRIES_MAX) {
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
            if let Some(number) = name.strip_prefix(b"IBVERBS_PRIVATE_") {
                abi = abi.and(core::str::from_utf8(number).ok()?.parse().ok()?);
            }
            version_at = version_at.checked_add(u32_at(&version, 12)?.into())?;
        }
        at = at.checked_add(u32_at(&need, 12)?.into())?;
    }
    Some(Imports {
        abi,
        strings: (strings, dynamic.strings_len),
    })
}

impl Abi {
    /// With the node of the number `number` besides.
    fn and(self, number: u32) -> Self {
        match self {
            Abi::None => Abi::One(number),
            Abi::One(same) if same == number => self,
            _ => Abi::Several,
        }
    }
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

    fn installed() -> Vec<Vec<u8>> {
        let dir = std::fs::read_dir("/usr/lib/x86_64-linux-gnu/libibverbs")
            .into_iter()
            .flatten();
        dir.map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
            .collect()
    }

    fn abi(file: &Vec<u8>) -> Option<Abi> {
        imports(file).map(|imports| imports.abi)
    }

    #[test]
    fn the_distributions_providers_are_understood() {
        for provider in installed() {
            assert_eq!(abi(&provider), Some(Abi::One(34)));
            let imports = imports(&provider).unwrap();
            assert!(imports.mention(&provider, &[b"no such name", b"verbs_set_ops"]));
            assert!(!imports.mention(&provider, &[b"verbs_set_op", b"no such name"]));
        }
    }

    #[test]
    fn several_abis_are_distinguished_from_one() {
        assert_eq!(Abi::None.and(34).and(34), Abi::One(34));
        assert_eq!(Abi::None.and(34).and(57).and(34), Abi::Several);
    }

    #[test]
    fn other_files_are_not() {
        assert_eq!(abi(&vec![]), None);
        assert_eq!(abi(&b"#!/bin/sh\n".repeat(100)), None);
        let myself = std::fs::read("/proc/self/exe").unwrap();
        assert_eq!(abi(&myself), None, "a program");
        assert_eq!(abi(&myself[..100].to_vec()), None);
        for mut provider in installed().into_iter().take(1) {
            provider.truncate(provider.len() / 2);
            assert_eq!(abi(&provider), None, "cut in half");
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
                assert_eq!(abi(&other), None, "{what}");
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
                if let Some(imports) = imports(&provider) {
                    imports.mention(&provider, &[b"x"]);
                }
            }
        }
    }
}
