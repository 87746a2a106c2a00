//! The transport protocol of a queue pair (specification chapters 9 and 10).
//!
//! The engine is pure: it does no I/O and reads no clock. Its caller passes in work requests, received
//! packets and the time, and gets packets to send and completions. [`Hca`] is the engine's only way
//! to memory, shared receive queues (SRQs), completion queues and asynchronous events.
//!
//! | module | responsible for |
//! |---|---|
//! | `qp` | the queue pair: its states, and the wiring of `send_side` and `responder` |
//! | `attributes`, `addresses` | attributes as they are created and modified; where packets go |
//! | `send_side` | posted WRs, their packets and completions: the wiring of the parts below |
//! | `work` | work requests and completions |
//! | `packet_copy`, `early_packets` | received packets that are delivered later |
//! | `requester`, `send_queue`, `slots` | which request packet is sent next, what is in flight, and losses |
//! | `drain` | WQEs that may not begin |
//! | `slot_count` | when a slot of the send queue is free again |
//! | `completer` | responses: acknowledgments, NAKs, retries, and the ack timeout (attribute `timeout`) |
//! | `read_order` | when a READ may be sent again whose first response may still come |
//! | `responder`, `recv_queue` | inbound requests: validation, execution, duplicates, NAKs |
//! | `response_queue`, `read_copy` | responses waiting to be sent, in PSN order |
//! | `shm` | requests and responses through shared memory, in place of packets |
//! | `request` | a request as the responder takes it, from a packet or from shared memory |
//! | `retries` | how often a request may be sent again |
//! | `rtt` | RTT samples, and the RTO: its values. It is not the attribute `timeout` |
//! | `congestion`, `pacer` | how many packets may be in flight; bursts |
//! | `timer`, `encoding` | when each timer of a queue pair expires; times and counts in encoded form |
//! | `counters` | what a queue pair counts |
//! | `hca` | what a queue pair calls: the trait [`Hca`] |
//! | `emit` | a packet's headers and payload in the send buffer |
//!
//! Each part owns its fields. The caller calls [`Qp`], `qp` calls the parts, and these call [`Hca`] to access
//! memory; no part calls `qp`. The send side completes send WRs, the responder receives. The entry points of
//! both return errors: only `qp` changes the state, and raises the events of a change.
//!
//! A [`Qp`] is used by one thread at a time. Order of calls: after each `post_send`, `receive`,
//! `handle_timeout` and `modify`, call [`Qp::transmit`] until it returns None, then read
//! [`Qp::next_timeout`].

mod addresses;
mod attributes;
mod completer;
mod congestion;
mod counters;
mod drain;
mod early_packets;
mod emit;
mod encoding;
mod hca;
mod pacer;
mod packet_copy;
mod qp;
mod read_copy;
mod read_order;
mod recv_queue;
mod request;
mod requester;
mod responder;
mod response_queue;
mod retries;
mod rtt;
mod send_queue;
mod send_side;
mod shm;
mod slot_count;
mod slots;
#[cfg(test)]
mod tests;
mod timer;
mod work;

use std::time::Duration;

pub use addresses::{Addresses, Transmit};
pub use attributes::{AddressVector, Limits, QpChange, QpConfig, QpState, Service, Target};
pub use counters::Counters;
pub use hca::{
    Access, Hca, LocalError, Overrun, QpEvent, RemoteError, RemoteKey, WorkQueue, XrcError,
};
pub use packet_copy::PacketCopy;
pub use qp::Qp;
pub use requester::Pace;
pub use retries::PeerActivity;
pub use shm::{Fragment, FragmentCopy, FragmentWriter, HEAD_LEN};
pub use slot_count::PolledSends;
pub use work::{
    Bind, Completion, Data, Inline, RecvWr, SendFlags, SendOp, SendWr, Sge, Sges, UdAddress,
};

/// The longest message, in bytes (9.7.1.1).
const MAX_MESSAGE_LEN: u32 = 1 << 31;

/// A point in time: nanoseconds of a monotonic clock, whose origin is the caller's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Time(pub u64);

impl Time {
    /// `wait` later. Saturates at the end of the clock, 584 years after its origin.
    pub fn after(self, wait: Duration) -> Time {
        let seconds = wait.as_secs().saturating_mul(1_000_000_000);
        let wait = seconds.saturating_add(wait.subsec_nanos().into());
        Time(self.0.saturating_add(wait))
    }

    /// The time since `earlier`; zero if `earlier` is later than `self`.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Tells the engine the time, when that matters. A [`Time`] is a clock that stands still.
pub trait Clock: Copy {
    /// The time now. The same, or later, at each further call.
    fn time(self) -> Time;
}

impl Clock for Time {
    #[inline]
    fn time(self) -> Time {
        self
    }
}

/// A GID, as in the GRH: an IPv6 address, or an IPv4 address mapped into one (RoCEv2 annex, A17.4.3).
pub type Gid = [u8; 16];
