//! The Python wheel, installed by pip in a fresh environment: its commands, `enable()`, and transfers between
//! two processes by the wheels of Mooncake and nixl from the Python index, over uroce with checked data.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use super::{LIMIT, made, make_dist, text};
use crate::case::{Case, Tier};
use crate::checks::{self, Check};
use crate::context::Context;
use crate::downloads;
use crate::process::{Ended, Program, succeeded};
use crate::sandbox::Sandbox;
use crate::verdict::{Details, Failure, Verdict, contains, ensure};

/// Without what they declare as needed: nixl declares torch, and does without it.
const USERS: &[&str] = &[
    "--no-deps",
    "mooncake-transfer-engine-non-cuda==0.3.13.post1",
    "nixl-cu12==1.5.1",
    "numpy==2.4.6",
];

pub fn case() -> Case {
    let all = vec![
        Check::new("pip installs it", |cx| installed(cx).map(drop)),
        Check::new("run", |cx| {
            let ended = module(cx, &["run", "ibv_devinfo"])?.run()?;
            lists_uroce(&ended)
        }),
        Check::new("with-ibverbs-rs", |cx| {
            let command = text(installed(cx)?.join("bin/with-ibverbs-rs"));
            lists_uroce(&plain(cx, [&command, "ibv_devinfo"]).run()?)
        }),
        Check::new("check", |cx| {
            let ended = module(cx, &["check", "ibv_devinfo"])?.succeed()?;
            says(&ended, "libibverbs.so.1")
        }),
        Check::new("usage", |cx| {
            let ended = module(cx, &["nothing"])?.merged().run()?;
            ensure(!ended.ok(), "an unknown command is accepted")?;
            says(&ended, "usage: python -m libibverbs_rs run PROGRAM")
        }),
        Check::new("enable", |cx| python(cx, ENABLE, "enabled")),
        Check::new("enable in Debian's python3", in_debians),
        Check::new("enable after another libibverbs", |cx| {
            python(cx, TOO_LATE, "refused")
        }),
        Check::new("mooncake", |cx| {
            transfer(cx, "mooncake", &["uroce0"]).map(drop)
        }),
        Check::new("mooncake that discovers devices", discovers),
        Check::new("nixl", |cx| transfer(cx, "nixl", &[]).map(drop)),
        Check::new("pip uninstalls it", uninstalls),
    ];
    checks::case("dist/wheel", all)
        .before(|| {
            make_dist()?;
            users().map(drop)
        })
        .sandbox(Sandbox::Namespace)
        .tier(Tier::All)
        .memory(1500)
        .cpu(200)
        .limit(LIMIT)
        .estimate(60)
}

pub(in crate::suites) fn users() -> Result<PathBuf, Failure> {
    downloads::python_packages("users-1", USERS).map_err(Failure::skip)
}

/// A new environment with the wheel.
fn environment(cx: &Context, name: &str) -> Result<PathBuf, Failure> {
    let venv = cx.dir().join(name);
    let module = cx.program(["python3", "-c", "import ensurepip"]).run()?;
    if !module.ok() {
        return Err(Failure::skip(
            "python3 has no ensurepip: install python3-venv",
        ));
    }
    let create = cx.program(["python3", "-m", "venv", &text(&venv)]);
    create.limit(Duration::from_secs(300)).succeed()?;
    let found = cx.output(["find", &text(made()), "-name", "*.whl"])?;
    let wheel = found.lines().next().ok_or("there is no wheel")?;
    let python = text(venv.join("bin/python"));
    let pip = [&python, "-m", "pip", "install", "-q", "--no-index", wheel];
    let pip = plain(cx, pip).limit(Duration::from_secs(300));
    pip.succeed()?;
    Ok(venv)
}

/// The environment that most checks share.
fn installed(cx: &Context) -> Result<PathBuf, Failure> {
    static MADE: OnceLock<Result<PathBuf, Failure>> = OnceLock::new();
    MADE.get_or_init(|| environment(cx, "venv")).clone()
}

/// A program with the variables of a user who has uroce on loopback. The caller's Python is not in its way.
fn plain<S: Into<String>>(cx: &Context, words: impl IntoIterator<Item = S>) -> Program {
    let unset = ["PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"];
    let unset = unset.into_iter().flat_map(|name| ["-u", name]);
    cx.program(words)
        .env("IBV_UROCE", "uroce0=lo")
        .env("HOME", cx.dir())
        .under(["env"].into_iter().chain(unset))
}

/// `python -m libibverbs_rs` with these arguments.
fn module(cx: &Context, arguments: &[&str]) -> Result<Program, Failure> {
    let python = text(installed(cx)?.join("bin/python"));
    let words = [&python, "-m", "libibverbs_rs"];
    Ok(plain(
        cx,
        words.into_iter().chain(arguments.iter().copied()),
    ))
}

fn says(ended: &Ended, words: &str) -> Verdict {
    contains(&ended.out, &[words]).with(&ended.err)
}

/// Checks that the device that only this library has is listed.
fn lists_uroce(ended: &Ended) -> Verdict {
    succeeded("ibv_devinfo", ended)?;
    says(ended, "uroce0")?;
    says(ended, "PORT_ACTIVE")
}

/// After enable(), the names that modules load are this library, which has the device.
const ENABLE: &str = "
import ctypes, os, libibverbs_rs
path = libibverbs_rs.enable()
assert libibverbs_rs.enable() == path
for name in ('libibverbs.so.1', 'libibverbs.so'):
    library = ctypes.CDLL(name)
    count = ctypes.c_int()
    library.ibv_get_device_list.restype = ctypes.c_void_p
    assert library.ibv_get_device_list(ctypes.byref(count)) and count.value == 1, count
files = {line.split()[-1] for line in open('/proc/self/maps')}
maps = {file for file in files if os.path.basename(file).startswith('libibverbs')}
assert maps == {path}, maps
print('enabled')
";

/// Calls that the library redirects, with a program whose own addresses of them must not lead back to it.
const CALLS: &str = "
directory = os.open('/sys/class/infiniband', os.O_RDONLY)
os.fchdir(directory)
assert os.listdir('.') == os.listdir(directory) == ['uroce0'], os.listdir('.')
os.stat('/dev/infiniband/rdma_cm')
print('redirected')
";

const TOO_LATE: &str = "
import ctypes, libibverbs_rs
ctypes.CDLL('libibverbs.so.1')
try:
    libibverbs_rs.enable()
except RuntimeError as error:
    assert 'another libibverbs is loaded already' in str(error), error
    print('refused')
";

fn python(cx: &Context, code: &str, last: &str) -> Verdict {
    let python = text(installed(cx)?.join("bin/python"));
    let ended = plain(cx, [&python, "-c", code]).succeed()?;
    says(&ended, last)
}

/// Runs the wheel's library in Debian's Python, which is not position-independent, as others may
/// be: addresses of functions are those of its own stubs.
fn in_debians(cx: &Context) -> Verdict {
    const PYTHON: &str = "/usr/bin/python3";
    let kind = cx.output(["readelf", "-h", PYTHON])?;
    ensure(
        kind.contains("EXEC (Executable file)"),
        "it is a PIE: the case has no object",
    )?;
    let site = cx.output([
        "find",
        &text(installed(cx)?),
        "-name",
        "libibverbs_rs",
        "-type",
        "d",
    ])?;
    let site = site
        .lines()
        .next()
        .and_then(|line| line.strip_suffix("/libibverbs_rs"));
    let site = site.ok_or("the wheel is not installed")?;
    let code = format!("import sys\nsys.path.insert(0, '{site}'){ENABLE}{CALLS}");
    let ended = plain(cx, [PYTHON, "-c", &code]).succeed()?;
    says(&ended, "redirected")
}

/// Runs a transfer, in which another process checks the data that one writes into its memory.
fn transfer(cx: &Context, name: &str, arguments: &[&str]) -> Result<Ended, Failure> {
    let python = text(installed(cx)?.join("bin/python"));
    let script = text(cx.source(&format!("../examples/python/{name}_transfer.py")));
    let words = [python.as_str(), &script];
    // PYTHONPATH is set behind `env -u`, so it is kept.
    let program = plain(cx, words.into_iter().chain(arguments.iter().copied()));
    let program = program.env("PYTHONPATH", users()?);
    let ended = program.limit(Duration::from_secs(150)).succeed()?;
    says(
        &ended,
        &format!("{name}: 4194304 bytes written and checked"),
    )?;
    Ok(ended)
}

/// Without a name of a device, both processes find uroce in the files of the view, and use RDMA.
fn discovers(cx: &Context) -> Verdict {
    let ended = transfer(cx, "mooncake", &[])?;
    for message in [
        "Auto-discovering topology",
        "Device uroce0 port 1 is available",
        "Found 1 HCAs",
        "installTransport, type=rdma",
    ] {
        let count = ended.err.matches(message).count();
        let verdict = ensure(count == 2, format!("{message:?} {count} times, not 2"));
        verdict.with(&ended.err)?;
    }
    Ok(())
}

/// Checks that nothing of the wheel is left.
fn uninstalls(cx: &Context) -> Verdict {
    let venv = environment(cx, "uninstalled")?;
    let python = text(venv.join("bin/python"));
    let pip = [
        &python, "-m", "pip", "uninstall", "-q", "-y", "libibverbs-rs",
    ];
    plain(cx, pip).succeed()?;
    let left = cx.output(["find", &text(&venv), "-name", "*ibverbs*"])?;
    ensure(left.is_empty(), format!("left: {left}"))
}
