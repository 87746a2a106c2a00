//! rtnetlink messages (rtnetlink(7)), as bytes.
//!
//! Of a message only the attributes asked for are looked at: a kernel that sends others, or longer
//! ones than today's, is understood all the same. What is malformed is as good as absent.

use libc::c_int;
use netlink_packet_core::{
    Emitable, NLA_HEADER_SIZE, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_MULTIPART, NLM_F_REQUEST,
    NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer, Nla, NlasIterator,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const NLMSG_HEADER: usize = 16;
/// struct rtmsg, ndmsg, ifinfomsg and ifaddrmsg.
const RTMSG: usize = 12;
const NDMSG: usize = 12;
const IFINFOMSG: usize = 16;
const IFADDRMSG: usize = 8;
/// In if_link.h, not in the libc crate.
const IFLA_VLAN_ID: u16 = 1;
const RTEXT_FILTER_SKIP_STATS: u32 = 1 << 3;

/// A request: room enough for the largest one.
pub struct Request {
    bytes: [u8; 64],
    len: usize,
}

/// What is in an attribute, for `Emitable`.
struct Attribute<'a>(u16, &'a [u8]);

impl Nla for Attribute<'_> {
    fn kind(&self) -> u16 {
        self.0
    }
    fn value_len(&self) -> usize {
        self.1.len()
    }
    fn emit_value(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(self.1);
    }
}

impl Request {
    /// A message of a type, with flags beside NLM_F_REQUEST, a fixed part and attributes. What does
    /// not fit is left out; nothing here comes near.
    fn new(kind: u16, flags: u16, fixed: &[u8], attributes: &[Attribute]) -> Request {
        let mut bytes = [0; 64];
        let mut len = NLMSG_HEADER;
        if let Some(to) = bytes.get_mut(len..len + fixed.len()) {
            to.copy_from_slice(fixed);
            len += fixed.len();
        }
        for attribute in attributes {
            if let Some(to) = bytes.get_mut(len..len + attribute.buffer_len()) {
                attribute.emit(to);
                len += attribute.buffer_len();
            }
        }
        let mut header = NetlinkBuffer::new(&mut bytes);
        header.set_length(len as u32);
        header.set_message_type(kind);
        header.set_flags(NLM_F_REQUEST | flags);
        Request { bytes, len }
    }

    /// The message, numbered.
    pub fn numbered(&mut self, sequence: u32) -> &[u8] {
        NetlinkBuffer::new(&mut self.bytes).set_sequence_number(sequence);
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// All addresses of the family of `ip`.
    pub fn addresses(ip: IpAddr) -> Request {
        let fixed = [family(ip), 0, 0, 0, 0, 0, 0, 0];
        Request::new(libc::RTM_GETADDR, NLM_F_DUMP, &fixed, &[])
    }

    /// The route that a packet to `destination` takes, sent from an interface.
    pub fn route(destination: IpAddr, interface: u32) -> Request {
        let mut fixed = [0; RTMSG];
        let octets = Octets::of(destination);
        fixed[0] = family(destination);
        fixed[1] = 8 * octets.len; // rtm_dst_len, in bits
        let attributes = [
            Attribute(libc::RTA_DST, octets.bytes()),
            Attribute(libc::RTA_OIF, &interface.to_ne_bytes()),
        ];
        Request::new(libc::RTM_GETROUTE, 0, &fixed, &attributes)
    }

    /// One neighbour. Linux 5.0 and later.
    pub fn neighbour(ip: IpAddr, interface: u32) -> Request {
        let mut fixed = [0; NDMSG];
        fixed[0] = family(ip);
        fixed[4..8].copy_from_slice(&interface.to_ne_bytes());
        let octets = Octets::of(ip);
        Request::new(
            libc::RTM_GETNEIGH,
            0,
            &fixed,
            &[Attribute(libc::NDA_DST, octets.bytes())],
        )
    }

    /// All neighbours of the family of `ip`.
    pub fn neighbours(ip: IpAddr) -> Request {
        let mut fixed = [0; NDMSG];
        fixed[0] = family(ip);
        Request::new(libc::RTM_GETNEIGH, NLM_F_DUMP, &fixed, &[])
    }

    /// One interface.
    pub fn link(interface: u32) -> Request {
        let mut fixed = [0; IFINFOMSG];
        fixed[4..8].copy_from_slice(&interface.to_ne_bytes());
        let skip = RTEXT_FILTER_SKIP_STATS.to_ne_bytes();
        Request::new(
            libc::RTM_GETLINK,
            0,
            &fixed,
            &[Attribute(libc::IFLA_EXT_MASK, &skip)],
        )
    }
}

/// One message that was received.
pub struct Message<'a> {
    /// NLMSG_DONE, RTM_NEWROUTE ...
    pub kind: u16,
    pub sequence: u32,
    /// Others of the same answer follow, up to NLMSG_DONE.
    pub multipart: bool,
    /// What was listed changed meanwhile.
    pub interrupted: bool,
    pub payload: &'a [u8],
}

impl Message<'_> {
    /// If this ends an answer: how. The error is an errno value.
    pub fn status(&self) -> Option<Result<(), c_int>> {
        if ![NLMSG_ERROR, NLMSG_DONE].contains(&self.kind) {
            return None;
        }
        // Negated by the kernel; NLMSG_DONE of an old one has none.
        match self
            .payload
            .first_chunk()
            .map_or(0, |&code| i32::from_ne_bytes(code))
        {
            code if code < 0 => Some(Err(code.saturating_neg())),
            _ => Some(Ok(())),
        }
    }
}

/// The messages of a datagram, up to the first one that is cut off.
pub fn messages(mut datagram: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        // Looked at first, as making an error of it takes memory.
        datagram.first_chunk::<NLMSG_HEADER>()?;
        let header = NetlinkBuffer::new_checked(datagram).ok()?;
        let len = header.length() as usize;
        let message = Message {
            kind: header.message_type(),
            sequence: header.sequence_number(),
            multipart: header.flags() & NLM_F_MULTIPART != 0,
            interrupted: header.flags() & NLM_F_DUMP_INTR != 0,
            payload: datagram.get(NLMSG_HEADER..len)?,
        };
        datagram = datagram.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

/// A link-layer address, of up to 32 bytes as in the kernel (MAX_ADDR_LEN).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkAddress {
    bytes: [u8; 32],
    len: u8,
}

impl LinkAddress {
    fn new(value: &[u8]) -> Option<LinkAddress> {
        let mut bytes = [0; 32];
        bytes.get_mut(..value.len())?.copy_from_slice(value);
        Some(LinkAddress {
            bytes,
            len: value.len() as u8,
        })
    }

    /// The address. Empty on a link without addresses.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len.into()).unwrap_or_default()
    }
}

impl From<[u8; 6]> for LinkAddress {
    fn from(mac: [u8; 6]) -> LinkAddress {
        let [a, b, c, d, e, f] = mac;
        let mut bytes = [0; 32];
        bytes[..6].copy_from_slice(&[a, b, c, d, e, f]);
        LinkAddress { bytes, len: 6 }
    }
}

/// What a route tells.
#[derive(Debug, PartialEq, Eq)]
pub struct Route {
    /// RTN_UNICAST, RTN_LOCAL ...
    pub kind: u8,
    pub gateway: Option<IpAddr>,
}

/// The route in an RTM_NEWROUTE message.
pub fn route(payload: &[u8]) -> Option<Route> {
    let fixed: &[u8; RTMSG] = payload.first_chunk()?;
    let family = fixed[0];
    let gateway = attribute(payload.get(RTMSG..)?, libc::RTA_GATEWAY);
    Some(Route {
        kind: fixed[7],
        gateway: gateway.and_then(|value| ip(family, value)),
    })
}

/// The interface in an RTM_NEWADDR message, if the address is `wanted`.
pub fn interface_with(payload: &[u8], wanted: IpAddr) -> Option<u32> {
    let [family, _, _, _, index @ ..] = payload.first_chunk::<IFADDRMSG>()?;
    let attributes = payload.get(IFADDRMSG..)?;
    // On a point-to-point link IFA_ADDRESS is the other end; IPv6 has IFA_LOCAL only there.
    let own = attribute(attributes, libc::IFA_LOCAL)
        .or_else(|| attribute(attributes, libc::IFA_ADDRESS))?;
    (ip(*family, own)? == wanted).then_some(u32::from_ne_bytes(*index))
}

/// The link-layer address in an RTM_NEWNEIGH message, if it is about the neighbour `wanted` on an
/// interface and the kernel knows its address.
pub fn address_of(payload: &[u8], wanted: IpAddr, interface: u32) -> Option<LinkAddress> {
    let [family, _, _, _, a, b, c, d, ..] = *payload.first_chunk::<NDMSG>()?;
    let attributes = payload.get(NDMSG..)?;
    let about = ip(family, attribute(attributes, libc::NDA_DST)?)?;
    if about != wanted || u32::from_ne_bytes([a, b, c, d]) != interface {
        return None;
    }
    LinkAddress::new(attribute(attributes, libc::NDA_LLADDR)?)
}

/// What an interface tells.
#[derive(Debug, PartialEq, Eq)]
pub struct Link {
    pub address: Option<LinkAddress>,
    /// The VLAN id, 0 to 4095; None on what is no VLAN device.
    pub vlan: Option<u16>,
}

/// The interface in an RTM_NEWLINK message.
pub fn link(payload: &[u8]) -> Option<Link> {
    let attributes = payload.get(IFINFOMSG..)?;
    let address = attribute(attributes, libc::IFLA_ADDRESS).and_then(LinkAddress::new);
    let vlan = attribute(attributes, libc::IFLA_LINKINFO).and_then(|info| {
        let kind = attribute(info, libc::IFLA_INFO_KIND)?;
        if kind.strip_suffix(b"\0").unwrap_or(kind) != b"vlan" {
            return None;
        }
        let id = attribute(attribute(info, libc::IFLA_INFO_DATA)?, IFLA_VLAN_ID)?;
        Some(u16::from_ne_bytes(*id.first_chunk()?)).filter(|&id| id <= 0xfff)
    });
    Some(Link { address, vlan })
}

/// The value of the first attribute of a kind.
fn attribute(attributes: &[u8], kind: u16) -> Option<&[u8]> {
    let found = NlasIterator::new(attributes)
        .map_while(Result::ok)
        .find(|nla| nla.kind() == kind)?;
    let len = found.length().into();
    found.into_inner().get(NLA_HEADER_SIZE..len)
}

fn family(ip: IpAddr) -> u8 {
    match ip {
        IpAddr::V4(_) => libc::AF_INET as u8,
        IpAddr::V6(_) => libc::AF_INET6 as u8,
    }
}

fn ip(family: u8, octets: &[u8]) -> Option<IpAddr> {
    match family.into() {
        libc::AF_INET => Some(Ipv4Addr::from(<[u8; 4]>::try_from(octets).ok()?).into()),
        libc::AF_INET6 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?).into()),
        _ => None,
    }
}

/// An IP address as bytes.
struct Octets {
    bytes: [u8; 16],
    len: u8,
}

impl Octets {
    fn of(ip: IpAddr) -> Octets {
        match ip {
            IpAddr::V4(v4) => {
                let [a, b, c, d] = v4.octets();
                Octets {
                    bytes: [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                    len: 4,
                }
            }
            IpAddr::V6(v6) => Octets {
                bytes: v6.octets(),
                len: 16,
            },
        }
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len.into()).unwrap_or_default()
    }
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
