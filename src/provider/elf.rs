//! Reads from a few hundred bytes of a provider's file whether dlopen would accept it, and which provider
//! ABI it imports.
//!
//! This costs a small part of a dlopen and checks less. When the file cannot be understood, the caller
//! calls dlopen, which decides. Format: System V ABI, "ELF Header" and "Program Header"; Linux Standard
//! Base, "Symbol Versioning".

use arrayvec::ArrayVec;

use crate::arch::ELF_MACHINE;

/// Access to the bytes of a file.
pub trait ReadAt {
    /// The `len` bytes from `offset` on. `None` if the file ends before, or cannot be read.
    fn bytes(&mut self, offset: u64, len: usize) -> Option<&[u8]>;
}

const HEADER_LEN: usize = 64;
const PROGRAM_HEADER_LEN: usize = 56;
const PROGRAM_HEADERS_MAX: u16 = 64;
/// Limits of the loaded segments, of the dynamic entries, of the needed libraries and of their versions.
/// No provider has nearly as many; a file with more is left to dlopen.
const SEGMENTS_MAX: usize = 16;
const ENTRIES_MAX: u64 = 1024;
const DYNAMIC_LEN: u64 = 16;
/// The bytes of a version reference (Elf64_Verneed) and of one version in it (Elf64_Vernaux).
const VERNEED_LEN: usize = 16;
/// More than the longest name IBVERBS_PRIVATE_* has.
const NAME_LEN: usize = 32;
/// The limit of the string table, in bytes. That of libmlx5 has 20 KB.
const STRINGS_MAX: u64 = 1 << 20;
/// How far the version references may be from the end of the string table to be read with it, in bytes.
const STRINGS_NEAR: u64 = 4096;

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

/// The identification of files for this machine's dynamic linker: 64 bits, little-endian, version 1.
const IDENT: [u8; 7] = *b"\x7fELF\x02\x01\x01";

/// The imports from libibverbs of a complete shared object for this machine.
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
    /// The file imports this one ABI.
    One(u32),
    /// More than one.
    Several,
}

impl Imports {
    /// Whether one of `names`, of symbols or symbol versions, is among those that the file imports and
    /// exports. False if the names cannot be read.
    pub fn mention(&self, file: &mut impl ReadAt, names: &[&[u8]]) -> bool {
        let (at, len) = self.strings;
        // Tables share the ends of names, so a name may begin within a longer one.
        file.bytes(at, len.min(STRINGS_MAX) as usize)
            .is_some_and(|table| {
                table
                    .split(|&c| c == 0)
                    .any(|string| names.iter().any(|name| string.ends_with(name)))
            })
    }
}

/// Reads what the file imports; `None` if it is no complete shared object for this machine, or is
/// not understood.
pub fn imports(file: &mut impl ReadAt) -> Option<Imports> {
    let header = file.bytes(0, HEADER_LEN)?;
    let matches = header.starts_with(&IDENT)
        && u16_at(header, 16)? == ET_DYN
        && u16_at(header, 18)? == ELF_MACHINE
        && usize::from(u16_at(header, 54)?) == PROGRAM_HEADER_LEN;
    let (at, count) = (u64_at(header, 32)?, u16_at(header, 56)?);
    if !matches || count == 0 || count > PROGRAM_HEADERS_MAX {
        return None;
    }
    let headers = file.bytes(at, usize::from(count) * PROGRAM_HEADER_LEN)?;
    let segments = Segments::read(headers)?;
    needed(file, &segments)
}

/// The segments that the program headers name.
#[derive(Default)]
struct Segments {
    load: ArrayVec<LoadSegment, SEGMENTS_MAX>,
    dynamic: Option<LoadSegment>,
    /// The file offset at which the last segment ends.
    end: u64,
}

#[derive(Clone, Copy)]
struct LoadSegment {
    address: u64,
    offset: u64,
    size: u64,
}

impl Segments {
    fn read(headers: &[u8]) -> Option<Self> {
        let mut segments = Segments::default();
        for header in headers.chunks_exact(PROGRAM_HEADER_LEN) {
            let segment = LoadSegment {
                address: u64_at(header, 16)?,
                offset: u64_at(header, 8)?,
                size: u64_at(header, 32)?,
            };
            let end = segment.offset.checked_add(segment.size)?;
            segments.end = segments.end.max(end);
            match u32_at(header, 0)? {
                PT_LOAD => segments.load.try_push(segment).ok()?,
                PT_DYNAMIC => segments.dynamic = Some(segment),
                _ => {}
            }
        }
        Some(segments)
    }

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

impl Dynamic {
    /// Reads the version references and the names of the versions at once, which GNU ld writes at the end of
    /// the string table, shortly before. Without this the two would be read in turn. Nothing depends on it.
    fn read_versions(&self, file: &mut impl ReadAt) {
        const NAMES: u64 = 256;
        const REFERENCES: u64 = 256;
        let start = self
            .strings
            .and_then(|strings| strings.checked_add(self.strings_len)?.checked_sub(NAMES));
        let distance = self.needs.zip(start).and_then(|(needs, start)| {
            let distance = needs.checked_sub(start)?;
            (distance < STRINGS_NEAR).then_some(distance)
        });
        if let Some((start, distance)) = start.zip(distance) {
            file.bytes(start, (distance + REFERENCES) as usize);
        }
    }
}

/// Reads the dynamic section; `None` for an executable.
fn dynamic(file: &mut impl ReadAt, segments: &Segments) -> Option<Dynamic> {
    let section = segments.dynamic?;
    let len = section.size.min(ENTRIES_MAX * DYNAMIC_LEN) as usize;
    let mut dynamic = Dynamic::default();
    for entry in file
        .bytes(section.offset, len)?
        .chunks_exact(DYNAMIC_LEN as usize)
    {
        let value = u64_at(entry, 8)?;
        match u64_at(entry, 0)? {
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

/// The provider ABIs among the symbol versions that the file needs (DT_VERNEED).
fn needed(file: &mut impl ReadAt, segments: &Segments) -> Option<Imports> {
    let dynamic = dynamic(file, segments)?;
    // A file without the last byte of its last segment is truncated. That byte is usually near the
    // dynamic section, so the chunk that was just read often contains it.
    file.bytes(segments.end.checked_sub(1)?, 1)?;
    let (strings, mut at) = (dynamic.strings?, dynamic.needs?);
    dynamic.read_versions(file);
    let mut abi = Abi::None;
    let mut versions = 0;
    for _ in 0..dynamic.need_count.min(ENTRIES_MAX) {
        let need = file.bytes(at, VERNEED_LEN)?;
        let count = u16_at(need, 2)?;
        let mut version_at = at.checked_add(u32_at(need, 8)?.into())?;
        at = at.checked_add(u32_at(need, 12)?.into())?;
        for _ in 0..count {
            versions += 1;
            if versions > ENTRIES_MAX {
                return None;
            }
            let version = file.bytes(version_at, VERNEED_LEN)?;
            let name_at = strings.checked_add(u32_at(version, 8)?.into())?;
            version_at = version_at.checked_add(u32_at(version, 12)?.into())?;
            let name = file.bytes(name_at, NAME_LEN)?;
            if let Some(number) = name.strip_prefix(b"IBVERBS_PRIVATE_") {
                let number = number.split(|&c| c == 0).next()?;
                abi = abi.and(core::str::from_utf8(number).ok()?.parse().ok()?);
            }
        }
    }
    Some(Imports {
        abi,
        strings: (strings, dynamic.strings_len),
    })
}

impl Abi {
    /// Adds the node of the number `number`.
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
        fn bytes(&mut self, offset: u64, len: usize) -> Option<&[u8]> {
            self.get(usize::try_from(offset).ok()?..)?.get(..len)
        }
    }

    fn installed() -> Vec<Vec<u8>> {
        let dir = std::fs::read_dir(concat!("/usr/lib/", multiarch!(), "/libibverbs"))
            .into_iter()
            .flatten();
        dir.map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
            .collect()
    }

    fn abi(file: &[u8]) -> Option<Abi> {
        imports(&mut file.to_vec()).map(|imports| imports.abi)
    }

    #[test]
    fn the_distributions_providers_are_understood() {
        for mut provider in installed() {
            assert_eq!(abi(&provider), Some(Abi::One(34)));
            let imports = imports(&mut provider).unwrap();
            assert!(imports.mention(&mut provider, &[b"no such name", b"verbs_set_ops"]));
            assert!(!imports.mention(&mut provider, &[b"verbs_set_op", b"no such name"]));
        }
    }

    #[test]
    fn several_abis_are_distinguished_from_one() {
        assert_eq!(Abi::None.and(34).and(34), Abi::One(34));
        assert_eq!(Abi::None.and(34).and(57).and(34), Abi::Several);
    }

    #[test]
    fn other_files_are_not() {
        assert_eq!(abi(&[]), None);
        assert_eq!(abi(&b"#!/bin/sh\n".repeat(100)), None);
        let myself = std::fs::read("/proc/self/exe").unwrap();
        assert_eq!(abi(&myself), None, "a program");
        assert_eq!(abi(&myself[..100]), None);
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
                if let Some(imports) = imports(&mut provider) {
                    imports.mention(&mut provider, &[b"x"]);
                }
            }
        }
    }
}
