//! Programs and the provider of Soft-RoCE of other Debian releases, with their libc, in the virtual machine:
//! each test ends on our library as on the release's C library. Extended queue pairs are included.
//!
//! - Debian 13 has rdma-core 56.1. Its provider ABI is 34 as in Debian 12, but with another layout.
//! - Debian sid has rdma-core 65. The provider ABI is 65.
//!
//! The programs are those of the case files, in the release's root directory. What does not pass on the
//! release's C library either must fail in the same way, and is listed in `suites/RELEASE.toml`, as are the
//! commands of programs whose options the release has changed. Sid's tests of pyverbs are compared one by
//! one: pass, skip or fail, with the reason.

mod guest;

use std::path::PathBuf;

use serde::Deserialize;

use crate::case_file::{MachineState, Row};
use crate::context::Context;
use crate::machine::{FILES, Member};
use crate::paths;
use crate::pattern;
use crate::process::read;
use crate::roots::{self, Root};
use crate::rows;
use crate::verdict::Verdict;

/// A release whose programs run.
pub struct Release {
    root: &'static Root,
    /// The end of the name of Soft-RoCE's provider.
    provider: &'static str,
}

pub static SID: Release = Release {
    root: &roots::SID,
    provider: "/librxe-rdmav65.so",
};
pub static TRIXIE: Release = Release {
    root: &roots::TRIXIE,
    provider: "/librxe-rdmav34.so",
};

/// A test that fails on the release's C library.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Refused {
    /// Names, as patterns.
    tests: String,
    #[allow(dead_code, reason = "for the reader of the file")]
    reason: String,
}

/// The commands of a row whose program has other options in the release.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Changed {
    /// GROUP/NAME.
    test: String,
    server: String,
    client: String,
    exit: String,
}

/// The contents of a release's file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    refused: Vec<Refused>,
    #[serde(default)]
    changed: Vec<Changed>,
}

/// The first port. Each row gets others, because the kernel keeps closed connections for a while.
const PORT: u16 = 20_000;
/// The time limit of a row's programs, in seconds. Two emulated machines are slow on a busy host: the
/// ping-pong of 1 MB messages needed more than 40 s.
const PROGRAM_LIMIT: u64 = 200;
/// The time limit of a row that may run six times on each library, in seconds.
const ROW_LIMIT: u64 = 3600;
const PYVERBS_LIMIT: u64 = 5400;

impl Release {
    /// Makes the root directory on the host, and tells the guest where it is.
    pub fn prepare(&self, cx: &Context) -> Verdict {
        self.root.make()?;
        std::fs::create_dir_all(cx.dir().join(FILES))?;
        let file = PathBuf::from(FILES).join(guest::ROOT);
        cx.write(
            &file.to_string_lossy(),
            self.root.dir()?.display().to_string(),
        )?;
        Ok(())
    }

    /// The name of a case.
    fn name(&self, case: &str) -> String {
        format!("{}/{case}", self.root.release())
    }

    /// The programs.
    pub fn members(&'static self) -> Result<Vec<Member>, String> {
        let mut members = vec![
            Member::new(self.name("programs/devices"), |cx| {
                guest::same_output(cx, &["ibv_devices"])
            }),
            Member::new(self.name("programs/devinfo"), |cx| {
                guest::same_output(cx, &["ibv_devinfo", "-v"])
            }),
            Member::new(self.name("programs/provider"), |cx| {
                guest::provider(cx, self.provider)
            }),
        ];
        let list = self.list()?;
        let mut port = PORT;
        for (name, mut row) in chosen_rows()? {
            if let Some(changed) = list.changed.iter().find(|c| c.test == name) {
                row.server = Some(changed.server.clone());
                row.client = Some(changed.client.clone());
                row.exit.clone_from(&changed.exit);
                row.kill = false;
            }
            row.port.get_or_insert(port);
            port += row.times;
            row.limit = Some(row.limit.unwrap_or(0).max(PROGRAM_LIMIT));
            let listed = list
                .refused
                .iter()
                .any(|r| pattern::matches(&r.tests, &name));
            let whole = self.name(&format!("programs/{name}"));
            let body = move |cx: &Context| guest::row(cx, &name, &row, listed);
            members.push(Member::new(whole, body).limit(ROW_LIMIT));
        }
        Ok(members)
    }

    /// The tests in Python.
    pub fn pyverbs(&self) -> Vec<Member> {
        vec![Member::new(self.name("pyverbs"), guest::pyverbs).limit(PYVERBS_LIMIT)]
    }

    fn list(&self) -> Result<List, String> {
        let file = format!("compat-tests/suites/{}.toml", self.root.release());
        toml::from_str(&read(&paths::repo().join(file))).map_err(|e| e.to_string())
    }
}

/// The rows of the case files that run here, with their names.
fn chosen_rows() -> Result<Vec<(String, Row)>, String> {
    let mut chosen = Vec::new();
    for (testbed, wanted) in [("vm", "pingpong"), ("suites", "rdmacm")] {
        for (group, row) in rows::of_testbed(testbed)? {
            // Rows that need a machine in another state show nothing about the provider.
            if group == wanted && row.machine == MachineState::default() {
                chosen.push((format!("{group}/{}", row.name), row));
            }
        }
    }
    Ok(chosen)
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
    fn each_listed_test_exists() {
        let rows = chosen_rows().unwrap();
        let lists = [&SID, &TRIXIE].map(|release| release.list().unwrap());
        for changed in lists.iter().flat_map(|list| &list.changed) {
            let found = rows.iter().any(|(name, _)| *name == changed.test);
            assert!(found, "{}", changed.test);
        }
        for refused in lists.iter().flat_map(|list| &list.refused) {
            let matches = rows
                .iter()
                .any(|(name, _)| pattern::matches(&refused.tests, name));
            assert!(matches, "{}", refused.tests);
        }
    }
}
