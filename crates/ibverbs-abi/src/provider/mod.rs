//! What providers share with the library: `driver.h` and `cmd_ioctl.h`.

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
