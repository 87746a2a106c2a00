//! uroce against the kernel's Soft-RoCE ("rxe", on the C library), in the virtual machine: each as server
//! and as client, also with packets lost, reordered and duplicated. And uroce's GID tables, ports and
//! events beside those of rxe on the same interfaces.
//!
//! A virtual machine runs all members of a case: this program starts there again (`guest`).

pub mod guest;
mod rxe;

use std::env;

use crate::case::{Case, Place, Tier};
use crate::case_file::Row;
use crate::context::{Context, succeeded};
use crate::rows;
use crate::verdict::Verdict;

pub use rxe::Ends;

/// The time that a machine may take, in seconds.
const LIMIT: u64 = 1800;

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

pub fn cases() -> Result<Vec<Case>, String> {
    Ok(vec![
        case(Tier::Test)?.estimate(300),
        case(Tier::All)?.estimate(1200),
    ])
}

/// The name of the case of a tier.
fn name_of(tier: Tier) -> &'static str {
    match tier {
        Tier::All => "uroce/interop-rest",
        _ => "uroce/interop",
    }
}

fn case(tier: Tier) -> Result<Case, String> {
    let mut members: Vec<String> = members(tier)?
        .into_iter()
        .map(|member| member.name)
        .collect();
    if tier == Tier::Test {
        members.extend(GIDS.map(|check| format!("{GIDS_GROUP}/{check}")));
    }
    Ok(Case::new(name_of(tier), boot)
        .place(Place::Vm)
        .tier(tier)
        .cpu(200)
        .limit(LIMIT + 100)
        .members(members)
        .guest(guest::run))
}

/// A row between two hosts.
#[derive(Debug, Clone)]
pub struct Member {
    pub name: String,
    pub ends: Ends,
    pub impairment: Impairment,
    pub row: Row,
}

/// The members of the case of this tier. Those with the same hosts follow one another. Of all that runs with
/// impairments, make test runs some with all impairments at once.
pub fn members(tier: Tier) -> Result<Vec<Member>, String> {
    let clean = rows::of_world("interop")?;
    let lossy = rows::of_world("interop-lossy")?;
    let tier_of = |row: &Row, world: &str| row.worlds.get(world).and_then(|when| when.tier());
    let mut members = Vec::new();
    for impairment in [NONE, LOSS, REORDER, DUPLICATE, ALL] {
        for ends in [Ends::RxeUroce, Ends::UroceRxe] {
            let (rows, world) = if impairment == NONE {
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
                    tier_of(row, world)
                };
                if row_tier != Some(tier) {
                    continue;
                }
                let hosts = format!("{}{}", ends.name(), impairment.name);
                members.push(Member {
                    name: format!("{}/{hosts}/{group}/{}", name_of(tier), row.name),
                    ends,
                    impairment,
                    row: row.clone(),
                });
            }
        }
    }
    Ok(members)
}

/// Boots the virtual machine. It shares the case's directory, and so the file of verdicts.
fn boot(cx: &Context) -> Verdict {
    let own = env::current_exe()?;
    let mut words = vec![
        own.display().to_string(),
        "--guest".into(),
        cx.name.clone(),
        "$OUT".into(),
        cx.paths.staged.display().to_string(),
    ];
    words.extend(cx.patterns().iter().cloned());
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    let script = cx.write("guest", format!("exec {}\n", quoted.join(" ")))?;
    let text = |path: std::path::PathBuf| path.to_string_lossy().into_owned();
    let argv = [
        text(cx.source("vm/boot")),
        text(script),
        text(cx.dir().into()),
    ];
    let machine = cx
        .program(argv)
        .merged()
        .env("VM_RDMA", "yes")
        .env("VM_TIMEOUT", LIMIT.to_string())
        .limit(std::time::Duration::from_secs(LIMIT + 60));
    succeeded("the virtual machine", &machine.run()?)
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
        let clean = 2 * rows::of_world("interop").unwrap().len();
        let lossy = 2 * 4 * rows::of_world("interop-lossy").unwrap().len();
        assert_eq!(test.len() + rest.len(), clean + lossy);
        assert!(test.contains(&"uroce/interop/uroce-rxe-all/perftest/read_bw-RC".into()));
        assert!(rest.contains(&"uroce/interop-rest/rxe-uroce-loss/perftest/read_bw-RC".into()));
    }
}
