//! Compares sizes, offsets and constants of this crate with the C headers of the installed distribution:
//! every type, field and enumerator, in both directions.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    ffi::OsString,
    mem::{offset_of, size_of, size_of_val},
    path::{Path, PathBuf},
    process::Command,
};

use c_side::{CStruct, Headers};
use ibverbs_abi::{OPS_NAMES, SLOTS_V36, VERBS_QP_COMP_MASK_OFFSETS};

mod c_side;
mod known;

pub struct Struct {
    name: &'static str,
    union: bool,
    size: usize,
    fields: &'static [Field],
}

pub struct Field {
    name: &'static str,
    /// The type's name, if it is a path without arguments.
    ty: &'static str,
    offset: usize,
    size: usize,
}

pub struct Constant {
    name: &'static str,
    value: i128,
    size: usize,
}

/// Everything that the crate's sources define.
mod rust {
    use super::{Constant, Field, Struct, offset_of, size_of, size_of_val};
    use core::ffi::{c_char, c_int, c_uint, c_void};
    use ibverbs_abi::*;
    use libc::{dev_t, pthread_cond_t, pthread_mutex_t, timespec};

    ibverbs_abi_fields::every!();
}

/// The public headers of rdma-core and the kernel.
const PUBLIC: &[&str] = &[
    "infiniband/verbs.h",
    "infiniband/opcode.h",
    "infiniband/sa.h",
    "infiniband/sa-kern-abi.h",
    "infiniband/tm_types.h",
    "rdma/ib_user_verbs.h",
    "rdma/ib_user_sa.h",
    "rdma/ib_user_ioctl_cmds.h",
    "rdma/ib_user_ioctl_verbs.h",
    "rdma/rdma_user_ioctl_cmds.h",
    "rdma/rdma_netlink.h",
];

#[test]
fn public_headers() {
    for (path, package) in [
        ("/usr/include/infiniband/verbs.h", "libibverbs-dev"),
        ("/usr/include/rdma/ib_user_verbs.h", "linux-libc-dev"),
    ] {
        assert!(
            Path::new(path).exists(),
            "there is no {path} (Debian's package {package}): run \"make deps\""
        );
    }
    let c = c_side::read("public", None, PUBLIC, &is_wanted);
    let mut problems = Vec::new();
    compare_structs(&c, &mut problems);
    compare_constants(&c, &mut problems);
    report("the installed public headers", &c, &problems);
}

#[test]
fn provider_headers() {
    let include = provider_tree();
    let mut headers = PUBLIC.to_vec();
    headers.extend([
        "infiniband/driver.h",
        "infiniband/cmd_write.h",
        "infiniband/marshall.h",
    ]);
    let c = c_side::read("provider", Some(&include), &headers, &is_wanted);
    let mut problems = Vec::new();
    compare_structs(&c, &mut problems);
    compare_constants(&c, &mut problems);
    nothing_invented(&c, &mut problems);
    compare_ops(&c, &mut problems);
    compare_command_bits(&c, &mut problems);
    let version = std::fs::read_to_string(include.join("version")).unwrap_or_default();
    report(
        &format!("the source of rdma-core {}", version.trim()),
        &c,
        &problems,
    );
}

/// The directory with all of rdma-core's headers: RDMA_CORE_HEADERS, or what the script fetches.
fn provider_tree() -> PathBuf {
    let is_set = |value: &OsString| !value.is_empty();
    if let Some(tree) = env::var_os("RDMA_CORE_HEADERS").filter(is_set) {
        return tree.into();
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/fetch-headers");
    PathBuf::from(c_side::run(&mut Command::new(script)).trim())
}

fn report(what: &str, c: &Headers, problems: &[String]) {
    println!(
        "compared with {what}: {} structs and unions, {} enumerators, {} macros",
        c.structs.len(),
        c.enumerators.len(),
        c.macros.len()
    );
    assert!(
        problems.is_empty(),
        "{} differences from {what}:\n{}",
        problems.len(),
        problems.join("\n")
    );
}

fn constant_names() -> BTreeSet<&'static str> {
    rust::CONSTANTS.iter().map(|c| c.name).collect()
}

fn rust_type(name: &str) -> Option<&'static Struct> {
    rust::TYPES.iter().find(|t| t.name == name)
}

fn is_left_out(name: &str) -> bool {
    known::LEFT_OUT.iter().any(|start| name.starts_with(start))
}

/// The C macros to compare: all plain numbers, and all that have a constant here.
fn is_wanted(name: &str, is_number: bool) -> bool {
    (is_number && !is_left_out(name)) || constant_names().contains(name)
}

/// Every struct of the headers exists here, with each field at its offset.
fn compare_structs(c: &Headers, problems: &mut Vec<String>) {
    for (name, theirs) in &c.structs {
        match rust_type(name) {
            // A macro defines it here: see compare_ops.
            None if name == "verbs_context_ops" => {}
            Some(ours) => compare_struct(ours, theirs, c, problems),
            None if is_left_out(name) => {}
            None => problems.push(format!("{name}: in C only")),
        }
    }
}

/// The fields that `theirs`, from an older header, does not have.
fn newer_fields<'a>(name: &'a str, theirs: &CStruct) -> Vec<&'a str> {
    let of_struct = |(of, _): &&(&str, &str)| *of == name;
    let fields = known::NEWER_FIELDS
        .iter()
        .filter(of_struct)
        .map(|(_, field)| *field);
    fields
        .filter(|field| !theirs.members.contains_key(*field))
        .collect()
}

fn compare_struct(ours: &Struct, theirs: &CStruct, c: &Headers, problems: &mut Vec<String>) {
    let name = ours.name;
    let mut fields = BTreeMap::new();
    flatten(ours, "", 0, theirs, c, &mut fields);
    if ours.union != theirs.union {
        problems.push(format!("{name}: struct here and union there"));
    }
    // Offsets in the extended context count from its end: newer headers insert slots at the front.
    let shift = if name == "verbs_context" {
        theirs.size as isize - ours.size as isize
    } else {
        0
    };
    let grown = !newer_fields(name, theirs).is_empty();
    if name == "verbs_qp" {
        return compare_verbs_qp(theirs, problems);
    }
    if ours.size != theirs.size && shift == 0 && !(grown && theirs.size < ours.size) {
        problems.push(format!(
            "{name}: size {} here, {} in C",
            ours.size, theirs.size
        ));
    }
    for (path, &(offset, size)) in &theirs.members {
        match fields.get(path).copied().or_else(|| inside(ours, path)) {
            Some(FieldPlace {
                offset: at,
                size: of,
                ty,
            }) => {
                if at as isize + shift != offset as isize {
                    problems.push(format!("{name}.{path}: offset {at} here, {offset} in C"));
                }
                let has_grown = c.structs.get(ty).is_some_and(|theirs| {
                    ty == "verbs_context" || !newer_fields(ty, theirs).is_empty()
                });
                let padding = known::SHRUNK_PADDING.contains(&(name, path));
                if of != size && !has_grown && !(padding && of < size) {
                    problems.push(format!("{name}.{path}: size {of} here, {size} in C"));
                }
            }
            None if shift > 0 && offset < shift as usize => {}
            None if known::SECOND_NAMES.contains(&(name, path)) => {}
            None => problems.push(format!("{name}.{path}: in C only")),
        }
    }
    for path in fields.keys() {
        let is_bits = theirs.bits.len() == known::COMMAND_BITS.len() && path == "flags";
        let newer = known::NEWER_FIELDS.contains(&(name, path));
        if !theirs.members.contains_key(path) && !newer && !is_bits {
            problems.push(format!("{name}.{path}: here only"));
        }
    }
}

#[derive(Clone, Copy)]
struct FieldPlace {
    offset: usize,
    size: usize,
    ty: &'static str,
}

/// A field's name in C: a name that is a Rust keyword has a `_` appended here.
fn c_name(field: &'static str) -> &'static str {
    field.strip_suffix('_').unwrap_or(field)
}

/// The paths of this crate's fields as in C. A type without a name in C is part of the struct around it;
/// an anonymous member has a name here that the C path does not contain.
fn flatten(
    ours: &Struct,
    path: &str,
    base: usize,
    theirs: &CStruct,
    c: &Headers,
    into: &mut BTreeMap<String, FieldPlace>,
) {
    for field in ours.fields {
        let here = format!("{path}{}", c_name(field.name));
        let place = FieldPlace {
            offset: base + field.offset,
            size: field.size,
            ty: field.ty,
        };
        let part = |part: &&Struct| is_part(part.name) && !c.structs.contains_key(part.name);
        match rust_type(field.ty).filter(part) {
            Some(part) if theirs.members.contains_key(&here) => {
                flatten(part, &format!("{here}."), place.offset, theirs, c, into);
                into.insert(here, place);
            }
            Some(part) => flatten(part, path, place.offset, theirs, c, into),
            None => {
                into.insert(here, place);
            }
        }
    }
}

/// Whether a type is anonymous in C, inside another one.
fn is_part(name: &str) -> bool {
    !is_newer_type(name) && !known::OURS.contains(&name)
}

fn is_newer_type(name: &str) -> bool {
    known::NEWER_TYPES.iter().any(|(newer, _)| *newer == name)
}

/// Finds a field of the struct around ours. In C some fields can also be named directly in that,
/// through anonymous unions (the payload of a command, the header of a flow specification).
fn inside(ours: &Struct, path: &str) -> Option<FieldPlace> {
    ours.fields.iter().find_map(|outer| {
        let part = rust_type(outer.ty)?;
        let field = part.fields.iter().find(|f| c_name(f.name) == path);
        let place = match field {
            Some(f) => FieldPlace {
                offset: f.offset,
                size: f.size,
                ty: f.ty,
            },
            None => inside(part, path)?,
        };
        Some(FieldPlace {
            offset: outer.offset + place.offset,
            ..place
        })
    })
}

/// `comp_mask` follows a union that has grown twice.
fn compare_verbs_qp(theirs: &CStruct, problems: &mut Vec<String>) {
    let at = |path: &str| theirs.members.get(path).copied();
    let good = match (at("qp"), at("qp_ex"), at("comp_mask"), at("xrcd")) {
        (Some((0, _)), Some((0, _)), Some((mask, 4)), Some((xrcd, _))) => {
            VERBS_QP_COMP_MASK_OFFSETS.contains(&mask)
                && xrcd == mask + 8
                && theirs.size == mask + 16
        }
        _ => false,
    };
    if !good {
        problems.push(format!("verbs_qp: {theirs:?}"));
    }
}

/// Every type here exists in C, or is part of one that does, or is newer and has its known size.
fn nothing_invented(c: &Headers, problems: &mut Vec<String>) {
    let mut parts: BTreeSet<&str> = BTreeSet::new();
    let mut todo: Vec<&Struct> = rust::TYPES
        .iter()
        .filter(|t| c.structs.contains_key(t.name) || is_newer_type(t.name))
        .collect();
    while let Some(outer) = todo.pop() {
        if parts.insert(outer.name) {
            todo.extend(outer.fields.iter().filter_map(|f| rust_type(f.ty)));
        }
    }
    for ours in rust::TYPES {
        let name = ours.name;
        let newer = known::NEWER_TYPES.iter().find(|(newer, _)| *newer == name);
        match newer {
            Some((_, size)) if *size != ours.size => {
                problems.push(format!("{name}: size {}, known to be {size}", ours.size));
            }
            None if !parts.contains(name) && is_part(name) => {
                problems.push(format!("{name}: here only"))
            }
            _ => {}
        }
    }
    for name in constant_names() {
        let newer = known::NEWER_CONSTANTS
            .iter()
            .any(|start| name.starts_with(start));
        let is_c = c.enumerators.contains_key(name) || c.macros.contains_key(name);
        if !is_c && !newer && !known::OURS.contains(&name) {
            problems.push(format!("{name}: here only"));
        }
    }
}

/// The low bytes of a value, as many as its type has here: enumerators are wider in C.
fn low(value: i128, size: usize) -> i128 {
    value & ((1i128 << (size * 8)) - 1)
}

fn compare_constants(c: &Headers, problems: &mut Vec<String>) {
    let ours: BTreeMap<&str, &Constant> = rust::CONSTANTS.iter().map(|c| (c.name, c)).collect();
    for (name, value) in c.enumerators.iter().chain(&c.macros) {
        match ours.get(name.as_str()) {
            Some(constant) if low(*value, constant.size) == low(constant.value, constant.size) => {}
            Some(constant) => {
                problems.push(format!("{name}: {} here, {value} in C", constant.value));
            }
            None if is_left_out(name) => {}
            None => problems.push(format!("{name} = {value}: in C only")),
        }
    }
}

/// Compares the slots of a provider's table with the list that is derived from this crate's.
fn compare_ops(c: &Headers, problems: &mut Vec<String>) {
    let Some(theirs) = c.structs.get("verbs_context_ops") else {
        return problems.push("verbs_context_ops: not in C".into());
    };
    let mut slots: Vec<_> = theirs
        .members
        .iter()
        .map(|(name, (offset, _))| (*offset, name))
        .collect();
    slots.sort();
    let layout: &[u8] = match slots.len() {
        76 => &SLOTS_V36,
        79 => &ibverbs_abi::SLOTS_V59,
        81 => &ibverbs_abi::SLOTS_V62,
        83 => &ibverbs_abi::SLOTS_V64,
        93 => &ibverbs_abi::SLOTS_V65,
        n => return problems.push(format!("verbs_context_ops: no layout has {n} slots")),
    };
    for (i, ((offset, theirs), slot)) in slots.iter().zip(layout).enumerate() {
        let ours = OPS_NAMES
            .get(usize::from(*slot))
            .copied()
            .unwrap_or("nothing");
        if *offset != i * size_of::<usize>() || *theirs != ours {
            problems.push(format!(
                "verbs_context_ops: slot {i} is {theirs} at {offset}, here {ours}"
            ));
        }
    }
}

/// The size of the context in each provider ABI, from rdma-core's releases on x86-64. Both structures have
/// one mutex, whose size differs between architectures.
#[test]
fn sizes_of_provider_abis() {
    use ibverbs_abi::{VSZ_V34, VSZ_V59, VSZ_V62, VSZ_V64};
    let longer = size_of::<libc::pthread_mutex_t>() - 40;
    assert_eq!(
        [VSZ_V34, VSZ_V59, VSZ_V62, VSZ_V64],
        [648, 672, 680, 696].map(|size| size + longer)
    );
    assert_eq!(
        VERBS_QP_COMP_MASK_OFFSETS,
        [344, 352, 360].map(|at| at + longer)
    );
}

/// Bit-fields in C are constants of one byte here.
fn compare_command_bits(c: &Headers, problems: &mut Vec<String>) {
    let bits = c.structs.get("ibv_command_buffer").map(|s| &s.bits);
    let byte = offset_of!(ibverbs_abi::ibv_command_buffer, flags);
    for (name, mask) in known::COMMAND_BITS {
        let bit = byte * 8 + mask.trailing_zeros() as usize;
        let theirs = bits.and_then(|bits| bits.get(*name)).copied();
        if theirs != Some(bit) {
            problems.push(format!(
                "ibv_command_buffer.{name}: bit {bit} here, {theirs:?} in C"
            ));
        }
    }
}
