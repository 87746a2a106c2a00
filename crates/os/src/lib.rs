//! Functions of the operating system that the library, uroce and uroce-ctl share: they start threads in a
//! process that belongs to a program, and they meet other processes at unix sockets. Internal to the
//! workspace.
//!
//! | module | content |
//! |---|---|
//! | [`file_size`] | files that grow without a signal where RLIMIT_FSIZE refuses |
//! | [`thread`] | threads that leave the program's signals alone; staying loaded |
//! | [`unix`] | sockets with abstract names; the user at the other end of a connection |

#![deny(missing_docs)]

pub mod file_size;
pub mod thread;
pub mod unix;
