//! Tests of what a process sends when it ends with connections.

use super::fake::Process;
use super::tests::*;
use super::*;

/// A process with a connection, and its peer, which has it established.
fn connected() -> (Process, Process) {
    let (mut server, mut client) = pair();
    listen(&mut server, TCP);
    let id = resolved(&mut client, TCP);
    connect(&mut client, id, 0).unwrap();
    client.exchange(&mut server);
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
