//! Messages of rtnetlink, as the kernel writes them.

use super::*;

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = [(4 + value.len() as u16).to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn message(kind: u16, payload: &[u8]) -> Vec<u8> {
    let len = (HEADER + payload.len()) as u32;
    let mut bytes = [
        &len.to_ne_bytes()[..],
        &kind.to_ne_bytes(),
        &[0; 10],
        payload,
    ]
    .concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn new_link(index: u32, flags: i32) -> Vec<u8> {
    [
        &[0; 4][..],
        &index.to_ne_bytes(),
        &flags.to_ne_bytes(),
        &[0; 4],
        &attribute(libc::IFLA_IFNAME, b"eth7\0"),
        &attribute(libc::IFLA_MTU, &1500_u32.to_ne_bytes()),
        &attribute(libc::IFLA_ADDRESS, &[2, 0, 0, 0, 0, 9]),
    ]
    .concat()
}

#[test]
fn links() {
    let want = Link {
        index: 7,
        name: "eth7".into(),
        mac: Some([2, 0, 0, 0, 0, 9]),
        mtu: 1500,
        up: true,
        running: true,
        loopback: false,
    };
    let up = libc::IFF_UP | libc::IFF_RUNNING;
    assert_eq!(link(&new_link(7, up)), Some(want));
    let no_carrier = link(&new_link(7, libc::IFF_UP)).unwrap();
    assert!(no_carrier.up && !no_carrier.running);
    let down = link(&new_link(7, libc::IFF_RUNNING)).unwrap();
    assert!(!down.up && !down.running);
    assert!(link(&new_link(1, libc::IFF_LOOPBACK)).unwrap().loopback);
    assert_eq!(link(&[0; 15]), None);
    let mut port_of_bridge = new_link(7, up);
    port_of_bridge[0] = libc::AF_BRIDGE as u8;
    assert_eq!(link(&port_of_bridge), None);
}

#[test]
fn addresses() {
    let told = |family: i32, parts: &[Vec<u8>]| {
        let fixed = [family as u8, 24, 0, 0, 3, 0, 0, 0];
        address(&[&fixed[..], &parts.concat()].concat())
    };
    let at = |ip: &str| {
        Some(Address {
            interface: 3,
            ip: ip.parse().unwrap(),
        })
    };
    let (own, peer) = (
        attribute(libc::IFA_LOCAL, &[10, 0, 0, 1]),
        attribute(libc::IFA_ADDRESS, &[10, 0, 0, 2]),
    );
    assert_eq!(told(libc::AF_INET, &[peer.clone(), own]), at("10.0.0.1"));
    assert_eq!(told(libc::AF_INET, &[peer]), at("10.0.0.2"));
    let v6 = attribute(libc::IFA_ADDRESS, &Ipv6Addr::LOCALHOST.octets());
    assert_eq!(told(libc::AF_INET6, std::slice::from_ref(&v6)), at("::1"));
    assert_eq!(told(libc::AF_INET, &[]), None);
    assert_eq!(
        told(libc::AF_INET, &[attribute(libc::IFA_LOCAL, &[1; 3])]),
        None
    );
    assert_eq!(address(&[0; 7]), None);
    let tentative = [
        libc::AF_INET6 as u8,
        64,
        libc::IFA_F_TENTATIVE as u8,
        0,
        3,
        0,
        0,
        0,
    ];
    assert_eq!(address(&[&tentative[..], &v6].concat()), None);
}

#[test]
fn default_routes() {
    let told = |dst_len: u8, parts: &[Vec<u8>]| {
        let fixed = [
            2,
            dst_len,
            0,
            0,
            libc::RT_TABLE_MAIN,
            3,
            0,
            libc::RTN_UNICAST,
            0,
            0,
            0,
            0,
        ];
        default_route(&[&fixed[..], &parts.concat()].concat())
    };
    let oif = attribute(libc::RTA_OIF, &4_u32.to_ne_bytes());
    let metric = attribute(libc::RTA_PRIORITY, &100_u32.to_ne_bytes());
    assert_eq!(told(0, &[metric, oif.clone()]), Some((100, 4)));
    assert_eq!(told(0, std::slice::from_ref(&oif)), Some((0, 4)));
    assert_eq!(told(24, &[oif]), None);
    assert_eq!(told(0, &[]), None);
    assert_eq!(default_route(&[0; 11]), None);
}

#[test]
fn what_concerns_an_interface() {
    let link = message(libc::RTM_NEWLINK, &new_link(7, 0));
    assert!(concerns(&link, 7));
    assert!(!concerns(&link, 8));
    let gone = message(libc::RTM_DELADDR, &[2, 24, 0, 0, 8, 0, 0, 0]);
    let both = [gone.clone(), link.clone()].concat();
    assert!(concerns(&both, 7) && concerns(&both, 8));
    assert!(!concerns(
        &message(libc::RTM_NEWROUTE, &[0, 0, 0, 0, 7, 0, 0, 0]),
        7
    ));
    // Cut off, or a length that leads nowhere.
    assert!(!concerns(&link[..link.len() - 1], 7));
    assert!(!concerns(&[0; 64], 7));
    assert!(!concerns(&message(libc::RTM_NEWLINK, &[0; 3]), 0));
}

#[test]
fn this_host_has_a_loopback_interface() {
    let mut kernel = RtnlClient::open().unwrap();
    let links = kernel.links().unwrap();
    let lo = links.iter().find(|link| link.loopback).unwrap();
    assert_eq!((lo.name.as_str(), lo.mac), ("lo", Some([0; 6])));
    let addresses = kernel.addresses().unwrap();
    assert!(
        addresses
            .iter()
            .any(|address| address.interface == lo.index)
    );
    kernel.default_interface().unwrap();
    assert!(!RtnlMonitor::open().unwrap().hear(lo.index));
}
