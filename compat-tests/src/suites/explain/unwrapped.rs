//! Without IBV_EXPLAIN, IBV_FAULTS and IBV_CONTROL nothing is wrapped: posting, polling and arming take
//! exactly as many instructions as with the C library, on the same provider (c/loop, on the fake kernel).

use std::fs;

use crate::case::{Case, Tier};
use crate::context::{Context, Library};
use crate::fake::SHIM;
use crate::fake::sysfs::Tree;
use crate::process::{Exit, read, succeeded};
use crate::sandbox::Sandbox;
use crate::verdict::{Failure, Verdict, ensure};

/// Unset or empty, they wrap nothing.
const VARIABLES: [&str; 3] = ["IBV_EXPLAIN", "IBV_FAULTS", "IBV_CONTROL"];
/// Rounds of a receive, a request, a poll for both, and a notification.
const ROUNDS: u64 = 200;

pub fn case() -> Case {
    Case::new("explain/unwrapped", unwrapped)
        .sandbox(Sandbox::Namespace)
        .programs(&["unwrapped", "loop", SHIM])
        .tier(Tier::Test)
        .limit(200)
}

/// The instructions of the rounds.
fn instructions(cx: &Context, library: Library, vars: &[(&str, &str)]) -> Result<u64, Failure> {
    let tree = Tree::new(["loop0"]);
    let sys = cx.dir().join("sys");
    tree.write(&sys)?;
    fs::copy(cx.built("loop")?, cx.dir().join("libloop-rdmav34.so"))?;
    let counts = cx.dir().join("callgrind.out");
    let valgrind = [
        "valgrind".to_string(),
        "-q".into(),
        "--tool=callgrind".into(),
        "--toggle-collect=measured".into(),
        format!("--callgrind-out-file={}", counts.display()),
        cx.built("unwrapped")?,
        ROUNDS.to_string(),
    ];
    let mut program = cx
        .program(valgrind)
        .library(&cx.library_dir(library))
        .env("LD_PRELOAD", cx.built(SHIM)?)
        // Otherwise the first call of each function counts the dynamic linker.
        .env("LD_BIND_NOW", "1")
        .env("SYSFS_PATH", sys)
        .env("FAKE_NL_DEVICES", tree.netlink())
        .env("IBV_DRIVERS", cx.dir().join("libloop"))
        .env("DEVICE", "loop0");
    for (name, value) in vars {
        program = program.env(*name, value);
    }
    let ended = program.run()?;
    if ended.exit == Exit::Code(127) {
        return Err(Failure::skip("valgrind is missing"));
    }
    succeeded("unwrapped", &ended)?;
    let text = read(&counts);
    let total = text.lines().find_map(|line| {
        line.strip_prefix("summary: ")
            .or(line.strip_prefix("totals: "))
    });
    let total = total.and_then(|count| count.trim().parse().ok());
    total.ok_or_else(|| Failure::new("callgrind has counted nothing").with(ended.transcript()))
}

fn unwrapped(cx: &Context) -> Verdict {
    let c = instructions(cx, Library::C, &[])?;
    ensure(c >= 100 * ROUNDS, format!("only {c} instructions"))?;
    let empty = VARIABLES.map(|name| (name, ""));
    for vars in [&[][..], &empty] {
        let ours = instructions(cx, Library::Ours, vars)?;
        let why = format!(
            "{ROUNDS} rounds take {ours} instructions with {vars:?}, with the C library {c}"
        );
        ensure(ours == c, why)?;
    }
    // With the variable the wrappers are counted.
    let wrapped = instructions(cx, Library::Ours, &[("IBV_EXPLAIN", "1")])?;
    let why = format!("{wrapped} instructions with IBV_EXPLAIN, {c} without");
    ensure(wrapped > 2 * c, why)
}
