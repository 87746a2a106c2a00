//! The programs of examples/: each runs between two processes on uroce, by GID and by LID, and checks its
//! data itself. Then what they say when they cannot run, and their Makefile.

use crate::case::{Case, Tier};
use crate::case_file::{self, Row};
use crate::context::{Context, Library};
use crate::pairs;
use crate::process::read;
use crate::sandbox::Sandbox;
use crate::testbed::Testbed;
use crate::verdict::{Failure, Verdict, contains, ensure};

const PROGRAMS: &[&str] = &["rc_send", "ud", "one_sided", "events", "xrc"];

pub fn cases() -> Vec<Case> {
    let mut cases = vec![Case::new("examples/make", make).tier(Tier::Test)];
    for program in PROGRAMS {
        cases.extend([
            pair("loopback", Tier::Check, program, Testbed::Loopback),
            pair("container", Tier::Test, program, Testbed::Container),
            pair("veth", Tier::Test, program, Testbed::Veth),
            on_uroce("uroce/loopback/examples", "lid", program, move |cx| {
                passes(cx, program, "-l", Testbed::Loopback)
            })
            .tier(Tier::Check),
        ]);
    }
    let refused = |name, arguments, message| {
        on_uroce("uroce/loopback/examples", name, "rc_send", move |cx| {
            fails(cx, arguments, message)
        })
        .tier(Tier::Check)
    };
    cases.push(refused(
        "unknown-device",
        "-d nosuch",
        "there is no RDMA device nosuch",
    ));
    cases.push(refused(
        "unknown-gid",
        "-g 99",
        "port 1 has no GID at index 99",
    ));
    cases.push(refused("no-lid", "-l", "port 1 has no LID"));
    cases
}

fn on_uroce(
    group: &str,
    name: &str,
    program: &str,
    run: impl Fn(&Context) -> Verdict + Send + Sync + 'static,
) -> Case {
    Case::new(format!("{group}/{program}-{name}"), run)
        .sandbox(Sandbox::Namespace)
        .programs(&[&format!("example-{program}")])
        .limit(60)
        .cpu(100)
}

fn pair(testbed: &str, tier: Tier, program: &'static str, hosts: Testbed) -> Case {
    let group = format!("uroce/{testbed}/examples");
    on_uroce(&group, "gid", program, move |cx| {
        passes(cx, program, "", hosts)
    })
    .tier(tier)
}

/// A server and its client must print that they succeeded, and exit with 0.
fn passes(cx: &Context, program: &str, arguments: &str, hosts: Testbed) -> Verdict {
    let row = row(cx, program, arguments, "0/0", arguments == "-l")?;
    pairs::run_in(cx, &row, hosts)?;
    for side in ["server", "client"] {
        let out = read(&cx.dir().join(format!("{side}.out")));
        ensure(
            out.lines().any(|line| line.starts_with("done")),
            format!("the {side} did not print that it is done"),
        )?;
    }
    Ok(())
}

/// Checks that both sides fail with this message.
fn fails(cx: &Context, arguments: &str, message: &str) -> Verdict {
    let row = row(cx, "rc_send", arguments, "1/1", false)?;
    pairs::run_in(cx, &row, Testbed::Loopback)?;
    for side in ["server", "client"] {
        let err = read(&cx.dir().join(format!("{side}.err")));
        contains(&err, &[message])?;
    }
    Ok(())
}

/// A row of a case file, for a program that was compiled for this case.
fn row(
    cx: &Context,
    program: &str,
    arguments: &str,
    exit: &str,
    lids: bool,
) -> Result<Row, Failure> {
    let path = cx.built(&format!("example-{program}"))?;
    let env = if lids {
        "{ IBV_UROCE_LIDS = \"1\" }"
    } else {
        "{}"
    };
    let says = if exit == "0/0" {
        "says = \"done\","
    } else {
        ""
    };
    let text = format!(
        "[[group]]\nname = \"examples\"\ncases = [\n\
         {{ name = \"{program}\", server = \"'{path}' -p %p {arguments}\", client = \"+ %a\", \
         exit = \"{exit}\", {says} env = {env}, where = {{ loopback = \"check\" }} }} ]\n"
    );
    let rows = case_file::parse(&text)?;
    let (_, _, row) = rows.into_iter().next().ok_or("no row")?;
    Ok(row)
}

/// examples/Makefile builds all of them, without a warning.
fn make(cx: &Context) -> Verdict {
    let out = cx.dir().join("built");
    let variable = |name: &str, value: String| format!("{name}={value}");
    cx.program([
        "make".to_string(),
        "-C".into(),
        cx.source("../examples").display().to_string(),
        variable("OUT", out.display().to_string()),
        variable("CFLAGS", "-O2 -Werror".into()),
        variable(
            "VERBS_CFLAGS",
            format!("-I{}", cx.source("../include").display()),
        ),
        variable(
            "VERBS_LIBS",
            format!("-L{} -libverbs", cx.library_dir(Library::Ours).display()),
        ),
    ])
    .succeed()?;
    for program in PROGRAMS {
        ensure(out.join(program).exists(), format!("{program} is missing"))?;
    }
    Ok(())
}
