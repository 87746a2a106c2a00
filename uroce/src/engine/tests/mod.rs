//! Tests of the engine: its rules one by one, and two of them over a simulated network.

mod connection;
mod errors;
mod gathering;
mod host;
mod late;
mod network;
mod peer;
mod replies;
mod requester;
mod responder;
mod retries;
mod schedules;
mod unreliable;
mod values;
