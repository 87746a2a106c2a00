//! The symbols and versions that our library exports: compared with the committed list
//! (symbols/exports.lst), and that list, without what is newer than Debian 12, with Debian 12's library.
//! Then all symbols are looked up with the dynamic linker.

use std::fs;
use std::path::Path;

use regex_lite::Regex;

use crate::case::{Case, Tier};
use crate::compare;
use crate::context::{Context, Library};
use crate::paths::text;
use crate::process::read;
use crate::provider_layouts::abis;
use crate::verdict::{Failure, Verdict, ensure};

/// A regular expression for the symbols that Debian 12's release does not have: newer version nodes, public
/// ones and those of other provider ABIs; this project's own node; and, in the unchanged node of provider ABI
/// 34, a function that providers of v53 to v56 import and one that programs built with v49 to v56 import.
fn newer() -> String {
    let others: Vec<String> = abis()
        .iter()
        .filter(|abi| **abi != 34)
        .map(u32::to_string)
        .collect();
    let others = others.join("|");
    format!(r" \(?(IBVERBS_(1\.1[5-8]|PRIVATE_(25|33|{others}))|LIBIBVERBS_RS_1\.0)\)? ")
        + "| IBVERBS_PRIVATE_34 (ibv_cmd_create_cq_ex2|ibv_wr_opcode_str)$"
}

pub fn cases() -> Vec<Case> {
    let check = |case: Case| case.tier(Tier::Check);
    vec![
        check(Case::new("symbols/exports", exports)),
        check(Case::new("symbols/distribution", distribution)),
        check(Case::new("symbols/soname", soname)),
        check(Case::new("symbols/needed", needed)),
        check(Case::new("symbols/lookup", lookup).programs(&["lookup"])),
        check(Case::new("symbols/selftest", selftest)),
    ]
}

/// The symbols of exports.lst, and no other.
fn exports(cx: &Context) -> Verdict {
    compare_exports(cx, &cx.library(Library::Ours))
}

pub fn compare_exports(cx: &Context, library: &Path) -> Verdict {
    let ours = exports_of(cx, library)?;
    compare::same(("exports.lst", &list(cx)), ("the library", &ours))
}

fn list(cx: &Context) -> String {
    read(&cx.source("symbols/exports.lst"))
}

/// The list equals Debian 12's library, except for newer symbols. Another distribution's public symbols must
/// be among ours.
fn distribution(cx: &Context) -> Verdict {
    let original = exports_of(cx, &cx.library(Library::C))?;
    let version = cx
        .program(["dpkg-query", "-W", "-f", "${Version}", "libibverbs1"])
        .run()
        .map(|ended| ended.out);
    if version.is_ok_and(|version| version.starts_with("44.0-")) {
        let newer = Regex::new(&newer()).map_err(|e| e.to_string())?;
        let kept = list(cx)
            .lines()
            .filter(|line| !newer.is_match(line))
            .map(|l| format!("{l}\n"))
            .collect();
        let debian12: String = kept;
        return compare::same(
            ("Debian 12's library", &original),
            ("exports.lst", &debian12),
        );
    }
    let ours = exports_of(cx, &cx.library(Library::Ours))?;
    let missing: Vec<&str> = original
        .lines()
        .filter(|line| !line.contains("PRIVATE") && !ours.lines().any(|own| own == *line))
        .collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(Failure::new("missing").with(missing.join("\n")))
    }
}

/// The values of a tag in the library's dynamic section.
fn dynamic(cx: &Context, tag: &str) -> Result<Vec<String>, Failure> {
    let library = cx.library(Library::Ours).to_string_lossy().into_owned();
    let headers = cx.output(["objdump", "-p", &library])?;
    let values = headers
        .lines()
        .filter_map(|line| line.trim().strip_prefix(tag));
    Ok(values.map(|value| value.trim().into()).collect())
}

fn soname(cx: &Context) -> Verdict {
    compare::same(
        ("SONAME", "libibverbs.so.1"),
        ("the library", &dynamic(cx, "SONAME")?.join(" ")),
    )
}

/// The library depends on libc only: each further one would be loaded by every process at its start.
fn needed(cx: &Context) -> Verdict {
    let needed = dynamic(cx, "NEEDED")?;
    let others = needed
        .iter()
        .filter(|name| !name.starts_with("libc.") && !name.starts_with("ld-linux"));
    let others: Vec<&str> = others.map(String::as_str).collect();
    let why = format!("every process would load {}, too", others.join(", "));
    ensure(!needed.is_empty() && others.is_empty(), why)
}

/// Each symbol is found by version, and default versions also without.
fn lookup(cx: &Context) -> Verdict {
    let library = text(cx.library(Library::Ours));
    let list = text(cx.source("symbols/exports.lst"));
    cx.output([cx.built("lookup")?, library, list]).map(drop)
}

/// A library with another version node, or without one symbol, is refused.
fn selftest(cx: &Context) -> Verdict {
    let bytes = fs::read(cx.library(Library::Ours))?;
    for (from, to) in [
        ("IBVERBS_1.5\0", "IBVERBS_1.4\0"),
        ("ibv_open_device\0", "ibv_open_devise\0"),
    ] {
        let spoiled = cx.write(
            "spoiled.so",
            replaced(&bytes, from.as_bytes(), to.as_bytes())?,
        )?;
        let verdict = compare_exports(cx, &spoiled);
        ensure(
            verdict.is_err(),
            format!("a library with {to:?} in place of {from:?} passes"),
        )?;
    }
    Ok(())
}

/// The bytes with the first place of `from` replaced.
fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Result<Vec<u8>, Failure> {
    let found = bytes.windows(from.len()).position(|window| window == from);
    let at =
        found.ok_or_else(|| Failure::new(format!("no {:?}", String::from_utf8_lossy(from))))?;
    let mut copy = bytes.to_vec();
    copy[at..at + to.len()].copy_from_slice(to);
    Ok(copy)
}

/// The symbols that a library defines, sorted: type, "ABS" for absolute symbols, version (in parentheses if
/// it is not the default), name.
fn exports_of(cx: &Context, library: &Path) -> Result<String, Failure> {
    let symbols = cx.output(["objdump", "-T", &library.to_string_lossy()])?;
    let mut lines: Vec<String> = symbols.lines().filter_map(exported).collect();
    lines.sort();
    Ok(lines.concat())
}

/// A line of objdump's table: address, flags, section, size, version, name.
fn exported(line: &str) -> Option<String> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let address = fields.first()?;
    let is_address = address.len() == 16 && address.bytes().all(|c| c.is_ascii_hexdigit());
    if line.contains("*UND*") || fields.len() < 6 || !is_address {
        return None;
    }
    let section = if fields[3] == "*ABS*" { "ABS" } else { "-" };
    let [.., version, name] = fields.as_slice() else {
        return None;
    };
    Some(format!("{} {section} {version} {name}\n", fields[2]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_objdump() {
        let function =
            "0000000000012340 g    DF .text\t0000000000000005  IBVERBS_1.1 ibv_open_device";
        assert_eq!(
            exported(function).unwrap(),
            "DF - IBVERBS_1.1 ibv_open_device\n"
        );
        let node = "0000000000000000 g    DO *ABS*\t0000000000000000 (IBVERBS_1.5) IBVERBS_1.5";
        assert_eq!(
            exported(node).unwrap(),
            "DO ABS (IBVERBS_1.5) IBVERBS_1.5\n"
        );
        assert!(
            exported("0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.34) free")
                .is_none()
        );
        assert!(exported("DYNAMIC SYMBOL TABLE:").is_none());
    }
}
