//! Makes cases from the rows of the case files.

use std::time::Duration;

use crate::case::{Case, Place, Tier};
use crate::case_file::{self, Row};
use crate::pairs;
use crate::paths;
use crate::world::World;

/// The time that a case may take beyond the time limit of its client: for setting up its world.
const SET_UP: Duration = Duration::from_secs(40);

/// The groups whose rows of the world `loopback` run through shared memory too.
const IN_LOCAL: [&str; 3] = ["pingpong", "perftest", "rdmacm"];

/// The cases of all rows in the worlds that run a case of their own for each row. The others, which run in
/// the virtual machine, take theirs from `of_world`.
pub fn cases() -> Result<Vec<Case>, String> {
    let rows = case_file::read_all(&paths::repo().join("compat-tests/cases"))?;
    let loopback = |(group, world, _): &&(String, String, Row)| {
        world == "loopback" && IN_LOCAL.contains(&group.as_str())
    };
    let local: Vec<_> = rows.iter().filter(loopback).cloned().collect();
    let local = local
        .into_iter()
        .filter_map(|(group, _, row)| case(&group, "local", row));
    Ok(rows
        .iter()
        .cloned()
        .filter_map(|(group, world, row)| case(&group, &world, row))
        .chain(local)
        .collect())
}

/// The rows that run in this world, with the names of their groups.
pub fn of_world(world: &str) -> Result<Vec<(String, Row)>, String> {
    let rows = case_file::read_all(&paths::repo().join("compat-tests/cases"))?;
    let in_world = rows.into_iter().filter(|(_, name, _)| name == world);
    Ok(in_world.map(|(group, _, row)| (group, row)).collect())
}

fn case(group: &str, world: &str, row: Row) -> Option<Case> {
    let tier = match world {
        "local" => Tier::Test.max(row.worlds.get("loopback")?.tier()?),
        _ => row.worlds.get(world)?.tier()?,
    };
    let hosts = match world {
        "loopback" => World::Loopback,
        "local" => World::Local,
        "container" => World::Container,
        "veth" => World::Veth,
        _ => return None,
    };
    let name = format!("uroce/{world}/{group}/{}", row.name);
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
