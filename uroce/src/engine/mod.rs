//! The protocol of queue pairs (specification chapters 9 and 10). Pure: it does no I/O and has no
//! clock. Whoever runs a queue pair hands it work requests, packets and the time, and takes packets
//! and completions from it; what it needs of the world stands in [`Host`].
//!
//! A [`Qp`] is used by one thread at a time. Order of calls: after each `post_send`, `receive`,
//! `handle_timeout` and `modify`, call [`Qp::transmit`] until it returns None, then look at
//! [`Qp::timeout`].

mod host;
mod qp;
mod work;

pub use host::{Access, Completed, Host, LocalError, Overrun, RemoteError, XrcError};
pub use qp::{
    Addresses, Limits, Path, Qp, QpChange, QpConfig, QpEvent, QpState, Service, Transmit,
};
pub use work::{
    Bind, Completion, Inline, Receive, Request, RequestFlags, RequestKind, Sge, Sges, UdAddress,
};

/// A point in time: nanoseconds of a clock that never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Time(pub u64);

/// An address of a port, as in the GRH: an IPv6 address, or an IPv4 address mapped into one.
pub type Gid = [u8; 16];
