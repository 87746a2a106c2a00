//! `roce`: RoCEv2 (InfiniBand transport over UDP port 4791) without I/O.
//!
//! | module | contents |
//! |---|---|
//! | [`wire`] | packets: headers, opcodes, PSN arithmetic, ICRC |
//! | [`engine`] | the protocol of a queue pair: RC, UC, UD, XRC |

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod cm;
pub mod engine;
pub mod wire;
