//! Builds parts of rdma-core. Its own build would compile its libibverbs too, so the compile commands are
//! taken from cmake, and run with our header directory before all others.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::Build;
use super::compiler::{self, CompileJob, Variants, WithDependencies, judge, shell_words};
use crate::context::Library;
use crate::paths::text;
use crate::process::read;
use crate::verdict::{Failure, Verdict};

/// Programs, with their source.
const VERBS_PROGRAMS: [(&str, &str); 8] = [
    ("ibv_asyncwatch", "asyncwatch"),
    ("ibv_devices", "device_list"),
    ("ibv_devinfo", "devinfo"),
    ("ibv_rc_pingpong", "rc_pingpong"),
    ("ibv_srq_pingpong", "srq_pingpong"),
    ("ibv_uc_pingpong", "uc_pingpong"),
    ("ibv_ud_pingpong", "ud_pingpong"),
    ("ibv_xsrq_pingpong", "xsrq_pingpong"),
];
/// Programs whose source has the same name; only that of ucmatose is cmatose.c.
const CM_PROGRAMS: [&str; 13] = [
    "ucmatose", "cmtime", "mckey", "rcopy", "rdma_client", "rdma_server", "rdma_xclient",
    "rdma_xserver", "riostream", "rping", "rstream", "udaddy", "udpong",
];

/// The file that cmake writes into the directory of a configuration.
const COMMANDS: &str = "compile_commands.json";

/// An entry of it.
#[derive(Debug, Deserialize)]
struct Entry {
    directory: PathBuf,
    command: String,
    file: PathBuf,
}

/// The configured source tree.
pub struct RdmaCore<'a> {
    build: &'a Build,
    tree: PathBuf,
    entries: Vec<Entry>,
}

/// Whether this directory has cmake's configuration of that tree, and not of one in another cache.
fn is_configured(cmake: &Path, tree: &Path) -> bool {
    let home = format!("CMAKE_HOME_DIRECTORY:INTERNAL={}", tree.display());
    let cache = read(&cmake.join("CMakeCache.txt"));
    cache.lines().any(|line| line == home) && cmake.join(COMMANDS).exists()
}

impl<'a> RdmaCore<'a> {
    /// Configured with the settings of rdma-core's package.
    pub fn new(build: &'a Build) -> Result<Self, Failure> {
        Self::configured(
            build,
            "cmake",
            "-DNO_PYVERBS=1 -DCMAKE_BUILD_TYPE=RelWithDebInfo",
        )
    }

    /// Configures it with these settings, unless an earlier run has. `name` is the directory of the
    /// configuration.
    pub fn configured(build: &'a Build, name: &str, settings: &str) -> Result<Self, Failure> {
        let tree = build.sources.join("rdma-core");
        let cmake = build.out.join(name);
        if !is_configured(&cmake, &tree) {
            if cmake.exists() {
                fs::remove_dir_all(&cmake)?;
            }
            let mut words = ["cmake", "-S", &text(&tree), "-B", &text(&cmake)]
                .map(String::from)
                .to_vec();
            let options = ["-DNO_MAN_PAGES=1", "-DCMAKE_EXPORT_COMPILE_COMMANDS=1"];
            let all = options.into_iter().chain(settings.split_whitespace());
            words.extend(all.map(String::from));
            compiler::run(&words, &build.out)?;
        }
        // headers that it generates from the kernel's
        let generate = ["cmake", "--build", &text(&cmake), "--target", "kern-abi"];
        compiler::run(&generate.map(String::from), &build.out)?;
        let json = fs::read_to_string(cmake.join(COMMANDS))?;
        let entries = serde_json::from_str(&json).map_err(|e| e.to_string())?;
        Ok(Self {
            build,
            tree,
            entries,
        })
    }

    /// Compiles the sources that `pick` accepts, given the path in the tree and that of the object.
    pub fn compile(&self, pick: impl Fn(&str, &str) -> bool) -> Result<Variants, Failure> {
        let mut jobs = Vec::new();
        for entry in &self.entries {
            let source = entry.file.strip_prefix(&self.tree).unwrap_or(&entry.file);
            let source = text(source);
            let words = shell_words(&entry.command);
            let at = words.iter().position(|word| word == "-o");
            let at = at.ok_or_else(|| format!("no -o in {}", entry.command))?;
            if !pick(&source, &words[at + 1]) {
                continue;
            }
            for library in Library::BOTH {
                let object = self.build.out.join(library.name()).join(&words[at + 1]);
                if let Some(dir) = object.parent() {
                    fs::create_dir_all(dir)?;
                }
                jobs.push(CompileJob {
                    library,
                    source: source.clone(),
                    words: self.words(library, &words, at, &object),
                    object,
                    directory: entry.directory.clone(),
                });
            }
        }
        compiler::compile(&jobs)
    }

    /// The command with another object file, dependencies, and our headers before all others.
    fn words(
        &self,
        library: Library,
        words: &[String],
        at: usize,
        object: &PathBuf,
    ) -> Vec<String> {
        let mut mine = words.to_vec();
        mine[at + 1] = text(object);
        let more = ["-MD".into(), "-MF".into(), text(object.with_added_d())];
        mine.splice(at + 2..at + 2, more);
        if library == Library::Ours {
            mine.insert(1, format!("-I{}", self.build.include.display()));
        }
        mine
    }

    /// Small static libraries, which do not use libibverbs.
    pub fn support(&self) -> Result<Variants, Failure> {
        self.compile(|path, object| {
            (path.starts_with("ccan/") || path.starts_with("util/"))
                && object.to_lowercase().contains("pic")
        })
    }

    fn judge(&self, name: &str, variants: &Variants) -> Verdict {
        judge(name, variants, &self.tree, &self.build.include)
    }

    pub fn examples(&self) -> Verdict {
        let compiled = self.compile(|path, _| path.starts_with("libibverbs/examples/"))?;
        for library in Library::BOTH {
            let objects = compiled.of(library);
            for (program, source) in VERBS_PROGRAMS {
                let mut files = vec![objects.object(source)?.clone()];
                if source.ends_with("_pingpong") {
                    files.push(objects.object("pingpong")?.clone());
                }
                let target = format!("bin/{program}");
                self.build.link(library, &target, &files, &["-libverbs"])?;
            }
        }
        self.judge("libibverbs' examples", &compiled)
    }

    pub fn librdmacm(&self) -> Verdict {
        let support = self.support()?;
        let mut compiled = self.compile(|path, object| {
            let directly = path
                .strip_prefix("librdmacm/")
                .is_some_and(|file| !file.contains('/') && file.ends_with(".c"));
            directly && object.contains("rdmacm.dir")
        })?;
        let preload = self.compile(|_, object| object.contains("rspreload.dir"))?;
        for library in Library::BOTH {
            let mut files = compiled.of(library).all_objects();
            files.extend(support.of(library).all_objects());
            let script = |name: &str| {
                let map = self.tree.join("librdmacm").join(name);
                format!("-Wl,--version-script={}", map.display())
            };
            let words =
                "-shared -Wl,-soname,librdmacm.so.1 -libverbs -lnl-route-3 -lnl-3 -lpthread";
            let map = script("librdmacm.map");
            let mut more: Vec<&str> = words.split(' ').collect();
            more.push(&map);
            self.build
                .link(library, "lib/librdmacm.so.1", &files, &more)?;
            symlink(
                "librdmacm.so.1",
                self.build.built(library).join("lib/librdmacm.so"),
            )?;
            let map = script("librspreload.map");
            let more = [
                "-shared", "-lrdmacm", "-libverbs", &map, "-lpthread", "-ldl",
            ];
            let files = preload.of(library).all_objects();
            self.build
                .link(library, "lib/librspreload.so", &files, &more)?;
        }
        compiled.add(&preload);
        self.judge("librdmacm", &compiled)?;
        self.cm_programs()
    }

    fn cm_programs(&self) -> Verdict {
        let compiled = self.compile(|path, _| path.starts_with("librdmacm/examples/"))?;
        for library in Library::BOTH {
            let objects = compiled.of(library);
            for program in CM_PROGRAMS {
                let source = if program == "ucmatose" {
                    "cmatose"
                } else {
                    program
                };
                let files = [
                    objects.object(source)?.clone(),
                    objects.object("common")?.clone(),
                ];
                let target = format!("bin/{program}");
                let more = ["-lrdmacm", "-libverbs", "-lpthread"];
                self.build.link(library, &target, &files, &more)?;
            }
        }
        self.judge("librdmacm's examples", &compiled)
    }

    /// Compiles all providers; also links rxe, to be run.
    pub fn providers(&self) -> Verdict {
        let kind = |entry: &Entry| {
            let path = text(&entry.file);
            let (_, rest) = path.split_once("/providers/")?;
            Some(rest.split('/').next()?.to_string())
        };
        let mut kinds: Vec<String> = self.entries.iter().filter_map(kind).collect();
        kinds.sort();
        kinds.dedup();
        let mut found: Vec<Failure> = Vec::new();
        for kind in &kinds {
            let prefix = format!("providers/{kind}/");
            let compiled = self.compile(|path, _| path.starts_with(&prefix))?;
            found.extend(self.judge(&format!("provider {kind}"), &compiled).err());
            if kind == "rxe" {
                self.link_rxe(&compiled)?;
            }
        }
        match found.split_first() {
            None if kinds.len() >= 15 => Ok(()),
            None => Err(format!("only {} providers", kinds.len()).into()),
            Some((first, rest)) => {
                let add = |all: Failure, next: &Failure| all.with(&next.why).with(&next.details);
                Err(rest.iter().fold(first.clone(), add))
            }
        }
    }

    fn link_rxe(&self, compiled: &Variants) -> Verdict {
        let support = self.support()?;
        for library in Library::BOTH {
            let mut files = compiled.of(library).all_objects();
            files.extend(support.of(library).all_objects());
            let map = self.tree.join("buildlib/provider.map");
            let map = format!("-Wl,--version-script={}", map.display());
            let words = "-shared -libverbs -lpthread -lnl-route-3 -lnl-3";
            let mut more: Vec<&str> = words.split(' ').collect();
            more.push(&map);
            self.build
                .link(library, "lib/librxe-rdmav34.so", &files, &more)?;
        }
        Ok(())
    }
}
