//! Parses rtnetlink messages and derives the next hop of a GID from them. The first 16 bytes are the GID.
#![no_main]

use ibverbs::neigh::{address::embedded_mac, next_hop::NextHop};
use ibverbs_abi::ip_of_gid;
use ibverbs_netlink::{
    message::{attributes, messages},
    rtnl::{address, link, neighbour, route},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((gid, datagram)) = bytes.split_first_chunk::<16>() else {
        return;
    };
    let ip = ip_of_gid(gid);
    embedded_mac(ip);
    let interface = u32::from(gid[15] & 7);
    for mut request in [
        address::get_all_like(ip),
        route::get(ip, Some(interface)),
        neighbour::get(ip, interface),
        neighbour::get_all_like(ip),
        link::get(interface),
    ] {
        // Our own requests are well formed.
        let bytes = request.encode(interface);
        let mut parsed = messages(bytes);
        assert_eq!(parsed.next().map(|m| m.sequence), Some(interface));
        assert!(parsed.next().is_none());
        assert_eq!(bytes[..4], (bytes.len() as u32).to_ne_bytes());
    }
    let mut total = 0;
    for message in messages(datagram) {
        total += message.payload.len() + 16;
        let values = attributes(message.payload).map(|attribute| attribute.value.len() + 4);
        assert!(values.sum::<usize>() <= message.payload.len());
        if let Some(Err(errno)) = message.status() {
            assert!(errno.0 > 0);
        }
        if let Some(route) = route::parse(message.payload) {
            NextHop::of(&route, ip);
        }
        address::parse(message.payload);
        if let Some(address) = neighbour::parse_address_of(message.payload, ip, interface) {
            assert!(address.bytes().len() <= 32);
        }
        if let Some(link) = link::parse(message.payload) {
            assert!(link.vlan.is_none_or(|id| id < 4096));
        }
    }
    assert!(total <= datagram.len());
});
