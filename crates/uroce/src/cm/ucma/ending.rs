//! Tests of what a process sends when it ends with connections, and of what it keeps for them.

use super::fake::Process;
use super::tests::*;
use super::*;
use crate::device::gsi::LostPeer;
use roce::cm::agent::IDS_PER_PREFIX;

/// A process with a connection, and its peer, which has it established.
fn connected() -> (Process, Process) {
    let (mut server, mut client) = pair();
    listen(&mut server, TCP);
    let id = ask(&mut client, &mut server, TCP, 0);
    let request = next(&mut server).unwrap();
    accept(&mut server, request.id, 0).unwrap();
    server.exchange(&mut client);
    assert_eq!(next(&mut client).unwrap().event, 5);
    let mut confirm = vec![0; 296];
    confirm[280..284].copy_from_slice(&id.to_ne_bytes());
    client.call(1, Command::Accept, &confirm, 0).unwrap();
    client.exchange(&mut server);
    assert_eq!(next(&mut server).unwrap().event, 9);
    (server, client)
}

/// The first is lost; nobody is there to retransmit it later.
#[test]
fn a_process_that_ends_disconnects_twice() {
    let (mut server, mut client) = connected();
    client.manager.close(1, client.now);
    let first = client.manager.take_outgoing();
    client.manager.repeat_first_messages(client.now);
    assert_eq!(first.len(), 1);
    client.exchange(&mut server);
    assert_eq!(next(&mut server).unwrap().event, 10);
    client.manager.repeat_first_messages(client.now);
    assert!(client.manager.take_outgoing().is_empty());
}

/// The prefixes of a process's communication IDs are the names by which other processes find it.
#[test]
fn a_process_has_the_prefixes_of_its_connections() {
    let (_, mut client) = pair();
    client.manager.os().ephemeral_ports = (40_000, 50_000);
    let connect_all = |client: &mut Process| {
        let ids: Vec<u32> = (0..IDS_PER_PREFIX).map(|_| resolved(client, TCP)).collect();
        ids.iter()
            .for_each(|id| drop(connect(client, *id, 0).unwrap()));
        ids
    };
    let prefixes = [2, 0x102, 0x202];
    let has = |client: &mut Process| prefixes.map(|prefix| client.manager.has_prefix(prefix));
    let first = connect_all(&mut client);
    assert_eq!(has(&mut client), [true, false, false]);
    connect_all(&mut client);
    assert_eq!(has(&mut client), [true, true, false]);
    for id in first {
        destroy(&mut client, id).unwrap();
    }
    connect_all(&mut client);
    assert_eq!(has(&mut client), [false, true, true]);
}

/// A connection in TimeWait needs no descriptor; a DREQ that may be lost does.
#[test]
fn a_process_stays_until_its_peer_has_confirmed() {
    let (mut server, mut client) = connected();
    client.manager.close(1, client.now);
    client.manager.close(2, client.now);
    assert!(!client.manager.is_done());
    client.exchange(&mut server);
    assert!(client.manager.is_done() && client.manager.deadline().is_some());
}

/// A process that is killed sends no DREQ, but its queue pairs' channels end.
#[test]
fn a_peer_that_is_killed_has_disconnected() {
    let (mut server, mut client) = connected();
    let lost = |qpn, peer, peer_qpn| LostPeer {
        qpn,
        peer: roce::wire::gid_of(peer),
        peer_qpn,
    };
    server.manager.peer_lost(&lost(0x5678, SERVER, 0x1234));
    assert!(next(&mut server).is_err(), "another peer's queue pair");
    server.manager.peer_lost(&lost(0x5678, CLIENT, 0x1234));
    server.manager.peer_lost(&lost(0x5678, CLIENT, 0x1234));
    assert_eq!(kinds(&mut server), [10]);
    // At the active end, too.
    client.manager.peer_lost(&lost(0x1234, SERVER, 0x5678));
    assert_eq!(kinds(&mut client), [10]);
}
