//! Tests of the engine: its rules one by one, and two of them over a simulated network.

mod connection;
mod errors;
mod host;
mod network;
mod peer;
mod requester;
mod responder;
mod schedules;
mod unreliable;
mod values;
