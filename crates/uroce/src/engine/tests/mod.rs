//! Tests of the engine: its rules one by one, and two of them over a simulated network.

mod connection;
mod errors;
mod gathering;
mod host;
mod late;
mod network;
mod peer;
mod requester;
mod responder;
mod response_queue;
mod retries;
mod schedules;
mod unreliable;
mod values;
