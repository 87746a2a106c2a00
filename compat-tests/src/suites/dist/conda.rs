//! The conda recipe, built by rattler-build with an empty channel: the package has the archive's library,
//! unchanged, and its with-ibverbs-rs finds it.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use super::{LIMIT, NAME, made, make_dist, text, unpacked};
use crate::case::{Case, Tier};
use crate::context::Context;
use crate::downloads;
use crate::verdict::{Details, Failure, Verdict, ensure};

const PACKAGES: [&str; 1] = ["py-rattler-build==0.73.0"];

pub fn case() -> Case {
    Case::new("dist/conda", run)
        .before(|| {
            make_dist()?;
            packages().map(drop)
        })
        .tier(Tier::All)
        .limit(LIMIT)
        .estimate(20)
}

fn packages() -> Result<String, Failure> {
    let dir = downloads::python_packages("conda-1", &PACKAGES).map_err(Failure::skip)?;
    Ok(text(dir))
}

/// Builds the recipe, and unpacks the package into the directory `package`.
const BUILD: &str = "
import pathlib, rattler_build, sys, zipfile
top = pathlib.Path(sys.argv[1])
for subdir in ('noarch', 'linux-64'):
    directory = top / 'channel' / subdir
    directory.mkdir(parents=True)
    info = '{\"info\": {\"subdir\": \"%s\"}, \"packages\": {}, \"packages.conda\": {}}' % subdir
    (directory / 'repodata.json').write_text(info)
rattler_build.build_recipes(
    [str(top / 'packaging/conda/recipe.yaml')], output_dir=str(top / 'out'),
    channel=['file://%s/channel' % top], test='skip')
(package,) = (top / 'out').glob('linux-64/*.conda')
zipfile.ZipFile(package).extractall(top / 'parts')
";

const UNPACK: &str = r#"mkdir "$1/package"
for part in "$1"/parts/*.tar.zst; do zstd -qdc "$part" | tar -C "$1/package" -xf -; done"#;

fn run(cx: &Context) -> Verdict {
    let top = text(cx.dir());
    let recipe = cx.dir().join("packaging/conda");
    fs::create_dir_all(&recipe)?;
    fs::create_dir(cx.dir().join("target"))?;
    let file = recipe.join("recipe.yaml");
    fs::copy(cx.source("../packaging/conda/recipe.yaml"), file)?;
    symlink(made(), cx.dir().join("target/dist"))?;
    let build = cx.program(["python3", "-W", "ignore", "-c", BUILD, &top]);
    let build = build.env("PYTHONPATH", packages()?).env("HOME", cx.dir());
    build.limit(Duration::from_secs(300)).merged().succeed()?;
    cx.program(["sh", "-ec", UNPACK, "unpack", &top])
        .succeed()?;
    let package = cx.dir().join("package");
    let library = package.join("lib/libibverbs-rs/libibverbs.so.1");
    let same = fs::read(&library)? == fs::read(unpacked(cx)?.join("lib/libibverbs.so.1"))?;
    ensure(same, format!("not the library of {NAME}"))?;
    let wrapper = text(package.join("bin/with-ibverbs-rs"));
    let ended = cx.program([&wrapper, "--version"]).succeed()?;
    let line = format!("library: {}", text(&library));
    let found = ended.out.lines().any(|found| found == line);
    ensure(found, format!("no line {line}")).with(ended.out)
}
