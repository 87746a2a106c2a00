//! uroce against the kernel's Soft-RoCE ("rxe", on the C library), in the virtual machine: each as server
//! and as client, also with packets lost, reordered and duplicated. And uroce's GID tables, ports and
//! events compared with those of rxe on the same interfaces.
//!
//! A virtual machine runs all members of a case: this program starts there again (`guest`).

pub mod guest;
mod rxe;

use std::time::Duration;

use crate::case::{Case, Place, Tier};
use crate::case_file::Row;
use crate::machine::boot::Boot;
use crate::rows;

pub use rxe::Ends;

/// The time that a machine may take, in seconds: for its start, and for each member on average. Under
/// emulation on a busy host, a member takes up to 30 seconds.
const LIMIT: u64 = 600;
const LIMIT_OF_MEMBER: u64 = 30;

/// What happens to RoCE packets between the hosts; the second word is for netem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Impairment {
    name: &'static str,
    netem: &'static str,
}

const NONE: Impairment = Impairment {
    name: "",
    netem: "",
};
const LOSS: Impairment = Impairment {
    name: "-loss",
    netem: "loss 1%",
};
const REORDER: Impairment = Impairment {
    name: "-reorder",
    netem: "delay 1ms reorder 1%",
};
const DUPLICATE: Impairment = Impairment {
    name: "-duplicate",
    netem: "duplicate 1%",
};
const ALL: Impairment = Impairment {
    name: "-all",
    netem: "delay 1ms loss 1% reorder 1% duplicate 1%",
};

/// The checks of uroce/devices/gids-guest.
const GIDS: [&str; 7] = [
    "several-addresses",
    "addresses-changed",
    "large-mtu",
    "no-carrier",
    "small-mtu",
    "events",
    "loopback-interface",
];
const GIDS_GROUP: &str = "uroce/interop/gids";

/// The case of make test, and one for each pair of hosts and impairment with the rest.
pub fn cases() -> Result<Vec<Case>, String> {
    let mut cases = vec![case(TEST, members(Tier::Test)?).estimate(300)];
    let rest = members(Tier::All)?;
    for hosts in rest.chunk_by(|a, b| a.hosts() == b.hosts()) {
        cases.push(case(&rest_name(&hosts[0].hosts()), hosts.to_vec()));
    }
    Ok(cases)
}

/// The case of make test.
const TEST: &str = "uroce/interop";

/// The case of what make test leaves out between these hosts.
fn rest_name(hosts: &str) -> String {
    format!("uroce/interop-rest/{hosts}")
}

fn case(name: &str, members: Vec<InteropMember>) -> Case {
    let mut names: Vec<String> = members.iter().map(|member| member.name.clone()).collect();
    if name == TEST {
        names.extend(GIDS.map(|check| format!("{GIDS_GROUP}/{check}")));
    }
    let count = names.len() as u64;
    let limit = LIMIT + count * LIMIT_OF_MEMBER;
    let boot = Boot {
        limit: Duration::from_secs(limit),
        ..Boot::default()
    };
    let tier = if name == TEST { Tier::Test } else { Tier::All };
    Case::new(name, move |cx| boot.must_run_guest_part(cx))
        .place(Place::Vm)
        .tier(tier)
        .limit(limit + 800)
        .estimate(5 * count)
        .members(names)
        .guest(move |args| guest::run(args, &members))
}

/// A row between two hosts.
#[derive(Debug, Clone)]
pub struct InteropMember {
    pub name: String,
    pub ends: Ends,
    pub impairment: Impairment,
    pub row: Row,
}

impl InteropMember {
    /// The hosts and what happens between them, as names have it.
    fn hosts(&self) -> String {
        format!("{}{}", self.ends.name(), self.impairment.name)
    }
}

/// The members of this tier. Those with the same hosts follow one another. Of all that runs with
/// impairments, make test runs some with all impairments at once.
pub fn members(tier: Tier) -> Result<Vec<InteropMember>, String> {
    let clean = rows::of_testbed("interop")?;
    let lossy = rows::of_testbed("interop-lossy")?;
    let tier_of = |row: &Row, testbed: &str| row.testbeds.get(testbed).and_then(|when| when.tier());
    let mut members = Vec::new();
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
                let mut member = InteropMember {
                    name: String::new(),
                    ends,
                    impairment,
                    row: row.clone(),
                };
                let case = match tier {
                    Tier::All => rest_name(&member.hosts()),
                    _ => format!("{TEST}/{}", member.hosts()),
                };
                member.name = format!("{case}/{group}/{}", row.name);
                members.push(member);
            }
        }
    }
    Ok(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_all_that_test_leaves_out() {
        let names = |tier| -> Vec<String> {
            let members = members(tier).unwrap().into_iter();
            members.map(|member| member.name).collect()
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
