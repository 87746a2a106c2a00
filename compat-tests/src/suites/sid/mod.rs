//! Debian sid's programs and provider of Soft-RoCE, with sid's libc, in the virtual machine: each test ends
//! on our library as on sid's C library. The provider ABI is 65; extended queue pairs included.
//!
//! The programs are those of the case files, in sid's root directory. What does not pass on sid's C library
//! either must fail in the same way, and is listed in `sid.toml`.

pub mod guest;

use serde::Deserialize;

use crate::case::{Case, Place, Tier};
use crate::case_file::{Machine, Row};
use crate::context::Context;
use crate::process::read;
use crate::roots::SID;
use crate::rows;
use crate::suites::interop;
use crate::verdict::{Failure, Verdict};

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

/// The time that a machine may take, in seconds. Beside other work, emulation is several times slower.
const LIMIT: u64 = 3600;

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("sid/programs", boot)
            .before(|| SID.make())
            .place(Place::Vm)
            .tier(Tier::All)
            .cpu(200)
            .limit(LIMIT + 100)
            .estimate(600)
            .guest(guest::run),
    ]
}

fn boot(cx: &Context) -> Verdict {
    cx.write("root", SID.dir()?.display().to_string())?;
    interop::boot_for(cx, LIMIT)
}

/// The rows of the case files that run here, with their names.
fn chosen_rows() -> Result<Vec<(String, Row)>, Failure> {
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

fn refused(cx: &Context) -> Result<Vec<Refused>, Failure> {
    let text = read(&cx.source("suites/sid.toml"));
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
}
