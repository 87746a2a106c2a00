//! Networks of uroce's queue pairs in simulated time: thousands of hosts around a switch, with rates, delays,
//! queues that drop at their tail or by RED, and random loss.
//!
//! The queue pairs are those of the device (`roce::engine`); hosts and network are models. A run depends
//! on its configuration and seed only: the same seed gives the same packets.
//!
//! | module | responsible for |
//! |---|---|
//! | `random` | random numbers |
//! | `port` | a line with a queue in front of it |
//! | `memory` | what a queue pair needs of its device |
//! | `endpoint` | a queue pair and what its program posts |
//! | `simulation` | hosts, packets on their way, timers |
//! | `report` | what a run has reached |

#![forbid(unsafe_code)]

pub mod endpoint;
pub mod memory;
pub mod port;
pub mod random;
pub mod report;
pub mod simulation;
