//! Debian sid's programs and provider of Soft-RoCE, with sid's libc, in the virtual machine: each test ends
//! on our library as on sid's C library. The provider ABI is 65; extended queue pairs included.
//!
//! The programs are those of the case files, in sid's root directory. What does not pass on sid's C library
//! either must fail in the same way, and is listed in `suites/sid.toml`. Sid's tests of pyverbs are compared
//! one by one: pass, skip or fail, with the reason.

mod guest;

use std::path::PathBuf;

use serde::Deserialize;

use crate::case_file::{Machine, Row};
use crate::context::Context;
use crate::machine::{FILES, Member};
use crate::paths;
use crate::pattern;
use crate::process::read;
use crate::roots::SID;
use crate::rows;
use crate::verdict::Verdict;

/// A test that fails on sid's C library.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Refused {
    /// Names, as patterns.
    tests: String,
    #[allow(dead_code, reason = "for the reader of the file")]
    reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    refused: Vec<Refused>,
}

/// The first port. Each row gets others, because the kernel keeps closed connections for a while.
const PORT: u16 = 20_000;
/// The time limit of a row's programs, in seconds. Two emulated machines beside other work take long: the
/// ping-pong of 1 MB messages needed more than 40 s.
const PROGRAM_LIMIT: u64 = 200;
/// The time limit of a row that may run six times on each library, in seconds.
const ROW_LIMIT: u64 = 3600;
const PYVERBS_LIMIT: u64 = 5400;

/// Makes the root directory on the host, and tells the guest where it is.
pub fn prepare(cx: &Context, _members: &[String]) -> Verdict {
    SID.make()?;
    std::fs::create_dir_all(cx.dir().join(FILES))?;
    let file = PathBuf::from(FILES).join(guest::ROOT);
    cx.write(&file.to_string_lossy(), SID.dir()?.display().to_string())?;
    Ok(())
}

/// Sid's programs.
pub fn members() -> Result<Vec<Member>, String> {
    let mut members = vec![
        Member::new("sid/programs/devices", |cx| {
            guest::same_output(cx, &["ibv_devices"])
        }),
        Member::new("sid/programs/devinfo", |cx| {
            guest::same_output(cx, &["ibv_devinfo", "-v"])
        }),
        Member::new("sid/programs/provider", guest::provider),
    ];
    let refused = refused()?;
    let mut port = PORT;
    for (name, mut row) in chosen_rows()? {
        row.port.get_or_insert(port);
        port += row.times;
        row.limit = Some(row.limit.unwrap_or(0).max(PROGRAM_LIMIT));
        let listed = refused.iter().any(|r| pattern::matches(&r.tests, &name));
        let whole = format!("sid/programs/{name}");
        let body = move |cx: &Context| guest::row(cx, &name, &row, listed);
        members.push(Member::new(whole, body).limit(ROW_LIMIT));
    }
    Ok(members)
}

/// Sid's tests in Python.
pub fn pyverbs() -> Vec<Member> {
    vec![Member::new("sid/pyverbs", guest::pyverbs).limit(PYVERBS_LIMIT)]
}

/// The rows of the case files that run here, with their names.
fn chosen_rows() -> Result<Vec<(String, Row)>, String> {
    let mut chosen = Vec::new();
    for (world, wanted) in [("vm", "pingpong"), ("suites", "rdmacm")] {
        for (group, row) in rows::of_world(world)? {
            // What needs a machine in another state says nothing about the provider.
            if group == wanted && row.machine == Machine::default() {
                chosen.push((format!("{group}/{}", row.name), row));
            }
        }
    }
    Ok(chosen)
}

fn refused() -> Result<Vec<Refused>, String> {
    let text = read(&paths::repo().join("compat-tests/suites/sid.toml"));
    let list: List = toml::from_str(&text).map_err(|e| e.to_string())?;
    Ok(list.refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_both_groups_are_chosen() {
        let rows = chosen_rows().unwrap();
        let count = |group: &str| {
            rows.iter()
                .filter(|(name, _)| name.starts_with(group))
                .count()
        };
        assert!(count("pingpong/") > 30);
        assert!(count("rdmacm/") > 30);
        assert!(rows.iter().any(|(name, _)| name == "pingpong/rc-N-e"));
    }

    #[test]
    fn each_refused_test_exists() {
        let rows = chosen_rows().unwrap();
        for refused in refused().unwrap() {
            let matches = rows
                .iter()
                .any(|(name, _)| pattern::matches(&refused.tests, name));
            assert!(matches, "{}", refused.tests);
        }
    }
}
