//! The kernel's interface to user space: write commands, ioctl commands and RDMA netlink (`rdma/*.h`).

mod command;
mod cq;
mod device;
mod flow;
mod flow_action;
mod ids;
mod ioctl;
mod legacy;
mod memory;
mod netlink;
mod post;
mod qp;
mod sa;
mod srq;
mod wq;

pub use command::*;
pub use cq::*;
pub use device::*;
pub use flow::*;
pub use flow_action::*;
pub use ids::*;
pub use ioctl::*;
pub use legacy::*;
pub use memory::*;
pub use netlink::*;
pub use post::*;
pub use qp::*;
pub use sa::*;
pub use srq::*;
pub use wq::*;
