//! Netlink (RFC 3549, netlink(7)) as far as libibverbs-rs needs it: RDMA netlink for the devices, rtnetlink
//! (rtnetlink(7)) for interfaces, addresses, routes and neighbours. Internal to the workspace.
//!
//! | module | content |
//! |---|---|
//! | [`message`] | messages and attributes, as bytes; requests |
//! | [`nldev`] | RDMA netlink: requests, the attributes of a reply, [`NldevClient`] |
//! | [`rtnl`] | rtnetlink: a file per message family, [`RtnlClient`], [`RtnlMonitor`] |
//! | `socket` | the socket that the clients share |
//!
//! Parsing is pure and takes any bytes: the kernel is trusted, but a reply may come from a newer kernel than
//! this code knows. System calls, and with them `unsafe`, are in `socket` alone.

#![deny(missing_docs)]

pub mod message;
pub mod nldev;
pub mod rtnl;
mod socket;
#[cfg(test)]
mod testing;

pub use nldev::NldevClient;
pub use rtnl::{RtnlClient, RtnlMonitor};
