//! IPv4 identifications that a received packet may have. Pure.
//!
//! The ICRC covers the identification and the "don't fragment" flag (DF), which a UDP socket does not
//! report. So the check of the ICRC computes for which values it is right ([`Flow::check_expecting`]); a
//! packet with bits that were damaged on the way gets values that its sender did not use. Only two kinds of
//! values are accepted:
//!
//! - **low** ones, which uroce's packets have: DF, and the packet's index in the GSO buffer that the kernel
//!   segmented;
//! - those that continue the numbers of a sender that numbers its packets, as kernel rxe does ([`Senders`]).
//!
//! [`Flow::check_expecting`]: roce::wire::Flow::check_expecting

use std::hash::{BuildHasher, RandomState};
use std::net::Ipv4Addr;

use rustc_hash::FxHashMap;

use super::{GSO_LEN_MAX, GSO_PACKETS_MAX};
use roce::wire::Fragmentation;

/// The largest identification of a packet of uroce.
pub const LAST_LOW_ID: u16 = GSO_PACKETS_MAX as u16 - 1;

/// The identifications that the packets of a socket have: the kernel has filtered them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpIds {
    /// Low ones. Ports other than 4791, to which only uroce sends, need no filter.
    Low,
    /// All but those with DF up to [`LAST_LOW_ID`].
    Others,
    /// The identification may be any: the kernel has no filter.
    Any,
}

/// Whether uroce may have sent a packet of `len` bytes with these values, as one of a GSO buffer. Its
/// packets are at least that long, except the last, so long packets have small indices.
pub fn is_low(found: Fragmentation, len: usize) -> bool {
    let packets = (GSO_LEN_MAX / len.max(1)).min(GSO_PACKETS_MAX);
    found.dont_fragment && usize::from(found.id) < packets
}

/// Whether a low identification may follow another in a datagram that UDP_GRO has coalesced: the kernel
/// counts up within a GSO buffer, and any packet may be the first of one. Packets in between may be lost.
pub fn may_follow(id: u16, previous: Option<u16>) -> bool {
    id == 0 || previous.is_none_or(|previous| id > previous)
}

/// How many senders are remembered that are not peers of a connected queue pair. Two whose addresses have the
/// same hash displace each other.
const OTHERS: usize = 256;
/// Numbers that a sender may have skipped: packets that were lost, or that went to another queue pair and are
/// still waiting.
const SKIPPED: u16 = 128;
/// How far a packet may be behind the last one: a sender with several CPUs reorders its packets.
const REORDERED: u16 = 64;
/// Linux also skips a random number of identifications, less than the clock ticks since the sender's last
/// packet. This is the most ticks in a millisecond.
const TICKS_PER_MS: u64 = 1;
/// After a longer pause the next number is unknown: the sender may have skipped a quarter of all.
const LONGEST_PAUSE: Millis = Millis(1 << 14);
/// After this many packets in a row whose identifications were not expected, a sender is taken to be
/// unpredictable, and all its identifications are accepted: else its packets would never pass. It must be
/// less than the usual `retry_cnt`, 7.
const UNEXPECTED_MAX: u8 = 4;
/// The counter of unexpected packets does not grow beyond this. Each expected packet decrements it, so an
/// unpredictable sender is checked again after 12 more expected packets than unexpected ones.
const UNEXPECTED_LIMIT: u8 = 16;

/// A time in milliseconds since the device was opened, or a difference of two such times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millis(pub u64);

impl Millis {
    /// The time since `earlier`; zero if `earlier` is later than `self`.
    fn since(self, earlier: Millis) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

/// Source and destination address: Linux has a counter for each pair of them.
pub type AddressPair = (Ipv4Addr, Ipv4Addr);

/// The senders that number their packets, and their last identifications.
///
/// Anybody can send packets from any address. So the peers of connected queue pairs have state of their own,
/// which no packet of another sender changes. The others share a table of fixed size; where one has its place
/// in it depends on a random key.
pub struct Senders {
    connected: FxHashMap<AddressPair, Connected>,
    others: Box<[(AddressPair, IpIdCounter)]>,
    key: RandomState,
}

/// A peer of connected queue pairs.
struct Connected {
    /// The number of queue pairs that are connected to the peer.
    queue_pairs: usize,
    counter: IpIdCounter,
}

#[derive(Clone, Copy, Default)]
struct IpIdCounter {
    /// The last expected packet.
    last: Option<Last>,
    /// The last unexpected packet, unless an expected one has followed it.
    candidate: Option<Last>,
    /// The number of unexpected packets, less that of the expected ones since.
    unexpected: u8,
}

/// The header fields of a packet, and when it arrived.
#[derive(Clone, Copy)]
struct Last {
    found: Fragmentation,
    at: Millis,
}

impl Last {
    /// Whether the next packet of the sender may have these values at that time.
    fn precedes(&self, found: Fragmentation, now: Millis) -> bool {
        let pause = now.since(self.at);
        let ahead = found.id.wrapping_sub(self.found.id);
        found.dont_fragment == self.found.dont_fragment
            && pause <= LONGEST_PAUSE
            && u64::from(ahead) <= u64::from(SKIPPED) + pause.0 * TICKS_PER_MS
    }

    /// Whether the sender may have sent a packet with these values shortly before.
    fn follows(&self, found: Fragmentation, now: Millis) -> bool {
        let behind = self.found.id.wrapping_sub(found.id);
        found.dont_fragment == self.found.dont_fragment
            && now.since(self.at) <= LONGEST_PAUSE
            && behind <= REORDERED
    }
}

impl Senders {
    /// No sender is known. Allocates all that packets ever need.
    pub fn new() -> Senders {
        let nobody = (Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED);
        Senders {
            connected: FxHashMap::default(),
            others: vec![(nobody, IpIdCounter::default()); OTHERS].into(),
            key: RandomState::new(),
        }
    }

    /// A queue pair is connected to a peer whose packets have these addresses. Each call needs a
    /// [`Senders::disconnect`]. Returns false if there is no memory: then the peer is one of the others.
    pub fn connect(&mut self, pair: AddressPair) -> bool {
        if self.connected.try_reserve(1).is_err() {
            return false;
        }
        let (other, counter) = self.others[self.place(pair)];
        let known = (other == pair).then_some(counter);
        let new = || Connected {
            queue_pairs: 0,
            counter: known.unwrap_or_default(),
        };
        self.connected.entry(pair).or_insert_with(new).queue_pairs += 1;
        true
    }

    /// A queue pair is not connected any more.
    pub fn disconnect(&mut self, pair: AddressPair) {
        let Some(peer) = self.connected.get_mut(&pair) else {
            return;
        };
        peer.queue_pairs -= 1;
        if peer.queue_pairs == 0 {
            self.connected.remove(&pair);
        }
    }

    /// The place of a pair in the table of others.
    fn place(&self, pair: AddressPair) -> usize {
        self.key.hash_one(pair) as usize % OTHERS
    }

    /// Whether to accept a packet that arrived at `now` and whose ICRC is right for `found`.
    ///
    /// The first packet of a sender that is not known, or that has paused for long, is not accepted, but
    /// the next one is that continues its number. Reliable services retransmit the first. `unreliable`: the
    /// packet is not retransmitted, and is accepted for that reason.
    pub fn accepts(
        &mut self,
        pair: AddressPair,
        found: Fragmentation,
        now: Millis,
        unreliable: bool,
    ) -> bool {
        let packet = Last { found, at: now };
        if let Some(peer) = self.connected.get_mut(&pair) {
            return peer.counter.accepts(packet, unreliable);
        }
        let place = self.place(pair);
        let sender = &mut self.others[place];
        if sender.0 != pair {
            *sender = (pair, IpIdCounter::default());
        }
        sender.1.accepts(packet, unreliable)
    }

    /// Whether the packet continues the numbers of a sender that is known. Otherwise remembers nothing of it.
    pub fn continues(&mut self, pair: AddressPair, found: Fragmentation, now: Millis) -> bool {
        let packet = Last { found, at: now };
        if let Some(peer) = self.connected.get_mut(&pair) {
            return peer.counter.continues(packet);
        }
        let place = self.place(pair);
        let sender = &mut self.others[place];
        sender.0 == pair && sender.1.continues(packet)
    }

    /// How many peers of connected queue pairs there are.
    #[cfg(test)]
    pub fn connected(&self) -> usize {
        self.connected.len()
    }
}

impl IpIdCounter {
    fn accepts(&mut self, packet: Last, unreliable: bool) -> bool {
        let Last { found, at } = packet;
        let ahead = |last: &Option<Last>| last.is_some_and(|last| last.precedes(found, at));
        // Not a copy of the candidate: the network may have duplicated a damaged packet.
        let new = self
            .candidate
            .is_some_and(|candidate| candidate.found != found);
        if ahead(&self.last) || new && ahead(&self.candidate) {
            self.last = Some(packet);
        } else if !self.last.is_some_and(|last| last.follows(found, at)) {
            let known = self
                .last
                .is_some_and(|last| at.since(last.at) <= LONGEST_PAUSE);
            self.candidate = Some(packet);
            self.unexpected = (self.unexpected + 1).min(UNEXPECTED_LIMIT);
            return self.unexpected > UNEXPECTED_MAX || unreliable && !known;
        }
        self.candidate = None;
        self.unexpected = self.unexpected.saturating_sub(1);
        true
    }

    fn continues(&mut self, packet: Last) -> bool {
        let Some(last) = self.last else {
            return false;
        };
        let ahead = last.precedes(packet.found, packet.at);
        if ahead {
            self.last = Some(packet);
        }
        ahead || last.follows(packet.found, packet.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: AddressPair = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));

    fn df(id: u16) -> Fragmentation {
        Fragmentation {
            id,
            dont_fragment: true,
        }
    }

    /// Judges packets of a reliable service, by time and identification.
    fn accepted(senders: &mut Senders, packets: &[(u64, u16)]) -> Vec<bool> {
        packets
            .iter()
            .map(|(now, id)| senders.accepts(PAIR, df(*id), Millis(*now), false))
            .collect()
    }

    #[test]
    fn low_identifications_are_the_index_in_a_gso_buffer() {
        assert!(is_low(df(0), 4112) && is_low(df(14), 4112) && !is_low(df(15), 4112));
        assert!(is_low(df(63), 28) && !is_low(df(64), 28));
        assert!(!is_low(df(0), 70_000) && is_low(df(0), 0));
        let without = Fragmentation {
            id: 0,
            dont_fragment: false,
        };
        assert!(!is_low(without, 28));
        assert!(may_follow(5, None) && may_follow(5, Some(4)) && may_follow(6, Some(4)));
        assert!(may_follow(0, Some(4)) && !may_follow(4, Some(4)) && !may_follow(3, Some(4)));
    }

    #[test]
    fn a_sender_is_known_by_its_second_packet() {
        let mut senders = Senders::new();
        let ids = [(0, 7000), (0, 7001), (1, 7003), (1, 7002), (2, 7004)];
        assert_eq!(
            accepted(&mut senders, &ids),
            [false, true, true, true, true]
        );
        // Across the end of the numbers, and after pauses.
        let ids = [(16_000, 23_000), (30_000, 37_000), (40_000, 47_000)];
        assert_eq!(accepted(&mut senders, &ids), [true; 3]);
        let ids = [(50_000, 57_000), (59_000, 65_530), (59_001, 3)];
        assert_eq!(accepted(&mut senders, &ids), [true; 3]);
        // After a pause that is too long any number is possible: the next packet shows which.
        let ids = [(90_000, 200), (90_001, 201)];
        assert_eq!(accepted(&mut senders, &ids), [false, true]);
    }

    #[test]
    fn others_are_dropped_and_do_not_disturb() {
        let mut senders = Senders::new();
        accepted(&mut senders, &[(0, 7000), (0, 7001)]);
        for (i, wrong) in [7000 + 400, 7000 - 400, 60_000, 0, 40_000, 7001 ^ 0x800]
            .into_iter()
            .enumerate()
        {
            let next = 7002 + i as u16;
            let ids = [(0, wrong), (0, next)];
            assert_eq!(accepted(&mut senders, &ids), [false, true], "{wrong}");
        }
        // Without DF.
        let without = Fragmentation {
            id: 7010,
            dont_fragment: false,
        };
        assert!(!senders.accepts(PAIR, without, Millis(0), false));
        assert!(senders.continues(PAIR, df(7010), Millis(0)));
        assert!(!senders.continues(PAIR, df(9010), Millis(0)));
        let other = (PAIR.1, PAIR.0);
        assert!(!senders.continues(other, df(7011), Millis(0)));
    }

    #[test]
    fn a_copy_of_a_damaged_packet_is_no_second_packet() {
        let mut senders = Senders::new();
        let ids = [(0, 500), (0, 500), (0, 501), (0, 9000), (0, 9000), (0, 502)];
        let [f, t] = [false, true];
        assert_eq!(accepted(&mut senders, &ids), [f, f, t, f, f, t]);
    }

    #[test]
    fn datagrams_of_an_unknown_sender_are_accepted() {
        let mut senders = Senders::new();
        assert!(senders.accepts(PAIR, df(7000), Millis(0), true));
        assert!(senders.accepts(PAIR, df(7001), Millis(0), true));
        assert!(!senders.accepts(PAIR, df(9000), Millis(0), true));
        // After a long pause the sender is unknown again.
        assert!(senders.accepts(PAIR, df(60_000), Millis(60_000), true));
    }

    /// A connection works after a few retransmissions, whatever its peer's identifications are.
    #[test]
    fn an_unpredictable_sender_is_accepted_in_time() {
        let mut senders = Senders::new();
        let ids = [0, 20_000, 40_000, 60_000, 10_000, 30_000, 50_000, 5_000];
        let ids = ids.map(|id| (0, id));
        let [f, t] = [false, true];
        assert_eq!(accepted(&mut senders, &ids), [f, f, f, f, t, t, t, t]);
        // Once it counts, it is checked again.
        let ids: Vec<_> = (100..120).map(|id| (0, id)).collect();
        assert!(
            accepted(&mut senders, &ids)
                .iter()
                .all(|accepted| *accepted)
        );
        assert!(!senders.accepts(PAIR, df(9000), Millis(0), false));
    }

    /// Two senders with the same place displace each other.
    #[test]
    fn senders_are_bounded() {
        let mut senders = Senders::new();
        for i in 0..10_000_u32 {
            let pair = (Ipv4Addr::from_bits(i), PAIR.1);
            assert!(!senders.accepts(pair, df(7), Millis(0), false));
            assert!(senders.accepts(pair, df(8), Millis(0), false));
        }
        assert_eq!((senders.others.len(), senders.connected()), (OTHERS, 0));
    }

    /// Packets from other addresses, which anybody can send, do not disturb the peer of a connection.
    #[test]
    fn a_connected_sender_is_not_displaced() {
        let mut senders = Senders::new();
        // The state of the sender from before is kept.
        assert!(!senders.accepts(PAIR, df(7000), Millis(0), false));
        assert!(senders.connect(PAIR) && senders.connect(PAIR));
        let flood = |senders: &mut Senders| {
            for host in 0..10_000 {
                let pair = (Ipv4Addr::from_bits(host), PAIR.1);
                senders.accepts(pair, df(9), Millis(1), false);
            }
        };
        for id in 7001..7010 {
            flood(&mut senders);
            assert!(senders.accepts(PAIR, df(id), Millis(1), false), "{id}");
        }
        assert_eq!(senders.connected(), 1);
        senders.disconnect(PAIR);
        flood(&mut senders);
        assert!(senders.continues(PAIR, df(7010), Millis(1)));
        senders.disconnect(PAIR);
        assert_eq!(senders.connected(), 0);
        flood(&mut senders);
        assert!(!senders.continues(PAIR, df(7011), Millis(1)));
    }

    /// A sender cannot choose addresses that displace those of another one: places depend on a
    /// secret key.
    #[test]
    fn places_depend_on_a_key() {
        let places = |senders: &Senders| -> Vec<usize> {
            let pair = |host| (Ipv4Addr::from_bits(host), PAIR.1);
            (0..64).map(|host| senders.place(pair(host))).collect()
        };
        assert_ne!(places(&Senders::new()), places(&Senders::new()));
    }
}
