//! Names of objects (ibverbs_rs_name_qp(3)): what uroce-ctl and IBV_EXPLAIN show of them, and what a program
//! with names does on the C library.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use super::victim::{Victim, json, shown};
use crate::context::{Context, Library};
use crate::process::read;
use crate::verdict::{Details, Failure, Verdict, contains, ensure};

/// Objects and their names, as the program c/names gives them: a name is cut to 63 bytes, and its quotes and
/// line ends are replaced.
const NAMED: [(&str, &str); 9] = [
    ("AH", "route"),
    ("CQ", "all done"),
    ("MR", "heap"),
    ("MW", "window"),
    ("PD", "pool"),
    ("QP", CUT),
    ("QP", "cli?ent '3'"),
    ("SRQ", "shared"),
    ("device", "first port"),
];
const CUT: &str = "012345678901234567890123456789012345678901234567890123456789012";

/// The kinds and names that `uroce-ctl names` lists, sorted.
fn listed(cx: &Context) -> Result<Vec<(String, String)>, Failure> {
    let answer = json(cx, &["names"])?;
    let text = |of: &serde_json::Value| of.as_str().unwrap_or_default().to_string();
    let each = answer["names"].as_array().into_iter().flatten();
    let mut all: Vec<_> = each
        .map(|named| (text(&named["object"]), text(&named["name"])))
        .collect();
    all.sort();
    Ok(all)
}

fn same(listed: Vec<(String, String)>, expected: &[(&str, &str)]) -> Verdict {
    let same = listed
        .iter()
        .map(|(kind, name)| (kind.as_str(), name.as_str()))
        .eq(expected.iter().copied());
    ensure(same, format!("{listed:?}, not {expected:?}"))
}

/// Without IBV_EXPLAIN. Names go with their objects, also when other threads get the same addresses.
pub fn shown_by_ctl(cx: &Context) -> Verdict {
    let victim = Victim::of(cx, "names", "fifo", &[("IBV_CONTROL", "1")], "named")?;
    same(listed(cx)?, &NAMED)?;
    let table = shown(cx, &["qps"])?;
    let is_last = |line: &str| line.ends_with(" cli?ent '3'");
    ensure(table.lines().any(is_last), "qps lacks the name").with(&table)?;
    let page = shown(cx, &["metrics"])?;
    let label = "state=\"RESET\",name=\"cli?ent '3'\"}";
    contains(&page, &[label])?;
    let number = &json(cx, &["qps"])?["qps"][0]["qpn"];
    let table = shown(cx, &["names"])?;
    let row = format!("uroce0  QP      {:#x}", number.as_u64().unwrap_or(0));
    contains(&table, &[&row])?;
    victim.prints("go on", &["fewer"])?;
    let left = [NAMED[1], NAMED[2], NAMED[4], NAMED[6]];
    same(listed(cx)?, &left)?;
    victim.prints("go on", &["none"])?;
    same(listed(cx)?, &[])?;
    victim.quits()
}

/// The lines of IBV_EXPLAIN have the names, and a rule is switched off for an object by its name.
pub fn in_explanations(cx: &Context) -> Verdict {
    let file = cx.dir().join("said");
    fs::write(&file, "")?;
    fs::set_permissions(&file, Permissions::from_mode(0o666))?;
    let value = format!("-busy@all done,1,file:{}", file.display());
    let victim = Victim::of(cx, "names", "fifo", &[("IBV_EXPLAIN", &value)], "named")?;
    victim.prints("go on", &["fewer"])?;
    let said = read(&file);
    let expected = [
        " \"pool\": ibv_dealloc_pd failed with errno 16",
        " \"heap\", ",
        " \"shared\"",
    ];
    let missing = expected.iter().find(|part| !said.contains(**part));
    ensure(missing.is_none(), format!("no {missing:?}")).with(&said)?;
    ensure(
        !said.contains("ibv_destroy_cq failed"),
        "-busy@NAME has no effect",
    )
    .with(&said)?;
    victim.prints("go on", &["none"])?;
    victim.quits()
}

/// Checks a program without names: on the C library the functions return ENOSYS, on this one EINVAL
/// for what is no object.
pub fn alone(cx: &Context) -> Verdict {
    for (library, errno) in [(Library::C, libc::ENOSYS), (Library::Ours, libc::EINVAL)] {
        let program = cx.program([cx.built("names")?, "alone".into()]);
        let ended = program.library(&cx.library_dir(library)).succeed()?;
        let expected = format!("qp {errno}\nobject {errno}\n");
        ensure(ended.out == expected, ended.transcript())?;
    }
    Ok(())
}
