//! Debian sid's providers, of ABI 65, on sid's C library and on ours: programs run in sid's root directory.

use super::Release;
use crate::artifacts;
use crate::checks::Check;
use crate::compare;
use crate::context::{Context, Library};
use crate::normalise::replace;
use crate::roots::SID;
use crate::verdict::{Failure, Verdict, ensure};

/// Shell commands that run a program in the root directory. Sid's C library takes the place of this
/// machine's.
pub fn enter() -> String {
    let root = SID.dir().unwrap_or_default();
    let libraries = artifacts::library_dir().unwrap_or_default();
    format!(
        "root={}
         mount --bind $root{}/libibverbs.so.1 /tmp/staged/lib/c/libibverbs.so.1
         for dir in dev proc tmp; do mount --rbind /$dir $root/$dir; done
         exec chroot $root \"$@\"",
        root.display(),
        libraries.display()
    )
}

/// An intended difference (ARCHITECTURE.md): our ibv_create_srq_ex is the library's, which lets one SRQ
/// command at a time reach the provider.
pub fn intended(text: &str) -> String {
    replace(
        r"(?m)^verbs_context\.create_srq_ex: lib.*rdmav65.so .*$",
        text,
        "verbs_context.create_srq_ex: the library",
    )
}

pub fn load() -> Vec<Check> {
    let parts = vec!["", "resolved", "registered"];
    vec![Check::with_parts("all", parts, all)]
}

/// All providers load with all symbols resolved, register, and match.
fn all(cx: &Context) -> Result<Vec<Verdict>, Failure> {
    let dir = artifacts::library_dir()?.join("libibverbs");
    let mut argv = vec!["load_all".into(), "libibverbs.so.1".into()];
    let inside = dir.strip_prefix("/").map_err(|e| e.to_string())?;
    for entry in std::fs::read_dir(SID.dir()?.join(inside))? {
        argv.push(dir.join(entry?.file_name()).display().to_string());
    }
    argv[2..].sort();
    let words: Vec<&str> = argv.iter().map(String::as_str).collect();
    let scene = Release::Sid.scene("all", &words).env("FAKE_NL", "ok");
    Release::Sid
        .tree()
        .write(crate::fake::scene::SYS.as_ref())?;
    let (c, ours) = (scene.run(cx, Library::C)?, scene.run(cx, Library::Ours)?);
    let count = ours
        .text
        .lines()
        .filter(|line| line.ends_with(": loaded"))
        .count();
    let says = |start: &str| ours.text.lines().any(|line| line.starts_with(start));
    let resolved = ensure(count == 18, format!("{count} of 18 providers load"));
    let registered = ensure(
        says("1 libibverbs in the process") && says("18 devices"),
        "not all register and match with only our library in the process",
    );
    Ok(vec![
        compare::same(("C library", &c.text), ("ours", &ours.text)),
        resolved.map_err(|failure| failure.with(&ours.text)),
        registered.map_err(|failure| failure.with(&ours.text)),
    ])
}
