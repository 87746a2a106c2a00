//! The public verbs, one file per kind of object.
//!
//! Each function here is the implementation of a C function of the same name, whose man page is named
//! in its documentation. Unless that says otherwise, any thread may call it. Most pass the call to the
//! provider through the context's ops, so limits and errors are the provider's.

mod addresses;
pub mod ah;
pub mod ah_from_wc;
pub mod buf;
pub mod comp_channel;
pub mod comp_cntr;
pub mod cq;
pub mod device;
pub mod device_attr;
mod dispatch;
pub mod dm;
pub mod dmah;
pub mod driver;
pub mod ece;
pub mod event;
mod fork;
pub mod gid;
pub mod gid_table;
mod list_lock;
pub mod marshall;
pub mod mcast;
#[cfg(test)]
mod mock;
pub mod mr;
#[cfg(test)]
mod oracle;
pub mod pd;
pub mod pkey;
pub mod port;
pub mod qp;
pub mod rate;
pub mod resolve;
pub mod srq;
pub mod strings;
mod sync;
#[cfg(test)]
mod tests;
