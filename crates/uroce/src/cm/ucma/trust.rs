//! Permission to pass on messages: the user of this process and root may; and, for the messages to
//! an address of this host, the user whose process has port 4791 there, where messages from the
//! network arrive.

use std::net::IpAddr;
use std::time::Duration;

use ibverbs_os::unix::{self, Peer};

use crate::device::peer_channels;
use crate::transport::udp_owners::{self, PortOwner};
use roce::engine::{Gid, Time};
use roce::wire::{PORT, ip_of};

/// How long the owners of port 4791 are used as they were read: another user who connects again and again
/// causes no more reading than this.
const OWNERS_FRESH: Duration = Duration::from_millis(100);

/// A process that passes on messages to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The sender runs as the user of this process, or as root: it may pass on any message.
    Trusted,
    /// The sender runs as another user.
    Other(u32),
}

impl Sender {
    /// The process at the other end of a connection. None if its user has no number in this user namespace:
    /// it could be anyone, unless the program trusts the other users of the host.
    pub fn of(peer: &Peer) -> Option<Sender> {
        if peer.user == 0 || peer.is_own_user() {
            Some(Sender::Trusted)
        } else {
            let is_known = unix::is_number(peer.user) || peer_channels::trusts_any_user();
            is_known.then_some(Sender::Other(peer.user))
        }
    }
}

/// The users whose processes have port 4791, by address.
type Owners = Vec<(IpAddr, u32)>;

/// The facts that decide whether a message is taken.
pub struct Trust {
    /// The GIDs of this process's devices.
    pub gids: Vec<Gid>,
    owners: Owners,
    read_at: Option<Time>,
    /// Reads the owners.
    read: fn() -> Owners,
}

impl Trust {
    /// The trust with the owners that `read` returns.
    pub fn new(read: fn() -> Owners) -> Trust {
        Trust {
            gids: Vec::new(),
            owners: Vec::new(),
            read_at: None,
            read,
        }
    }

    /// Whether a process may pass on messages to any of this process's addresses.
    pub fn allows(&mut self, sender: Sender, now: Time) -> bool {
        let Sender::Other(user) = sender else {
            return true;
        };
        self.refresh(now);
        self.gids.iter().any(|gid| self.owns(user, gid))
    }

    /// Whether a process may pass on messages that came to this address.
    pub fn allows_at(&mut self, sender: Sender, dst: &Gid, now: Time) -> bool {
        let Sender::Other(user) = sender else {
            return true;
        };
        self.refresh(now);
        self.gids.contains(dst) && self.owns(user, dst)
    }

    fn owns(&self, user: u32, gid: &Gid) -> bool {
        self.owners.contains(&(ip_of(gid), user))
    }

    fn refresh(&mut self, now: Time) {
        let is_fresh = |at: Time| now < at.after(OWNERS_FRESH);
        if !self.read_at.is_some_and(is_fresh) {
            self.owners = (self.read)();
            self.read_at = Some(now);
        }
    }
}

/// The owners of port 4791 in this network namespace.
pub fn read_owners() -> Owners {
    let has_port = |owner: &PortOwner| owner.port == PORT;
    let owners = udp_owners::read().into_iter().filter(has_port);
    owners.map(|owner| (owner.ip, owner.user)).collect()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use roce::wire::gid_of;

    const OWN: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 88, 0, 1));
    const FOREIGN: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 88, 0, 2));
    const FORWARDER: u32 = 1001;
    const INTRUDER: u32 = 1002;

    fn trust() -> Trust {
        let mut trust = Trust::new(|| vec![(OWN, FORWARDER), (FOREIGN, INTRUDER)]);
        trust.gids.push(gid_of(OWN));
        trust
    }

    #[test]
    fn another_user_passes_on_what_came_to_its_port() {
        let mut trust = trust();
        let now = Time(1);
        let [forwarder, intruder] = [FORWARDER, INTRUDER].map(Sender::Other);
        assert!(trust.allows(forwarder, now) && trust.allows_at(forwarder, &gid_of(OWN), now));
        // Anybody may bind the port at an address of its own.
        assert!(!trust.allows(intruder, now));
        assert!(!trust.allows_at(intruder, &gid_of(OWN), now));
        assert!(!trust.allows_at(intruder, &gid_of(FOREIGN), now));
        assert!(!trust.allows_at(forwarder, &gid_of(FOREIGN), now));
        let any = gid_of(FOREIGN);
        assert!(trust.allows(Sender::Trusted, now) && trust.allows_at(Sender::Trusted, &any, now));
    }

    #[test]
    fn owners_are_read_ten_times_a_second_at_most() {
        static READ: AtomicUsize = AtomicUsize::new(0);
        let mut trust = Trust::new(|| {
            READ.fetch_add(1, Ordering::Relaxed);
            vec![(OWN, FORWARDER)]
        });
        trust.gids.push(gid_of(OWN));
        for millisecond in 0..250 {
            let now = Time(1_000_000 * millisecond);
            assert!(!trust.allows(Sender::Other(INTRUDER), now));
            assert!(trust.allows_at(Sender::Other(FORWARDER), &gid_of(OWN), now));
        }
        assert_eq!(READ.load(Ordering::Relaxed), 3);
    }
}
