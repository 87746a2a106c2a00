//! What runs in the virtual machine, in sid's root directory: each test on sid's C library, then on ours.

use std::path::{Path, PathBuf};

use super::{Refused, chosen_rows, refused};
use crate::case_file::Row;
use crate::child::Arguments;
use crate::compare;
use crate::context::{Context, Library, succeeded};
use crate::pairs;
use crate::paths::{self, Paths};
use crate::pattern;
use crate::place::sh;
use crate::process::read;
use crate::suites::other_projects;
use crate::verdict::{Failure, Verdict, ensure};
use crate::world::{Host, Hosts};

/// What both the machine and the root directory see under this name.
const STAGED: &str = "/run/sid";
/// The first port. Each row gets others, because the kernel keeps closed connections for a while.
const PORT: u16 = 20_000;

/// Runs the selected tests, and appends their verdicts to the file that the host reads.
pub fn run(args: Arguments) -> Verdict {
    let root = PathBuf::from(read(&args.dir.join("root")));
    let paths = Paths {
        repo: paths::repo(),
        staged: STAGED.into(),
        case: args.dir,
    };
    let cx = Context::new(&args.name, paths, args.patterns);
    set_up(&root, &args.staged)?;
    report(&cx, "devices", same_output(&cx, &root, &["ibv_devices"]))?;
    let verbose = ["ibv_devinfo", "-v"];
    report(&cx, "devinfo", same_output(&cx, &root, &verbose))?;
    report(&cx, "provider", provider(&cx, &root))?;
    rows(&cx, &root)
}

fn report(cx: &Context, name: &str, verdict: Verdict) -> Verdict {
    if cx.selects(&format!("{}/{name}", cx.name)) {
        cx.report(name, verdict)?;
    }
    Ok(())
}

/// Gives the root directory the machine's devices, and the directories that programs write to.
fn set_up(root: &Path, staged: &Path) -> Verdict {
    sh(&format!(
        "mkdir -p {STAGED} && cp -r {}/lib {STAGED}/
         for dir in dev proc sys run mnt; do
             mkdir -p {root}/$dir; mount --rbind /$dir {root}/$dir
         done",
        staged.display(),
        root = root.display()
    ))
}

/// The device rxe0, for programs in the root directory on this library.
fn host(root: &Path, library: Library) -> Host {
    let libdir = PathBuf::from(STAGED).join("lib/ours");
    let mut host = Host::on_kernel("rxe0", "10.9.9.1", "rd0");
    host.root = Some(root.into());
    host.libdir = (library == Library::Ours).then_some(libdir);
    host
}

fn same_output(cx: &Context, root: &Path, argv: &[&str]) -> Verdict {
    let run = |library| -> Result<String, Failure> {
        let program = cx.program(argv.iter().copied());
        let ended = host(root, library).on_host(program).run()?;
        succeeded(argv[0], &ended)?;
        Ok(ended.transcript())
    };
    let (c, ours) = (run(Library::C)?, run(Library::Ours)?);
    compare::same(("C library", &c), ("ours", &ours))
}

/// It is our library with sid's provider that opens the device.
fn provider(cx: &Context, root: &Path) -> Verdict {
    let program = cx
        .program(["ibv_devinfo"])
        .env("LD_DEBUG", "files")
        .merged();
    let shown = host(root, Library::Ours).on_host(program).run()?.out;
    for file in [
        &format!("{STAGED}/lib/ours/libibverbs.so.1"),
        "/librxe-rdmav65.so",
    ] {
        let loaded = |line: &str| line.contains("calling init: ") && line.ends_with(file);
        ensure(shown.lines().any(loaded), format!("{file} is not loaded"))
            .map_err(|failure| failure.with(&shown))?;
    }
    Ok(())
}

fn rows(cx: &Context, root: &Path) -> Verdict {
    let refused = refused(cx)?;
    let hosts = [
        hosts(cx, root, Library::C)?,
        hosts(cx, root, Library::Ours)?,
    ];
    let mut port = PORT;
    let mut names = Vec::new();
    for (name, mut row) in chosen_rows()? {
        let whole = format!("{}/{name}", cx.name);
        names.push(name.clone());
        if !cx.selects(&whole) {
            continue;
        }
        row.port.get_or_insert(port);
        port += row.times;
        let tries = other_projects::tries(&name);
        let [c, ours] = &hosts;
        let c = on(cx, &whole, "c", &row, c, tries)?;
        let ours = on(cx, &whole, "ours", &row, ours, tries)?;
        let listed = refused.iter().any(|r| pattern::matches(&r.tests, &name));
        cx.report(&name, judge(c, ours, listed))?;
    }
    let unused = refused
        .iter()
        .filter(|r| !names.iter().any(|n| pattern::matches(&r.tests, n)));
    let unused: Vec<&str> = unused.map(|r: &Refused| r.tests.as_str()).collect();
    let verdict = ensure(
        unused.is_empty(),
        format!("suites/sid.toml: no test matches {unused:?}"),
    );
    report(cx, "refused", verdict)
}

fn hosts(cx: &Context, root: &Path, library: Library) -> Result<Hosts, Failure> {
    let mut host = host(root, library);
    host.read_gids(cx)?;
    Ok(Hosts {
        server: host.clone(),
        client: host,
        namespaces: Vec::new(),
    })
}

/// The outcome of a row on one library, of the first of these tries that passes, or of the last. The error is
/// for what prevents all rows.
fn on(
    cx: &Context,
    name: &str,
    library: &str,
    row: &Row,
    hosts: &Hosts,
    tries: u32,
) -> Result<Verdict, Failure> {
    let dir = cx.dir().join(name.replace('/', "-")).join(library);
    std::fs::create_dir_all(&dir)?;
    let paths = Paths {
        case: dir,
        ..cx.paths.clone()
    };
    let cx = Context::new(name, paths, Default::default());
    let mut verdict = pairs::run(&cx, row, hosts);
    for _ in 1..tries {
        if verdict.is_ok() {
            break;
        }
        verdict = pairs::run(&cx, row, hosts);
    }
    Ok(verdict)
}

/// `listed`: the C library fails too, and `sid.toml` says so.
fn judge(c: Verdict, ours: Verdict, listed: bool) -> Verdict {
    match (c, ours) {
        (Ok(()), Ok(())) if !listed => Ok(()),
        (Ok(()), Ok(())) => Err("it passes, but suites/sid.toml lists it".into()),
        (Err(c), Err(ours)) if listed && c.why == ours.why => Ok(()),
        (Err(c), _) if !listed => Err(Failure::new(format!("C library: {c}")).with(c.details)),
        (c, Err(ours)) => {
            let c = c.err().map_or("passes".into(), |c| c.why);
            Err(Failure::new(format!("ours: {ours}; the C library: {c}")).with(ours.details))
        }
        (Err(c), Ok(())) => Err(Failure::new(format!("ours passes; the C library: {c}"))),
    }
}
