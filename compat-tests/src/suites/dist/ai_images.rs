//! The commands of docs/ai-images.md, in images of three distributions: a driver of another release
//! in front of the image's, which the C library refuses and this library loads; and beside such a
//! driver, transfers by the wheels of nixl, Mooncake and dlslime over uroce, with checked data.
//!
//! The drivers are libmlx5 of Debian 12 (44.0) and Debian 13 (56.1), and that of nixl's wheel (48).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::old_glibc::{ROOT, enter};
use super::{LIMIT, made, make_dist, text, unpacked};
use crate::case::{Case, Tier};
use crate::context::Context;
use crate::downloads;
use crate::process::{Ended, Program, read, succeeded, wait_until};
use crate::roots::{BOOKWORM, Root, SID_DEPENDENTS, TRIXIE};
use crate::sandbox::{Sandbox, sh};
use crate::verdict::{Details, Failure, Verdict, ensure};

/// Without what they declare as needed: nixl declares torch, and does without it.
const NIXL: [&str; 3] = ["--no-deps", "nixl-cu12==1.5.1", "numpy==2.4.6"];
const OTHERS: [&str; 2] = [
    "mooncake-transfer-engine-non-cuda==0.3.13.post1",
    "dlslime==0.1.23",
];
const DRIVER: &str = "libmlx5.so.1";
const REFUSED: &str = "version `IBVERBS_PRIVATE_34' not found";
/// The error that no libibverbs cures: the program is linked with a newer libmlx5 than the one in
/// front.
const OLD_DRIVER: &str = "version `MLX5_1.25' not found";

pub fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Context) -> Verdict, before: fn() -> Verdict| {
        Case::new(format!("dist/ai-images/{name}"), run)
            .before(before)
            .sandbox(Sandbox::Root)
            .tier(Tier::All)
            .memory(1500)
            .cpu(200)
            .limit(LIMIT)
            .estimate(60)
    };
    vec![
        case("sid", sid, || {
            drivers()?;
            SID_DEPENDENTS.make()?;
            wheels_of("3.14").map(drop)
        }),
        case("trixie", trixie, || {
            drivers()?;
            wheels_of("3.13").map(drop)
        }),
        case("here", here, || {
            make_dist()?;
            wheels_here().map(drop)
        }),
    ]
}

/// The archive and the wheel, and the root directories whose drivers are used.
fn drivers() -> Verdict {
    make_dist()?;
    BOOKWORM.make()?;
    TRIXIE.make()
}

fn wheels_of(python: &str) -> Result<PathBuf, Failure> {
    downloads::packages_of_python(python, &NIXL).map_err(Failure::skip)
}

fn wheels_here() -> Result<PathBuf, Failure> {
    let packages = [&NIXL[..], &OTHERS].concat();
    downloads::python_packages("ai-images-1", &packages).map_err(Failure::skip)
}

/// An image: the root directory of a distribution, or this machine.
struct Image<'a> {
    cx: &'a Context,
    /// The root directory is not this machine.
    is_root: bool,
    /// The value of PYTHONPATH: the wheels, and this library's.
    python_path: String,
    /// The directory of the prebuilt archive's library.
    ours: PathBuf,
}

impl<'a> Image<'a> {
    fn new(cx: &'a Context, root: Option<&Root>, wheels: &Path) -> Result<Image<'a>, Failure> {
        // The cache directory is not in the root directory, but the case's is.
        let (shown, own) = (cx.dir().join("wheels"), cx.dir().join("own"));
        fs::create_dir_all(&shown)?;
        sh(&format!(
            "mount -n --bind '{}' '{}'",
            wheels.display(),
            shown.display()
        ))?;
        let found = cx.output(["find", &text(made()), "-name", "*.whl"])?;
        let wheel = found.lines().next().ok_or("there is no wheel")?;
        // Not as a zip file, in which programs are not executable.
        let pip = [
            "python3", "-m", "pip", "install", "-q", "--no-index", "--target",
        ];
        cx.output(pip.into_iter().chain([text(&own).as_str(), wheel]))?;
        let ours = unpacked(cx)?.join("lib/libibverbs-rs");
        if let Some(root) = root {
            enter(&root.dir()?)?;
        }
        Ok(Image {
            cx,
            is_root: root.is_some(),
            python_path: format!("{}:{}", shown.display(), own.display()),
            ours,
        })
    }

    /// A program of the image, which searches for libraries in these directories first.
    fn program<S: Into<String>>(
        &self,
        words: impl IntoIterator<Item = S>,
        libraries: &[&Path],
    ) -> Program {
        let libraries: Vec<String> = libraries.iter().map(text).collect();
        // CARGO, which `cargo run` sets, names a file that is not in a root directory.
        let enter: &[&str] = if self.is_root { &["chroot", ROOT] } else { &[] };
        self.cx
            .program(words)
            .env("LD_LIBRARY_PATH", libraries.join(":"))
            .env("IBV_UROCE", "uroce0=lo")
            .env("PYTHONPATH", &self.python_path)
            .env("HOME", self.cx.dir())
            .under(["env", "-u", "CARGO"].iter().chain(enter).copied())
            .limit(Duration::from_secs(180))
    }
}

/// A copy of a distribution's libmlx5 in a directory of its own, which it returns.
fn driver_of(cx: &Context, root: &Root) -> Result<PathBuf, Failure> {
    let dir = cx.dir().join(format!("driver-{}", root.release()));
    fs::create_dir_all(&dir)?;
    let file = root.dir()?.join("usr/lib/x86_64-linux-gnu").join(DRIVER);
    fs::copy(file, dir.join(DRIVER))?;
    Ok(dir)
}

fn sid(cx: &Context) -> Verdict {
    let image = Image::new(cx, Some(&SID_DEPENDENTS), &wheels_of("3.14")?)?;
    let (old, new) = (driver_of(cx, &BOOKWORM)?, driver_of(cx, &TRIXIE)?);
    cx.report("ib_write_bw", perftest(&image, &new))?;
    let ended = image.program(["ib_write_bw", "--version"], &[&image.ours, &old]);
    cx.report("not-cured", fails(&ended.run()?, OLD_DRIVER, &old))?;
    for driver in [&old, &new] {
        let name = text(driver.file_name().unwrap_or_default());
        cx.report(&format!("{name}/dlopen"), loads(&image, driver))?;
        cx.report(&format!("{name}/nixl"), transfers(&image, "nixl", driver))?;
    }
    Ok(())
}

fn trixie(cx: &Context) -> Verdict {
    let image = Image::new(cx, Some(&TRIXIE), &wheels_of("3.13")?)?;
    let driver = driver_of(cx, &BOOKWORM)?;
    cx.report("nixl", transfers(&image, "nixl", &driver))
}

/// Beside the driver that nixl's wheel bundles.
fn here(cx: &Context) -> Verdict {
    let image = Image::new(cx, None, &wheels_here()?)?;
    let libs = cx.dir().join("wheels/nixl_cu12.libs");
    let found = cx.output(["find", &text(libs), "-name", "libmlx5-*"])?;
    let driver = Path::new(found.lines().next().ok_or("nixl's wheel has no libmlx5")?);
    cx.report("nixl", transfers(&image, "nixl", driver))?;
    cx.report("mooncake", transfers(&image, "mooncake", driver))?;
    let numa = cx.output(["ldconfig", "-p"])?.contains("libnuma.so.1");
    let dlslime = match numa {
        true => transfers(&image, "dlslime", driver),
        false => Err(Failure::skip("dlslime needs the package libnuma1")),
    };
    cx.report("dlslime", dlslime)
}

/// The dynamic linker refuses a program, and says which driver needs what.
fn fails(ended: &Ended, message: &str, driver: &Path) -> Verdict {
    ensure(!ended.ok(), "it runs")?;
    let shown = ended.err.lines().any(|line| line.contains(message));
    ensure(
        shown && ended.err.contains(&text(driver)),
        format!("not {message:?}"),
    )
    .with(&ended.err)
}

/// A transfer by uroce between two programs that are linked with the driver in front.
fn perftest(image: &Image, driver: &Path) -> Verdict {
    const SERVER: [&str; 5] = ["ib_write_bw", "-x", "1", "-F", "--report_gbits"];
    let refused = image.program(["ib_write_bw", "--version"], &[driver]);
    fails(&refused.run()?, REFUSED, driver)?;
    let libraries = [image.ours.as_path(), driver];
    let mut server = image.program(SERVER, &libraries).spawn()?;
    // perftest's port, 18515, in /proc/net/tcp.
    let listens = |path: &str| read(path.as_ref()).contains(":4853 00000000");
    let ready = wait_until(Duration::from_secs(60), || {
        listens("/proc/net/tcp") || read("/proc/net/tcp6".as_ref()).contains(":4853 ")
    });
    ensure(ready, "the server does not listen")?;
    let client = SERVER.into_iter().chain(["127.0.0.1"]);
    let ended = image.program(client, &libraries).succeed()?;
    let exit = server.wait(Duration::from_secs(60))?;
    succeeded("the server", &server.ended(exit)?)?;
    let rows = ended
        .out
        .lines()
        .filter(|line| line.trim_start().starts_with("65536 "));
    ensure(rows.count() == 1, "no row for 64 KiB").with(&ended.out)
}

/// Prints which libibverbs and libmlx5 the process has.
const LIBRARIES: &str = "
files = {line.split()[-1] for line in open('/proc/self/maps')}
print(*sorted(file for file in files if 'libibverbs.so' in file or 'libmlx5' in file))
";

/// Python's dlopen of a driver.
fn loads(image: &Image, driver: &Path) -> Verdict {
    let code = format!("import ctypes\nctypes.CDLL('{DRIVER}'){LIBRARIES}");
    let python = |libraries: &[&Path]| image.program(["python3", "-c", &code], libraries).run();
    fails(&python(&[driver])?, REFUSED, driver)?;
    let ended = python(&[&image.ours, driver])?;
    succeeded("python3", &ended)?;
    let top = image.ours.parent().unwrap_or(&image.ours);
    let loaded: Vec<&str> = ended.out.split_whitespace().collect();
    let right = [text(driver.join(DRIVER)), text(top)];
    ensure(
        loaded.len() == 2
            && right
                .iter()
                .all(|wanted| loaded.iter().any(|file| file.starts_with(wanted))),
        format!("loaded: {loaded:?}"),
    )
}

/// A transfer as `examples/python` has it, in a process that has loaded the driver before.
fn transfers(image: &Image, name: &str, driver: &Path) -> Verdict {
    let code = format!(
        "import ctypes, runpy, sys, libibverbs_rs
libibverbs_rs.enable()
ctypes.CDLL(sys.argv[1])
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name='__main__'){LIBRARIES}"
    );
    let cx = image.cx;
    let script = text(cx.source(&format!("../examples/python/{name}_transfer.py")));
    // A directory has one driver, by its usual name.
    let file = match driver.is_dir() {
        true => driver.join(DRIVER),
        false => driver.into(),
    };
    let words = ["python3", "-c", &code, &text(&file), &script];
    let ended = image.program(words, &[]).succeed()?;
    let wanted = format!("{name}: 4194304 bytes written and checked");
    let own = text(cx.dir().join("own"));
    let loaded = ended.out.lines().last().unwrap_or_default();
    let ibverbs: Vec<&str> = loaded
        .split_whitespace()
        .filter(|file| file.contains("libibverbs"))
        .collect();
    ensure(
        ended.out.contains(&wanted) && loaded.contains(&text(&file)),
        format!("not {wanted:?}, beside {}", file.display()),
    )
    .and_then(|()| {
        ensure(
            ibverbs.iter().all(|file| file.starts_with(&own)),
            format!("{ibverbs:?}"),
        )
    })
    .with(&ended.out)
}
