//! The communication manager of the specification (volume 1, chapter 12): how two ends agree on a connection,
//! by MADs between their queue pairs 1.
//!
//! | module | responsible for |
//! |---|---|
//! | [`mad`] | its messages, as bytes and as values |
//! | [`connection`] | the state machine of one connection: messages, retransmission, TimeWait |
//! | [`agent`] | all connections of a process: whom a message is for, timers |
//!
//! Pure: messages and the time go in, messages and events come out. Not here: the GSI's sockets, and queue
//! pairs, which the program creates and modifies.

pub mod agent;
pub mod connection;
pub mod mad;

/// Why a connection refuses what the program asks of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The connection is in another state.
    WrongState,
    /// The connection is established already.
    Established,
    /// No connection has the communication ID.
    NoConnection,
    /// The limit of connections is reached, or no prefix for a communication ID is left.
    TooMany,
}
