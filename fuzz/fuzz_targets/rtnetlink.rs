//! Answers of rtnetlink, and what is concluded from them for a GID. The first 16 bytes are the GID.
#![no_main]

use ibverbs::neigh::{
    address::{embedded_mac, ip_of_gid},
    message::{Request, address_of, interface_with, link, messages, route},
    route::next,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((gid, datagram)) = bytes.split_first_chunk::<16>() else {
        return;
    };
    let ip = ip_of_gid(*gid);
    embedded_mac(ip);
    let interface = u32::from(gid[15] & 7);
    for mut request in [
        Request::addresses(ip),
        Request::route(ip, interface),
        Request::neighbour(ip, interface),
        Request::neighbours(ip),
        Request::link(interface),
    ] {
        // What we say ourselves is well formed.
        let bytes = request.numbered(interface);
        let mut said = messages(bytes);
        assert_eq!(said.next().map(|m| m.sequence), Some(interface));
        assert!(said.next().is_none());
        assert_eq!(bytes[..4], (bytes.len() as u32).to_ne_bytes());
    }
    let mut total = 0;
    for message in messages(datagram) {
        total += message.payload.len() + 16;
        if let Some(Err(errno)) = message.status() {
            assert!(errno > 0);
        }
        if let Some(route) = route(message.payload) {
            next(&route, ip);
        }
        interface_with(message.payload, ip);
        if let Some(address) = address_of(message.payload, ip, interface) {
            assert!(address.bytes().len() <= 32);
        }
        if let Some(link) = link(message.payload) {
            assert!(link.vlan.is_none_or(|id| id < 4096));
        }
    }
    assert!(total <= datagram.len());
});
