//! The source rpm, rebuilt in the root directory of a Debian 13 that has what BuildRequires names, and
//! rpmbuild, without a network. It makes the same packages as `make rpm`, whose behaviour packages/rpm tests.

use std::path::PathBuf;

use super::{source_package, text};
use crate::case::Case;
use crate::compare;
use crate::context::Context;
use crate::paths;
use crate::roots::TRIXIE_RPM;
use crate::verdict::Verdict;

const CHECKS: &[&str] = &["builds", "files", "runs"];

pub fn case() -> Case {
    source_package::case("dist/source-rpm", CHECKS, run).before(|| {
        crate::make::on_host("rpm")?;
        crate::make::on_host("rpm-src")?;
        TRIXIE_RPM.make()
    })
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
    let source = paths::target().join("rpm-src");
    if source_package::build(cx, &TRIXIE_RPM, (&source, &work), BUILD)?.is_none() {
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
    source_package::report_run(cx, &work.join("root/usr/lib64/libibverbs-rs"))?;
    cx.output(["rm", "-rf", &text(&work)]).map(drop)
}
