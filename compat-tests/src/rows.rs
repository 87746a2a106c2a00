//! Makes cases from the rows of the case files.

use std::sync::OnceLock;
use std::time::Duration;

use crate::case::{Case, Tier};
use crate::case_file::{self, Row};
use crate::pairs;
use crate::paths;
use crate::sandbox::Sandbox;
use crate::testbed::Testbed;

/// The time that a case may take beyond the time limit of its client: for setting up its testbed.
const SET_UP: Duration = Duration::from_secs(40);

/// The groups whose rows of the testbed `loopback` run by UDP too.
const IN_UDP: &[&str] = &["pingpong", "perftest", "rdmacm"];

/// Whether a row of the testbed `loopback` runs without direct access, too: WRITE and READ of perftest.
/// Unreliable connections have none anyway.
fn in_packets(group: &str, row: &Row) -> bool {
    let accesses = row.name.starts_with("write") || row.name.starts_with("read");
    group == "perftest" && accesses && !row.name.contains("UC")
}

/// The group, the testbed, and the row.
type RowInTestbed = (String, String, Row);

/// The cases of all rows in the testbeds that run a case of their own for each row. The others, which run in
/// the virtual machine, take theirs from `of_testbed`.
pub fn cases() -> Result<Vec<Case>, String> {
    let rows = all()?;
    let loopback = rows.iter().filter(|(_, testbed, _)| testbed == "loopback");
    let others = loopback.flat_map(|(group, _, row)| {
        let udp = IN_UDP.contains(&group.as_str()).then_some("udp");
        let packets = in_packets(group, row).then_some("packets");
        let testbeds = [udp, packets].into_iter().flatten();
        testbeds.filter_map(|testbed| case(group, testbed, row.clone()))
    });
    Ok(rows
        .iter()
        .cloned()
        .filter_map(|(group, testbed, row)| case(&group, &testbed, row))
        .chain(others)
        .collect())
}

/// The rows that run in this testbed, with the names of their groups.
pub fn of_testbed(testbed: &str) -> Result<Vec<(String, Row)>, String> {
    let in_testbed = all()?.iter().filter(|(_, name, _)| name == testbed);
    let rows = in_testbed.map(|(group, _, row)| (group.clone(), row.clone()));
    Ok(rows.collect())
}

/// The rows of all case files. The files are read once per process.
fn all() -> Result<&'static [RowInTestbed], String> {
    static ROWS: OnceLock<Result<Vec<RowInTestbed>, String>> = OnceLock::new();
    let read = || case_file::read_all(&paths::repo().join("compat-tests/cases"));
    let rows = ROWS.get_or_init(read).as_ref();
    rows.map(Vec::as_slice).map_err(String::clone)
}

fn case(group: &str, testbed: &str, row: Row) -> Option<Case> {
    let tier = match testbed {
        "udp" | "packets" => Tier::Test.max(row.testbeds.get("loopback")?.tier()?),
        _ => row.testbeds.get(testbed)?.tier()?,
    };
    let hosts = match testbed {
        "loopback" => Testbed::Loopback,
        "udp" => Testbed::Udp,
        "packets" => Testbed::Packets,
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
    let checker = row.checker.clone();
    let checker: Vec<&str> = checker.as_deref().into_iter().collect();
    let case = Case::new(name, move |cx| pairs::run_in(cx, &row, hosts));
    Some(
        case.sandbox(Sandbox::Namespace)
            .programs(&checker)
            .tier(tier)
            .limit(limit.as_secs())
            .cpu(cpu),
    )
}
