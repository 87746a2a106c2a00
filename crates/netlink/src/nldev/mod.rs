//! RDMA netlink, client NLDEV (`rdma/rdma_netlink.h`): the list of devices, their char devices, and whether
//! fork copies pinned pages. Pure, except for [`NldevClient`] in `client.rs`.
//!
//! Which replies are accepted follows libnl and the attribute policy of rdma-core: an attribute may be longer
//! than its type but not shorter; one that is cut off ends its message; sequence numbers and message types
//! are not checked.

#![deny(unsafe_code)]

mod client;
#[cfg(test)]
mod tests;

use ibverbs_abi::*;

use crate::message::{
    self, HEADER_LEN, NLM_F_DUMP, NLMSG_DONE, NLMSG_ERROR, NLMSG_NOOP, NLMSG_OVERRUN, ReplyState,
    Request,
};

pub use client::{NldevClient, copy_on_fork};

/// Bytes of `struct nlmsgerr`: an errno and the header of the request.
const ERROR_LEN: usize = 4 + HEADER_LEN;

fn request(command: rdma_nldev_command, flags: u16) -> Request {
    Request::new((RDMA_NL_NLDEV << 10 | command) as u16, flags, &[])
}

/// Requests all devices of this network namespace (RDMA_NLDEV_CMD_GET, a dump).
pub fn get_devices() -> Request {
    request(RDMA_NLDEV_CMD_GET, NLM_F_DUMP)
}

/// Requests the char device of type `name`, such as `b"uverbs\0"`, of the device with this index
/// (RDMA_NLDEV_CMD_GET_CHARDEV).
pub fn get_chardev(index: u32, name: &[u8]) -> Request {
    request(RDMA_NLDEV_CMD_GET_CHARDEV, 0)
        .attribute(RDMA_NLDEV_ATTR_DEV_INDEX as u16, &index.to_ne_bytes())
        .attribute(RDMA_NLDEV_ATTR_CHARDEV_TYPE as u16, name)
}

/// Requests the properties of the RDMA subsystem (RDMA_NLDEV_CMD_SYS_GET).
pub fn get_system() -> Request {
    request(RDMA_NLDEV_CMD_SYS_GET, 0)
}

/// Why a reply cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// The kernel's error, or the socket's.
    Kernel(Errno),
    /// The reply breaks netlink's rules or rdma-core's policy.
    Malformed,
    /// The devices changed during the dump: some may be missing.
    DumpInterrupted,
}

impl From<Errno> for ReplyError {
    fn from(errno: Errno) -> ReplyError {
        ReplyError::Kernel(errno)
    }
}

/// The attributes of a message that the library uses, as far as the message has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NldevAttributes<'a> {
    /// The device's number, unique as long as the kernel runs.
    pub dev_index: Option<u32>,
    /// The device's name, such as `rxe0`.
    pub dev_name: Option<&'a [u8]>,
    /// The number of ports, in replies to [`get_devices`].
    pub port_index: Option<u32>,
    /// The node GUID in host byte order.
    pub node_guid: Option<u64>,
    /// RDMA_NODE_*
    pub node_type: Option<u8>,
    /// The char device's name, such as `uverbs0`.
    pub chardev_name: Option<&'a [u8]>,
    /// The version of the driver's ABI.
    pub chardev_abi: Option<u64>,
    /// The char device's number in the kernel's encoding; see [`decode_dev`].
    pub chardev: Option<u64>,
    /// RDMA_DRIVER_*
    pub driver_id: Option<u32>,
    /// The flag is not 0 if the kernel copies pinned pages at fork, so that no madvise is needed.
    pub copy_on_fork: Option<u8>,
}

impl<'a> NldevAttributes<'a> {
    fn parse(payload: &'a [u8]) -> Result<Self, ReplyError> {
        let mut parsed = NldevAttributes::default();
        for attribute in message::attributes(payload) {
            let value = attribute.value;
            match u32::from(attribute.kind) {
                RDMA_NLDEV_ATTR_DEV_INDEX => {
                    parsed.dev_index = Some(u32::from_ne_bytes(number(value)?));
                }
                RDMA_NLDEV_ATTR_DEV_NAME => parsed.dev_name = Some(string(value)),
                RDMA_NLDEV_ATTR_PORT_INDEX => {
                    parsed.port_index = Some(u32::from_ne_bytes(number(value)?));
                }
                RDMA_NLDEV_ATTR_NODE_GUID => {
                    parsed.node_guid = Some(u64::from_ne_bytes(number(value)?));
                }
                RDMA_NLDEV_ATTR_DEV_NODE_TYPE => {
                    parsed.node_type = Some(u8::from_ne_bytes(number(value)?));
                }
                RDMA_NLDEV_ATTR_CHARDEV_NAME => parsed.chardev_name = Some(string(value)),
                RDMA_NLDEV_ATTR_CHARDEV_ABI => {
                    parsed.chardev_abi = Some(u64::from_ne_bytes(number(value)?));
                }
                RDMA_NLDEV_ATTR_CHARDEV => {
                    parsed.chardev = Some(u64::from_ne_bytes(number(value)?));
                }
                RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID => {
                    parsed.driver_id = Some(u32::from_ne_bytes(number(value)?));
                }
                RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK => {
                    parsed.copy_on_fork = Some(u8::from_ne_bytes(number(value)?));
                }
                _ => {}
            }
        }
        Ok(parsed)
    }
}

/// The bytes of a number. The value may be longer; a shorter one is an error.
fn number<const N: usize>(value: &[u8]) -> Result<[u8; N], ReplyError> {
    value.first_chunk().copied().ok_or(ReplyError::Malformed)
}

/// A string's bytes up to its NUL, or all of them if it has none.
fn string(value: &[u8]) -> &[u8] {
    value.split(|&c| c == 0).next().unwrap_or(value)
}

/// The number of a device file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceNumber {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// Decodes a device number that the kernel has encoded in 64 bits (`huge_encode_dev`).
pub fn decode_dev(encoded: u64) -> DeviceNumber {
    let minor = encoded & 0xff | encoded >> 12 & 0xf_ff00;
    DeviceNumber {
        major: ((encoded & 0xf_ff00) >> 8) as u32,
        minor: minor as u32,
    }
}

/// Parses a reply, datagram by datagram.
#[derive(Default)]
pub struct ReplyParser {
    multipart: bool,
    interrupted: bool,
}

impl ReplyParser {
    /// Passes the attributes of each message of a datagram to `take`. If `take` returns false, the reply ends
    /// there: the rest is not parsed and the reply counts as complete.
    pub fn datagram<'a>(
        &mut self,
        bytes: &'a [u8],
        mut take: impl FnMut(NldevAttributes<'a>) -> bool,
    ) -> Result<ReplyState, ReplyError> {
        let mut stopped = false;
        for message in message::messages(bytes) {
            self.multipart |= message.is_multipart();
            self.interrupted |= message.is_dump_interrupted();
            match message.kind {
                NLMSG_DONE => self.multipart = false,
                NLMSG_NOOP => {}
                NLMSG_OVERRUN => return Err(ReplyError::Malformed),
                NLMSG_ERROR if message.payload.len() < ERROR_LEN => {
                    return Err(ReplyError::Malformed);
                }
                NLMSG_ERROR => match i32::from_ne_bytes(number(message.payload)?) {
                    0 => {}
                    error => return Err(ReplyError::Kernel(Errno(error.wrapping_neg()))),
                },
                _ => stopped = !take(NldevAttributes::parse(message.payload)?),
            }
            if stopped {
                break;
            }
        }
        match (self.interrupted, self.multipart && !stopped) {
            (_, true) => Ok(ReplyState::Incomplete),
            (true, false) => Err(ReplyError::DumpInterrupted),
            (false, false) => Ok(ReplyState::Complete),
        }
    }
}
