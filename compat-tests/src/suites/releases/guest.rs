//! The guest's side: runs each test in the root directory of a release, on the release's C library,
//! then on ours.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::case_file::Row;
use crate::compare;
use crate::context::{Context, Library};
use crate::flaky::Tries;
use crate::machine::guest::STAGED;
use crate::machine::{Judged, files_in_guest};
use crate::normalise;
use crate::pairs;
use crate::process::read;
use crate::sandbox::sh;
use crate::suites::other_projects::pyverbs;
use crate::testbed::{Host, Hosts};
use crate::verdict::{Details, Failure, Verdict, ensure};

/// The file that names the root directory.
pub const ROOT: &str = "root";

/// The root directory in the machine.
pub struct InMachine {
    dir: PathBuf,
    /// The device, for programs on the C library and for those on ours.
    hosts: [Hosts; 2],
}

/// Made by the first test in a machine.
static MADE: OnceLock<Result<InMachine, Failure>> = OnceLock::new();

impl InMachine {
    pub fn get(cx: &Context) -> Result<&'static InMachine, Failure> {
        let made = MADE.get_or_init(|| InMachine::make(cx));
        made.as_ref().map_err(Clone::clone)
    }

    /// Gives the root directory the machine's devices, and the directories that programs write to. What is
    /// in /run has the same path there.
    fn make(cx: &Context) -> Result<Self, Failure> {
        let dir = PathBuf::from(read(&files_in_guest().join(ROOT)));
        ensure(dir.is_dir(), format!("{} is missing", dir.display()))?;
        sh(&format!(
            "for dir in dev proc sys run; do
                 mkdir -p {dir}/$dir; mount --rbind /$dir {dir}/$dir
             done",
            dir = dir.display()
        ))?;
        let hosts = [
            hosts(cx, &dir, Library::C)?,
            hosts(cx, &dir, Library::Ours)?,
        ];
        Ok(Self { dir, hosts })
    }

    fn host(&self, library: Library) -> &Host {
        &self.hosts(library).server
    }

    fn hosts(&self, library: Library) -> &Hosts {
        let [c, ours] = &self.hosts;
        match library {
            Library::C => c,
            Library::Ours => ours,
        }
    }
}

/// The directory of our library.
fn ours() -> PathBuf {
    Path::new(STAGED).join("lib").join(Library::Ours.name())
}

/// The IPv6 address of rxe0, which `vm/setup` gives it.
const ADDRESS6: &str = "fd09::1";

/// The device rxe0, for programs in the root directory on this library.
fn hosts(cx: &Context, root: &Path, library: Library) -> Result<Hosts, Failure> {
    let mut host = Host::on_kernel("rxe0", "10.9.9.1", "rd0");
    host.address6 = ADDRESS6.into();
    host.root = Some(root.into());
    host.libdir = (library == Library::Ours).then(ours);
    host.read_gids(cx)?;
    Ok(Hosts {
        server: host.clone(),
        client: host,
        namespaces: Vec::new(),
    })
}

/// The program prints the same on both libraries.
pub fn same_output(cx: &Context, argv: &[&str]) -> Verdict {
    let root = InMachine::get(cx)?;
    let run = |library| -> Result<String, Failure> {
        let program = cx.program(argv.iter().copied());
        let ended = root.host(library).on_host(program).succeed()?;
        Ok(ended.transcript())
    };
    let (c, ours) = (run(Library::C)?, run(Library::Ours)?);
    compare::same(("C library", &c), ("ours", &ours))
}

/// Checks that it is our library with the release's provider that opens the device.
pub fn provider(cx: &Context, provider: &str) -> Verdict {
    let root = InMachine::get(cx)?;
    let program = cx
        .program(["ibv_devinfo"])
        .env("LD_DEBUG", "files")
        .merged();
    let shown = root.host(Library::Ours).on_host(program).run()?.out;
    let own = ours().join("libibverbs.so.1").display().to_string();
    for file in [own.as_str(), provider] {
        let loaded = |line: &str| line.contains("calling init: ") && line.ends_with(file);
        ensure(shown.lines().any(loaded), format!("{file} is not loaded")).with(&shown)?;
    }
    Ok(())
}

/// All tests of pyverbs.
pub fn pyverbs(cx: &Context) -> Verdict {
    let place = pyverbs::PyverbsPlace {
        root: InMachine::get(cx)?.dir.clone(),
        ours: ours(),
    };
    pyverbs::all(cx, &place)
}

/// A row on both libraries. `refused`: it fails on the release's C library, and so on ours.
pub fn row(cx: &Context, name: &str, row: &Row, refused: bool) -> Judged {
    let mut tries = Tries::new(name);
    let outcomes = both(cx, name, row, refused, &mut tries);
    let verdict = outcomes.and_then(|[c, ours]| judge(c, ours, refused));
    Judged {
        verdict,
        again: tries.again.join("; "),
    }
}

/// The outcomes on the C library and on ours. The error is for what prevents both.
fn both(
    cx: &Context,
    name: &str,
    row: &Row,
    refused: bool,
    tries: &mut Tries,
) -> Result<[Verdict; 2], Failure> {
    let root = InMachine::get(cx)?;
    let mut on = |library: Library| -> Result<Verdict, Failure> {
        let dir = cx.dir().join(library.name());
        std::fs::create_dir_all(&dir)?;
        let cx = cx.part(name, dir);
        let hosts = root.hosts(library);
        tries.run(
            (library == Library::Ours).then_some(library.name()),
            |_| Ok(pairs::run(&cx, row, hosts)),
            |verdict| {
                verdict
                    .as_ref()
                    .err()
                    .filter(|_| !refused)
                    .map(Failure::to_string)
            },
        )
    };
    let (c, mut ours) = (on(Library::C)?, on(Library::Ours)?);
    if name.starts_with("pingpong/") && c.is_ok() && tries.again.is_empty() {
        ours = ours.and_then(|()| same_text(cx));
    }
    Ok([c, ours])
}

/// The programs have printed the same on both libraries, without what varies.
fn same_text(cx: &Context) -> Verdict {
    let printed = |library: Library| -> Result<String, Failure> {
        let entries = std::fs::read_dir(cx.dir().join(library.name()))?;
        let mut files: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
        files.retain(|file| file.extension().is_some_and(|e| e == "out" || e == "err"));
        files.sort();
        let text: String = files.iter().map(|file| read(file)).collect();
        Ok(normalise::pingpong(&text))
    };
    let (c, ours) = (printed(Library::C)?, printed(Library::Ours)?);
    compare::same(("C library", &c), ("ours", &ours))
}

fn judge(c: Verdict, ours: Verdict, refused: bool) -> Verdict {
    match (c, ours) {
        (Ok(()), Ok(())) if !refused => Ok(()),
        (Ok(()), Ok(())) => Err("it passes, but it is listed as refused".into()),
        (Err(c), Err(ours)) if refused && c.why == ours.why => Ok(()),
        (Err(c), _) if !refused => Err(Failure::new(format!("C library: {c}")).with(c.details)),
        (c, Err(ours)) => {
            let c = c.err().map_or("passes".into(), |c| c.why);
            Err(Failure::new(format!("ours: {ours}; the C library: {c}")).with(ours.details))
        }
        (Err(c), Ok(())) => Err(Failure::new(format!("ours passes; the C library: {c}"))),
    }
}
