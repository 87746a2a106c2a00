//! The kernel's side: the ioctl engine, the legacy write path, and the fallback between them.

pub mod cmd;
