//! Tests of the IP addresses in requests: the program takes them for those of the two ends.

use super::fake::Process;
use super::tests::*;
use crate::cm::agent::Incoming;

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
