//! Tests of the IP addresses in requests: the program takes them for those of the two ends.

use std::net::{IpAddr, Ipv4Addr};

use super::fake::Process;
use super::tests::*;
use super::{Command, Errno};
use roce::cm::agent::Incoming;
use roce::engine::Gid;
use roce::wire::gid_of;

/// Where a REQ and a SIDR_REQ have the header of annex A11, and where that has the last byte of the two
/// addresses.
const HEADER: [(u16, usize); 2] = [(TCP, 24 + 140), (UDP, 24 + 16)];
const SOURCE: usize = 4 + 15;
const DESTINATION: usize = 20 + 15;

/// Sends a request with a changed byte to a listening process. Returns the client and the server.
fn request(space: u16, at: usize, byte: u8) -> (Process, Process) {
    let (mut server, mut client) = pair();
    listen(&mut server, space);
    let id = resolved(&mut client, space);
    connect(&mut client, id, 0).unwrap();
    let mut message = client.manager.take_outgoing().remove(0);
    message.mad[at] = byte;
    let incoming = Incoming {
        src: message.route.sgid,
        dst: message.route.dgid,
        mad: message.mad,
    };
    assert_eq!(server.manager.receive(&incoming, server.now), None);
    client.exchange(&mut server);
    (server, client)
}

#[test]
fn a_request_with_other_addresses_than_its_packet_is_rejected() {
    for (space, header) in HEADER {
        for at in [SOURCE, DESTINATION] {
            let (mut server, mut client) = request(space, header + at, 77);
            assert_eq!(kinds(&mut server), [], "{space} {at}");
            let rejected = if space == TCP { 8 } else { 7 };
            assert_eq!(kinds(&mut client), [rejected], "{space} {at}");
        }
        let (mut server, _) = request(space, header + SOURCE, 2);
        assert_eq!(kinds(&mut server), [4], "unchanged");
    }
}

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

fn listen_at(process: &mut Process, ip: IpAddr) -> u32 {
    let id = create(process, 1, TCP, SERVER_UID);
    bind(process, id, ip, PORT).unwrap();
    process.call(1, Command::Listen, &two(id, 0), 0).unwrap();
    id
}

/// An id of a process whose device does not have the loopback address connects there. Returns the peer's
/// address that a listening id of the process sees.
fn connected_to_itself(from: Option<IpAddr>, to: IpAddr, listens_at: IpAddr) -> Vec<u8> {
    let (mut process, _) = pair();
    listen_at(&mut process, listens_at);
    let id = create(&mut process, 1, TCP, CLIENT_UID);
    if let Some(from) = from {
        bind(&mut process, id, from, 0).unwrap();
    }
    resolve(&mut process, id, to, PORT).unwrap();
    process
        .call(1, Command::ResolveRoute, &two(id, 2000), 0)
        .unwrap();
    assert_eq!(kinds(&mut process), [0, 2]);
    connect(&mut process, id, 0).unwrap();
    let messages = process.manager.take_outgoing();
    let route = messages[0].route;
    assert_eq!((route.sgid, route.dgid), (gid_of(SERVER), gid_of(SERVER)));
    let incoming = Incoming {
        src: route.sgid,
        dst: route.dgid,
        mad: messages[0].mad,
    };
    assert_eq!(process.manager.receive(&incoming, process.now), None);
    let request = next(&mut process).unwrap();
    assert_eq!(request.event, 4);
    let query = [vec![0; 8], two(request.id, 0)].concat();
    let response = process.call(1, Command::Query, &query, 280).unwrap();
    response[16 + 128 + 4..][..4].to_vec()
}

/// A packet for the loopback address, which another process may have, does not leave, as in the
/// kernel.
#[test]
fn the_loopback_address_leads_to_the_device_itself() {
    for listens_at in [ANY, SERVER, LOOPBACK] {
        for to in [LOOPBACK, ANY] {
            let peer = connected_to_itself(None, to, listens_at);
            assert_eq!(peer, [127, 0, 0, 1]);
            let peer = connected_to_itself(Some(LOOPBACK), to, listens_at);
            assert_eq!(peer, [127, 0, 0, 1]);
            let peer = connected_to_itself(Some(SERVER), to, listens_at);
            assert_eq!(peer, [10, 0, 0, 1]);
        }
    }
}

/// Devices at addresses of the loopback network have the others of it as peers.
#[test]
fn a_device_in_the_loopback_network_reaches_the_others() {
    let own = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 5));
    let other = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 6));
    for bound in [None, Some(own)] {
        let mut process = Process::new(1, own, &Default::default());
        let id = create(&mut process, 1, TCP, CLIENT_UID);
        if let Some(bound) = bound {
            bind(&mut process, id, bound, 0).unwrap();
        }
        resolve(&mut process, id, other, PORT).unwrap();
        process
            .call(1, Command::ResolveRoute, &two(id, 2000), 0)
            .unwrap();
        connect(&mut process, id, 0).unwrap();
        let route = process.manager.take_outgoing()[0].route;
        assert_eq!((route.sgid, route.dgid), (gid_of(own), gid_of(other)));
    }
}

/// The kernel's rdma_cm would take its own first device, or fail if it has none.
#[test]
fn the_loopback_address_stays_with_uroce() {
    let (mut process, _) = pair();
    let elsewhere = IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1));
    let kernel = Process::new(2, elsewhere, &Default::default());
    process.manager.os().kernel = Some(Box::new(kernel));
    let id = create(&mut process, 1, TCP, CLIENT_UID);
    resolve(&mut process, id, LOOPBACK, PORT).unwrap();
    assert_eq!(kinds(&mut process), [0]);
    let resolved = process.call(1, Command::ResolveRoute, &two(id, 2000), 0);
    assert_eq!(resolved.err(), None::<Errno>);
    assert_eq!(kinds(&mut process), [2]);
}

/// Where processes of the host have reserved a port.
fn reserved_at(process: &mut Process) -> Vec<Gid> {
    let reserved = process.manager.os().ports.borrow();
    let mut at: Vec<_> = reserved.iter().map(|(_, gid)| *gid).collect();
    at.sort();
    at
}

/// The GID at index 0 is a second name of the address: it needs no reservation, and no descriptor.
#[test]
fn a_wildcard_address_is_reserved_once_per_address() {
    for ip in [ANY, SERVER] {
        let (mut process, _) = pair();
        let id = create(&mut process, 1, TCP, SERVER_UID);
        bind(&mut process, id, ip, PORT).unwrap();
        assert_eq!(reserved_at(&mut process), [gid_of(SERVER)]);
    }
}

/// Another process may have the port at one of the new addresses.
#[test]
fn a_wildcard_address_listens_at_each_new_address() {
    let ports = Default::default();
    let [taken, free] = [7, 8].map(|host| IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)));
    let mut other = Process::new(1, taken, &ports);
    listen_at(&mut other, taken);
    let mut process = Process::new(2, SERVER, &ports);
    let id = listen_at(&mut process, ANY);
    process.manager.os().more_ips = vec![taken, free];
    process.manager.addresses_changed();
    assert_eq!(reserved_at(&mut process), [SERVER, taken, free].map(gid_of));
    destroy(&mut process, id).unwrap();
    assert_eq!(reserved_at(&mut process), [gid_of(taken)]);
    drop(other);
    // An address that is gone is not reserved any more.
    listen_at(&mut process, ANY);
    process.manager.os().more_ips = vec![free];
    process.manager.addresses_changed();
    assert_eq!(reserved_at(&mut process), [SERVER, free].map(gid_of));
}
