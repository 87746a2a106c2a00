//! The transport of connected queue pairs through memory that both processes map: requests and responses in
//! place of packets.
//!
//! A queue pair's requester is bound to it while nothing of it is in flight, and stays bound until it is in
//! RESET again. Each direction is bound on its own. Shared memory keeps the order of what is written and
//! loses nothing, so there is no path MTU, no congestion window, no RTT, no pacing and no ICRC: a request
//! takes one PSN, whatever its length, and a long one is written in several fragments. The receiver still
//! drops what it has no memory or no receive for. So a reliable service has the ack timeout, RNR NAKs and
//! sequence error NAKs, and sends again from the oldest request.
//!
//! | module | responsible for |
//! |---|---|
//! | `fragment` | fragments of requests and responses, as bytes |
//! | `sender`, `write` | which fragment of which request is written next; writing it |
//! | `completer` | responses |
//! | `timers` | RNR waits, ack timeouts, retries |
//! | `direct` | requests that wait until the HCA can execute them without the peer |
//!
//! Not here: the execution of requests, which both transports share (`responder`), and the memory
//! (`shm` of the device).

mod completer;
mod direct;
mod fragment;
mod sender;
mod timers;
mod write;

pub use direct::is_executable;
pub use fragment::{Fragment, FragmentCopy, FragmentWriter, HEAD_LEN};
pub use sender::Sender;
