//! Hosts around a switch, packets on their way, timers. Events happen in the order of their times; where the
//! times are equal, of their numbers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use roce::engine::*;
use roce::wire::{ICRC_LEN, MAX_HEADERS, Packet};

use crate::endpoint::{Connection, Endpoint, Program, gid};
use crate::port::{Line, Port};
use crate::random::Random;

/// Bytes of Ethernet (with its preamble and gap), IPv4 and UDP around a packet.
const FRAMING: u64 = 24 + 14 + 20 + 8;
/// The longest payload and its padding.
const MAX_PAYLOAD: usize = 4096 + 3;

/// A network: hosts around one switch.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// The lines from each host to the switch.
    pub uplink: Line,
    /// The lines from the switch to each host.
    pub downlink: Line,
    /// The delay from one host to another, without queues.
    pub delay: Duration,
    /// The longest extra delay of a packet between its host and the switch, evenly distributed from
    /// 0. Packets of a host keep their order. Without it, hosts with equal lines meet a full queue
    /// in the same order each time.
    pub jitter: Duration,
    /// The probability that the switch loses a packet.
    pub loss: f64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A packet of this endpoint reaches the switch.
    AtSwitch(usize, Vec<u8>),
    /// A packet reaches this endpoint, marked or not.
    Arrives(usize, Vec<u8>, bool),
    /// A timer of this endpoint may have expired, or its program begins.
    Timer(usize),
}

/// When a scheduled event happens; the number keeps those of the same time in order.
type At = (Time, u64);

/// A network in simulated time.
pub struct Simulation {
    network: Network,
    now: Time,
    random: Random,
    events: BinaryHeap<Reverse<(At, Event)>>,
    scheduled: u64,
    uplinks: Vec<Port>,
    /// When the last packet of each host reaches the switch.
    reached_at: Vec<Time>,
    downlinks: Vec<Port>,
    endpoints: Vec<Endpoint>,
    /// Packets that were lost at random.
    pub lost: u64,
    /// No packet passes in this time.
    pub outage: Option<(Time, Time)>,
    /// A number that changes with each packet that arrives, its bytes and its time.
    fingerprint: u64,
}

impl Simulation {
    /// A network with that many hosts.
    pub fn new(network: Network, hosts: usize, seed: u64) -> Simulation {
        Simulation {
            network,
            now: Time(0),
            random: Random::new(seed),
            events: BinaryHeap::new(),
            scheduled: 0,
            uplinks: vec![Port::new(network.uplink); hosts],
            reached_at: vec![Time(0); hosts],
            downlinks: vec![Port::new(network.downlink); hosts],
            endpoints: Vec::new(),
            lost: 0,
            outage: None,
            fingerprint: 0,
        }
    }

    /// Connects a program on the host `from` with the host `to`. Returns its endpoint; that of its peer is
    /// the next one.
    pub fn connect(
        &mut self,
        (from, to): (usize, usize),
        connection: &Connection,
        program: Program,
    ) -> usize {
        let number = self.endpoints.len();
        let ends = [(number, from), (number + 1, to)];
        let now = self.now;
        let first = Endpoint::connected(ends[0], ends[1], connection, Some(program), now);
        let second = Endpoint::connected(ends[1], ends[0], connection, None, now);
        self.endpoints.extend([first, second]);
        self.schedule(program.start, Event::Timer(number));
        number
    }

    /// The endpoints, those that post before their peers.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// The switch's port to a host.
    pub fn downlink(&self, host: usize) -> &Port {
        &self.downlinks[host]
    }

    /// The switch's ports.
    pub fn downlinks(&self) -> impl Iterator<Item = &Port> {
        self.downlinks.iter()
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// A number that two runs share if the same packets have arrived at the same times.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    fn schedule(&mut self, at: Time, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse(((at, self.scheduled), event)));
    }

    /// Runs until the time, or until nothing happens any more.
    pub fn run_until(&mut self, end: Time) {
        while let Some(Reverse(((at, _), _))) = self.events.peek() {
            if *at > end {
                break;
            }
            let Some(Reverse(((at, _), event))) = self.events.pop() else {
                break;
            };
            self.now = at;
            match event {
                Event::AtSwitch(from, bytes) => self.switch(from, bytes),
                Event::Arrives(to, bytes, is_marked) => self.arrive(to, &bytes, is_marked),
                Event::Timer(endpoint) => self.expire(endpoint),
            }
        }
        self.now = end;
    }

    fn switch(&mut self, from: usize, bytes: Vec<u8>) {
        let to = self.endpoints[from].peer;
        let is_out = self
            .outage
            .is_some_and(|(start, end)| (start..end).contains(&self.now));
        if is_out || self.random.happens(self.network.loss) {
            self.lost += 1;
            return;
        }
        let host = self.endpoints[to].host;
        let len = bytes.len() as u64 + FRAMING;
        let is_marked = self.downlinks[host].marks(self.now);
        if let Some(left) = self.downlinks[host].accept(len, self.now, &mut self.random) {
            self.schedule(
                left.after(self.network.delay / 2),
                Event::Arrives(to, bytes, is_marked),
            );
        }
    }

    fn arrive(&mut self, to: usize, bytes: &[u8], is_marked: bool) {
        self.fingerprint = self.fingerprint.rotate_left(5) ^ self.now.0 ^ hash(bytes);
        let Ok(packet) = Packet::parse(bytes) else {
            return;
        };
        let endpoint = &self.endpoints[to];
        let peer = gid(self.endpoints[endpoint.peer].host);
        let from = Addresses {
            is_marked,
            ..Addresses::new(peer, gid(endpoint.host))
        };
        let Endpoint {
            qp,
            memory,
            keeps_early,
            ..
        } = &mut self.endpoints[to];
        qp.receive(&packet, &from, self.now, memory);
        if !*keeps_early {
            qp.drop_early();
        }
        self.pump(to);
    }

    fn expire(&mut self, number: usize) {
        let now = self.now;
        let endpoint = &mut self.endpoints[number];
        if endpoint.timer_at.is_some_and(|at| at <= now) {
            endpoint.timer_at = None;
        }
        if endpoint.qp.next_timeout().is_some_and(|at| at <= now) {
            let Endpoint { qp, memory, .. } = endpoint;
            qp.handle_timeout(now, PeerActivity::Unknown, memory);
        }
        self.pump(number);
    }

    /// Lets the program post, sends what may be sent, and schedules the next timer.
    fn pump(&mut self, number: usize) {
        let mut buffer = [0; MAX_HEADERS + MAX_PAYLOAD + ICRC_LEN];
        loop {
            let endpoint = &mut self.endpoints[number];
            endpoint.run_program(self.now);
            let Endpoint { qp, memory, .. } = endpoint;
            let Some(transmit) = qp.transmit(self.now, memory, &mut buffer) else {
                if memory.completions.is_empty() || endpoint.program.is_none() {
                    break;
                }
                continue;
            };
            let host = endpoint.host;
            // The line has no ICRC, but the format has a place for it.
            let bytes = buffer[..transmit.len + ICRC_LEN].to_vec();
            let len = bytes.len() as u64 + FRAMING;
            if let Some(left) = self.uplinks[host].accept(len, self.now, &mut self.random) {
                let jitter = self.network.jitter.mul_f64(self.random.fraction());
                let at = left.after(self.network.delay / 2 + jitter);
                let at = at.max(self.reached_at[host]);
                self.reached_at[host] = at;
                self.schedule(at, Event::AtSwitch(number, bytes));
            }
        }
        let endpoint = &mut self.endpoints[number];
        let next = endpoint
            .qp
            .next_timeout()
            .map(|at| at.max(Time(self.now.0 + 1)));
        if let Some(at) = next.filter(|at| endpoint.timer_at.is_none_or(|armed| *at < armed)) {
            endpoint.timer_at = Some(at);
            self.schedule(at, Event::Timer(number));
        }
    }
}

/// FNV-1a of the headers and the length.
fn hash(bytes: &[u8]) -> u64 {
    let headers = &bytes[..bytes.len().min(40)];
    headers
        .iter()
        .fold(bytes.len() as u64 ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
}
