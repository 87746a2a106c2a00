//! The source rpm, rebuilt in the root directory of a Debian 13 that has what BuildRequires names, and
//! rpmbuild, without a network. It makes the same packages as `make rpm`, whose behaviour packages/rpm tests.

use std::path::PathBuf;
use std::time::Duration;

use super::old_glibc::{enter, inside};
use super::{LIMIT, text};
use crate::case::{Case, Place, Tier};
use crate::compare;
use crate::context::{Context, last_lines, succeeded};
use crate::paths;
use crate::roots::TRIXIE_RPM;
use crate::verdict::{Verdict, ensure};

const CHECKS: [&str; 3] = ["builds", "files", "runs"];

pub fn case() -> Case {
    Case::new("dist/source-rpm", run)
        .members(
            CHECKS
                .map(|check| format!("dist/source-rpm/{check}"))
                .into(),
        )
        .before(|| {
            crate::make::on_host("rpm")?;
            crate::make::on_host("rpm-src")?;
            TRIXIE_RPM.make()
        })
        .place(Place::Root)
        .tier(Tier::All)
        .cpu(200)
        .memory(3000)
        .limit(LIMIT)
        .estimate(400)
}

/// Where `make rpm-src` leaves the package.
fn source() -> PathBuf {
    paths::target().join("rpm-src")
}

/// --nodeps: Debian's packages are not in rpm's database. The directory of libraries is that of rpm
/// distributions.
const BUILD: &str = r#"
cd "$1"
rpmbuild --rebuild --nodeps --target x86_64 --define "_topdir $PWD/top" --define '_libdir /usr/lib64' \
    --define "_dbpath $PWD/database" --define '_tmppath /tmp' --define '_build_id_links none' \
    --define '_binary_payload w6.zstdio' libibverbs-rs-*.src.rpm
mkdir root
cd root
for package in ../top/RPMS/x86_64/*.rpm; do rpm2archive - <"$package" | tar -xzf -; done
"#;

/// Prints what the packages in a directory have, require and provide. Not the versions of glibc and rpm,
/// which are those of the machine that builds, nor libm: whether it is needed depends on the release of Rust.
const LIST: &str = r#"cd "$1"
for package in *.rpm; do
    echo "$package"
    rpm -qp --nosignature --qf '%{NAME} %{VERSION}-%{RELEASE} %{LICENSE}\n' "$package"
    rpm -qpl --nosignature "$package"
    rpm -qp --nosignature --requires --provides --conflicts "$package"
done | grep -v '^rpmlib(\|(GLIBC_\|(GCC_\|^ld-linux\|^libm\.so'"#;

fn run(cx: &Context) -> Verdict {
    let work = cx.dir().join("work");
    cx.output(["cp", "-r", &text(source()), &text(&work)])?;
    enter(&TRIXIE_RPM.dir()?)?;
    let build = inside(cx, ["sh", "-ec", BUILD, "build", &text(&work)])
        .env("HOME", cx.dir())
        .limit(Duration::from_secs(LIMIT))
        .merged()
        .run()?;
    let built = succeeded("rpmbuild", &build);
    let failed = built.is_err();
    cx.report(
        "builds",
        built.map_err(|failure| failure.with(last_lines(&build.out, 60))),
    )?;
    if failed {
        return Ok(());
    }
    let list = |dir: PathBuf| cx.output(["sh", "-ec", LIST, "list", &text(dir)]);
    let (plain, rebuilt) = (
        list(paths::target().join("rpm"))?,
        list(work.join("top/RPMS/x86_64"))?,
    );
    cx.report(
        "files",
        compare::same(("make rpm", &plain), ("rebuilt", &rebuilt)),
    )?;
    let devices = inside(cx, ["ibv_devices"])
        .library(&work.join("root/usr/lib64/libibverbs-rs"))
        .env("IBV_UROCE", "uroce0=lo")
        .run()?;
    let runs = succeeded("ibv_devices", &devices)
        .and_then(|()| ensure(devices.out.contains("uroce0"), "no uroce0"));
    cx.report("runs", runs)?;
    cx.output(["rm", "-rf", &text(&work)]).map(drop)
}
