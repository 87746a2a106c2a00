//! Copies of libibverbs that Python packages bundle: one made here as auditwheel does it (patchelf rewrites
//! SONAME, NEEDED and RPATH), and nixl's wheel from the registry.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::ways::{PARTS, Way, way};
use super::{only_ours, says, text, theirs, wrapped};
use crate::artifacts::library_dir;
use crate::case::{Case, Tier};
use crate::checks::Check;
use crate::context::Context;
use crate::downloads;
use crate::process::{Exit, last_lines, succeeded};
use crate::verdict::{Failure, Verdict, ensure};

const PYTHON: &str = "/usr/bin/python3";
const VERBS: &str = "libibverbs-1a2b3c4d.so.1.14.44.0";
const MLX5: &str = "libmlx5-1a2b3c4d.so.1.24.44.0";

/// A Python environment with a package that bundles libibverbs and libmlx5, which needs its private names.
struct Bundle {
    venv: PathBuf,
    site: PathBuf,
    libs: PathBuf,
}

impl Bundle {
    /// Below `root`.
    fn at(root: &Path) -> Self {
        let site = root.join("lib/python3.11/site-packages");
        Self {
            venv: root.into(),
            libs: site.join("bundler.libs"),
            site,
        }
    }

    /// The environment that most checks share, which the first of them makes.
    fn shared(cx: &Context) -> Result<Self, Failure> {
        static MADE: OnceLock<Verdict> = OnceLock::new();
        let bundle = Self::at(&cx.dir().join("venv"));
        MADE.get_or_init(|| bundle.make(cx)).clone()?;
        Ok(bundle)
    }

    fn make(&self, cx: &Context) -> Verdict {
        fs::create_dir_all(&self.libs)?;
        fs::create_dir_all(self.venv.join("bin"))?;
        symlink(PYTHON, self.python())?;
        let (verbs, mlx5) = (text(self.libs.join(VERBS)), text(self.libs.join(MLX5)));
        let consumer = text(self.consumer());
        fs::copy(theirs()?, &verbs)?;
        fs::copy(library_dir()?.join("libmlx5.so.1"), &mlx5)?;
        fs::copy(cx.built("where-consumer")?, &consumer)?;
        let needed = ["--replace-needed", "libibverbs.so.1", VERBS];
        let patch = |arguments: &[&str]| -> Verdict {
            cx.output(["patchelf"].iter().chain(arguments).copied())
                .map(drop)
        };
        patch(&["--set-soname", VERBS, &verbs])?;
        patch(&[&["--set-soname", MLX5], &needed[..], &[mlx5.as_str()]].concat())?;
        let of_mlx5 = ["--replace-needed", "libmlx5.so.1", MLX5];
        patch(&[&needed[..], &of_mlx5, &[consumer.as_str()]].concat())?;
        patch(&["--force-rpath", "--set-rpath", "$ORIGIN", &mlx5])?;
        patch(&[
            "--force-rpath", "--set-rpath", "$ORIGIN/bundler.libs", &consumer,
        ])
    }

    fn python(&self) -> PathBuf {
        self.venv.join("bin/python3")
    }

    fn consumer(&self) -> PathBuf {
        self.site.join("consumer.so")
    }

    fn copy_of_verbs(&self) -> String {
        text(self.libs.join(VERBS))
    }

    /// Python code that loads the package's library and calls libibverbs through it.
    fn code(&self) -> String {
        let consumer = text(self.consumer());
        format!("import ctypes, sys; sys.exit(ctypes.CDLL('{consumer}').answer())")
    }

    /// The way in which the environment's Python runs `code`.
    fn way(&self) -> Way {
        Way::new(
            self.copy_of_verbs(),
            [text(self.python()), "-c".into(), self.code()],
        )
    }
}

pub fn checks() -> Vec<Check> {
    vec![
        way("in a wheel", |cx| Ok(Bundle::shared(cx)?.way())),
        Check::new("in a wheel: --check names the copy", |cx| {
            let bundle = Bundle::shared(cx)?;
            let ended = bundle.way().wrapped(cx, &["--check"])?;
            says(
                &ended,
                0,
                &format!("replaced: {VERBS} of {}", text(&bundle.libs)),
            )
        }),
        way("in a wheel, by a tool of the environment", |cx| {
            let bundle = Bundle::shared(cx)?;
            let tool = bundle.venv.join("bin/tool");
            let python = text(bundle.python());
            fs::write(&tool, format!("#!{python}\n{}\n", bundle.code()))?;
            fs::set_permissions(&tool, fs::Permissions::from_mode(0o755))?;
            Ok(Way::new(bundle.copy_of_verbs(), [text(tool)]))
        }),
        way("in a wheel, by a child", |cx| {
            let bundle = Bundle::shared(cx)?;
            let python = text(bundle.python());
            let command = format!("'{python}' -c \"{}\"", bundle.code());
            let way = Way::new(bundle.copy_of_verbs(), ["sh", "-c", &command]);
            Ok(way.env("VIRTUAL_ENV", text(bundle.venv)))
        }),
        way("in a wheel, by PYTHONPATH", |cx| {
            let bundle = Bundle::shared(cx)?;
            let way = Way::new(bundle.copy_of_verbs(), [PYTHON, "-c", &bundle.code()]);
            Ok(way.env("PYTHONPATH", text(bundle.site)))
        }),
        way("in a wheel, without a cache directory", |cx| {
            Ok(Bundle::shared(cx)?.way().env("XDG_CACHE_HOME", "/proc"))
        }),
        Check::new("links for copies are the user's own", own_links),
        Check::new("--check: a copy whose libmlx5 wants another ABI", |cx| {
            let bundle = of_another_abi(cx)?;
            let ended = wrapped(cx, ["--check".into(), text(bundle.python())])?.run()?;
            let copy = bundle.copy_of_verbs();
            let pattern = format!("not replaced: {copy}: {MLX5} needs IBVERBS_PRIVATE_99");
            says(&ended, 1, &pattern)
        }),
        Check::new(
            "a copy whose libmlx5 wants another ABI stays, with a warning",
            |cx| {
                let python = text(of_another_abi(cx)?.python());
                let ended = wrapped(cx, [&python, "-c", "print('runs')"])?.run()?;
                says(&ended, 0, "^runs$")?;
                says(&ended, 0, "^with-ibverbs-rs: not replaced: ")
            },
        ),
    ]
}

/// Without a cache directory, the links are in a directory of TMPDIR, which nobody else may read.
fn own_links(cx: &Context) -> Verdict {
    let way = Bundle::shared(cx)?.way().env("XDG_CACHE_HOME", "/proc");
    only_ours(cx, &way.wrapped(cx, &[])?)?;
    let id = cx.output(["id", "-u"])?;
    let dir = cx.dir().join(format!("libibverbs-rs-{}", id.trim()));
    let mode = fs::metadata(&dir)?.permissions().mode() & 0o7777;
    ensure(
        mode == 0o700,
        format!("the mode of {} is {mode:o}", dir.display()),
    )
}

/// A bundle whose libmlx5 is of a release whose private symbol version our library does not have.
fn of_another_abi(cx: &Context) -> Result<Bundle, Failure> {
    let bundle = Bundle::at(&cx.dir().join("later"));
    if bundle.venv.exists() {
        return Ok(bundle);
    }
    bundle.make(cx)?;
    let file = bundle.libs.join(MLX5);
    let mut bytes = fs::read(&file)?;
    let (old, new) = (b"IBVERBS_PRIVATE_34", b"IBVERBS_PRIVATE_99");
    let mut replaced = 0;
    for at in 0..bytes.len() - old.len() {
        if bytes[at..].starts_with(old) {
            bytes[at..at + new.len()].copy_from_slice(new);
            replaced += 1;
        }
    }
    ensure(replaced > 0, "libmlx5 does not need IBVERBS_PRIVATE_34")?;
    fs::write(&file, bytes)?;
    Ok(bundle)
}

/// nixl's wheel. It is fetched once (70 MB).
pub fn of_registry() -> Case {
    Case::new("wrapper/wheel", registry)
        .tier(Tier::All)
        .programs(&["where-library"])
        .limit(900)
        .estimate(60)
}

fn registry(cx: &Context) -> Verdict {
    let wheel = downloads::wheel("nixl-cu12").map_err(Failure::skip)?;
    let venv = cx.dir().join("venv");
    let site = venv.join("lib/python3.11/site-packages");
    fs::create_dir_all(&site)?;
    fs::create_dir_all(venv.join("bin"))?;
    let python = text(venv.join("bin/python3"));
    symlink(PYTHON, &python)?;
    cx.output([PYTHON, "-m", "zipfile", "-e", &text(wheel), &text(&site)])?;
    let copy = bundled_copy(cx, &site)?;
    let mut loaded = 0;
    for user in users_of(cx, &site, &copy)? {
        let call = call_through(cx, &user)?;
        let way = Way::new(&copy, [&python, "-c", &call]);
        let name = user.rsplit('/').next().unwrap_or(&user).to_string();
        // If the bundled copy were called, it would load the distribution's providers and with them the
        // distribution's library. Two libraries in one process can crash, so the copy is loaded but not
        // called.
        let only_loads = way.env("WHERE_ONLY_LOADS", "1");
        let ended = only_loads.plain(cx)?;
        if ended.exit != Exit::Code(0) {
            // Another library that it needs is missing: CUDA, for example.
            println!("{name} does not load here: {}", last_lines(&ended.out, 1));
            continue;
        }
        loaded += 1;
        for (part, verdict) in PARTS.iter().zip(only_loads.verdicts(cx)?) {
            cx.report(&format!("{name}/{part}"), verdict)?;
        }
        let ended = wrapped(cx, [&python, "-c", &call])?.run()?;
        let called = succeeded(&name, &ended).and_then(|()| only_ours(cx, &ended));
        cx.report(&format!("{name}/called"), called)?;
    }
    cx.report(
        "more-than-two-load-here",
        ensure(loaded > 2, format!("{loaded} load")),
    )
}

fn bundled_copy(cx: &Context, site: &Path) -> Result<String, Failure> {
    let find = ["find", &text(site), "-path", "*.libs/libibverbs-*.so*"].map(String::from);
    let found = cx.output(find)?;
    Ok(found
        .lines()
        .next()
        .ok_or("the wheel has no libibverbs")?
        .into())
}

/// The libraries that need the copy.
fn users_of(cx: &Context, site: &Path, copy: &str) -> Result<Vec<String>, Failure> {
    let name = copy.rsplit('/').next().unwrap_or(copy);
    let found = cx.output(["grep", "-rlaF", name, &text(site), "--include=*.so*"])?;
    let users = found.lines().filter(|file| *file != copy);
    let mut users: Vec<String> = users.map(String::from).collect();
    users.sort();
    Ok(users)
}

/// Python code that calls ibv_get_device_list as the dependencies of this library have it.
fn call_through(cx: &Context, library: &str) -> Result<String, Failure> {
    let place = cx.built("where-library")?;
    Ok(format!(
        "import ctypes, os
lib = ctypes.CDLL('{library}', mode=ctypes.RTLD_GLOBAL)
where = ctypes.CDLL('{place}')
where.where.argtypes = [ctypes.c_void_p]
os._exit(where.where(ctypes.cast(lib.ibv_get_device_list, ctypes.c_void_p)))"
    ))
}
