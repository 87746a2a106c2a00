//! The same programs on a real kernel, in the virtual machine, and programs that need a device that works.

use std::path::Path;

use super::*;
use crate::machine::Member;
use crate::sandbox::sh;

const USER_LOG: &str = "/tmp/fork-log/verbs.log";
const TESTS: &str = "/usr/share/doc/rdma-core/tests";

pub fn members() -> Vec<Member> {
    let groups = [
        ("ranges", ranges(REAL)),
        ("lazy", lazy(REAL)),
        ("huge-pages", huge::checks(REAL)),
        ("kernel", copies::copying(REAL)),
        ("verbs", verbs()),
    ];
    let of_group = |(group, list): (&str, Vec<Check>)| -> Vec<Member> {
        let group = format!("vm/fork/{group}");
        let member = |check| Member::of_check(&group, check).programs(PROGRAMS);
        list.into_iter().map(member).collect()
    };
    groups.into_iter().flat_map(of_group).collect()
}

fn verbs() -> Vec<Check> {
    let on = |name: &str| both(REAL, name, &["forkverbs", "rxe0"]);
    let limited = on("")
        .env("RDMAV_FORK_SAFE", "1")
        .env("VERBS_LOG_LEVEL", "2")
        .env("VERBS_LOG_FILE", USER_LOG)
        .limits("--memlock=4096:")
        .as_nobody();
    let parts = vec!["", "log"];
    vec![
        on("rxe0-no-fork-safety").check(),
        on("rxe0").env("RDMAV_FORK_SAFE", "1").check(),
        Check::with_parts("rxe0-who-may-lock-one-page", parts, move |cx| {
            sh("rm -rf /tmp/fork-log && mkdir -m 1777 /tmp/fork-log")?;
            let same = limited.compared(cx);
            let pattern = "^libibverbs: ibv_reg_mr of 8192 bytes: out of memory; \
                RLIMIT_MEMLOCK is 4096 bytes, of which 0 are in use";
            Ok(vec![same, log_says_in(USER_LOG, pattern)])
        }),
        Check::new("pyverbs-test_fork", pyverbs),
    ]
}

/// pyverbs' own test, in a process of its own so that ibv_fork_init is called early enough.
fn pyverbs(cx: &Context) -> Verdict {
    if !Path::new(TESTS).exists() {
        let why = format!("{TESTS} is missing: run scripts/install-deps suites");
        return Err(Failure::skip(why));
    }
    let dir = cx.dir().join("tests");
    sh(&format!(
        "mkdir -p {0} && cp {TESTS}/* {0}/ && gunzip -qf {0}/*.gz",
        dir.display()
    ))?;
    let run = |library| -> Result<String, Failure> {
        let argv = ["python3", "tests/run_tests.py", "-v", "test_fork"];
        let program = cx.program(argv).library(&cx.library_dir(library)).merged();
        let ended = program.limit(std::time::Duration::from_secs(300)).run()?;
        Ok(replace(r"(?m) in [0-9.]*s$", &ended.transcript(), ""))
    };
    let (c, ours) = (run(Library::C)?, run(Library::Ours)?);
    compare::same(("C library", &c), ("ours", &ours))?;
    let ran = ours.lines().any(|line| {
        let count = line
            .strip_prefix("Ran ")
            .and_then(|rest| rest.split(' ').next());
        count.is_some_and(|n| n.parse().is_ok_and(|n: u32| n > 0))
    });
    let passed = ran && ours.lines().any(|line| line == "OK");
    ensure(passed, "no test ran, or one did not pass").with(&ours)
}
