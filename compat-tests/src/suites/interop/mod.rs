//! uroce against the kernel's Soft-RoCE ("rxe", on the C library), in the virtual machine: each as server
//! and as client, also with packets lost, reordered and duplicated. And uroce's GID tables, ports and
//! events compared with those of rxe on the same interfaces.
//!
//! A virtual machine runs all members of a case.

mod guest;
mod rxe;

use std::sync::Arc;

use crate::case::{Case, Tier};
use crate::case_file::Row;
use crate::machine::{Machine, Member};
use crate::rows;

use guest::Current;
use rxe::Ends;

/// The impairment of RoCE packets between the hosts; the second word is for netem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Impairment {
    name: &'static str,
    netem: &'static str,
}

const fn impairment(name: &'static str, netem: &'static str) -> Impairment {
    Impairment { name, netem }
}
const NONE: Impairment = impairment("", "");
const LOSS: Impairment = impairment("-loss", "loss 1%");
const REORDER: Impairment = impairment("-reorder", "delay 1ms reorder 1%");
const DUPLICATE: Impairment = impairment("-duplicate", "duplicate 1%");
const ALL: Impairment = impairment("-all", "delay 1ms loss 1% reorder 1% duplicate 1%");

/// The checks of uroce/devices/gids-guest.
const GIDS: &[&str] = &[
    "several-addresses", "addresses-changed", "large-mtu", "no-carrier", "small-mtu", "events",
    "loopback-interface",
];
const GIDS_GROUP: &str = "uroce/interop/gids";

/// The case of make test, and one for each pair of hosts and impairment with the rest.
pub fn cases() -> Result<Vec<Case>, String> {
    let test = rows_of(Tier::Test)?;
    let mut cases = vec![case(
        TEST.into(),
        Tier::Test,
        300,
        test,
        vec![guest::gids()],
    )];
    let rest = rows_of(Tier::All)?;
    for hosts in rest.chunk_by(|a, b| a.hosts() == b.hosts()) {
        let (name, estimate) = (rest_name(&hosts[0].hosts()), 5 * hosts.len() as u64);
        cases.push(case(name, Tier::All, estimate, hosts.to_vec(), Vec::new()));
    }
    Ok(cases)
}

/// The case of make test.
const TEST: &str = "uroce/interop";

/// The case of what make test leaves out between these hosts.
fn rest_name(hosts: &str) -> String {
    format!("uroce/interop-rest/{hosts}")
}

fn case(
    name: String,
    tier: Tier,
    estimate: u64,
    rows: Vec<InteropRow>,
    others: Vec<Member>,
) -> Case {
    let machine = Machine::new(name).tier(tier).estimate(estimate);
    let current = Arc::new(Current::default());
    let of_row = |row: InteropRow| {
        let current = current.clone();
        Member::new(row.name.clone(), move |cx| current.judge(cx, &row))
    };
    let members = rows.into_iter().map(of_row).chain(others).collect();
    machine.case(members)
}

/// A row between two hosts.
#[derive(Debug, Clone)]
struct InteropRow {
    name: String,
    ends: Ends,
    impairment: Impairment,
    row: Row,
}

impl InteropRow {
    /// The hosts and what happens between them, as names have it.
    fn hosts(&self) -> String {
        format!("{}{}", self.ends.name(), self.impairment.name)
    }
}

/// The rows of this tier. Those between the same hosts follow one another. Of all that runs with
/// impairments, make test runs some with all impairments at once.
fn rows_of(tier: Tier) -> Result<Vec<InteropRow>, String> {
    let clean = rows::of_testbed("interop")?;
    let lossy = rows::of_testbed("interop-lossy")?;
    let tier_of = |row: &Row, testbed: &str| row.testbeds.get(testbed).and_then(|when| when.tier());
    let mut found = Vec::new();
    for impairment in [NONE, LOSS, REORDER, DUPLICATE, ALL] {
        for ends in [Ends::RxeUroce, Ends::UroceRxe] {
            let (rows, testbed) = if impairment == NONE {
                (&clean, "interop")
            } else {
                (&lossy, "interop-lossy")
            };
            // A single impairment is for make test-all only.
            let every = ![NONE, ALL].contains(&impairment);
            for (group, row) in rows {
                let row_tier = if every {
                    Some(Tier::All)
                } else {
                    tier_of(row, testbed)
                };
                if row_tier != Some(tier) {
                    continue;
                }
                let mut between = InteropRow {
                    name: String::new(),
                    ends,
                    impairment,
                    row: row.clone(),
                };
                let case = match tier {
                    Tier::All => rest_name(&between.hosts()),
                    _ => format!("{TEST}/{}", between.hosts()),
                };
                between.name = format!("{case}/{group}/{}", row.name);
                found.push(between);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_all_that_test_leaves_out() {
        let names = |tier| -> Vec<String> {
            let rows = rows_of(tier).unwrap().into_iter();
            rows.map(|row| row.name).collect()
        };
        let (test, rest) = (names(Tier::Test), names(Tier::All));
        assert!(test.iter().all(|name| !rest.contains(name)));
        let clean = 2 * rows::of_testbed("interop").unwrap().len();
        let lossy = 2 * 4 * rows::of_testbed("interop-lossy").unwrap().len();
        assert_eq!(test.len() + rest.len(), clean + lossy);
        assert!(test.contains(&"uroce/interop/uroce-rxe-all/perftest/read_bw-RC".into()));
        assert!(rest.contains(&"uroce/interop-rest/rxe-uroce-loss/perftest/read_bw-RC".into()));
    }
}
