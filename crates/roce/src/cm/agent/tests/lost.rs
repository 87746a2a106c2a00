//! Peers whose process has ended without a DREQ.

use super::*;

fn disconnected(owner: u32) -> Vec<Received> {
    let event = Event::Disconnected;
    vec![Received::Event { owner, event }]
}

#[test]
fn the_connection_of_a_peer_that_has_ended_is_over() {
    let mut simulation = Simulation::new(Vec::new(), Duration::ZERO, 0);
    simulation.connect();
    simulation.run();
    let agent = &mut simulation.agents[1];
    // Other queue pairs, and the same numbers at another address.
    for (qpn, peer, peer_qpn) in [
        (QPNS[0], GIDS[0], QPNS[0]),
        (QPNS[1], GIDS[1], QPNS[0]),
        (QPNS[1], GIDS[0], QPNS[1]),
    ] {
        assert!(agent.peer_lost(qpn, &peer, peer_qpn).is_empty());
    }
    let lost = |agent: &mut Agent| agent.peer_lost(QPNS[1], &GIDS[0], QPNS[0]);
    assert_eq!(lost(agent), disconnected(OWNERS[1]));
    assert_eq!(lost(agent), [Received::Handled], "once");
    // The program disconnects, or destroys its id, as after a DREQ.
    let id = simulation.ids[1].unwrap();
    agent.destroy(id, simulation.now);
    assert!(agent.is_done());
    assert_eq!(lost(agent), [Received::Handled]);
}

#[test]
fn a_connection_that_is_not_established_is_not_over() {
    let mut simulation = requested();
    let handled = simulation.agents[1].peer_lost(0, &GIDS[0], QPNS[0]);
    assert_eq!(handled, [Received::Handled]);
}
