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

/// The process of one end, whose prefix is this, ends while the other one waits for its answer.
fn the_other_end_is_rejected(simulation: &mut Simulation, waits: usize, prefix: u32) {
    let peer = 1 - waits;
    let its = |gid: &Gid| *gid == GIDS[peer];
    let agent = &mut simulation.agents[waits];
    assert!(agent.process_ended(prefix + 7, its).is_empty());
    assert!(agent.process_ended(prefix, |_| false).is_empty());
    let received = agent.process_ended(prefix, its);
    let [Received::Event { owner, event }] = &received[..] else {
        panic!("{received:?}")
    };
    assert_eq!(*owner, OWNERS[waits]);
    assert!(matches!(event, Event::Rejected(rej) if rej.reason == reason::CONSUMER));
    assert!(agent.process_ended(prefix, its).is_empty(), "once");
}

#[test]
fn a_process_that_ends_before_its_rtu_has_rejected() {
    let mut simulation = requested();
    let (id, now) = (simulation.ids[1].unwrap(), simulation.now);
    let passive = &mut simulation.agents[1];
    assert!(passive.process_ended(1, |_| true).is_empty());
    passive
        .act(id, |passive| passive.reply(rep(), 0, now))
        .unwrap();
    the_other_end_is_rejected(&mut simulation, 1, 1);
}

/// The active end knows which process has its request from the MRA.
#[test]
fn a_process_that_ends_before_its_rep_has_rejected() {
    let mut simulation = requested();
    let id = simulation.ids[0].unwrap();
    let state = |simulation: &Simulation| simulation.agents[0].connection(id).unwrap().state();
    assert!(simulation.agents[0].process_ended(2, |_| true).is_empty());
    while state(&simulation) != State::MraReqReceived {
        simulation.now = simulation.now.after(Duration::from_millis(1));
        simulation.step();
        simulation.transmit();
    }
    the_other_end_is_rejected(&mut simulation, 0, 2);
}
