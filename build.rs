//! Linker arguments of the shared library. rustc has no option for named symbol version nodes.

use std::{env, path::Path, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/export/libibverbs.map");
    println!("cargo::rerun-if-changed=src/export/start.ld");
    if env::var_os("CARGO_FEATURE_EXPORTS").is_none()
        || env::var_os("CARGO_FEATURE_STATIC").is_some()
    {
        return;
    }
    let var = |key: &str| env::var(key).unwrap_or_else(|_| panic!("cargo did not set {key}"));
    let export = Path::new(&var("CARGO_MANIFEST_DIR")).join("src/export");
    let map = export.join("libibverbs.map");
    let start = export.join("start.ld");

    // rustc passes an anonymous version script of its own for every cdylib. GNU ld rejects that
    // together with named nodes; lld merges the two. Use the lld that comes with rustc, if there is
    // one, else the system's.
    let arg = |a: String| println!("cargo::rustc-cdylib-link-arg={a}");
    let sysroot = Command::new(var("RUSTC"))
        .args(["--print", "sysroot"])
        .output()
        .expect("rustc --print sysroot")
        .stdout;
    let sysroot = String::from_utf8(sysroot).expect("the sysroot's path is UTF-8");
    let gcc_ld = Path::new(sysroot.trim())
        .join("lib/rustlib")
        .join(var("HOST"))
        .join("bin/gcc-ld");
    if gcc_ld.join("ld.lld").exists() {
        arg(format!("-B{}", gcc_ld.display()));
    }
    arg("-fuse-ld=lld".into());
    arg("-Wl,-soname,libibverbs.so.1".into());
    arg(format!("-Wl,--version-script={}", map.display()));
    // Few pages for what a program's start uses. Each segment begins at a page of its own, so that the
    // dynamic linker writes as few pages as possible.
    arg(format!("-Wl,-T,{}", start.display()));
    arg("-Wl,-z,separate-loadable-segments".into());
    // The cargo of Rust 1.85 passes these arguments for the unit tests, too, which define no such symbols.
    // Tests are built for debugging, and the library is not.
    if var("PROFILE") == "debug" {
        arg("-Wl,--undefined-version".into());
    }
    // A trampoline whose target is missing must fail now, not in a user's program. For two
    // definitions of one symbol version lld only prints a warning, which cargo hides.
    arg("-Wl,-z,defs".into());
    arg("-Wl,--fatal-warnings".into());
}
