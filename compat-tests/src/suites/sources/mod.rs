//! Programs, librdmacm and providers from Debian's sources, unchanged, built twice: with rdma-core's
//! headers and library, and with ours. Everything must compile and link, without a warning that the
//! compiler does not report with rdma-core's headers. Then the rows of the testbed `sources` run with what
//! was built, on Soft-RoCE in the virtual machine, and the ping-pongs on the provider that was built with
//! our driver.h.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::artifacts;
use crate::context::{Context, Library};
use crate::downloads;
use crate::machine::{FILES, Member};
use crate::paths::{self, text};
use crate::rows;
use crate::suites::other_projects;
use crate::verdict::Verdict;

mod autotools;
mod compiler;
mod provider;
mod pyverbs;
mod rdma_core;

use rdma_core::RdmaCore;

/// A part that is built, and what runs with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Examples,
    Librdmacm,
    Providers,
    Perftest,
    Qperf,
    Pyverbs,
}

impl Part {
    /// Pyverbs takes longer than all others together.
    const IN_TEST: [Part; 5] = [
        Part::Examples,
        Part::Librdmacm,
        Part::Providers,
        Part::Perftest,
        Part::Qperf,
    ];

    fn name(self) -> &'static str {
        match self {
            Part::Examples => "examples",
            Part::Librdmacm => "librdmacm",
            Part::Providers => "providers",
            Part::Perftest => "perftest",
            Part::Qperf => "qperf",
            Part::Pyverbs => "pyverbs",
        }
    }

    /// The group of the rows that run its programs.
    fn group(self) -> &'static str {
        match self {
            Part::Librdmacm => "rdmacm",
            Part::Providers => "provider",
            Part::Pyverbs => "python",
            other => other.name(),
        }
    }

    fn member(self) -> String {
        format!("sources/build/{}", self.name())
    }

    /// Whether a selected case needs it.
    fn is_needed(self, cx: &Context, members: &[String]) -> bool {
        let runs = format!("sources/{}/", self.group());
        let of_part = |name: &&String| **name == self.member() || name.starts_with(&runs);
        members.iter().filter(of_part).any(|name| cx.selects(name))
    }

    fn build(self, build: &Build) -> Verdict {
        match self {
            Part::Examples => RdmaCore::new(build)?.examples(),
            Part::Librdmacm => RdmaCore::new(build)?.librdmacm(),
            Part::Providers => RdmaCore::new(build)?.providers(),
            Part::Perftest => autotools::build(build, "perftest", autotools::PERFTEST),
            Part::Qperf => autotools::build(build, "qperf", &["qperf"]),
            Part::Pyverbs => {
                let traffic = paths::repo().join("compat-tests/sources/traffic.py");
                let devices = "rdma-core/pyverbs/examples/ib_devices.py";
                pyverbs::build(build, &[traffic, build.sources.join(devices)])
            }
        }
    }
}

/// The directories of a build.
pub struct Build {
    /// The sources, in the cache of downloads.
    sources: PathBuf,
    /// Where objects are. cmake's configuration is kept there.
    out: PathBuf,
    /// The files for the guest: `c` and `ours`, each with `bin` and `lib`.
    files: PathBuf,
    /// Our library, under the name that the linker needs.
    libdir: PathBuf,
    /// Our headers.
    include: PathBuf,
}

impl Build {
    fn new(cx: &Context) -> Result<Self, crate::verdict::Failure> {
        let build = Self {
            sources: downloads::sources()?,
            out: paths::target().join("sources"),
            files: cx.dir().join(FILES),
            libdir: cx.dir().join("link"),
            include: fs::canonicalize(paths::repo().join("include"))?,
        };
        for library in Library::BOTH {
            fs::create_dir_all(build.out.join(library.name()))?;
            for dir in ["bin", "lib"] {
                fs::create_dir_all(build.built(library).join(dir))?;
            }
        }
        fs::create_dir_all(&build.libdir)?;
        for name in ["libibverbs.so", "libibverbs.so.1"] {
            symlink(artifacts::our_library()?, build.libdir.join(name))?;
        }
        Ok(build)
    }

    fn built(&self, library: Library) -> PathBuf {
        self.files.join(library.name())
    }

    /// Links objects to a program or a library.
    fn link(&self, library: Library, target: &str, objects: &[PathBuf], more: &[&str]) -> Verdict {
        let built = self.built(library);
        let mut words = vec!["gcc".to_string(), "-o".into()];
        words.push(built.join(target).to_string_lossy().into_owned());
        words.extend(objects.iter().map(text));
        let lib = built.join("lib").display().to_string();
        words.push(format!("-L{lib}"));
        let mut search = lib;
        if library == Library::Ours {
            words.push(format!("-L{}", self.libdir.display()));
            search += &format!(":{}", self.libdir.display());
        }
        words.push("-Wl,--no-undefined".into());
        words.push(format!("-Wl,-rpath-link={search}"));
        words.extend(more.iter().map(|word| word.to_string()));
        compiler::run(&words, &self.out)?;
        Ok(())
    }
}

/// Builds what the selected cases need, and reports the parts.
pub fn prepare(cx: &Context, members: &[String]) -> Verdict {
    let needed: Vec<Part> = Part::IN_TEST
        .into_iter()
        .chain([Part::Pyverbs])
        .filter(|part| part.is_needed(cx, members))
        .collect();
    let build = Build::new(cx)?;
    for part in needed {
        let verdict = part.build(&build);
        if cx.selects(&part.member()) {
            cx.report_as(&part.member(), verdict)?;
        }
    }
    Ok(())
}

/// The members that `prepare` reports, and those that run in the machine.
pub fn members() -> Result<Vec<Member>, String> {
    let mut members: Vec<Member> = Part::IN_TEST.map(built).into();
    members.extend(other_projects::rows_of(
        "sources",
        rows::of_testbed("sources")?,
    )?);
    members.extend(provider::members());
    Ok(members)
}

/// The same for pyverbs.
pub fn pyverbs_members() -> Result<Vec<Member>, String> {
    let mut members = vec![built(Part::Pyverbs)];
    let rows = rows::of_testbed("sources-pyverbs")?;
    members.extend(other_projects::rows_of("sources", rows)?);
    Ok(members)
}

/// The host reports it before the machine starts.
fn built(part: Part) -> Member {
    Member::new(part.member(), |_| Verdict::Err("it was not built".into()))
}
