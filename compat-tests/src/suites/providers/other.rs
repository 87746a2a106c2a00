//! The providers of another Debian release on the release's C library and on ours: programs run in its root
//! directory.

use super::ProviderSource;
use crate::artifacts;
use crate::checks::Check;
use crate::compare;
use crate::context::{Context, Library};
use crate::roots::Root;
use crate::verdict::{Details, Failure, Verdict, ensure};

/// Shell commands that run a program in the root directory. The release's C library takes the place of this
/// machine's.
pub fn enter(root: &Root) -> String {
    let root = root.dir().unwrap_or_default();
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

pub fn load(release: ProviderSource) -> Vec<Check> {
    let parts = vec!["", "resolved", "registered"];
    vec![Check::with_parts("all", parts, move |cx| all(release, cx))]
}

/// All providers load with all symbols resolved, register, and match.
fn all(release: ProviderSource, cx: &Context) -> Result<Vec<Verdict>, Failure> {
    let root = release.root().ok_or("it has no root directory")?;
    let wanted = release.devices().len();
    let dir = artifacts::library_dir()?.join("libibverbs");
    let mut argv = vec!["load_all".into(), "libibverbs.so.1".into()];
    let inside = dir.strip_prefix("/").map_err(|e| e.to_string())?;
    for entry in std::fs::read_dir(root.dir()?.join(inside))? {
        let file = dir.join(entry?.file_name()).display().to_string();
        // Without the links that are for developers.
        if file.contains("-rdmav") {
            argv.push(file);
        }
    }
    argv[2..].sort();
    let words: Vec<&str> = argv.iter().map(String::as_str).collect();
    let scene = release.scene("all", &words).env("FAKE_NL", "ok");
    release.tree().write(crate::fake::scene::SYS.as_ref())?;
    let (c, ours) = (scene.run(cx, Library::C)?, scene.run(cx, Library::Ours)?);
    let count = ours
        .text
        .lines()
        .filter(|line| line.ends_with(": loaded"))
        .count();
    let says = |start: &str| ours.text.lines().any(|line| line.starts_with(start));
    let resolved = ensure(
        count == wanted,
        format!("{count} of {wanted} providers load"),
    );
    let registered = ensure(
        says("1 libibverbs in the process") && says(&format!("{wanted} devices")),
        "not all register and match with only our library in the process",
    );
    Ok(vec![
        compare::same(("C library", &c.text), ("ours", &ours.text)),
        resolved.with(&ours.text),
        registered.with(&ours.text),
    ])
}
