//! Tests of the engine: its rules one by one, and two engines over a simulated network.

mod cases;
mod connection;
mod counters;
mod datagram_headers;
mod deferral;
mod direct_wait;
mod drain;
mod ecn;
mod errors;
pub mod hca;
mod late_timeouts;
pub mod network;
pub mod peer;
mod read_order;
mod requester;
mod responder;
mod response_queue;
mod responses;
mod retransmission;
mod schedules;
mod selective;
mod send_side;
mod shared;
mod unreliable;
mod values;
mod xrc;
