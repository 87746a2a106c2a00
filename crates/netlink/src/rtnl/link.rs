//! RTM_GETLINK and RTM_NEWLINK: network interfaces.

use crate::message::{NLM_F_DUMP, Request, attributes, find_attribute, u32_value};

/// Bytes of `struct ifinfomsg`.
const IFINFOMSG_LEN: usize = 16;
/// An attribute of if_link.h; not in the libc crate.
const IFLA_VLAN_ID: u16 = 1;
const RTEXT_FILTER_SKIP_STATS: u32 = 1 << 3;

/// Requests the interface with this index, without its statistics.
pub fn get(index: u32) -> Request {
    let mut fixed = [0; IFINFOMSG_LEN];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    let skip = RTEXT_FILTER_SKIP_STATS.to_ne_bytes();
    Request::new(libc::RTM_GETLINK, 0, &fixed).attribute(libc::IFLA_EXT_MASK, &skip)
}

/// Requests all interfaces.
pub fn get_all() -> Request {
    Request::new(libc::RTM_GETLINK, NLM_F_DUMP, &[0; IFINFOMSG_LEN])
}

/// A link-layer address of up to 32 bytes (the kernel's MAX_ADDR_LEN).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkAddress {
    bytes: [u8; 32],
    len: u8,
}

impl LinkAddress {
    pub(super) fn new(value: &[u8]) -> Option<LinkAddress> {
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

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The interface index.
    pub index: u32,
    /// The interface name.
    pub name: String,
    /// The link-layer address, if the interface has one.
    pub address: Option<LinkAddress>,
    /// In bytes; 0 if the kernel does not say.
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
    /// Up, and with a carrier.
    pub running: bool,
    /// The loopback interface.
    pub loopback: bool,
    /// The VLAN id, 0 to 4095; None on what is no VLAN device.
    pub vlan: Option<u16>,
}

impl Link {
    /// The MAC address; None if the link-layer address is not six bytes. The loopback interface's is all
    /// zeros.
    pub fn mac(&self) -> Option<[u8; 6]> {
        self.address.as_ref()?.bytes().try_into().ok()
    }
}

/// The interface in the payload of an RTM_NEWLINK message.
pub fn parse(payload: &[u8]) -> Option<Link> {
    let &[family, _, _, _, i0, i1, i2, i3, f0, f1, f2, f3, ..] =
        payload.first_chunk::<IFINFOMSG_LEN>()?;
    // Bridges describe their ports in messages of the same type.
    if i32::from(family) != libc::AF_UNSPEC {
        return None;
    }
    let flags = i32::from_ne_bytes([f0, f1, f2, f3]);
    let up = flags & libc::IFF_UP != 0;
    let mut link = Link {
        index: u32::from_ne_bytes([i0, i1, i2, i3]),
        name: String::new(),
        address: None,
        mtu: 0,
        up,
        running: up && flags & libc::IFF_RUNNING != 0,
        loopback: flags & libc::IFF_LOOPBACK != 0,
        vlan: None,
    };
    for attribute in attributes(payload.get(IFINFOMSG_LEN..)?) {
        let value = attribute.value;
        match attribute.kind {
            libc::IFLA_IFNAME => {
                let name = value.strip_suffix(b"\0").unwrap_or(value);
                link.name = String::from_utf8_lossy(name).into_owned();
            }
            libc::IFLA_ADDRESS => link.address = LinkAddress::new(value),
            libc::IFLA_MTU => link.mtu = u32_value(value).unwrap_or(0),
            libc::IFLA_LINKINFO => link.vlan = vlan(value),
            _ => {}
        }
    }
    Some(link)
}

/// The VLAN id in an IFLA_LINKINFO attribute.
fn vlan(info: &[u8]) -> Option<u16> {
    let kind = find_attribute(info, libc::IFLA_INFO_KIND)?;
    if kind.strip_suffix(b"\0").unwrap_or(kind) != b"vlan" {
        return None;
    }
    let data = find_attribute(info, libc::IFLA_INFO_DATA)?;
    let id = find_attribute(data, IFLA_VLAN_ID)?.first_chunk()?;
    Some(u16::from_ne_bytes(*id)).filter(|&id| id <= 0xfff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{attribute, payload};

    #[test]
    fn requests() {
        assert_eq!(
            get(5).encode(1)[20..],
            [5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 29, 0, 8, 0, 0, 0]
        );
        assert_eq!(get_all().encode(1).len(), 32);
    }

    fn new_link(index: u32, flags: i32) -> Vec<u8> {
        let fixed = [
            &[0; 4][..],
            &index.to_ne_bytes(),
            &flags.to_ne_bytes(),
            &[0; 4],
        ];
        payload(
            &fixed.concat(),
            &[
                attribute(libc::IFLA_IFNAME, b"eth7\0"),
                attribute(libc::IFLA_MTU, &1500_u32.to_ne_bytes()),
                attribute(libc::IFLA_ADDRESS, &[2, 0, 0, 0, 0, 9]),
            ],
        )
    }

    #[test]
    fn links() {
        let want = Link {
            index: 7,
            name: "eth7".into(),
            address: Some([2, 0, 0, 0, 0, 9].into()),
            mtu: 1500,
            up: true,
            running: true,
            loopback: false,
            vlan: None,
        };
        let up = libc::IFF_UP | libc::IFF_RUNNING;
        assert_eq!(want.mac(), Some([2, 0, 0, 0, 0, 9]));
        assert_eq!(parse(&new_link(7, up)), Some(want));
        let no_carrier = parse(&new_link(7, libc::IFF_UP)).unwrap();
        assert!(no_carrier.up && !no_carrier.running);
        let down = parse(&new_link(7, libc::IFF_RUNNING)).unwrap();
        assert!(!down.up && !down.running);
        assert!(parse(&new_link(1, libc::IFF_LOOPBACK)).unwrap().loopback);
        assert_eq!(parse(&[0; 15]), None);
        let mut port_of_bridge = new_link(7, up);
        port_of_bridge[0] = libc::AF_BRIDGE as u8;
        assert_eq!(parse(&port_of_bridge), None);
    }

    #[test]
    fn vlans() {
        let fixed = [0; IFINFOMSG_LEN];
        let mac = attribute(libc::IFLA_ADDRESS, &[2, 0, 0, 0, 0, 5]);
        let info = |kind: &[u8], id: &[u8]| {
            let data = attribute(libc::IFLA_INFO_DATA, &attribute(IFLA_VLAN_ID, id));
            attribute(
                libc::IFLA_LINKINFO,
                &[attribute(libc::IFLA_INFO_KIND, kind), data].concat(),
            )
        };
        let vlan = |info: Vec<u8>| parse(&payload(&fixed, &[mac.clone(), info])).unwrap().vlan;
        assert_eq!(vlan(info(b"vlan\0", &[100, 0])), Some(100));
        assert_eq!(vlan(info(b"vlan", &[0xff, 0x0f])), Some(4095));
        assert_eq!(vlan(info(b"vlan\0", &[0, 0x10])), None);
        assert_eq!(vlan(info(b"vlan\0", &[1])), None);
        assert_eq!(vlan(info(b"veth\0", &[100, 0])), None);
        assert_eq!(vlan(attribute(libc::IFLA_LINKINFO, &[9, 9, 9])), None);
        let link = parse(&payload(&fixed, &[mac])).unwrap();
        assert_eq!(link.address.unwrap().bytes(), [2, 0, 0, 0, 0, 5]);
        let bare = parse(&fixed).unwrap();
        assert_eq!((bare.address, bare.vlan, bare.mtu), (None, None, 0));
        assert_eq!(parse(&fixed[1..]), None);
    }
}
