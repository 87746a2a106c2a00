//! Makes cases from the rows of the case files.

use std::time::Duration;

use crate::case::{Case, Place, Tier};
use crate::case_file::{self, Row};
use crate::pairs;
use crate::paths;
use crate::testbed::Testbed;

/// The time that a case may take beyond the time limit of its client: for setting up its testbed.
const SET_UP: Duration = Duration::from_secs(40);

/// The groups whose rows of the testbed `loopback` run through shared memory too.
const IN_LOCAL: [&str; 3] = ["pingpong", "perftest", "rdmacm"];

/// The cases of all rows in the testbeds that run a case of their own for each row. The others, which run in
/// the virtual machine, take theirs from `of_testbed`.
pub fn cases() -> Result<Vec<Case>, String> {
    let rows = case_file::read_all(&paths::repo().join("compat-tests/cases"))?;
    let loopback = |(group, testbed, _): &&(String, String, Row)| {
        testbed == "loopback" && IN_LOCAL.contains(&group.as_str())
    };
    let local: Vec<_> = rows.iter().filter(loopback).cloned().collect();
    let local = local
        .into_iter()
        .filter_map(|(group, _, row)| case(&group, "local", row));
    Ok(rows
        .iter()
        .cloned()
        .filter_map(|(group, testbed, row)| case(&group, &testbed, row))
        .chain(local)
        .collect())
}

/// The rows that run in this testbed, with the names of their groups.
pub fn of_testbed(testbed: &str) -> Result<Vec<(String, Row)>, String> {
    let rows = case_file::read_all(&paths::repo().join("compat-tests/cases"))?;
    let in_testbed = rows.into_iter().filter(|(_, name, _)| name == testbed);
    Ok(in_testbed.map(|(group, _, row)| (group, row)).collect())
}

fn case(group: &str, testbed: &str, row: Row) -> Option<Case> {
    let tier = match testbed {
        "local" => Tier::Test.max(row.testbeds.get("loopback")?.tier()?),
        _ => row.testbeds.get(testbed)?.tier()?,
    };
    let hosts = match testbed {
        "loopback" => Testbed::Loopback,
        "local" => Testbed::Local,
        "container" => Testbed::Container,
        "veth" => Testbed::Veth,
        _ => return None,
    };
    let name = format!("uroce/{testbed}/{group}/{}", row.name);
    let limit = pairs::limit(&row) + SET_UP;
    // Two programs that busy-poll; several pairs at once take all that there is.
    let cpu = if row.run.is_some() {
        100
    } else {
        100 * u32::from(row.times.max(row.clients))
    };
    let case = Case::new(name, move |cx| pairs::run_in(cx, &row, hosts));
    Some(
        case.place(Place::Namespace)
            .tier(tier)
            .limit(limit.as_secs())
            .cpu(cpu),
    )
}
