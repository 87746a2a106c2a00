//! All providers load with all symbols resolved, register, and match, with only the tested library in the
//! process.

use crate::checks::Check;
use crate::compare;
use crate::context::{Context, Library};
use crate::fake;
use crate::fake::scene::SYS;
use crate::fake::sysfs::Tree;
use crate::verdict::{Details, Failure, Verdict, ensure};

use super::{PROVIDERS, provider_files};

pub fn checks() -> Vec<Check> {
    let parts = vec!["", "resolved", "registered"];
    let mut checks = vec![
        Check::new("17-providers-are-installed", |_| installed()),
        Check::with_parts("all", parts, all),
        Check::new("closed-by-the-program", closed),
    ];
    checks.extend(PROVIDERS.map(|provider| Check::new(provider, move |cx| one(cx, provider))));
    checks
}

fn installed() -> Verdict {
    let count = provider_files()?.len();
    ensure(count == 17, format!("{count} providers are installed"))
}

/// Loads a library by its path, then the providers, and lists the devices.
fn load(
    cx: &Context,
    library: Library,
    nl: Option<&str>,
    providers: &[String],
    closes: bool,
) -> Result<String, Failure> {
    Tree::all_known().write(SYS.as_ref())?;
    let file = cx.library(library).to_string_lossy().into_owned();
    let mut argv = vec![cx.built("load_all")?, file];
    argv.extend(providers.iter().cloned());
    // Only the path names the library: LD_LIBRARY_PATH does not.
    let mut program = cx
        .program(argv)
        .merged()
        .env("LD_PRELOAD", cx.built(fake::SHIM)?)
        .env("SYSFS_PATH", SYS)
        .env("FAKE_NL_DEVICES", Tree::all_known().netlink())
        .env("IBV_SHOW_WARNINGS", "1");
    if let Some(nl) = nl {
        program = program.env("FAKE_NL", nl);
    }
    if closes {
        program = program.env("CLOSE_PROVIDERS", "1");
    }
    let ended = program.run()?;
    Ok(fake::transcript(cx, library, &ended))
}

fn all(cx: &Context) -> Result<Vec<Verdict>, Failure> {
    let files = provider_files()?;
    let c = load(cx, Library::C, Some("ok"), &files, false)?;
    let ours = load(cx, Library::Ours, Some("ok"), &files, false)?;
    let loaded = ours.lines().filter(|line| line.ends_with(": loaded"));
    let count = loaded.count();
    let says = |start: &str| ours.lines().any(|line| line.starts_with(start));
    Ok(vec![
        compare::same(("C library", &c), ("ours", &ours)),
        ensure(
            count == files.len() && count > 0,
            format!("{count} of {} providers load", files.len()),
        )
        .with(&ours),
        ensure(
            says("1 libibverbs in the process") && says("17 devices"),
            "not all register and match with only our library in the process",
        )
        .with(&ours),
    ])
}

/// A program loads the providers by dlopen and closes them again. Their drivers serve devices nevertheless;
/// on the C library, the program crashes.
fn closed(cx: &Context) -> Verdict {
    let files = provider_files()?;
    let open = load(cx, Library::Ours, Some("ok"), &files, false)?;
    let closed = load(cx, Library::Ours, Some("ok"), &files, true)?;
    ensure(open.contains("17 devices"), "not all devices are listed")?;
    compare::same(("open", &open), ("closed", &closed))
}

fn one(cx: &Context, provider: &str) -> Verdict {
    let name = format!("/lib{provider}-rdmav34.so");
    let files: Vec<String> = provider_files()?
        .into_iter()
        .filter(|file| file.ends_with(&name))
        .collect();
    ensure(files.len() == 1, format!("{name} is not installed"))?;
    let c = load(cx, Library::C, None, &files, false)?;
    let ours = load(cx, Library::Ours, None, &files, false)?;
    compare::same(("C library", &c), ("ours", &ours))
}
