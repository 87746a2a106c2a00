//! Providers with various faults, in /tmp/fixtures of a case's namespace.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::context::Context;
use crate::fake;
use crate::verdict::{Failure, Verdict};

pub const DIR: &str = "/tmp/fixtures";

/// badinput/fixtures/odd.c with a fault each. In DIR they are named without `odd-`.
pub const PROGRAMS: [&str; 9] = [
    "odd-silent", "odd-says", "odd-nodevice", "odd-nocontext", "odd-narrow", "odd-nomatch",
    "odd-notable", "odd-twice", "odd-unresolved",
];

/// A valid provider with some bytes overwritten: name, offset, bytes.
const PATCHED: [(&str, usize, &[u8]); 4] = [
    ("class32", 4, b"\x01"),
    ("othermachine", 18, b"\xf3\x00"),
    ("badmagic", 0, b"XXXX"),
    ("executable", 16, b"\x02\x00"),
];

/// The path of a provider, as RDMAV_DRIVERS has it.
pub fn path(name: &str) -> String {
    format!("{DIR}/{name}")
}

fn file(name: &str) -> String {
    format!("{DIR}/{name}-rdmav34.so")
}

/// Makes all of them, once in a case.
pub fn make(cx: &Context) -> Verdict {
    if Path::new(DIR).exists() {
        return Ok(());
    }
    fs::create_dir(DIR)?;
    for program in PROGRAMS {
        fs::copy(cx.built(program)?, file(program.trim_start_matches("odd-")))?;
    }
    future(cx)?;
    let good = fs::read(fake::provider_dir()?.join("librxe-rdmav34.so"))?;
    invalid(&good)?;
    fs::write(file("fine"), &good)?;
    fs::write(file("unreadable"), &good)?;
    fs::set_permissions(file("unreadable"), fs::Permissions::from_mode(0o000))?;
    // Found through the library search path.
    fs::write(file("libelsewhere"), &good)?;
    Ok(())
}

/// Files that are not valid providers.
fn invalid(good: &[u8]) -> Result<(), Failure> {
    for (name, offset, bytes) in PATCHED {
        let mut copy = good.to_vec();
        copy[offset..offset + bytes.len()].copy_from_slice(bytes);
        fs::write(file(name), copy)?;
    }
    for size in [0, 10, 64, 1000, 9000] {
        fs::write(file(&format!("cut{size}")), &good[..size])?;
    }
    fs::write(file("text"), "not a shared object\n")?;
    fs::create_dir(file("directory"))?;
    symlink("/nowhere", file("dangling"))?;
    symlink("loop-rdmav34.so", file("loop"))?;
    Ok(())
}

/// A provider that requires a symbol version that no library has.
fn future(cx: &Context) -> Verdict {
    let dir = "/tmp/future";
    fs::create_dir(dir)?;
    let map = format!("{dir}/future.map");
    fs::write(
        &map,
        "IBVERBS_PRIVATE_99 { global: symbol_of_the_future; };\n",
    )?;
    let source = format!("{dir}/future.c");
    fs::write(
        &source,
        "void symbol_of_the_future(void); void symbol_of_the_future(void) { }\n",
    )?;
    let script = format!("-Wl,--version-script,{map}");
    let library = format!("{dir}/libibverbs.so");
    let soname = "-Wl,-soname,libibverbs.so.1";
    cx.output([
        "gcc", "-shared", "-fPIC", soname, &script, "-o", &library, &source,
    ])?;
    let odd = cx.source("badinput/fixtures/odd.c");
    let (odd, search) = (odd.to_string_lossy(), format!("-L{dir}"));
    let out = file("future");
    cx.output([
        "gcc", "-std=gnu11", "-O1", "-shared", "-fPIC", "-o", &out, &odd, "-DFUTURE", &search,
        "-libverbs",
    ])?;
    Ok(())
}
