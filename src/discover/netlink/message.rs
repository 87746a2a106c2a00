//! RDMA netlink messages (`rdma/rdma_netlink.h`): pure, so that any bytes can be tried on it.
//!
//! Which answers are good is decided as libnl and rdma-core's policy decide it: an attribute may be
//! longer than its type but not shorter; what is cut off at the end of a message is ignored; neither
//! sequence numbers nor message types are looked at.

use arrayvec::ArrayVec;
use ibverbs_abi::Errno;
use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_MULTIPART, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NLMSG_NOOP, NLMSG_OVERRUN,
    NetlinkBuffer, NlasIterator,
};

const HEADER_LEN: usize = 16;
/// `struct nlmsgerr`: an errno and the header of the message that caused it.
const ERROR_LEN: usize = 4 + HEADER_LEN;

/// On any message of a dump whose objects changed meanwhile.
const NLM_F_DUMP_INTERRUPTED: u16 = libc::NLM_F_DUMP_INTR as u16;

pub(crate) const RDMA_NL_NLDEV: u16 = 5;

/// What the kernel can be asked.
#[derive(Clone, Copy)]
pub enum Request<'a> {
    /// All devices of this network namespace (RDMA_NLDEV_CMD_GET, a dump).
    Devices,
    /// The char device of kind `name` of device `index` (RDMA_NLDEV_CMD_GET_CHARDEV).
    CharDevice {
        /// RDMA_NLDEV_ATTR_DEV_INDEX
        index: u32,
        /// RDMA_NLDEV_ATTR_CHARDEV_TYPE, with its NUL
        name: &'a [u8],
    },
    /// Properties of the RDMA subsystem (RDMA_NLDEV_CMD_SYS_GET).
    System,
}

/// A request's bytes.
pub type Encoded = ArrayVec<u8, 64>;

impl Request<'_> {
    /// The message to send.
    pub fn encode(self) -> Encoded {
        let (command, flags) = match self {
            Request::Devices => (1, NLM_F_DUMP),
            Request::CharDevice { .. } => (15, 0),
            Request::System => (6, 0),
        };
        let mut bytes = Encoded::new();
        let _ = bytes.try_extend_from_slice(&[0; HEADER_LEN]);
        if let Request::CharDevice { index, name } = self {
            put(&mut bytes, DEV_INDEX, &index.to_ne_bytes());
            put(&mut bytes, CHARDEV_TYPE, name);
        }
        let len = bytes.len() as u32;
        let mut header = NetlinkBuffer::new(bytes.as_mut_slice());
        header.set_length(len);
        header.set_message_type(RDMA_NL_NLDEV << 10 | command);
        header.set_flags(NLM_F_REQUEST | flags);
        header.set_sequence_number(1);
        header.set_port_number(0);
        bytes
    }
}

/// Appends an attribute. One that does not fit is left out, and the kernel will miss it.
fn put(bytes: &mut Encoded, kind: u16, value: &[u8]) {
    let len = 4 + value.len();
    let padding = len.next_multiple_of(4) - len;
    if len + padding > bytes.remaining_capacity() {
        return;
    }
    let _ = bytes.try_extend_from_slice(&(len as u16).to_ne_bytes());
    let _ = bytes.try_extend_from_slice(&kind.to_ne_bytes());
    let _ = bytes.try_extend_from_slice(value);
    bytes.extend(core::iter::repeat_n(0, padding));
}

// RDMA_NLDEV_ATTR_*
pub(crate) const DEV_INDEX: u16 = 1;
const DEV_NAME: u16 = 2;
const PORT_INDEX: u16 = 3;
const NODE_GUID: u16 = 6;
const DEV_NODE_TYPE: u16 = 14;
pub(crate) const CHARDEV_TYPE: u16 = 69;
const CHARDEV_NAME: u16 = 70;
const CHARDEV_ABI: u16 = 71;
const CHARDEV: u16 = 72;
const UVERBS_DRIVER_ID: u16 = 73;
const COPY_ON_FORK: u16 = 93;

/// Why an answer cannot be used. All of them lead to sysfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The kernel answered with an error (a positive errno).
    Kernel(Errno),
    /// The answer breaks netlink's or rdma-core's rules.
    Invalid,
    /// The list changed while the kernel was telling it.
    Interrupted,
}

/// The attributes that discovery knows, as far as a message has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// The device's number, unique as long as the kernel runs.
    pub dev_index: Option<u32>,
    /// The device's name, `rxe0`.
    pub dev_name: Option<&'a [u8]>,
    /// How many ports the device has (in answers to [`Request::Devices`]).
    pub port_index: Option<u32>,
    /// The node GUID in host byte order.
    pub node_guid: Option<u64>,
    /// RDMA_NODE_*
    pub node_type: Option<u8>,
    /// The char device's name, `uverbs0`.
    pub chardev_name: Option<&'a [u8]>,
    /// The version of the driver's ABI.
    pub chardev_abi: Option<u64>,
    /// The char device's number in the kernel's coding; see [`device_number`].
    pub chardev: Option<u64>,
    /// RDMA_DRIVER_*
    pub driver_id: Option<u32>,
    /// Whether pinned pages are copied at fork, so that no madvise is needed.
    pub copy_on_fork: Option<u8>,
}

impl<'a> Attributes<'a> {
    fn parse(payload: &'a [u8]) -> Result<Self, Refused> {
        let mut found = Attributes::default();
        // An attribute that runs over the end is the end.
        for nla in NlasIterator::new(payload).map_while(Result::ok) {
            let (kind, len) = (nla.kind(), usize::from(nla.length()));
            let value = nla.into_inner().get(4..len).unwrap_or_default();
            match kind {
                DEV_INDEX => found.dev_index = Some(u32::from_ne_bytes(start(value)?)),
                DEV_NAME => found.dev_name = Some(string(value)),
                PORT_INDEX => found.port_index = Some(u32::from_ne_bytes(start(value)?)),
                NODE_GUID => found.node_guid = Some(u64::from_ne_bytes(start(value)?)),
                DEV_NODE_TYPE => found.node_type = Some(u8::from_ne_bytes(start(value)?)),
                CHARDEV_NAME => found.chardev_name = Some(string(value)),
                CHARDEV_ABI => found.chardev_abi = Some(u64::from_ne_bytes(start(value)?)),
                CHARDEV => found.chardev = Some(u64::from_ne_bytes(start(value)?)),
                UVERBS_DRIVER_ID => found.driver_id = Some(u32::from_ne_bytes(start(value)?)),
                COPY_ON_FORK => found.copy_on_fork = Some(u8::from_ne_bytes(start(value)?)),
                _ => {}
            }
        }
        Ok(found)
    }
}

/// A number's bytes; more may follow, fewer are an error.
fn start<const N: usize>(value: &[u8]) -> Result<[u8; N], Refused> {
    value.first_chunk().copied().ok_or(Refused::Invalid)
}

/// A string's bytes up to its NUL, if it has one.
fn string(value: &[u8]) -> &[u8] {
    value.split(|&c| c == 0).next().unwrap_or(value)
}

/// Major and minor number from the kernel's 64-bit coding (`huge_encode_dev`).
pub fn device_number(coded: u64) -> (u32, u32) {
    let major = (coded & 0xf_ff00) >> 8;
    let minor = coded & 0xff | coded >> 12 & 0xf_ff00;
    (major as u32, minor as u32)
}

/// What to do after a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The answer is complete.
    Done,
    /// More datagrams belong to it.
    More,
}

/// The state of an answer that may come in several datagrams.
#[derive(Default)]
pub struct Reply {
    multipart: bool,
    interrupted: bool,
}

impl Reply {
    /// Hands every message of a datagram to `take`, until it answers false: then the rest of the
    /// answer is not looked at, and what was taken so far stands.
    pub fn datagram<'a>(
        &mut self,
        mut bytes: &'a [u8],
        mut take: impl FnMut(Attributes<'a>) -> bool,
    ) -> Result<Next, Refused> {
        let mut stopped = false;
        // What is too short for a message ends the datagram.
        while !stopped && let Ok(message) = NetlinkBuffer::new_checked(bytes) {
            self.multipart |= message.flags() & NLM_F_MULTIPART != 0;
            self.interrupted |= message.flags() & NLM_F_DUMP_INTERRUPTED != 0;
            let payload = message.payload();
            match message.message_type() {
                NLMSG_DONE => self.multipart = false,
                NLMSG_NOOP => {}
                NLMSG_OVERRUN => return Err(Refused::Invalid),
                NLMSG_ERROR => {
                    if payload.len() < ERROR_LEN {
                        return Err(Refused::Invalid);
                    }
                    match i32::from_ne_bytes(start(payload)?) {
                        0 => {}
                        error => return Err(Refused::Kernel(Errno(error.wrapping_neg()))),
                    }
                }
                _ => stopped = !take(Attributes::parse(payload)?),
            }
            let len = message.length() as usize;
            bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
        match (self.interrupted, self.multipart && !stopped) {
            (_, true) => Ok(Next::More),
            (true, false) => Err(Refused::Interrupted),
            (false, false) => Ok(Next::Done),
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
