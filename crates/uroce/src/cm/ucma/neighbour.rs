//! Addresses whose next hop is not known yet: the kernel asks for its link-layer address (ARP, neighbour
//! discovery), and reports ADDR_ERROR if nobody replies within the program's timeout.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::address::Address;
use super::os::CmOs;
use roce::cm::agent::Route;
use roce::engine::Time;

/// The first interval between two reads of the neighbour table. It doubles up to [`INTERVAL_MAX`].
const INTERVAL_MIN: Duration = Duration::from_millis(2);
/// The longest interval between two reads of the neighbour table.
const INTERVAL_MAX: Duration = Duration::from_millis(50);

/// The members of an id that address resolution sets.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResolvedAddress {
    pub device: usize,
    pub src: Address,
    pub dst: Address,
    pub route: Route,
}

/// The neighbour to resolve: the interface, and the addresses of both ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextHop {
    pub ifindex: u32,
    /// The address that packets leave from.
    pub from: IpAddr,
    pub to: SocketAddr,
}

impl NextHop {
    /// Whether the same neighbour leads to both destinations: their port numbers make no difference.
    fn is_same(&self, other: &NextHop) -> bool {
        let key = |hop: &NextHop| (hop.ifindex, hop.from, hop.to.ip());
        key(self) == key(other)
    }
}

/// An id that waits for a neighbour.
pub(super) struct WaitingId {
    pub number: u32,
    pub resolved: ResolvedAddress,
    pub give_up_at: Time,
}

/// A neighbour that ids wait for. The kernel is asked once for all of them: a program may resolve thousands
/// of addresses at the same time, most of them at one host.
struct Query {
    hop: NextHop,
    next: Time,
    interval: Duration,
    waiting: Vec<WaitingId>,
}

impl Query {
    /// Sets when the kernel is asked next: after the interval, or when the first id gives up.
    fn schedule(&mut self, now: Time) {
        let give_up = self.waiting.iter().map(|id| id.give_up_at).min();
        let next = now.after(self.interval);
        self.next = give_up.map_or(next, |give_up| next.min(give_up));
    }
}

/// The neighbours that ids wait for.
#[derive(Default)]
pub(super) struct NeighbourQueries {
    queries: Vec<Query>,
}

impl NeighbourQueries {
    /// Whether ids wait for this neighbour.
    fn has(&self, hop: &NextHop) -> bool {
        self.queries.iter().any(|query| query.hop.is_same(hop))
    }

    /// Lets an id wait for a neighbour.
    pub fn wait(&mut self, hop: NextHop, id: WaitingId, now: Time) {
        let same = |query: &&mut Query| query.hop.is_same(&hop);
        if let Some(query) = self.queries.iter_mut().find(same) {
            query.next = query.next.min(id.give_up_at);
            query.waiting.push(id);
            return;
        }
        let mut query = Query {
            hop,
            next: now,
            interval: INTERVAL_MIN,
            waiting: vec![id],
        };
        query.schedule(now);
        self.queries.push(query);
    }

    /// An id does not wait any more.
    pub fn stop_waiting(&mut self, number: u32) {
        self.queries.retain_mut(|query| {
            query.waiting.retain(|id| id.number != number);
            !query.waiting.is_empty()
        });
    }

    /// Whether packets wait for the next hop. Makes the kernel ask for it.
    pub fn awaits(&self, os: &mut impl CmOs, hop: &NextHop) -> bool {
        self.has(hop) || os.awaits_neighbour(hop.ifindex, hop.from, hop.to)
    }

    /// Looks at the neighbours that are due. Returns the ids that wait no more: with `true`, their neighbour
    /// is known; with `false`, they have waited long enough. `is_waiting` says whether an id still does.
    pub fn check(
        &mut self,
        os: &mut impl CmOs,
        now: Time,
        is_waiting: impl Fn(u32) -> bool,
    ) -> Vec<(WaitingId, bool)> {
        let mut ended = Vec::new();
        self.queries.retain_mut(|query| {
            if query.next <= now {
                let NextHop { ifindex, from, to } = query.hop;
                let is_known = !os.awaits_neighbour(ifindex, from, to);
                for id in std::mem::take(&mut query.waiting) {
                    if !is_waiting(id.number) {
                        continue;
                    }
                    if is_known || now >= id.give_up_at {
                        ended.push((id, is_known));
                    } else {
                        query.waiting.push(id);
                    }
                }
                query.interval = (query.interval * 2).min(INTERVAL_MAX);
                query.schedule(now);
            }
            !query.waiting.is_empty()
        });
        ended
    }

    /// When the next neighbour is to be looked at.
    pub fn next(&self) -> Option<Time> {
        self.queries.iter().map(|query| query.next).min()
    }
}
