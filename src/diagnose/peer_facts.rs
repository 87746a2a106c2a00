//! Facts about the queue pair at the other end of a connection, and their form in answers of processes.
//!
//! Not here: how they are found out (`peer.rs`).

use ibverbs_abi::{IBV_QPS_ERR, IBV_QPS_RESET, IBV_QPS_UNKNOWN, ibv_qp_state};

use super::check::state::state_name;
use super::fate::{Fate, Process};
use crate::provider::status::QpStatus;

macro_rules! facts {
    ($($(#[$doc:meta])* $name:ident)+) => {
        /// Facts about a queue pair; None for what is not known.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Peer {
            /// The peer's process as messages name it: `in this process`, or another.
            pub place: String,
            /// The process at `place`, if it is another one that this one sees.
            pub process: Option<Process>,
            $($(#[$doc])* pub $name: Option<u64>,)+
        }

        impl Peer {
            /// The facts as members of a JSON object.
            pub fn json(&self) -> String {
                let mut members = Vec::new();
                $(if let Some(value) = self.$name {
                    members.push(format!("\"{}\":{value}", stringify!($name)));
                })+
                members.join(",")
            }

            /// The facts of an answer. `place` is where it came from.
            pub fn parse(json: &str, place: String) -> Peer {
                Peer { place, process: None, $($name: number(json, stringify!($name)),)+ }
            }
        }
    };
}

facts! {
    /// The queue pair's number.
    qpn
    /// IBV_QPS_*.
    state
    /// IBV_QPT_*.
    kind
    dest_qpn
    /// In bytes.
    path_mtu
    /// The PSN that it expected first, and the one from which it sends.
    first_rq_psn
    first_sq_psn
    /// IBV_ACCESS_* that it grants its peer.
    access
    qkey
    max_dest_rd_atomic
    min_rnr_timer
    has_srq
    /// Receives that were posted, and those that have completed; of its SRQ, if it has one.
    posted
    consumed
    /// Milliseconds since the last was posted.
    posted_ms_ago
    /// Requests that it has posted, and those of them that consume a receive.
    sends_posted
    sends_consuming
    /// Bytes of the oldest receive.
    room
    send_rnr_err
    rcvd_pkts
    /// Milliseconds for which its program has polled its CQ for receives and found nothing.
    waits_ms
    /// The status of its first error.
    error_status
    /// The key asked for is known: 1 if it is that of a region, 0 if that was deregistered.
    key_is_live
    mr_start
    mr_length
    mr_access
    mr_same_pd
    /// The memory of the region is not mapped any more.
    mr_unmapped
    /// The destination of its last datagram: the queue pair, whether that is on this host, and the multicast
    /// group in two halves.
    datagram_to
    datagram_is_local
    group_high
    group_low
    /// The key asked for is not known, and with its bytes in reverse order it is that of the region.
    key_reversed
    /// The key was that of a window, and is no more.
    window_lost
    /// The protection domain had memory windows, whose keys are not known.
    had_windows
    /// IBV_EXPLAIN is set there: all keys of regions are known.
    knows_keys
}

/// A number of a JSON object. The names are no parts of each other.
fn number(json: &str, name: &str) -> Option<u64> {
    let pattern = format!("\"{name}\":");
    let rest = &json[json.find(&pattern)? + pattern.len()..];
    let end = rest.find(|c: char| !c.is_ascii_digit());
    rest[..end.unwrap_or(rest.len())].parse().ok()
}

impl Peer {
    /// Whether it receives from a peer.
    pub fn receives(&self) -> bool {
        self.state
            .is_none_or(|state| (2..=4).contains(&(state as ibv_qp_state)))
    }

    pub fn state_name(&self) -> &'static str {
        state_name(self.state.unwrap_or(IBV_QPS_UNKNOWN.into()) as ibv_qp_state)
    }

    /// Adds what a software device counts.
    pub fn add(&mut self, status: &QpStatus) {
        let of = |list: &[(&'static str, u64)], name: &str| {
            let found = list.iter().find(|(of, _)| *of == name);
            found.map(|(_, value)| *value)
        };
        let attribute = |name| of(&status.attributes, name);
        let counter = |name| of(&status.counters, name);
        self.send_rnr_err = counter("send_rnr_err");
        self.rcvd_pkts = counter("rcvd_pkts");
        self.access = attribute("access");
        self.qkey = attribute("qkey");
        self.max_dest_rd_atomic = attribute("max_dest_rd_atomic");
        self.has_srq = attribute("has_srq");
        self.path_mtu = attribute("path_mtu").filter(|mtu| *mtu != 0);
        self.qpn = Some(status.qpn.into());
        self.dest_qpn = status.peer.map(|(_, qpn)| qpn.into());
        let mut states = IBV_QPS_RESET..=IBV_QPS_ERR;
        self.state = states
            .find(|state| state_name(*state) == status.state)
            .map(u64::from);
    }
}

/// The facts that were found out about both ends of a queue pair.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// The counters of a software device for this end.
    pub own: Vec<(&'static str, u64)>,
    /// A software device has this end in ERR.
    pub has_failed: bool,
    pub peer: Option<Peer>,
    /// The peer, in another process, knows the key that the request has in a wrong place.
    pub knows_misplaced: bool,
    /// A queue pair of another process that names this one as its peer, if the peer was not found.
    pub naming: Option<Peer>,
    /// The fate of the process that had the peer, if the peer was not found.
    pub fate: Option<Fate>,
    /// Queue pairs of other processes that have sent datagrams, but not to this one.
    pub senders: Vec<Peer>,
    /// The device is a software device, and all processes of this user on this host were asked for the peer.
    pub searched: bool,
}

impl Evidence {
    /// A counter of this end; None on other devices than uroce.
    pub fn counter(&self, name: &str) -> Option<u64> {
        let found = self.own.iter().find(|(of, _)| *of == name);
        found.map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_survive_the_way() {
        let peer = Peer {
            qpn: Some(17),
            state: Some(3),
            key_is_live: Some(0),
            ..Peer::default()
        };
        let json = format!("{{\"pid\":7,{}}}", peer.json());
        let got = Peer::parse(&json, String::new());
        assert_eq!(got, peer);
        assert!(got.receives());
        assert_eq!(
            Peer::parse("{\"error\":\"x\"}", String::new()),
            Peer::default()
        );
        assert_eq!(number("{\"room\":x}", "room"), None);
    }
}
