//! The protocol of queue pairs (specification chapters 9 and 10). Pure: it does no I/O and has no
//! clock. Whoever runs a queue pair hands it work requests, packets and the time, and takes packets
//! and completions from it; what it needs of the world stands in [`Host`].
//!
//! | file | what is in it |
//! |---|---|
//! | `qp.rs`, `attributes.rs` | a queue pair, its states, and the calls that drive it |
//! | `send_queue.rs` | requests, and which packets they are |
//! | `requester.rs`, `completer.rs` | reliable connections: what is sent, and what is made of answers |
//! | `responder.rs`, `nak.rs` | reliable connections: what requests do, and why they are refused |
//! | `response_queue.rs`, `duplicate.rs` | what is answered, and answered once more |
//! | `uc.rs`, `ud.rs` | unreliable connections; datagrams |
//! | `complete.rs` | how requests leave the queues: completed, failed, flushed |
//! | `window.rs`, `timers.rs` | how much may be under way; times that attributes encode |
//! | `emit.rs` | packets into buffers |
//!
//! A [`Qp`] is used by one thread at a time. Order of calls: after each `post_send`, `receive`,
//! `handle_timeout` and `modify`, call [`Qp::transmit`] until it returns None, then look at
//! [`Qp::next_timeout`].

#![forbid(unsafe_code)]

mod attributes;
mod complete;
mod completer;
mod duplicate;
mod emit;
mod host;
mod nak;
mod qp;
mod requester;
mod responder;
mod response_queue;
mod send_queue;
#[cfg(test)]
mod tests;
mod timers;
mod uc;
mod ud;
mod window;
mod work;

pub use host::{Access, Host, LocalError, Overrun, RemoteError, WorkQueue, XrcError};
pub use qp::{
    AddressVector, Addresses, Limits, Qp, QpChange, QpConfig, QpEvent, QpState, Service, Transmit,
};
pub use work::{Bind, Completion, Inline, RecvWr, SendFlags, SendOp, SendWr, Sge, Sges, UdAddress};

/// A point in time: nanoseconds of a clock that never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Time(pub u64);

impl Time {
    fn after(self, nanoseconds: u64) -> Time {
        Time(self.0.saturating_add(nanoseconds))
    }

    /// Nanoseconds since `earlier`.
    fn since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// An address of a port, as in the GRH: an IPv6 address, or an IPv4 address mapped into one.
pub type Gid = [u8; 16];
