//! The archive in the root directory of Debian 11, which has glibc 2.31: the oldest release that Debian's
//! mirrors still have. Its programs run on uroce, and a program builds with the archive's files.

use std::path::Path;

use super::{LIMIT, make_dist, text, unpacked};
use crate::case::{Case, Tier};
use crate::case_file::Row;
use crate::context::Context;
use crate::pairs;
use crate::process::Program;
use crate::roots::BULLSEYE;
use crate::rows;
use crate::sandbox::{Sandbox, sh};
use crate::testbed::{Host, Hosts};
use crate::verdict::{Verdict, contains, ensure};

/// Rows of the case files whose programs Debian 11 has. Its perftest is linked with libmlx5 of provider ABI
/// 33, which this library does not serve.
const ROWS: [&str; 4] = [
    "pingpong/rc-e", "pingpong/uc", "pingpong/ud", "pingpong/srq",
];
pub(in crate::suites) const ROOT: &str = "/run/root";
const CHECKS: [&str; 4] = ["with-ibverbs-rs", "check", "ibv_devinfo", "pkg-config"];

pub fn case() -> Result<Case, String> {
    let rows = rows_of_case_files()?;
    let names = rows.iter().map(|(name, _)| name.as_str()).chain(CHECKS);
    let members = names.map(|name| format!("dist/old-glibc/{name}")).collect();
    let case = Case::new("dist/old-glibc", move |cx| run(cx, &rows));
    Ok(case
        .members(members)
        .before(|| make_dist().and_then(|()| BULLSEYE.make()))
        .sandbox(Sandbox::Root)
        .tier(Tier::All)
        .limit(LIMIT)
        .estimate(60))
}

/// The rows of `ROWS`, with their names.
fn rows_of_case_files() -> Result<Vec<(String, Row)>, String> {
    let all = rows::of_testbed("loopback")?;
    let named = all
        .into_iter()
        .map(|(group, row)| (format!("{group}/{}", row.name), row));
    let rows: Vec<_> = named
        .filter(|(name, _)| ROWS.contains(&name.as_str()))
        .collect();
    if rows.len() != ROWS.len() {
        return Err(format!("the case files do not have all of {ROWS:?}"));
    }
    Ok(rows)
}

fn run(cx: &Context, rows: &[(String, Row)]) -> Verdict {
    let top = unpacked(cx)?;
    enter(&BULLSEYE.dir()?)?;
    cx.report("with-ibverbs-rs", wrapped(cx, &top))?;
    cx.report("check", check(cx, &top))?;
    cx.report("ibv_devinfo", devinfo(cx, &top))?;
    cx.report("pkg-config", builds(cx, &top))?;
    let mut host = Host::on_uroce(cx, "127.0.0.1", "uroce0=lo", "lo");
    host.libdir = Some(top.join("lib/libibverbs-rs"));
    // By this machine's ibv_devinfo.
    host.read_gids(cx)?;
    host.root = Some(ROOT.into());
    let hosts = Hosts {
        server: host.clone(),
        client: host,
        namespaces: Vec::new(),
    };
    for (name, row) in rows {
        cx.report(name, pairs::run(cx, row, &hosts))?;
    }
    Ok(())
}

/// Makes the kept directory the root of programs, read-only, with this sandbox's /tmp: the case's files have
/// the same names inside.
pub(in crate::suites) fn enter(kept: &Path) -> Verdict {
    let kept = text(kept);
    sh(&format!(
        "mkdir {ROOT}
         mount -n --bind '{kept}' {ROOT}
         mount -n -o remount,bind,ro {ROOT}
         for dir in /proc /sys /dev /tmp; do mount -n --rbind $dir {ROOT}$dir; done"
    ))
}

/// A program in that root. CARGO, which `cargo run` sets, names a file that is not there.
pub(in crate::suites) fn inside<S: Into<String>>(
    cx: &Context,
    words: impl IntoIterator<Item = S>,
) -> Program {
    cx.program(words)
        .under(["env", "-u", "CARGO", "chroot", ROOT])
}

/// ibv_devices lists the software device, which only this library has.
fn wrapped(cx: &Context, top: &Path) -> Verdict {
    let wrapper = text(top.join("bin/with-ibverbs-rs"));
    let ended = inside(cx, [&wrapper, "ibv_devices"])
        .env("IBV_UROCE", "uroce0=lo")
        .succeed()?;
    contains(&ended.out, &["uroce0"])
}

fn check(cx: &Context, top: &Path) -> Verdict {
    let wrapper = text(top.join("bin/with-ibverbs-rs"));
    let ended = inside(cx, [&wrapper, "--check", "ibv_devices"]).succeed()?;
    let library = text(top.join("lib/libibverbs-rs/libibverbs.so.1"));
    contains(&ended.out, &[&library])
}

/// Debian 11's ibv_devinfo calls a function of IBVERBS_PRIVATE_33.
fn devinfo(cx: &Context, top: &Path) -> Verdict {
    let wrapper = text(top.join("bin/with-ibverbs-rs"));
    let ended = inside(cx, [&wrapper, "ibv_devinfo", "-v"])
        .env("IBV_UROCE", "uroce0=lo")
        .succeed()?;
    contains(&ended.out, &["uroce0", "PORT_ACTIVE", "RoCE v2"])
}

const SOURCE: &str = "#include <infiniband/verbs.h>
#include <stdio.h>
int main(void)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	if (!list || count != 1)
		return 1;
	puts(ibv_get_device_name(list[0]));
	ibv_free_device_list(list);
	return 0;
}
";

/// A program builds with the flags from the archive's pkg-config file and Debian 11's gcc, and runs.
fn builds(cx: &Context, top: &Path) -> Verdict {
    let source = text(cx.write("program.c", SOURCE)?);
    let program = text(cx.dir().join("program"));
    let argv = [
        "pkg-config", "--define-prefix", "--cflags", "--libs", "libibverbs",
    ];
    let flags = inside(cx, argv)
        .env("PKG_CONFIG_LIBDIR", top.join("lib/pkgconfig"))
        .succeed()?;
    let words = ["gcc", "-Wall", "-Werror", "-o", &program, &source].into_iter();
    let words = words.chain(flags.out.split_whitespace());
    inside(cx, words).merged().succeed()?;
    let ended = inside(cx, [&program])
        .library(&top.join("lib"))
        .env("IBV_UROCE", "uroce0=lo")
        .succeed()?;
    ensure(ended.out == "uroce0\n", format!("it printed {}", ended.out))
}
