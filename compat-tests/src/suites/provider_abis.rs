//! Providers of every ABI that the library serves, side by side: small ones of our own
//! (provider-abis/provider.c), compiled against our driver.h for each layout, over the fake kernel.
//!
//! - `nodes`: the function of each name and node is that of the ABI before, unless its form has changed.
//! - `slots`: every verb reaches its op, with its arguments, and fails as it must without one.
//! - `commands`: the commands whose form differs between the ABIs return what they returned on rdma-core's
//!   library of that ABI, and pass the same bytes to the kernel. The expected files were compared with those
//!   libraries (docs/provider-abis.md).
//! - `two`: two ABIs in one process, under valgrind if it is installed.
//! - `choice`: which of several files of a provider is loaded, and what is refused.
//! - `directories`: two driver directories, and drivers that the configuration names by path.

mod directories;

use std::fs;
use std::path::{Path, PathBuf};

use crate::case::{Case, Tier};
use crate::compare;
use crate::context::{Context, Library};
use crate::fake::sysfs::{Device, Tree};
use crate::paths::text;
use crate::process::{Ended, Program, read, succeeded};
use crate::provider_layouts::{self, LAYOUTS, Layout, NEWEST};
use crate::sandbox::Sandbox;
use crate::verdict::{Failure, Verdict, contains, ensure};

/// How the fake kernel answers ioctls.
const KERNELS: [&str; 2] = ["ok", "ENOTTY"];

pub fn cases() -> Vec<Case> {
    let check = |case: Case| case.tier(Tier::Check).limit(120);
    vec![
        check(Case::new("provider-abis/nodes", nodes).programs(&["nodes"])),
        check(Case::new("provider-abis/slots", slots)),
        check(Case::new("provider-abis/commands", commands)),
        check(Case::new("provider-abis/two", two)),
        check(Case::new("provider-abis/choice", choice)),
        check(Case::new(
            "provider-abis/directories",
            directories::directories,
        ))
        .sandbox(Sandbox::Namespace),
    ]
}

/// The programs, providers and devices of a case, in its directory.
struct Bench<'a> {
    cx: &'a Context,
    shim: PathBuf,
    sys: PathBuf,
}

impl<'a> Bench<'a> {
    /// Compiles the providers and the fake kernel, and makes a device for each provider.
    fn new(cx: &'a Context) -> Result<Self, Failure> {
        let bench = Bench {
            cx,
            shim: cx.dir().join("shim.so"),
            sys: cx.dir().join("sys"),
        };
        let parts = ["shim", "answers", "ioctls", "record", "netlink"];
        let sources = parts.map(|part| cx.source(&format!("fake-uverbs/{part}.c")));
        bench.compile(
            &bench.shim,
            &sources,
            &["-shared", "-fPIC", "-ldl", "-pthread"],
        )?;
        for Layout { release, abi, .. } in LAYOUTS {
            bench.provider(&bench.file(release, abi), release, abi)?;
        }
        let devices = LAYOUTS.map(|layout| Device::from(device(layout.release).as_str()));
        Tree::new(devices).write(&bench.sys)?;
        Ok(bench)
    }

    /// The file of a provider, as the configuration finds it by [`name`](Self::name).
    fn file(&self, release: u32, abi: u32) -> PathBuf {
        self.cx
            .dir()
            .join(format!("libpabi{release}-rdmav{abi}.so"))
    }

    /// A provider's name in the configuration.
    fn name(&self, release: u32) -> String {
        format!("{}/libpabi{release}", self.cx.dir().display())
    }

    /// All providers, for RDMAV_DRIVERS.
    fn all(&self) -> String {
        LAYOUTS.map(|layout| self.name(layout.release)).join(":")
    }

    fn provider(&self, to: &Path, release: u32, abi: u32) -> Verdict {
        let version = format!("-DIBVERBS_PABI_VERSION={abi}");
        let layout = format!("-DIBVERBS_PABI_RELEASE={release}");
        let source = [self.cx.source("provider-abis/provider.c")];
        let flags = ["-shared", "-fPIC", "-Wl,-z,defs", &version, &layout];
        self.compile(to, &source, &[&flags[..], &self.linked().each()].concat())
    }

    /// A program of provider-abis/.
    fn program(&self, name: &str) -> Result<String, Failure> {
        let to = self.cx.dir().join(name);
        let source = [self.cx.source(&format!("provider-abis/{name}.c"))];
        self.compile(
            &to,
            &source,
            &[&self.linked().each()[..], &["-ldl"]].concat(),
        )?;
        Ok(text(&to))
    }

    fn linked(&self) -> Linked {
        Linked {
            include: format!("-I{}", self.cx.paths.repo.join("include").display()),
            library: text(self.cx.library(Library::Ours)),
        }
    }

    fn compile(&self, to: &Path, sources: &[PathBuf], flags: &[&str]) -> Verdict {
        let mut command: Vec<String> = [
            "gcc", "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror",
        ]
        .map(Into::into)
        .into();
        command.extend(["-o".into(), text(to)]);
        command.extend(sources.iter().map(text));
        command.extend(flags.iter().map(|flag| (*flag).to_owned()));
        self.cx.output(command).map(drop)
    }

    /// A program on our library and the fake kernel, with these providers.
    fn on_ours<S: Into<String>>(
        &self,
        command: impl IntoIterator<Item = S>,
        drivers: &str,
    ) -> Program {
        self.configured(command).env("RDMAV_DRIVERS", drivers)
    }

    /// The same with the providers that /etc/libibverbs.d names.
    fn configured<S: Into<String>>(&self, command: impl IntoIterator<Item = S>) -> Program {
        self.cx
            .program(command)
            .env("LD_LIBRARY_PATH", self.cx.library_dir(Library::Ours))
            .env("LD_PRELOAD", &self.shim)
            .env("SYSFS_PATH", &self.sys)
    }
}

/// Compiler arguments for our headers and our library.
struct Linked {
    include: String,
    library: String,
}

impl Linked {
    fn each(&self) -> [&str; 2] {
        [&self.include, &self.library]
    }
}

/// The device of the provider of a layout.
fn device(release: u32) -> String {
    format!("pabi{release}_0")
}

fn nodes(cx: &Context) -> Verdict {
    let library = cx.library(Library::Ours).to_string_lossy().into_owned();
    let list = cx.source("symbols/exports.lst");
    let list = text(&list);
    cx.output([cx.built("nodes")?, library, list]).map(drop)
}

fn slots(cx: &Context) -> Verdict {
    let bench = Bench::new(cx)?;
    let probe = bench.program("probe")?;
    for Layout { release, .. } in LAYOUTS {
        let command = [&probe, "slots", &device(release), &release.to_string()];
        let ended = bench.on_ours(command, &bench.all()).run()?;
        cx.report(&release.to_string(), all_ok(&ended, 90))?;
    }
    Ok(())
}

/// The program printed at least `minimum` lines with `ok`, no `not ok`, no warning, and ended with 0.
fn all_ok(ended: &Ended, minimum: usize) -> Verdict {
    let ok = ended
        .out
        .lines()
        .filter(|line| line.starts_with("ok "))
        .count();
    let others = ended.out.lines().count() - ok;
    if ok < minimum || others > 0 || !ended.err.is_empty() {
        let why = format!("{ok} checks passed, at least {minimum} were expected; {others} failed");
        return Err(Failure::new(why).with(ended.transcript()));
    }
    succeeded("the probe", ended)
}

fn commands(cx: &Context) -> Verdict {
    let bench = Bench::new(cx)?;
    let program = bench.program("commands")?;
    for Layout { release, .. } in LAYOUTS {
        for kernel in KERNELS {
            let name = format!("{release}.{kernel}");
            let log = cx.dir().join(format!("{name}.log"));
            let ended = bench
                .on_ours([&program, &device(release)], &bench.name(release))
                .env("FAKE_IOCTL", kernel)
                .env("FAKE_LOG", &log)
                .env("PABI_FDS", "1")
                .run()?;
            let got = format!("{}{}{}", ended.out, ended.err, masked(&read(&log)));
            cx.write(&format!("{name}.got"), &got)?;
            let expected = read(&cx.source(&format!("provider-abis/expected/{name}")));
            let same = compare::same((&format!("expected/{name}"), &expected), ("now", &got));
            cx.report(&name, same)?;
        }
    }
    Ok(())
}

/// The log without descriptors that the process opened itself. Those of the provider are above 255.
fn masked(log: &str) -> String {
    let mask = |line: &str| match line.rsplit_once("data=0x") {
        Some((start, number)) if line.contains(" fd ") && number.len() <= 2 => {
            format!("{start}data=FD\n")
        }
        _ => format!("{line}\n"),
    };
    log.lines().map(mask).collect()
}

fn two(cx: &Context) -> Verdict {
    let bench = Bench::new(cx)?;
    let probe = bench.program("probe")?;
    let valgrind = cx.output(["valgrind", "--version"]).is_ok();
    for (first, second) in [(34, 65), (59, 62), (57, 64), (34, 59), (62, 65)] {
        let command = [&probe, "two", &device(first), &device(second)];
        let mut program = bench.on_ours(command, &bench.all());
        if valgrind {
            program = program.under(["valgrind", "-q", "--error-exitcode=9"]);
        }
        cx.report(&format!("{first}-{second}"), all_ok(&program.run()?, 20))?;
    }
    if valgrind {
        Ok(())
    } else {
        cx.report("valgrind", Err(Failure::skip("valgrind is not installed")))
    }
}

fn choice(cx: &Context) -> Verdict {
    let bench = Bench::new(cx)?;
    let probe = bench.program("probe")?;
    let run = |drivers: &str, device: &str, release: u32| {
        let command = [&probe, "slots", device, &release.to_string()];
        bench.on_ours(command, drivers).run()
    };
    let at = |name: &str| cx.dir().join(name).to_string_lossy().into_owned();

    // Two files of one provider: the newer ABI is loaded, although it drives other devices.
    bench.provider(&cx.dir().join("libboth-rdmav57.so"), 57, 57)?;
    bench.provider(&cx.dir().join("libboth-rdmav64.so"), 64, 64)?;
    cx.report(
        "newest-first",
        all_ok(&run(&at("libboth"), &device(64), 64)?, 90),
    )?;
    // The file itself.
    let file = at("libboth-rdmav57.so");
    cx.report("by-path", all_ok(&run(&file, &device(57), 57)?, 90))?;

    // A provider of ABI 59 that does not show its layout is refused, unless a file beside it does.
    let hidden = cx.write("hidden.map", "{ global: pabi_*; local: *; };")?;
    let script = format!("-Wl,--version-script={}", hidden.display());
    fs::create_dir(cx.dir().join("plain"))?;
    bench.hidden(&cx.dir().join("plain/libpabi59-rdmav59.so"), &script)?;
    let ended = run(&at("plain/libpabi59"), &device(59), 59)?;
    let refused = ended
        .err
        .contains("it has provider ABI 59, and no file beside it shows which");
    cx.report("no-layout", ensure(refused, ended.transcript()))?;
    let map = cx.write("mlx5.map", "MLX5_1.25 { global: mlx5dv_query_device; };")?;
    let source = cx.write(
        "mlx5.c",
        "int mlx5dv_query_device(void); int mlx5dv_query_device(void) { return 0; }",
    )?;
    let script = format!("-Wl,--version-script={}", map.display());
    let neighbour = cx.dir().join("plain/libmlx5-rdmav59.so");
    let flags = ["-shared", "-fPIC", &script, "-Wl,--no-as-needed", "-lc"];
    bench.compile(&neighbour, &[source], &flags)?;
    let ended = run(&at("plain/libpabi59"), &device(59), 59)?;
    cx.report("layout-from-neighbour", all_ok(&ended, 90))?;

    // An ABI that the library does not have: the name of the node in the file is replaced.
    let (newest, next) = (NEWEST.abi, NEWEST.abi + 1);
    let bytes = fs::read(bench.file(NEWEST.release, newest))?;
    cx.write("libfuture-rdmav34.so", renamed(&bytes, newest, next)?)?;
    let ended = run(&at("libfuture"), &device(NEWEST.release), newest)?;
    let supported = provider_layouts::supported();
    let says = format!("it has provider ABI {next} (of rdma-core {next}); {supported}");
    cx.report("unknown-abi", contains(&ended.err, &[&says]))?;

    // Two providers for one device: the first in the configuration gets it, and the log says so.
    bench.provider(&cx.dir().join("libsame-rdmav34.so"), 34, 34)?;
    let drivers = format!("{}:{}", at("libsame"), bench.name(34));
    let log = cx.dir().join("verbs.log");
    let program = bench.on_ours([&probe, "slots", &device(34), "34"], &drivers);
    let ended = program
        .env("VERBS_LOG_LEVEL", "3")
        .env("VERBS_LOG_FILE", &log)
        .run()?;
    all_ok(&ended, 90)?;
    let text = read(&log);
    let says =
        text.contains("device pabi34_0: driver pabi34 of ") && text.contains("libsame-rdmav34.so");
    cx.report(
        "first-configured",
        ensure(says, format!("the log is: {text}")),
    )
}

impl Bench<'_> {
    /// A provider of ABI 59 that exports nothing but what the probe needs.
    fn hidden(&self, to: &Path, script: &str) -> Verdict {
        let source = [self.cx.source("provider-abis/provider.c")];
        let flags = ["-shared", "-fPIC", "-DIBVERBS_PABI_VERSION=59", script];
        self.compile(to, &source, &[&flags[..], &self.linked().each()].concat())
    }
}

/// The file with the node of another ABI.
fn renamed(bytes: &[u8], from: u32, to: u32) -> Result<Vec<u8>, Failure> {
    let mut copy = bytes.to_vec();
    let [from, to] = [from, to].map(|abi| format!("IBVERBS_PRIVATE_{abi}\0"));
    for at in 0..bytes.len().saturating_sub(from.len()) {
        if bytes[at..].starts_with(from.as_bytes()) {
            copy[at..at + to.len()].copy_from_slice(to.as_bytes());
        }
    }
    ensure(copy != bytes, "the provider does not name its ABI")?;
    Ok(copy)
}
