//! The C side: gcc compiles the headers, and the layouts come from its debug information, so that every
//! struct, field and enumerator is compared without a list that could miss one.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use gimli::{
    AttributeValue, DW_AT_bit_size, DW_AT_byte_size, DW_AT_const_value, DW_AT_count,
    DW_AT_data_bit_offset, DW_AT_data_member_location, DW_AT_decl_file, DW_AT_declaration,
    DW_AT_name, DW_AT_type, DW_AT_upper_bound, DW_TAG_array_type, DW_TAG_enumeration_type,
    DW_TAG_enumerator, DW_TAG_member, DW_TAG_structure_type, DW_TAG_subrange_type,
    DW_TAG_union_type, DwAt, DwTag, EndianSlice, LittleEndian, UnitOffset,
};
use object::{Object, ObjectSection};

type Reader<'a> = EndianSlice<'a, LittleEndian>;
type Entry<'a, 'b> = gimli::DebuggingInformationEntry<'a, 'b, Reader<'b>>;

#[derive(Debug, Default)]
pub struct CStruct {
    pub union: bool,
    pub size: usize,
    /// Path of each field (`op.tso.mss`, without anonymous members), offset, size.
    pub members: BTreeMap<String, (usize, usize)>,
    /// Bit-fields: path, and index of the bit in the struct.
    pub bits: BTreeMap<String, usize>,
}

#[derive(Debug, Default)]
pub struct Headers {
    pub structs: BTreeMap<String, CStruct>,
    pub enumerators: BTreeMap<String, i128>,
    pub macros: BTreeMap<String, i128>,
}

/// Only declarations in these directories are compared; the others are libc's.
fn is_ours(file: &str) -> bool {
    ["/infiniband/", "/rdma/", "/kernel-abi/"]
        .iter()
        .any(|dir| file.contains(dir))
}

/// Reads `headers` from `include` or gcc's search path. `wanted` gets a macro's name and whether it is a
/// plain number, and returns whether to evaluate it.
pub fn read(
    name: &str,
    include: Option<&Path>,
    headers: &[&str],
    wanted: &dyn Fn(&str, bool) -> bool,
) -> Headers {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&dir).expect("the test's directory can be made");
    let includes: String = headers
        .iter()
        .map(|h| format!("#include <{h}>\n"))
        .collect();
    let prologue = format!("#define _GNU_SOURCE\n#include <linux/netlink.h>\n{includes}");

    let source = dir.join("headers.c");
    write(&source, &prologue);
    let expanded = run(gcc(include).args(["-E", "-dD"]).arg(&source));
    let macros = number_macros(&expanded, wanted);

    let mut program = format!("{prologue}#include <stdio.h>\nint main(void)\n{{\n");
    for name in &macros {
        program += &format!("\tprintf(\"{name} %lld\\n\", (long long)({name}));\n");
    }
    program += "\treturn 0;\n}\n";
    let source = dir.join("program.c");
    let binary = dir.join("program");
    write(&source, &program);
    run(gcc(include)
        .args(["-g", "-gz=none", "-fno-eliminate-unused-debug-types"])
        .arg("-Wl,--unresolved-symbols=ignore-all")
        .args([&source, Path::new("-o"), &binary]));

    let mut found = Headers::default();
    for line in run(&mut of_target(&binary)).lines() {
        let (name, value) = line.split_once(' ').expect("name and value");
        found
            .macros
            .insert(name.into(), value.parse().expect("a number"));
    }
    let binary = fs::read(&binary).expect("gcc has written the program");
    read_dwarf(&binary, &mut found).expect("gcc writes debug information that can be read");
    found
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// A program that gcc has compiled. For another machine, RUN_WITH names an emulator.
fn of_target(binary: &Path) -> Command {
    match env::var_os("RUN_WITH") {
        None => Command::new(binary),
        Some(emulator) => {
            let mut command = Command::new(emulator);
            command.arg(binary);
            command
        }
    }
}

/// gcc, or CC, which compiles for the machine that the test was built for.
fn gcc(include: Option<&Path>) -> Command {
    let mut gcc = Command::new(env::var_os("CC").unwrap_or_else(|| "gcc".into()));
    gcc.args(["-w", "-std=gnu11"]);
    if let Some(include) = include {
        gcc.arg("-I").arg(include);
    }
    gcc
}

/// Runs a command and returns its output. Fails the test, with all output, if the command fails.
pub fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}: run \"make deps\""));
    assert!(
        output.status.success(),
        "{command:?} failed ({}); if something is missing, run \"make deps\"\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("the output is UTF-8")
}

/// The macros of these headers that expand to a number, from `gcc -E -dD`.
fn number_macros(expanded: &str, wanted: &dyn Fn(&str, bool) -> bool) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut ours = false;
    for line in expanded.lines() {
        if let Some(marker) = line.strip_prefix("# ") {
            ours = marker.split('"').nth(1).is_some_and(is_ours);
        } else if let Some(rest) = line.strip_prefix("#define ").filter(|_| ours) {
            let (name, body) = rest.split_once(' ').unwrap_or((rest, ""));
            if !name.contains('(') && wanted(name, is_number(name, body)) {
                found.insert(name.to_owned());
            }
        } else if let Some(name) = line.strip_prefix("#undef ").filter(|_| ours) {
            found.remove(name);
        }
    }
    found
}

/// Whether a macro's text is an expression of numbers and other constants.
fn is_number(name: &str, body: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_constant = |w: &str| {
        w.starts_with(|c: char| c.is_ascii_digit()) || !w.contains(|c: char| c.is_ascii_lowercase())
    };
    let operators = body
        .chars()
        .filter(|c| !word(*c))
        .all(|c| " ()<>|&+-~*".contains(c));
    let mut words = body
        .split(|c| !word(c))
        .filter(|w| !w.is_empty())
        .peekable();
    is_constant(name) && operators && words.peek().is_some() && words.all(is_constant)
}

fn read_dwarf(binary: &[u8], found: &mut Headers) -> gimli::Result<()> {
    let file = object::File::parse(binary).expect("gcc writes ELF");
    let load = |id: gimli::SectionId| -> gimli::Result<Reader<'_>> {
        let data = file
            .section_by_name(id.name())
            .and_then(|s| s.data().ok())
            .unwrap_or(&[]);
        Ok(EndianSlice::new(data, LittleEndian))
    };
    let dwarf = gimli::Dwarf::load(load)?;
    let mut headers = dwarf.units();
    while let Some(header) = headers.next()? {
        let unit = Unit {
            unit: dwarf.unit(header)?,
            dwarf: &dwarf,
        };
        for at in unit.children(None)? {
            let entry = unit.unit.entry(at)?;
            if !is_ours(&unit.file_of(&entry)?) {
                continue;
            }
            let tag = entry.tag();
            let name = unit.name_of(&entry)?;
            if tag == DW_TAG_enumeration_type {
                unit.read_enumerators(at, &mut found.enumerators)?;
                continue;
            }
            let is_definition = is_struct(tag) && entry.attr(DW_AT_declaration)?.is_none();
            if let Some(name) = name.filter(|_| is_definition) {
                let mut read = CStruct {
                    union: tag == DW_TAG_union_type,
                    size: unit.size_of(at)?,
                    ..CStruct::default()
                };
                unit.read_members(at, "", 0, &mut read)?;
                found.structs.insert(name, read);
            }
        }
    }
    Ok(())
}

fn number(entry: &Entry<'_, '_>, attribute: DwAt) -> gimli::Result<Option<usize>> {
    Ok(entry
        .attr(attribute)?
        .and_then(|a| a.udata_value())
        .and_then(|v| usize::try_from(v).ok()))
}

fn is_struct(tag: DwTag) -> bool {
    tag == DW_TAG_structure_type || tag == DW_TAG_union_type
}

fn value_of(entry: &Entry<'_, '_>) -> gimli::Result<i128> {
    Ok(match entry.attr(DW_AT_const_value)? {
        Some(attribute) => match attribute.value() {
            AttributeValue::Sdata(value) => value.into(),
            _ => attribute
                .udata_value()
                .expect("an enumerator is an integer")
                .into(),
        },
        None => panic!("an enumerator without a value"),
    })
}

struct Unit<'b> {
    unit: gimli::Unit<Reader<'b>>,
    dwarf: &'b gimli::Dwarf<Reader<'b>>,
}

impl Unit<'_> {
    fn children(&self, at: Option<UnitOffset>) -> gimli::Result<Vec<UnitOffset>> {
        let mut tree = self.unit.entries_tree(at)?;
        let mut found = Vec::new();
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            found.push(child.entry().offset());
        }
        Ok(found)
    }

    fn string(&self, value: AttributeValue<Reader<'_>>) -> gimli::Result<String> {
        let value = match value {
            AttributeValue::String(text) => return Ok(text.to_string_lossy().into_owned()),
            AttributeValue::DebugStrRef(at) => self.dwarf.debug_str.get_str(at)?,
            AttributeValue::DebugLineStrRef(at) => self.dwarf.debug_line_str.get_str(at)?,
            other => panic!("a string of a form that gcc does not write: {other:?}"),
        };
        Ok(value.to_string_lossy().into_owned())
    }

    fn name_of(&self, entry: &Entry<'_, '_>) -> gimli::Result<Option<String>> {
        entry
            .attr_value(DW_AT_name)?
            .map(|value| self.string(value))
            .transpose()
    }

    /// The path of the header that declares something.
    fn file_of(&self, entry: &Entry<'_, '_>) -> gimli::Result<String> {
        let (Some(index), Some(lines)) = (entry.attr(DW_AT_decl_file)?, &self.unit.line_program)
        else {
            return Ok(String::new());
        };
        let Some(file) = index.udata_value().and_then(|i| lines.header().file(i)) else {
            return Ok(String::new());
        };
        let dir = file
            .directory(lines.header())
            .map(|d| self.string(d))
            .transpose()?;
        Ok(format!(
            "{}/{}",
            dir.unwrap_or_default(),
            self.string(file.path_name())?
        ))
    }

    fn type_of(&self, entry: &Entry<'_, '_>) -> gimli::Result<Option<UnitOffset>> {
        Ok(match entry.attr_value(DW_AT_type)? {
            Some(AttributeValue::UnitRef(at)) => Some(at),
            _ => None,
        })
    }

    fn size_of(&self, at: UnitOffset) -> gimli::Result<usize> {
        let entry = self.unit.entry(at)?;
        if let Some(size) = number(&entry, DW_AT_byte_size)? {
            return Ok(size);
        }
        let mut size = match self.type_of(&entry)? {
            Some(at) => self.size_of(at)?,
            None => 0,
        };
        if entry.tag() == DW_TAG_array_type {
            for at in self.children(Some(at))? {
                let range = self.unit.entry(at)?;
                if range.tag() == DW_TAG_subrange_type {
                    // An array without a length has neither.
                    size *= match number(&range, DW_AT_count)? {
                        Some(count) => count,
                        None => number(&range, DW_AT_upper_bound)?.map_or(0, |last| last + 1),
                    };
                }
            }
        }
        Ok(size)
    }

    fn read_enumerators(
        &self,
        at: UnitOffset,
        into: &mut BTreeMap<String, i128>,
    ) -> gimli::Result<()> {
        for at in self.children(Some(at))? {
            let entry = self.unit.entry(at)?;
            if entry.tag() == DW_TAG_enumerator {
                if let Some(name) = self.name_of(&entry)? {
                    into.insert(name, value_of(&entry)?);
                }
            }
        }
        Ok(())
    }

    /// Lists the fields of a struct or union, and those of its anonymous members.
    fn read_members(
        &self,
        at: UnitOffset,
        path: &str,
        base: usize,
        into: &mut CStruct,
    ) -> gimli::Result<()> {
        for at in self.children(Some(at))? {
            let member = self.unit.entry(at)?;
            if member.tag() != DW_TAG_member {
                continue;
            }
            let name = self.name_of(&member)?;
            let here = format!("{path}{}", name.as_deref().unwrap_or_default());
            if number(&member, DW_AT_bit_size)?.is_some() {
                let bit = number(&member, DW_AT_data_bit_offset)?.unwrap_or(0);
                into.bits.insert(here, base * 8 + bit);
                continue;
            }
            let offset = base + number(&member, DW_AT_data_member_location)?.unwrap_or(0);
            let Some(ty) = self.type_of(&member)? else {
                continue;
            };
            if name.is_some() {
                into.members
                    .insert(here.clone(), (offset, self.size_of(ty)?));
            }
            let entry = self.unit.entry(ty)?;
            if is_struct(entry.tag()) && self.name_of(&entry)?.is_none() {
                let inside = if name.is_some() {
                    format!("{here}.")
                } else {
                    here
                };
                self.read_members(ty, &inside, offset, into)?;
            }
        }
        Ok(())
    }
}
