//! Other targets: the library refuses those that it cannot support, and says what others need.
//!
//! The standard library of these targets is not installed, so the modules that refuse are compiled without
//! one. Errors about what they miss then follow.

use crate::context::Context;
use crate::paths::text;
use crate::verdict::{Details, Verdict, ensure};

const ABI: &str = "crates/ibverbs-abi/src/lib.rs";
const NOT_LP64: &str = "error: libibverbs-rs supports 64-bit little-endian Linux only";
const NO_FILE: &str = "error: libibverbs-rs supports x86-64, arm64 and riscv64. Another architecture needs a \
    file in src/arch and in crates/uroce/src/arch";
const NO_FILE_OF_UROCE: &str = "error: uroce supports x86-64, arm64 and riscv64";

/// The target, the module, its message, and whether it refuses the target.
const TARGETS: [(&str, &str, &str, bool); 9] = [
    ("s390x-unknown-linux-gnu", ABI, NOT_LP64, true),
    ("powerpc64-unknown-linux-gnu", ABI, NOT_LP64, true),
    ("armv7-unknown-linux-gnueabihf", ABI, NOT_LP64, true),
    ("riscv64gc-unknown-linux-gnu", ABI, NOT_LP64, false),
    ("powerpc64le-unknown-linux-gnu", ABI, NOT_LP64, false),
    ("aarch64-unknown-linux-gnu", ABI, NOT_LP64, false),
    (
        "powerpc64le-unknown-linux-gnu",
        "src/arch/mod.rs",
        NO_FILE,
        true,
    ),
    (
        "riscv64gc-unknown-linux-gnu", "src/arch/mod.rs", NO_FILE, false,
    ),
    (
        "powerpc64le-unknown-linux-gnu",
        "crates/uroce/src/arch/mod.rs",
        NO_FILE_OF_UROCE,
        true,
    ),
];

pub fn targets(cx: &Context) -> Verdict {
    for (number, (target, module, message, refused)) in TARGETS.into_iter().enumerate() {
        let path = cx.paths.repo.join(module);
        let source = format!(
            "#![feature(no_core, rustc_attrs)]\n#![no_core]\n#[rustc_builtin_macro]\n\
             macro_rules! compile_error {{ ($($text:tt)*) => {{}}; }}\n#[path = {path:?}]\nmod module;\n"
        );
        let file = cx.write(&format!("{number}.rs"), source)?;
        let (file, out) = (file.to_string_lossy(), cx.dir().join("out"));
        let rustc = "rustc --edition 2024 --crate-type lib --emit metadata --target";
        let words = rustc.split(' ').map(String::from).chain([
            target.into(),
            "-o".into(),
            text(&out),
            file.into_owned(),
        ]);
        // The attributes above are unstable.
        let program = cx.program(words).env("RUSTC_BOOTSTRAP", "1").merged();
        let ended = program.run()?;
        ensure(
            ended.out.contains(message) == refused && ended.out.contains("error"),
            format!("{target}, {module}: not refused, or refused for no reason"),
        )
        .with(&ended.out)?;
    }
    Ok(())
}
