//! Addresses whose next hop is not known yet: the kernel asks for its link-layer address (ARP, neighbour
//! discovery), and reports ADDR_ERROR if nobody replies within the program's timeout.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::address::Address;
use super::events::{EventType, Notice};
use super::host::CmHost;
use super::id::IdState;
use super::manager::Manager;
use crate::cm::agent::Route;
use crate::engine::Time;

/// The first interval between two reads of the neighbour table. It doubles up to [`INTERVAL_MAX`].
const INTERVAL_MIN: Duration = Duration::from_millis(2);
/// The longest interval between two reads of the neighbour table.
const INTERVAL_MAX: Duration = Duration::from_millis(50);

/// What address resolution sets in an id.
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

/// An id that waits for a neighbour.
pub(super) struct Query {
    pub number: u32,
    pub resolved: ResolvedAddress,
    link: NextHop,
    next: Time,
    interval: Duration,
    give_up_at: Time,
}

impl Query {
    pub fn new(
        number: u32,
        resolved: ResolvedAddress,
        link: NextHop,
        timeout: Duration,
        now: Time,
    ) -> Query {
        let give_up_at = now.after(timeout);
        Query {
            number,
            resolved,
            link,
            next: now.after(INTERVAL_MIN).min(give_up_at),
            interval: INTERVAL_MIN,
            give_up_at,
        }
    }
}

impl<H: CmHost> Manager<H> {
    /// When [`Manager::check_neighbours`] is due.
    pub(super) fn next_query(&self) -> Option<Time> {
        self.queries.iter().map(|query| query.next).min()
    }

    /// Reports the addresses whose neighbours are known now, and those that have waited long enough.
    pub(super) fn check_neighbours(&mut self, now: Time) {
        for query in std::mem::take(&mut self.queries) {
            let state = self.ids.get(query.number).map(|id| id.state);
            if state != Some(IdState::AddressQuery) {
                continue;
            }
            if now < query.next {
                self.queries.push(query);
            } else {
                self.check_neighbour(query, now);
            }
        }
    }

    fn check_neighbour(&mut self, mut query: Query, now: Time) {
        if !self
            .host
            .awaits_neighbour(query.link.ifindex, query.link.from, query.link.to)
        {
            self.address_resolved(query.number, query.resolved);
        } else if now < query.give_up_at {
            query.interval = (query.interval * 2).min(INTERVAL_MAX);
            query.next = now.after(query.interval).min(query.give_up_at);
            self.queries.push(query);
        } else if let Some(id) = self.ids.get_mut(query.number) {
            id.state = IdState::Bound;
            let notice = Notice::failed(EventType::AddrError, -libc::ETIMEDOUT);
            self.report(query.number, notice);
        }
    }

    pub(super) fn address_resolved(&mut self, number: u32, resolved: ResolvedAddress) {
        let Some(id) = self.ids.get_mut(number) else {
            return;
        };
        id.device = Some(resolved.device);
        id.src = Some(resolved.src);
        id.dst = Some(resolved.dst);
        id.route = Some(resolved.route);
        id.state = IdState::AddressResolved;
        self.report(number, Notice::plain(EventType::AddrResolved));
    }
}
