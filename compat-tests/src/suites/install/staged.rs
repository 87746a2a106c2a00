//! The installation of a distribution: staged with DESTDIR, in Debian's multiarch directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::{
    Destination, build, files, flags, multiarch, only_left, pkg_config, printed, same, text,
    wrapper_names,
};
use crate::checks::Check;
use crate::context::Context;
use crate::verdict::{Details, Failure, Verdict, ensure};

pub fn checks() -> Vec<Check> {
    let check = |name: &str, body: fn(&Context, &Staged) -> Verdict| {
        Check::new(name, move |cx| body(cx, &Staged::new(cx)?))
    };
    vec![
        check("nothing outside of usr", |_, staged| {
            let names = fs::read_dir(&staged.root)?.collect::<Result<Vec<_>, _>>()?;
            let only = names.len() == 1 && names[0].file_name() == "usr";
            ensure(only, format!("{names:?}"))
        }),
        check("no file names the stage", no_file_names_the_stage),
        check("libdir, includedir", |cx, staged| {
            same(
                &staged.usr_lib,
                &flags(cx, &staged.lib, &["--variable=libdir"])?,
            )?;
            same(
                "/usr/include",
                &flags(cx, &staged.lib, &["--variable=includedir"])?,
            )
        }),
        // pkg-config omits the directories that the compiler searches by default.
        check("--libs", |cx, staged| {
            same(
                "-libverbs",
                &flags(cx, &staged.lib, &["--cflags", "--libs"])?,
            )
        }),
        check("the wrapper's library", |cx, staged| {
            let library = staged.lib.join("libibverbs-rs/libibverbs.so.1");
            wrapper_names(cx, &staged.root.join("usr/bin/with-ibverbs-rs"), &library)
        }),
        check("with the stage as sysroot", |cx, staged| {
            let root = text(&staged.root);
            let expected = format!("-I{root}/usr/include -L{} -libverbs", text(&staged.lib));
            same(&expected, &staged.flags_in_sysroot(cx)?)
        }),
        check("a program builds against the stage", |cx, staged| {
            let flags = staged.flags_in_sysroot(cx)?;
            let (_, trace) = build(cx, "staged", &format!("{flags} -Wl,--trace"))?;
            let used = trace.contains(&format!("{}/", text(&staged.root)));
            ensure(used, "the linker read no file of the stage").with(trace)
        }),
        check("uninstall leaves no file", |cx, staged| {
            let other = cx.dir().join("uninstalled");
            cx.output(["cp", "-a", &text(&staged.root), &text(&other)])?;
            usr(&other, Path::new(&staged.usr_lib)).uninstall(cx)?;
            only_left(&other, &[])
        }),
        Check::new("uninstall leaves what is not ours", |cx| {
            let root = cx.dir().join("shared");
            let other = root.join("usr/include/infiniband/other.h");
            fs::create_dir_all(root.join("usr/include/infiniband"))?;
            fs::write(&other, "")?;
            let destination =
                Destination::new(&[("DESTDIR", &root), ("PREFIX", Path::new("/usr"))]);
            destination.install(cx)?;
            destination.uninstall(cx)?;
            only_left(&root, &[other])
        }),
    ]
}

/// The staged installation, made by the first check that needs it.
struct Staged {
    root: PathBuf,
    /// The directory of the library: in the stage, and as programs will see it.
    lib: PathBuf,
    usr_lib: String,
}

impl Staged {
    fn new(cx: &Context) -> Result<Self, Failure> {
        static INSTALLED: OnceLock<Verdict> = OnceLock::new();
        let root = cx.dir().join("stage");
        let usr_lib = format!("/usr/lib/{}", multiarch(cx)?);
        let install = || usr(&root, Path::new(&usr_lib)).install(cx);
        INSTALLED.get_or_init(install).clone()?;
        let lib = PathBuf::from(format!("{}{usr_lib}", text(&root)));
        Ok(Self { root, lib, usr_lib })
    }

    fn flags_in_sysroot(&self, cx: &Context) -> Result<String, Failure> {
        let program = pkg_config(cx, &self.lib, "libibverbs", &["--cflags", "--libs"]);
        printed(program.env("PKG_CONFIG_SYSROOT_DIR", &self.root))
    }
}

fn usr(root: &Path, lib: &Path) -> Destination {
    Destination::new(&[("DESTDIR", root), ("PREFIX", Path::new("/usr"))]).and("LIBDIR", lib)
}

/// A text file with the stage's path would be wrong once the package is installed.
fn no_file_names_the_stage(_: &Context, staged: &Staged) -> Verdict {
    let name = text(&staged.root);
    for path in files(&staged.root)? {
        let contents = fs::read(&path)?;
        let is_text = !contents.contains(&0);
        if is_text && String::from_utf8_lossy(&contents).contains(&name) {
            return Err(Failure::new(format!("{} names the stage", path.display())));
        }
    }
    Ok(())
}
