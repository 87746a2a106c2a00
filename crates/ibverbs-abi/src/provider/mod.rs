//! The types of rdma-core's internal `driver.h` and `cmd_ioctl.h`, which providers share with the library.

mod command;
mod context;
mod device;
mod objects;
mod ops;
mod software;

pub use command::*;
pub use context::*;
pub use device::*;
pub use objects::*;
pub use ops::*;
pub use software::*;
