//! Prefixes of communication IDs.

use super::*;

fn connect(agent: &mut Agent) -> u32 {
    let req = req(agent);
    let (connection, mad) = Connection::connect(req, 0, 3, Time(1));
    agent.start(OWNERS[0], connection, Route::back(GIDS[1], GIDS[0]), mad)
}

#[test]
fn a_prefix_is_used_up() {
    let mut agent = Agent::new();
    assert!(agent.needs_prefix());
    assert_eq!(agent.alloc_id(), Err(Error::TooMany));
    let mut ids = Vec::new();
    for prefix in [PREFIXES, 1] {
        agent.add_prefix(prefix);
        while !agent.needs_prefix() {
            let id = connect(&mut agent);
            assert_eq!(prefix_of(id), prefix);
            ids.push(id);
        }
    }
    assert_eq!(ids.len(), 2 * IDS_PER_PREFIX as usize);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 2 * IDS_PER_PREFIX as usize);
}

#[test]
fn a_prefix_is_free_when_its_connections_are_over() {
    let mut agent = agent(5);
    let first = connect(&mut agent);
    while !agent.needs_prefix() {
        agent.alloc_id().unwrap();
    }
    agent.add_prefix(6);
    assert!(agent.uses_prefix(5) && agent.uses_prefix(6) && !agent.uses_prefix(7));
    agent.destroy(first, Time(1));
    while agent.deadline().is_some() {
        agent.handle_timeout(Time(u64::MAX));
    }
    assert!(!agent.uses_prefix(5) && agent.uses_prefix(6));
}
