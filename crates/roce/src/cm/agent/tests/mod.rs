//! Two agents over a network that loses, repeats and reorders messages.

mod lost;
mod prefixes;
mod rejected;
mod resolution;

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::cm::connection::{State, decode_time};
use crate::cm::mad::{ConnectionType, REP_PRIVATE, REQ_PRIVATE, Rep, reason};

const SERVICE: u64 = 0x0106_1d2f;
const GIDS: [Gid; 2] = [[1; 16], [2; 16]];
const GUIDS: [u64; 2] = [0x11, 0x22];
const QPNS: [u32; 2] = [0x1001, 0x2002];
/// The owners that the two programs give their connections.
const OWNERS: [u32; 2] = [7, 9];

/// An agent whose communication IDs have this prefix.
fn agent(prefix: u32) -> Agent {
    let mut agent = Agent::new();
    agent.add_prefix(prefix);
    agent
}

fn req(agent: &mut Agent) -> Req {
    Req {
        local_id: agent.alloc_id().unwrap(),
        vendor_id: 0,
        service_id: SERVICE,
        ca_guid: GUIDS[0],
        qpn: QPNS[0],
        responder_resources: 1,
        initiator_depth: 2,
        remote_response_timeout: 20,
        connection: ConnectionType::Rc,
        flow_control: false,
        starting_psn: 5,
        local_response_timeout: 20,
        retry_count: 7,
        pkey: 0xffff,
        path_mtu: 3,
        rnr_retry_count: 7,
        max_cm_retries: 15,
        srq: false,
        local_gid: GIDS[0],
        remote_gid: GIDS[1],
        flow_label: 0,
        packet_rate: 3,
        traffic_class: 0,
        hop_limit: 64,
        sl: 0,
        ack_timeout: 17,
        private: [0; REQ_PRIVATE],
    }
}

fn rep() -> Rep {
    Rep {
        ids: Ids {
            local: 0,
            remote: 0,
        },
        vendor_id: 0,
        qpn: QPNS[1],
        xrc_qpn: 0,
        starting_psn: 6,
        responder_resources: 1,
        initiator_depth: 1,
        target_ack_delay: 0,
        flow_control: false,
        rnr_retry_count: 7,
        srq: false,
        ca_guid: GUIDS[1],
        private: [0; REP_PRIVATE],
    }
}

/// An event of a program's connection, as the test records them in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Request,
    Reply,
    Established,
    Rejected(u16),
    Disconnected,
    Timeout,
    Unreachable,
    TimewaitExit,
}

/// Two programs and the network between them.
struct Simulation {
    agents: [Agent; 2],
    ids: [Option<u32>; 2],
    seen: [Vec<Seen>; 2],
    /// Messages in flight: the time of arrival, and the receiving side.
    network: Vec<(Time, usize, Incoming)>,
    now: Time,
    /// The fates of the next messages: each message consumes one element.
    fates: Vec<u8>,
    /// How long the passive program takes to answer.
    think: Duration,
    answer_at: Option<Time>,
    disconnects: usize,
    /// The passive program crashes when the peer has disconnected.
    crashes: bool,
}

impl Simulation {
    fn new(fates: Vec<u8>, think: Duration, disconnects: usize) -> Simulation {
        Simulation {
            agents: [agent(1), agent(2)],
            ids: [None; 2],
            seen: [Vec::new(), Vec::new()],
            network: Vec::new(),
            now: Time(1),
            fates,
            think,
            answer_at: None,
            disconnects,
            crashes: false,
        }
    }

    fn connect(&mut self) {
        let req = req(&mut self.agents[0]);
        let route = Route::back(GIDS[1], GIDS[0]);
        let (connection, mad) = Connection::connect(req, 0, 3, self.now);
        self.ids[0] = Some(self.agents[0].start(OWNERS[0], connection, route, mad));
        self.transmit();
    }

    /// Puts what the agents send on the network, with the fates of the messages.
    fn transmit(&mut self) {
        for from in 0..2 {
            for Outgoing { route, mad } in self.agents[from].take_outgoing() {
                assert_eq!((route.sgid, route.dgid), (GIDS[from], GIDS[1 - from]));
                let message = Incoming {
                    src: GIDS[from],
                    dst: GIDS[1 - from],
                    mad,
                };
                let fate = self.fates.pop().unwrap_or(100);
                let mut arrive = |delay: u64| {
                    let at = Time(self.now.0 + delay * 1_000_000);
                    self.network.push((at, 1 - from, message.clone()));
                };
                match fate {
                    0..40 => {}
                    40..60 => {
                        arrive(1);
                        arrive(u64::from(fate) * 20);
                    }
                    60..90 => arrive(u64::from(fate) * 10),
                    _ => arrive(1),
                }
            }
        }
    }

    /// Runs until nothing happens any more. Panics if that takes more than ten minutes.
    fn run(&mut self) {
        for _ in 0..10_000 {
            let arrival = self.network.iter().map(|message| message.0).min();
            let timers = self.agents.iter().filter_map(Agent::deadline).min();
            let next = [arrival, timers, self.answer_at];
            let Some(next) = next.into_iter().flatten().min() else {
                return;
            };
            self.now = self.now.max(next);
            assert!(self.now.0 < 600_000_000_000, "it does not end");
            self.step();
            self.transmit();
        }
        panic!("it does not end");
    }

    fn step(&mut self) {
        if self.answer_at.is_some_and(|at| at <= self.now) {
            self.answer_at = None;
            let (now, id) = (self.now, self.ids[1].unwrap());
            let _ = self.agents[1].act(id, |passive| passive.reply(rep(), 0, now));
        }
        for side in 0..2 {
            while let Some(received) = self.agents[side].handle_timeout(self.now) {
                self.handle(side, received);
            }
        }
        let now = self.now;
        let (due, later) = std::mem::take(&mut self.network)
            .into_iter()
            .partition(|message| message.0 <= now);
        self.network = later;
        for (_, to, message) in due as Vec<(Time, usize, Incoming)> {
            let mad = CmMad::parse(&message.mad).unwrap();
            let received = self.agents[to].receive(&message, mad, self.now);
            self.handle(to, received);
        }
    }

    fn handle(&mut self, side: usize, received: Received) {
        match received {
            Received::Handled => {}
            Received::Request { req, mad } => {
                let route = Route::back(GIDS[0], GIDS[1]);
                if self.ids[1].is_some() {
                    // A late copy of the REQ of a connection that is over: the program listens no more.
                    let reason = reason::INVALID_SERVICE_ID;
                    return self.agents[side].reject_request(&req, mad.tid, route, reason);
                }
                self.seen[1].push(Seen::Request);
                let tid = mad.tid;
                let accepted =
                    self.agents[side].accept_request(OWNERS[1], &req, tid, route, GUIDS[1]);
                self.ids[1] = Some(accepted.unwrap());
                self.answer_at = Some(self.now.after(self.think));
            }
            Received::Resolution { .. } => panic!(),
            Received::Event { owner, event } => {
                assert_eq!(owner, OWNERS[side]);
                self.on_event(side, event);
            }
        }
    }

    fn on_event(&mut self, side: usize, event: Event) {
        let (now, id) = (self.now, self.ids[side].unwrap());
        let agent = &mut self.agents[side];
        let seen = match event {
            Event::Reply { .. } => {
                agent.act(id, Connection::ready).unwrap();
                if self.disconnects & 1 != 0 {
                    agent.act(id, |active| active.disconnect(now)).unwrap();
                }
                Seen::Reply
            }
            Event::Established => {
                if self.disconnects & 2 != 0 {
                    agent.act(id, |passive| passive.disconnect(now)).unwrap();
                }
                Seen::Established
            }
            Event::Disconnected => {
                if !(self.crashes && side == 1) {
                    let _ = agent.act(id, |peer| peer.disconnect(now));
                }
                Seen::Disconnected
            }
            Event::DisconnectTimeout => Seen::Timeout,
            Event::Unreachable => Seen::Unreachable,
            Event::Rejected(rej) => Seen::Rejected(rej.reason),
            Event::TimewaitExit => Seen::TimewaitExit,
            Event::SidrReply { .. } => panic!(),
        };
        self.seen[side].push(seen);
    }

    fn destroy_all(&mut self) {
        for side in 0..2 {
            if let Some(id) = self.ids[side] {
                self.agents[side].destroy(id, self.now);
            }
        }
        self.transmit();
        self.run();
    }
}

#[test]
fn a_connection_without_loss() {
    let mut simulation = Simulation::new(Vec::new(), Duration::ZERO, 1);
    simulation.connect();
    simulation.run();
    use Seen::*;
    assert_eq!(simulation.seen[0], [Reply, Disconnected, TimewaitExit]);
    assert_eq!(
        simulation.seen[1],
        [Request, Established, Disconnected, TimewaitExit]
    );
    // REQ, REP, RTU, DREQ, DREP take a millisecond each; then TimeWait.
    assert!(simulation.now.0 < 10_000_000 + decode_time(17).as_nanos() as u64);
    simulation.destroy_all();
    assert!(
        simulation
            .agents
            .iter()
            .all(|agent| agent.entries.is_empty())
    );
}

#[test]
fn nobody_answers() {
    let mut simulation = Simulation::new(vec![0; 10_000], Duration::ZERO, 1);
    simulation.connect();
    simulation.run();
    assert_eq!(simulation.seen, [vec![Seen::Unreachable], vec![]]);
    // Sixteen response timeouts.
    let timeout = decode_time(20) + decode_time(17);
    assert!(simulation.now.0 >= 16 * timeout.as_nanos() as u64);
    simulation.destroy_all();
    assert!(simulation.agents[0].entries.is_empty());
}

#[test]
fn a_program_that_thinks_for_a_minute_before_it_accepts() {
    let mut simulation = Simulation::new(Vec::new(), Duration::from_secs(60), 1);
    simulation.connect();
    simulation.run();
    use Seen::*;
    assert_eq!(simulation.seen[0], [Reply, Disconnected, TimewaitExit]);
    assert_eq!(
        simulation.seen[1],
        [Request, Established, Disconnected, TimewaitExit]
    );
}

/// Two ends, of which the passive one has got the request, and has not answered it.
fn requested() -> Simulation {
    let mut simulation = Simulation::new(Vec::new(), Duration::from_secs(1), 0);
    simulation.connect();
    simulation.step();
    simulation.now = Time(2_000_000);
    simulation.step();
    assert_eq!(simulation.seen[1], [Seen::Request]);
    simulation
}

#[test]
fn a_destroyed_connection_is_rejected_or_disconnected() {
    // The active end destroys its connection before the passive one answers.
    let mut simulation = requested();
    let id = simulation.ids[0].unwrap();
    simulation.agents[0].destroy(id, simulation.now);
    simulation.transmit();
    simulation.run();
    assert_eq!(
        simulation.seen[1],
        [Seen::Request, Seen::Rejected(reason::TIMEOUT)]
    );
    // The passive one destroys an established connection.
    let mut simulation = Simulation::new(Vec::new(), Duration::ZERO, 0);
    simulation.connect();
    simulation.run();
    let id = simulation.ids[1].unwrap();
    simulation.agents[1].destroy(id, simulation.now);
    simulation.transmit();
    simulation.run();
    use Seen::*;
    assert_eq!(simulation.seen[0], [Reply, Disconnected, TimewaitExit]);
    assert!(simulation.agents[1].entries.is_empty());
}

#[test]
fn the_peer_of_a_program_that_crashes_is_confirmed() {
    let mut simulation = Simulation::new(Vec::new(), Duration::ZERO, 1);
    simulation.crashes = true;
    simulation.connect();
    simulation.run();
    use Seen::*;
    assert_eq!(simulation.seen[0], [Reply, Disconnected, TimewaitExit]);
    assert_eq!(simulation.seen[1].last(), Some(&Disconnected));
}

#[test]
fn a_request_for_the_same_queue_pair_is_stale() {
    let mut simulation = Simulation::new(Vec::new(), Duration::ZERO, 0);
    simulation.connect();
    simulation.run();
    let first = simulation.ids[0].unwrap();
    simulation.seen = [Vec::new(), Vec::new()];
    simulation.agents[0].remove(first);
    simulation.agents[0].deadlines.clear();
    simulation.connect();
    simulation.run();
    let stale = Seen::Rejected(reason::STALE_CONNECTION);
    assert_eq!(simulation.seen[0], [stale, Seen::TimewaitExit]);
    // The old connection ends: its peer does not know it any more.
    assert_eq!(simulation.seen[1], [Seen::Disconnected, Seen::TimewaitExit]);
}

/// The connection has ended, and its ids may still exist.
#[test]
fn a_queue_pair_can_be_connected_again_in_timewait() {
    let mut simulation = Simulation::new(Vec::new(), Duration::ZERO, 0);
    simulation.connect();
    simulation.run();
    for (side, id) in [0, 1].map(|side| (side, simulation.ids[side].unwrap())) {
        let connection = simulation.agents[side].entries.get_mut(&id);
        connection
            .unwrap()
            .connection
            .enter_timewait(simulation.now);
    }
    simulation.ids[1] = None;
    simulation.seen = [Vec::new(), Vec::new()];
    simulation.connect();
    simulation.transmit();
    simulation.run();
    assert!(
        simulation.seen[1].contains(&Seen::Request),
        "{:?}",
        simulation.seen
    );
}

#[test]
fn messages_of_strangers_change_nothing() {
    let mut simulation = Simulation::new(Vec::new(), Duration::ZERO, 0);
    simulation.connect();
    simulation.run();
    let ids = simulation.agents[1]
        .connection(simulation.ids[1].unwrap())
        .unwrap()
        .ids();
    let forged = CmMad {
        tid: 1,
        modifier: 0,
        message: CmMessage::Dreq {
            ids: Ids {
                local: ids.remote,
                remote: ids.local,
            },
            remote_qpn: QPNS[1],
        },
    };
    let message = Incoming {
        src: [3; 16],
        dst: GIDS[1],
        mad: forged.bytes(),
    };
    let received = simulation.agents[1].receive(&message, forged, simulation.now);
    assert_eq!(received, Received::Handled);
    let connection = simulation.agents[1].connection(ids.local).unwrap();
    assert_eq!(connection.state(), State::Established);
}

proptest! {
    /// A connection with losses at its start: whatever happens to the first messages, both programs
    /// see a connection, and its end, once each.
    #[test]
    fn loss_repetition_and_reordering(
        fates in prop::collection::vec(0_u8..110, 0..12),
        think in 0_u64..3000,
        disconnects in 1_usize..4,
    ) {
        let mut simulation = Simulation::new(fates, Duration::from_millis(think), disconnects);
        simulation.connect();
        simulation.run();
        use Seen::*;
        let ended = |seen: &Seen| matches!(seen, Disconnected | Timeout);
        for seen in &simulation.seen {
            let ends = seen.iter().filter(|seen| ended(seen)).count();
            prop_assert_eq!(ends, 1, "{:?}", simulation.seen);
            prop_assert_eq!(seen.last(), Some(&TimewaitExit), "{:?}", simulation.seen);
        }
        prop_assert_eq!(simulation.seen[0].first(), Some(&Reply));
        prop_assert_eq!(simulation.seen[1].first(), Some(&Request));
        let count = |side: usize, what| simulation.seen[side].iter().filter(|seen| **seen == what).count();
        prop_assert_eq!(count(0, Reply), 1);
        prop_assert!(count(1, Established) <= 1);
        simulation.destroy_all();
        prop_assert!(simulation.agents.iter().all(|agent| agent.entries.is_empty()));
        prop_assert!(simulation.agents.iter().all(|agent| agent.remote_ids.is_empty()
            && agent.remote_qpns.is_empty()
            && agent.deadlines.is_empty()));
    }

    /// Destroying at any moment leaves nothing behind.
    #[test]
    fn destroyed_at_any_moment(
        fates in prop::collection::vec(0_u8..110, 0..12),
        steps in 0_usize..12,
    ) {
        let mut simulation = Simulation::new(fates, Duration::from_millis(10), 1);
        simulation.connect();
        for _ in 0..steps {
            simulation.now = Time(simulation.now.0 + 100_000_000);
            simulation.step();
            simulation.transmit();
        }
        simulation.destroy_all();
        // A request that was in flight has arrived since.
        simulation.destroy_all();
        prop_assert!(simulation.agents.iter().all(|agent| agent.entries.is_empty()));
    }

    /// A message of any kind in any state: no panic, and the timers stay those of existing
    /// connections.
    #[test]
    fn any_message_in_any_state(
        messages in prop::collection::vec((any::<u8>(), any::<u64>(), 0_u8..12), 0..40),
    ) {
        let mut simulation = Simulation::new(Vec::new(), Duration::from_millis(10), 0);
        simulation.connect();
        simulation.run();
        for (seed, bits, attribute) in messages {
            let side = usize::from(seed & 1);
            let mut mad = [0; crate::cm::mad::MAD_LEN];
            mad[24..].fill_with(|| (bits >> 8) as u8);
            mad[..4].copy_from_slice(&[1, 7, 2, 3]);
            mad[17] = 0x10 + attribute;
            let own = simulation.ids[side].unwrap_or_default();
            let other = simulation.ids[1 - side].unwrap_or_default();
            mad[24..28].copy_from_slice(&other.to_be_bytes());
            mad[28..32].copy_from_slice(&own.to_be_bytes());
            if seed & 2 != 0 {
                mad[32] = bits as u8;
            }
            let message = Incoming { src: GIDS[1 - side], dst: GIDS[side], mad };
            simulation.now = Time(simulation.now.0 + bits % 1_000_000_000);
            if let Some(parsed) = CmMad::parse(&message.mad) {
                let _ = simulation.agents[side].receive(&message, parsed, simulation.now);
            }
            simulation.agents[side].take_outgoing();
            while simulation.agents[side].handle_timeout(simulation.now).is_some() {}
        }
        for agent in &mut simulation.agents {
            let current = agent.deadlines.iter().all(|(at, id)| {
                let entry = agent.entries.get(id);
                entry.and_then(|entry| entry.connection.deadline()) == Some(*at)
            });
            prop_assert!(current);
        }
    }
}
