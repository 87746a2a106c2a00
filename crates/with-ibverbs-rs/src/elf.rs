//! ELF headers and symbol versions. Only the parts that are needed are read from a file, because programs
//! may be large and this runs before each of them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::elf::{DF_1_PIE, DT_FLAGS_1, ET_DYN, FileHeader32, FileHeader64, SHT_DYNSYM};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionTable, Sym};
use object::{Endianness, FileKind, ReadCache};

/// How the kernel starts an ELF file.
#[derive(Debug, PartialEq)]
pub enum Kind {
    /// The program has this dynamic linker (PT_INTERP).
    Dynamic(PathBuf),
    /// Without a dynamic linker.
    Static,
    /// The file is a shared library. The dynamic linker itself is of this kind, too.
    Library,
}

/// Word size and instruction set.
#[derive(Debug, PartialEq)]
pub struct Machine {
    pub bits: u8,
    pub number: u16,
}

pub struct Elf {
    pub machine: Machine,
    pub kind: Kind,
}

type Data<'a> = &'a ReadCache<File>;

/// None if the file cannot be read or is not an ELF file.
pub fn inspect(path: &Path) -> Option<Elf> {
    let data = ReadCache::new(File::open(path).ok()?);
    match FileKind::parse(&data).ok()? {
        FileKind::Elf32 => headers::<FileHeader32<Endianness>>(&data, 32),
        FileKind::Elf64 => headers::<FileHeader64<Endianness>>(&data, 64),
        _ => None,
    }
}

fn headers<'a, H: FileHeader<Endian = Endianness>>(data: Data<'a>, bits: u8) -> Option<Elf> {
    let header = H::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let machine = Machine {
        bits,
        number: header.e_machine(endian),
    };
    Some(Elf {
        machine,
        kind: kind(header, endian, data)?,
    })
}

fn kind<'a, H: FileHeader<Endian = Endianness>>(
    header: &'a H,
    endian: Endianness,
    data: Data<'a>,
) -> Option<Kind> {
    let mut library = false;
    for segment in header.program_headers(endian, data).ok()? {
        if let Ok(Some(path)) = segment.interpreter(endian, data) {
            return Some(Kind::Dynamic(OsStr::from_bytes(path).into()));
        }
        if let Ok(Some(entries)) = segment.dynamic(endian, data) {
            library = header.e_type(endian) == ET_DYN
                && !position_independent_program::<H>(entries, endian);
        }
    }
    Some(if library { Kind::Library } else { Kind::Static })
}

/// Static position-independent programs have the type of libraries, ET_DYN, but also the flag DF_1_PIE.
fn position_independent_program<H: FileHeader<Endian = Endianness>>(
    entries: &[H::Dyn],
    endian: Endianness,
) -> bool {
    entries.iter().any(|entry| {
        entry.tag32(endian) == Some(DT_FLAGS_1)
            && entry
                .val32(endian)
                .is_some_and(|flags| flags & DF_1_PIE != 0)
    })
}

/// Symbols of libibverbs: the version, such as `IBVERBS_PRIVATE_34`, and the name.
pub type Symbols = BTreeSet<(String, String)>;

/// The symbols that a library or a program needs from others. None if the file cannot be read.
pub fn wanted_symbols(path: &Path) -> Option<Symbols> {
    symbols(path, true)
}

/// The symbols that a library defines. None if the file cannot be read.
pub fn defined_symbols(path: &Path) -> Option<Symbols> {
    symbols(path, false)
}

/// The versions of the symbols that are wanted and not defined, each once. A version may be there with some
/// of its symbols only.
pub fn missing_versions(wanted: &Symbols, defined: &Symbols) -> Vec<String> {
    let missing = wanted.difference(defined).map(|(version, _)| version);
    missing
        .cloned()
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

fn symbols(path: &Path, undefined: bool) -> Option<Symbols> {
    with_sections(path, |sections, endian, data| {
        let mut found = Symbols::new();
        let versions = sections.versions(endian, data).ok()??;
        let table = sections.symbols(endian, data, SHT_DYNSYM).ok()?;
        for (index, symbol) in table.enumerate() {
            let version = versions.version(versions.version_index(endian, index));
            let Some(version) = version.ok()?.map(|version| version.name()) else {
                continue;
            };
            if symbol.is_undefined(endian) == undefined && version.starts_with(b"IBVERBS_") {
                let name = table.symbol_name(endian, symbol).ok()?;
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                found.insert((text(version), text(name)));
            }
        }
        Some(found)
    })
}

type Sections<'a> = SectionTable<'a, FileHeader64<Endianness>, Data<'a>>;

fn with_sections<T>(
    path: &Path,
    f: impl for<'a> FnOnce(&Sections<'a>, Endianness, Data<'a>) -> Option<T>,
) -> Option<T> {
    let data = ReadCache::new(File::open(path).ok()?);
    let data = &data;
    let header = FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    f(&header.sections(endian, data).ok()?, endian, data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_is_there_with_other_symbols_is_missing() {
        let symbols = |list: &[(&str, &str)]| -> Symbols {
            let own = |(version, name): &(&str, &str)| (version.to_string(), name.to_string());
            list.iter().map(own).collect()
        };
        let defined = symbols(&[("P_33", "query"), ("P_34", "query"), ("P_34", "register")]);
        let missing = |list| missing_versions(&symbols(list), &defined);
        assert!(missing(&[("P_33", "query"), ("P_34", "register")]).is_empty());
        assert_eq!(
            missing(&[("P_33", "register"), ("P_33", "query"), ("P_33", "set")]),
            ["P_33"]
        );
    }

    #[test]
    fn this_test_is_a_dynamic_program_and_text_is_none() {
        let elf = inspect(&std::env::current_exe().unwrap()).unwrap();
        assert_eq!(elf.machine.bits, 64);
        assert!(matches!(elf.kind, Kind::Dynamic(ld) if ld.to_str().unwrap().contains("ld-linux")));
        assert!(inspect(Path::new("/etc/passwd")).is_none());
        assert!(inspect(Path::new("/nowhere")).is_none());
    }
}
