//! Compares include/ with the Rust types (crates/ibverbs-abi), in both directions.
//!
//! cbindgen writes the Rust types as a C header. Its facts are compared with those of our headers: size and
//! offset of each field, value of each enumerator and constant. Types cannot be compared by name: unnamed
//! structs of C have names in Rust, and enums are integers there. Types of the kernel's interface that are in
//! the kernel's headers, not in ours, are skipped (crates/ibverbs-abi/tests/layout compares them).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use regex_lite::Regex;

use super::facts::{Facts, Query};
use crate::context::Context;
use crate::verdict::{Failure, Verdict};

const HEADERS: &[&str] = &[
    "infiniband/driver.h", "infiniband/cmd_write.h", "infiniband/opcode.h", "infiniband/sa.h",
    "infiniband/tm_types.h", "infiniband/sa-kern-abi.h",
];

/// Intended differences, with reasons: names, as regular expressions.
type Rules = &'static [(&'static str, &'static str)];
const RUST_ONLY: Rules = &[
    (
        r"verbs_dmah|verbs_create_cq_prov_attr\w*|ibv_buf",
        "of provider ABIs from 57 on; ibv_buf is opaque to programs",
    ),
    (
        r"CREATE_CQ_CMD_FLAGS_WITH_MEM_\w+",
        "of provider ABIs from 57 on",
    ),
    (r"verbs_software_ops", "between the library and uroce"),
    (
        r"ibv_command_buffer\.flags",
        "bit-fields in C, a byte in Rust",
    ),
    (
        r"ibv_flow_action_esp(_\w+)?",
        "in C, macros for the kernel's names",
    ),
];
const C_ONLY: Rules = &[
    (
        r"verbs_context_ops(\..*)?",
        "in Rust, from a macro; crates/ibverbs-abi/tests/layout compares its slots",
    ),
    (
        r"(IB|RDMA)_\w+",
        "of the kernel: in Rust, those that something uses",
    ),
    (r"empty", "in C, stands for no response"),
    (
        r"IBVERBS_PABI_(VERSION|RELEASE)",
        "in Rust, part of the symbols",
    ),
    (
        r"__VERBS_ABI_IS_EXTENDED|IBV_ALLOCATOR_USE_DEFAULT",
        "pointers",
    ),
    (r"_ABI_ALIGN_\w+", "in C, used to declare commands"),
    (
        r"ib_uverbs_flow_action_esp_encap\.\w+_data_u64",
        "second names for pointers",
    ),
];

/// Passes if the types agree, except for the intended differences, all of which must exist.
pub fn compare(cx: &Context) -> Verdict {
    let mut rust = Declarations::new(&generated(cx)?)?;
    rust.resolve_aliases();
    let ours = Declarations::new(&Query::new(cx.paths.repo.join("include"), HEADERS).facts()?)?;
    let mut comparison = Comparison::new(&rust, &ours)?;
    comparison.structs();
    comparison.numbers();
    comparison.verdict()
}

/// The facts of cbindgen's header of crates/ibverbs-abi.
fn generated(cx: &Context) -> Result<Facts, Failure> {
    let abi = cx.paths.repo.join("crates/ibverbs-abi");
    let mut config = cbindgen::Config::from_file(cx.paths.repo.join("cbindgen.toml"))?;
    // All types: by default cbindgen omits those that no function uses. A struct comes before its members
    // that point back to it.
    let mut names: Vec<String> = types(&abi.join("src"))?.into_iter().collect();
    names.sort_by_key(|name| name.trim_start_matches('_').to_string());
    config.export.include = names;
    let made = cbindgen::Builder::new()
        .with_crate(&abi)
        .with_config(config)
        .generate();
    let dir = cx.dir().join("abi");
    fs::create_dir_all(&dir)?;
    made.map_err(|e| e.to_string())?
        .write_to_file(dir.join("abi.h"));
    Ok(Query::new(dir, &["abi.h"]).facts()?)
}

/// The names of the public types in the sources below a directory.
fn types(dir: &Path) -> Result<BTreeSet<String>, Failure> {
    let name = Regex::new(r"(?m)^\s*pub (?:struct|union|type) (\w+)").map_err(|e| e.to_string())?;
    let mut names = BTreeSet::new();
    let mut dirs: Vec<PathBuf> = vec![dir.into()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let text = fs::read_to_string(path)?;
                names.extend(name.captures_iter(&text).map(|found| found[1].to_string()));
            }
        }
    }
    Ok(names)
}

/// Offset (negative: from the end), size, type.
type Field = (i64, i64, String);

/// Structs with their fields, and constants.
#[derive(Default)]
struct Declarations {
    sizes: BTreeMap<String, i64>,
    fields: BTreeMap<String, BTreeMap<String, Field>>,
    numbers: BTreeMap<String, i128>,
    aliases: Vec<(String, String)>,
}

impl Declarations {
    fn new(facts: &Facts) -> Result<Self, String> {
        let regex = |pattern| Regex::new(pattern).map_err(|e| e.to_string());
        let record = regex(r"^(?:struct|union) (\w+) size (\d+)")?;
        let field =
            regex(r"^field (\w+)\.(\S+) (from the end|offset) (\d+) size (-?\d+) type (.*)")?;
        let constant = regex(r"^(?:enumerator|macro) (\w+) = (-?\d+)")?;
        let alias = regex(r"^typedef (\w+) (?:struct|union) (\w+)$")?;
        let mut side = Self::default();
        for fact in facts {
            if let Some(found) = record.captures(fact) {
                side.sizes.insert(found[1].into(), number(&found[2]) as i64);
            } else if let Some(found) = field.captures(fact) {
                let sign = if &found[3] == "offset" { 1 } else { -1 };
                let place = sign * number(&found[4]) as i64;
                let value = (place, number(&found[5]) as i64, found[6].to_string());
                side.fields
                    .entry(found[1].into())
                    .or_default()
                    .insert(found[2].into(), value);
            } else if let Some(found) = constant.captures(fact) {
                side.numbers.insert(found[1].into(), number(&found[2]));
            } else if let Some(found) = alias.captures(fact) {
                side.aliases
                    .push((found[1].to_string(), found[2].to_string()));
            }
        }
        Ok(side)
    }

    /// Gives the types that name others the sizes and fields of these.
    fn resolve_aliases(&mut self) {
        for (alias, name) in std::mem::take(&mut self.aliases) {
            let fields = self.fields.get(&name).cloned().unwrap_or_default();
            if let Some(size) = self.sizes.get(&name).copied() {
                self.sizes.entry(alias.clone()).or_insert(size);
            }
            self.fields.entry(alias).or_insert(fields);
        }
    }
}

fn number(text: &str) -> i128 {
    text.parse().unwrap_or(i128::MIN)
}

struct Comparison<'a> {
    rust: &'a Declarations,
    ours: &'a Declarations,
    part: Regex,
    /// Structs of Rust that are parts of others.
    parts: BTreeSet<String>,
    wrong: Vec<String>,
    used: BTreeSet<&'static str>,
    equal: usize,
}

impl<'a> Comparison<'a> {
    fn new(rust: &'a Declarations, ours: &'a Declarations) -> Result<Self, String> {
        let part = Regex::new(r"^(?:struct|union) (\w+)$").map_err(|e| e.to_string())?;
        let (parts, used) = (BTreeSet::new(), BTreeSet::new());
        Ok(Self {
            rust,
            ours,
            part,
            parts,
            wrong: Vec::new(),
            used,
            equal: 0,
        })
    }

    /// A name that only one side has.
    fn only(&mut self, rules: Rules, name: &str, what: &str) {
        let fits = |pattern: &str| {
            Regex::new(&format!("^(?:{pattern})$")).is_ok_and(|regex| regex.is_match(name))
        };
        match rules.iter().find(|(pattern, _)| fits(pattern)) {
            Some((pattern, _)) => {
                self.used.insert(pattern);
            }
            None => self.wrong.push(format!("{name}: {what}")),
        }
    }

    fn structs(&mut self) {
        for (name, size) in &self.ours.sizes {
            let Some(other) = self.rust.sizes.get(name) else {
                self.only(C_ONLY, name, "in include/ only");
                continue;
            };
            if size != other {
                let what =
                    format!("{name}: size {size} in include/, {other} in crates/ibverbs-abi");
                self.wrong.push(what);
            }
            self.fields(name);
        }
        let public = |name: &str| {
            ["ibv_", "verbs_", "_ibv"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
        };
        for name in self.rust.sizes.keys() {
            if !self.ours.sizes.contains_key(name) && !self.parts.contains(name) && public(name) {
                self.only(RUST_ONLY, name, "in crates/ibverbs-abi only");
            }
        }
    }

    fn fields(&mut self, name: &str) {
        let mut fields = BTreeMap::new();
        self.flatten(name, name, 0, "", &mut fields);
        let empty = BTreeMap::new();
        let ours = self.ours.fields.get(name).unwrap_or(&empty);
        for (path, (offset, length, _)) in ours {
            match fields.get(path) {
                // The members of a command's payload may be reached without its name.
                None => self.only(C_ONLY, &format!("{name}.{path}"), "in include/ only"),
                Some(field) if *field != (*offset, *length) && *length >= 0 => {
                    let c = format!("{offset}, {length} in include/");
                    self.wrong.push(format!(
                        "{name}.{path}: {c}, {field:?} in crates/ibverbs-abi"
                    ));
                }
                Some(_) => self.equal += 1,
            }
        }
        for path in fields.keys().filter(|path| !ours.contains_key(*path)) {
            // skip the members of kernel types
            if !ours
                .keys()
                .any(|other| path.starts_with(&format!("{other}.")))
            {
                self.only(
                    RUST_ONLY,
                    &format!("{name}.{path}"),
                    "in crates/ibverbs-abi only",
                );
            }
        }
    }

    /// Collects the fields of a Rust struct by their paths in C, where members of unnamed structs belong to
    /// the struct around them.
    fn flatten(
        &mut self,
        name: &str,
        inner: &str,
        base: i64,
        prefix: &str,
        into: &mut BTreeMap<String, (i64, i64)>,
    ) {
        let Some(fields) = self.rust.fields.get(inner) else {
            return;
        };
        for (field, (offset, size, kind)) in fields {
            let path = format!("{prefix}{}", field.strip_suffix('_').unwrap_or(field));
            let part = self.part.captures(kind).map(|found| found[1].to_string());
            let part = part
                .filter(|p| !self.ours.sizes.contains_key(p) && self.rust.sizes.contains_key(p));
            let Some(part) = part else {
                into.insert(path, (base + offset, *size));
                continue;
            };
            self.parts.insert(part.clone());
            let named = self
                .ours
                .fields
                .get(name)
                .is_some_and(|fields| fields.contains_key(&path));
            let below = if named {
                format!("{path}.")
            } else {
                prefix.to_string()
            };
            if named {
                into.insert(path, (base + offset, *size));
            }
            self.flatten(name, &part, base + offset, &below, into);
        }
    }

    fn numbers(&mut self) {
        for (name, value) in &self.ours.numbers {
            let Some(rust) = self.rust.numbers.get(name) else {
                self.only(C_ONLY, name, &format!("{value} in include/ only"));
                continue;
            };
            // -1 as an unsigned int or long
            if (rust - value) % (1 << 32) == 0 {
                self.equal += 1;
            } else {
                let what = format!("{name}: {value} in include/, {rust} in crates/ibverbs-abi");
                self.wrong.push(what);
            }
        }
        let prefixes = ["IBV_", "VERBS_", "VSYSFS_", "CREATE_CQ_"];
        for name in self.rust.numbers.keys() {
            let public = prefixes.iter().any(|prefix| name.starts_with(prefix));
            if public && !self.ours.numbers.contains_key(name) {
                self.only(RUST_ONLY, name, "in crates/ibverbs-abi only");
            }
        }
    }

    fn verdict(mut self) -> Verdict {
        for (pattern, reason) in RUST_ONLY.iter().chain(C_ONLY) {
            if !self.used.contains(pattern) {
                self.wrong.push(format!(
                    "this difference no longer exists: {pattern} ({reason})"
                ));
            }
        }
        let count = format!(
            "{} structs, {} fields and constants equal",
            self.ours.sizes.len(),
            self.equal
        );
        println!("{count}, {} wrong", self.wrong.len());
        if self.wrong.is_empty() && self.equal >= 1000 {
            return Ok(());
        }
        Err(Failure::new(format!("{} wrong; {count}", self.wrong.len()))
            .with(self.wrong.join("\n")))
    }
}
