//! The Debian packages in a root directory: in place of the distribution's library, beside everything that
//! depends on it; upgraded; removed.

mod update;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{ended_well, last_words, libibverbs_in, package, programs, same, silent, sorted};
use crate::context::Context;
use crate::process::{Ended, Program, read};
use crate::roots::Root;
use crate::suites::dist::source_deb::names_crates;
use crate::verdict::{Details, Failure, Verdict, ensure};

/// Our packages, which replace each other with the distribution's.
pub const OURS: [&str; 5] = [
    "libibverbs1-rs", "libibverbs-rs-dev", "libibverbs-rs-ofed-dev", "uroce-ctl", "with-ibverbs-rs",
];
const DEPENDENTS: [&str; 7] = [
    "ibverbs-providers", "ibverbs-utils", "librdmacm-dev", "perftest", "python3-pyverbs", "qperf",
    "rdmacm-utils",
];
/// Our library's file in a root.
const OUR_FILE: &str = "/usr/lib/x86_64-linux-gnu/libibverbs.so.1.";
const PROGRAM: &str = "#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
int main(void) { return puts(ibv_wc_status_str(IBV_WC_SUCCESS)) < 0 || rdma_event_str(0) == NULL; }
";
const BUILD: &str = "gcc -Wall -Werror -o /program /program.c \
    $(pkg-config --cflags --libs libibverbs) -lrdmacm && /program";
/// The room that a root directory needs, in KiB.
const ROOM: u64 = 3_000_000;
/// Every file that packages could change.
const FILES: &str = "set -- etc usr lib/ var/lib/dpkg/diversions -name __pycache__ -prune -o \
    ! -path etc/ld.so.cache
find \"$@\" -printf '%p %m %y %l\\n'
find \"$@\" -type f -print0 | xargs -0 md5sum";

/// A root with the packages, while they are tested.
pub struct Debian<'a> {
    pub cx: &'a Context,
    root: PathBuf,
    /// Our version.
    version: String,
    /// Our packages, as the root sees them.
    debs: Vec<String>,
    /// Our library's file.
    ours: String,
    /// The distribution's.
    original: String,
    /// All other packages, and all files, at the beginning.
    others: String,
    files: String,
}

pub fn run(cx: &Context, release: &Root) -> Verdict {
    let root = copy(cx, release)?;
    let mut debian = Debian::new(cx, root)?;
    debian.before()?;
    // NO_VM=1 leaves the virtual machine out.
    let machine = std::env::var_os("NO_VM").is_none();
    if machine {
        programs::run(cx, &debian.root, "original")?;
    }
    debian.in_place()?;
    debian.development()?;
    debian.own_tests()?;
    if machine {
        programs::run(cx, &debian.root, "ours")?;
    }
    debian.upgrade()?;
    debian.back()?;
    debian.alone()?;
    debian.on_a_new_system()?;
    if machine {
        programs::compare(cx, &debian.original, &debian.ours)?;
    }
    Ok(())
}

/// A copy of the release's root directory: in memory if there is room, because dpkg syncs files to the disk.
fn copy(cx: &Context, release: &Root) -> Result<PathBuf, Failure> {
    let free = cx.output(["df", "--output=avail", "-k", "/dev/shm"])?;
    let free = free.split_whitespace().last().and_then(|n| n.parse().ok());
    let root = if free.unwrap_or(0u64) > ROOM {
        Path::new("/dev/shm/root").to_path_buf()
    } else {
        cx.dir().join("root")
    };
    let from = release.dir()?;
    let (from, to) = (from.to_string_lossy(), root.to_string_lossy());
    let copy = cx.program(["cp", "-a", "--", &from, &to]);
    copy.limit(Duration::from_secs(300)).succeed()?;
    Ok(root)
}

impl<'a> Debian<'a> {
    fn new(cx: &'a Context, root: PathBuf) -> Result<Self, Failure> {
        fs::create_dir(root.join("debs"))?;
        let mut debs = Vec::new();
        let mut version = String::new();
        for name in OURS {
            let file = package("deb", name)?;
            let inside = format!(
                "/debs/{}",
                file.file_name().unwrap_or_default().to_string_lossy()
            );
            fs::copy(&file, root.join(&inside[1..]))?;
            let path = file.to_string_lossy();
            version = cx
                .output(["dpkg-deb", "-f", &path, "Version"])?
                .trim()
                .into();
            debs.push(inside);
        }
        let mut debian = Self {
            cx,
            root,
            ours: String::new(),
            version,
            debs,
            original: String::new(),
            others: String::new(),
            files: String::new(),
        };
        debian.original = debian.loads("/usr/bin/ibv_devinfo")?;
        debian.others = debian.other_packages()?;
        debian.files = debian.files()?;
        Ok(debian)
    }

    fn program(&self, words: &[&str]) -> Program {
        let root = self.root.to_string_lossy();
        let mut all = vec!["chroot", &root, "env", "-i"];
        all.extend([
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME=/root",
            "LC_ALL=C",
        ]);
        all.push("DEBIAN_FRONTEND=noninteractive");
        all.extend(words);
        self.cx.program(all).limit(Duration::from_secs(600))
    }

    pub fn run(&self, words: &[&str]) -> Result<Ended, Failure> {
        Ok(self.program(words).run()?)
    }

    /// Runs a command in the root; returns what it prints, whatever its exit code is.
    fn prints(&self, words: &[&str]) -> Result<String, Failure> {
        Ok(self.run(words)?.out)
    }

    pub fn apt(&self, words: &[&str]) -> Result<Ended, Failure> {
        let mut all = vec![
            "apt-get", "-q", "-y", "--no-install-recommends", "-o", "Dpkg::Use-Pty=0",
        ];
        all.extend(words);
        self.run(&all)
    }

    /// Reports whether apt-get does this.
    pub fn try_apt(&self, name: &str, words: &[&str]) -> Verdict {
        let ended = self.apt(words)?;
        self.cx.report(name, ended_well(&ended))
    }

    fn same(&self, name: &str, expected: &str, got: &str) -> Verdict {
        same(self.cx, name, expected, got)
    }

    /// "PACKAGE STATE" of the packages that match.
    fn state(&self, patterns: &[&str]) -> Result<String, Failure> {
        let mut words = vec!["dpkg-query", "-W", "-f", "${Package} ${db:Status-Abbrev}\n"];
        words.extend(patterns);
        let shown = self.prints(&words)?;
        let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
        Ok(sorted(&lines.join("\n")))
    }

    /// The lines of `state` that name installed packages.
    fn installed(&self, patterns: &[&str]) -> Result<String, Failure> {
        let state = self.state(patterns)?;
        let installed = state.lines().filter(|line| line.ends_with(" ii"));
        Ok(installed.map(|line| format!("{line}\n")).collect())
    }

    /// Every package but those that replace each other.
    fn other_packages(&self) -> Result<String, Failure> {
        let format = "${Package} ${Version} ${db:Status-Abbrev}\n";
        let shown = self.prints(&["dpkg-query", "-W", "-f", format])?;
        let replaced = |line: &&str| {
            let name = line.split(' ').next().unwrap_or_default();
            OURS.contains(&name) || ["libibverbs1", "libibverbs-dev"].contains(&name)
        };
        let others = shown.lines().filter(|line| !replaced(line));
        Ok(others.map(|line| format!("{line}\n")).collect())
    }

    fn files(&self) -> Result<String, Failure> {
        let program = self.cx.program(["sh", "-ec", FILES]).dir(&self.root);
        let ended = program.limit(Duration::from_secs(300)).succeed()?;
        Ok(sorted(&ended.out))
    }

    fn configuration(&self, files: &str) -> String {
        let below = files
            .lines()
            .filter(|line| line.contains("etc/libibverbs.d"));
        below.map(|line| format!("{line}\n")).collect()
    }

    /// The libibverbs that a program loads, without links.
    fn loads(&self, program: &str) -> Result<String, Failure> {
        let shown = self.prints(&["ldd", program])?;
        let file = libibverbs_in(&shown)
            .ok_or_else(|| format!("{program} loads no libibverbs:\n{shown}"))?;
        Ok(self.prints(&["realpath", file])?.trim().into())
    }

    pub fn loads_ours(&self, name: &str, program: &str) -> Verdict {
        self.same(name, &self.ours, &self.loads(program)?)
    }

    fn before(&mut self) -> Verdict {
        let rdmacm = self.installed(&["librdmacm1*"])?;
        let rdmacm: Vec<&str> = rdmacm
            .lines()
            .filter_map(|l| l.strip_suffix(" ii"))
            .collect();
        let mut wanted: Vec<&str> = DEPENDENTS.to_vec();
        wanted.push(rdmacm.first().copied().unwrap_or("librdmacm1"));
        let expected: String = wanted.iter().map(|name| format!("{name} ii\n")).collect();
        let state = self.state(&wanted)?;
        self.same(
            "before/all-that-depends-on-it-is-there",
            &sorted(&expected),
            &state,
        )
    }

    /// Reports whether apt-get installs these packages.
    fn install(&self, name: &str, debs: &[String]) -> Verdict {
        let mut words = vec!["install"];
        words.extend(debs.iter().map(String::as_str));
        self.try_apt(name, &words)
    }

    fn in_place(&mut self) -> Verdict {
        self.install("in-place/apt-get-install", &self.debs)?;
        self.ours = self.loads("/usr/bin/ibv_devinfo")?;
        let is_ours = self.ours.starts_with(OUR_FILE) && self.ours != self.original;
        let why = format!("ibv_devinfo loads {}", self.ours);
        self.cx
            .report("in-place/programs-load-ours", ensure(is_ours, why))?;
        self.try_apt("in-place/apt-get-check", &["check"])?;
        let audit = silent(&self.run(&["dpkg", "--audit"])?);
        self.cx.report("in-place/dpkg-audit", audit)?;
        self.others_are_unchanged()?;
        let rdmacm = self.prints(&["sh", "-c", "echo /usr/lib/*/librdmacm.so.1"])?;
        self.loads_ours("in-place/librdmacm-loads-ours", rdmacm.trim())?;
        self.files_are_right()
    }

    fn others_are_unchanged(&self) -> Verdict {
        let expected = sorted(&OURS.map(|name| format!("{name} ii\n")).concat());
        let installed = self.installed(&["libibverbs*", "with-ibverbs-rs", "uroce-ctl"])?;
        self.same(
            "in-place/the-distributions-are-removed",
            &expected,
            &installed,
        )?;
        self.same(
            "in-place/other-packages-are-unchanged",
            &self.others,
            &self.other_packages()?,
        )?;
        let upgrade = self.apt(&["-s", "dist-upgrade"])?;
        let changes = |line: &str| line.starts_with("Remv ") || line.starts_with("Inst ");
        let nothing = upgrade.ok() && !upgrade.out.lines().any(changes);
        let verdict = ensure(nothing, "it would change packages");
        self.cx.report(
            "in-place/an-upgrade-would-change-nothing",
            verdict.with(last_words(&upgrade)),
        )
    }

    /// The configuration, links, and the group that owns the devices.
    fn files_are_right(&self) -> Verdict {
        let (before, now) = (
            self.configuration(&self.files),
            self.configuration(&self.files()?),
        );
        self.same("in-place/configuration-is-unchanged", &before, &now)?;
        let owner = self.prints(&["dpkg", "-S", "/etc/libibverbs.d/rxe.driver"])?;
        let owner = owner.split(':').next().unwrap_or_default();
        self.same(
            "in-place/configuration-is-of-ibverbs-providers",
            "ibverbs-providers",
            owner,
        )?;
        let mut verify = vec!["dpkg", "--verify"];
        verify.extend(OURS);
        self.cx
            .report("in-place/dpkg-verify", silent(&self.run(&verify)?))?;
        let find = [
            "find", "/usr/bin", "/usr/lib", "-name", "*ibv*", "-xtype", "l",
        ];
        self.same("in-place/no-dangling-links", "", &self.prints(&find)?)?;
        let copyright = self.root.join("usr/share/doc/libibverbs1-rs/copyright");
        let verdict = names_crates(self.cx, &read(&copyright));
        self.cx
            .report("in-place/copyright-names-linked-crates", verdict)?;
        let group = self.prints(&["getent", "group", "rdma"])?;
        let group = group.split(':').next().unwrap_or_default();
        self.same("in-place/the-group-rdma-exists", "rdma", group)
    }

    fn development(&self) -> Verdict {
        fs::write(self.root.join("program.c"), PROGRAM)?;
        let built = self.run(&["sh", "-c", BUILD])?;
        let says = built.ok() && built.out.lines().any(|line| line == "success");
        let verdict = ensure(says, "it does not print success");
        self.cx.report(
            "development/a-program-builds-and-runs",
            verdict.with(last_words(&built)),
        )?;
        self.loads_ours("development/it-loads-ours", "/program")?;
        let symbols = self
            .root
            .join("var/lib/dpkg/info/libibverbs1-rs:amd64.symbols");
        let symbols = fs::read_to_string(symbols)?;
        self.same(
            "development/its-package-would-depend-on-libibverbs1",
            "libibverbs.so.1 libibverbs1 #MINVER#",
            symbols.lines().next().unwrap_or_default(),
        )?;
        self.with_the_distributions_headers()?;
        for file in ["program", "program.c"] {
            fs::remove_file(self.root.join(file))?;
        }
        Ok(())
    }

    /// Runs what autopkgtest would run: each test of debian/tests/control, in the root with the
    /// packages.
    fn own_tests(&self) -> Verdict {
        let tests = self.cx.source("../packaging/debian/tests");
        let control = read(&tests.join("control"));
        let names = control
            .lines()
            .filter_map(|line| line.strip_prefix("Tests: "));
        let (proc, inside) = (self.root.join("proc"), self.root.join("tests"));
        let proc = proc.to_string_lossy();
        fs::create_dir(&inside)?;
        self.cx.output(["mount", "-t", "proc", "proc", &proc])?;
        for name in names {
            fs::copy(tests.join(name), inside.join(name))?;
            let ended = self.run(&[&format!("/tests/{name}")])?;
            self.cx
                .report(&format!("own-tests/{name}"), ended_well(&ended))?;
        }
        self.cx.output(["umount", &proc])?;
        fs::remove_dir_all(inside)?;
        Ok(())
    }

    fn with_the_distributions_headers(&self) -> Verdict {
        self.try_apt(
            "development/the-distributions-libibverbs-dev-can-be-installed",
            &["install", "libibverbs-dev"],
        )?;
        let both = self.state(&["libibverbs-dev", "libibverbs1-rs"])?;
        let expected = "libibverbs-dev ii\nlibibverbs1-rs ii\n";
        self.same("development/it-is-installed", expected, &both)?;
        self.try_apt("development/apt-get-check", &["check"])?;
        let built = self.run(&["sh", "-c", BUILD])?;
        self.cx.report(
            "development/a-program-builds-and-runs-with-it",
            ended_well(&built),
        )?;
        self.loads_ours("development/it-still-loads-ours", "/program")?;
        update::run(self)?;
        self.install("development/it-is-replaced-again", &self.debs)
    }

    /// Packages with a newer version and the same contents, as the root sees them.
    fn newer_packages(&self, next: &str) -> Result<Vec<String>, Failure> {
        let mut newer = Vec::new();
        for deb in &self.debs {
            let file = self.root.join(&deb[1..]).to_string_lossy().into_owned();
            let dir = self.cx.dir().join("next");
            if dir.exists() {
                fs::remove_dir_all(&dir)?;
            }
            self.cx
                .output(["dpkg-deb", "-R", &file, &dir.to_string_lossy()])?;
            let control = dir.join("DEBIAN/control");
            let text = fs::read_to_string(&control)?.replace(&self.version, next);
            fs::write(control, text)?;
            let to = deb.replace(&self.version, next);
            let target = self.root.join(&to[1..]).to_string_lossy().into_owned();
            let dir = dir.to_string_lossy();
            self.cx
                .output(["dpkg-deb", "--root-owner-group", "-b", &dir, &target])?;
            newer.push(to);
        }
        Ok(newer)
    }

    fn upgrade(&self) -> Verdict {
        let next = format!("{}+next", self.version);
        let newer = self.newer_packages(&next)?;
        self.install("upgrade/to-a-newer-version", &newer)?;
        let found = self.prints(&["dpkg-query", "-W", "-f", "${Version}", "libibverbs1-rs"])?;
        self.same("upgrade/it-is-there", &next, &found)?;
        self.try_apt("upgrade/apt-get-check", &["check"])?;
        let mut down = vec!["--allow-downgrades", "install"];
        down.extend(self.debs.iter().map(String::as_str));
        self.try_apt("upgrade/and-down-again", &down)?;
        self.loads_ours("upgrade/programs-load-ours", "/usr/bin/ibv_devinfo")
    }

    fn back(&self) -> Verdict {
        let words = ["install", "libibverbs1", "libibverbs-dev"];
        self.try_apt("back/apt-get-install", &words)?;
        self.try_apt("back/apt-get-check", &["check"])?;
        let state = self.state(&OURS)?;
        let known: Vec<&str> = state
            .lines()
            .filter(|line| !line.ends_with(" un"))
            .collect();
        self.same("back/dpkg-knows-nothing-of-ours", "", &known.join("\n"))?;
        self.same(
            "back/every-package-as-before",
            &self.others,
            &self.other_packages()?,
        )?;
        self.same("back/all-files-are-as-before", &self.files, &self.files()?)?;
        let loads = self.loads("/usr/bin/ibv_devinfo")?;
        self.same(
            "back/programs-load-the-distributions",
            &self.original,
            &loads,
        )
    }

    /// Without the distribution's dev package; removed and purged.
    fn alone(&self) -> Verdict {
        self.apt(&["purge", "librdmacm-dev", "libibverbs-dev"])?;
        let library = self.library();
        self.try_apt("alone/apt-get-install", &["install", &library])?;
        self.try_apt("alone/libibverbs1-is-restored", &["install", "libibverbs1"])?;
        let installed = || self.installed(&["libibverbs1*"]);
        self.same("alone/it-is-there", "libibverbs1 ii\n", &installed()?)?;
        self.apt(&["install", &library])?;
        let purged = self.run(&["dpkg", "--purge", "--force-depends", "libibverbs1-rs"])?;
        self.cx.report("alone/dpkg-purge", ended_well(&purged))?;
        let find = "find /usr /etc /var/lib/dpkg/info -name '*libibverbs1-rs*' -o -name 'libibverbs.so.1*'";
        let left = self.prints(&["sh", "-c", find])?;
        self.same("alone/purge-leaves-no-file", "", &left)?;
        self.try_apt(
            "alone/apt-get-f-install-restores-libibverbs1",
            &["-f", "install"],
        )?;
        self.same("alone/it-is-there-again", "libibverbs1 ii\n", &installed()?)
    }

    /// A system that has no package of RDMA takes ours, not libibverbs1.
    fn on_a_new_system(&self) -> Verdict {
        self.apt(&[
            "purge", "libibverbs1", "librdmacm1*", "libibumad3", "ibverbs-providers",
        ])?;
        let library = self.library();
        let simulated = self.apt(&[
            "-s", "-o", "Debug::NoLocking=1", "install", &library, "ibverbs-utils", "perftest",
        ])?;
        let takes = |line: &str| line.starts_with("Inst libibverbs1 ");
        let right = simulated.ok() && !simulated.out.lines().any(takes);
        let verdict = ensure(right, "it would install libibverbs1");
        self.cx.report(
            "new-system/ours-is-taken",
            verdict.with(last_words(&simulated)),
        )
    }

    fn library(&self) -> String {
        format!("/debs/libibverbs1-rs_{}_amd64.deb", self.version)
    }
}
