//! Commands of two processes, whose messages are exchanged in memory.

use ibverbs_abi::Result;
use std::net::{IpAddr, Ipv4Addr};

use super::event_queue::EVENT_LEN;
use super::fake::Process;
use super::input::Command;
use super::*;

pub(super) const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
pub(super) const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
pub(super) const TCP: u16 = 0x0106;
pub(super) const UDP: u16 = 0x0111;
pub(super) const PORT: u16 = 7471;
pub(super) const SERVER_UID: u64 = 0x1111;
pub(super) const CHILD_UID: u64 = 0x2222;
pub(super) const CLIENT_UID: u64 = 0x3333;

pub(super) fn pair() -> (Process, Process) {
    let server = Process::new(1, SERVER, &Default::default());
    let client = Process::new(2, CLIENT, &Default::default());
    (server, client)
}

pub(super) fn sockaddr(ip: IpAddr, port: u16) -> Vec<u8> {
    let IpAddr::V4(v4) = ip else { panic!() };
    let mut bytes = vec![2, 0];
    bytes.extend(port.to_be_bytes());
    bytes.extend(v4.octets());
    bytes.resize(16, 0);
    bytes
}

pub(super) fn padded(mut bytes: Vec<u8>, len: usize) -> Vec<u8> {
    bytes.resize(len, 0);
    bytes
}

pub(super) fn create(process: &mut Process, file: u64, space: u16, uid: u64) -> u32 {
    let mut input = uid.to_ne_bytes().to_vec();
    input.extend([0; 8]);
    input.extend(space.to_ne_bytes());
    let response = process.call(file, Command::CreateId, &padded(input, 24), 4);
    u32::from_ne_bytes(response.unwrap().try_into().unwrap())
}

pub(super) fn bind(process: &mut Process, id: u32, ip: IpAddr, port: u16) -> Result<Vec<u8>> {
    let mut input = id.to_ne_bytes().to_vec();
    input.extend([16, 0, 0, 0]);
    input.extend(sockaddr(ip, port));
    process.call(1, Command::Bind, &padded(input, 136), 0)
}

pub(super) fn two(first: u32, second: u32) -> Vec<u8> {
    [first.to_ne_bytes(), second.to_ne_bytes()].concat()
}

pub(super) fn resolve(process: &mut Process, id: u32, ip: IpAddr, port: u16) -> Result<Vec<u8>> {
    let mut input = two(id, 2000);
    input.extend([0, 0, 16, 0, 0, 0, 0, 0]);
    input = padded(input, 16 + 128);
    input.extend(sockaddr(ip, port));
    process.call(1, Command::ResolveAddr, &padded(input, 272), 0)
}

/// `rdma_ucm_conn_param` with private data of a length.
pub(super) fn parameters(qpn: u32, private: u8) -> Vec<u8> {
    let mut bytes = two(qpn, 0);
    bytes.extend(vec![0xab; private.into()]);
    bytes = padded(bytes, 8 + 256);
    bytes.extend([private, 0, 1, 2, 0, 7, 6, 1]);
    bytes
}

pub(super) fn connect(process: &mut Process, id: u32, private: u8) -> Result<Vec<u8>> {
    // Each id has a queue pair of its own.
    let mut input = parameters(0x1234 + id, private);
    input.extend(two(id, 0));
    process.call(1, Command::Connect, &padded(input, 288), 0)
}

pub(super) fn accept(process: &mut Process, id: u32, private: u8) -> Result<Vec<u8>> {
    let mut input = CHILD_UID.to_ne_bytes().to_vec();
    input.extend(parameters(0x5678, private));
    input.extend(two(id, 0));
    process.call(1, Command::Accept, &padded(input, 296), 0)
}

/// An event that a program has read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReadEvent {
    pub uid: u64,
    pub id: u32,
    pub event: u32,
    pub status: i32,
    pub bytes: Vec<u8>,
}

pub(super) fn next(process: &mut Process) -> Result<ReadEvent> {
    let bytes = process.call(1, Command::GetEvent, &[0; 8], EVENT_LEN)?;
    let input = Input(&bytes);
    Ok(ReadEvent {
        uid: input.u64(0),
        id: input.u32(8),
        event: input.u32(12),
        status: input.u32(16) as i32,
        bytes,
    })
}

pub(super) fn kinds(process: &mut Process) -> Vec<u32> {
    std::iter::from_fn(|| next(process).ok())
        .map(|got| got.event)
        .collect()
}

pub(super) fn listen(server: &mut Process, space: u16) -> u32 {
    let id = create(server, 1, space, SERVER_UID);
    bind(server, id, SERVER, PORT).unwrap();
    server.call(1, Command::Listen, &two(id, 0), 0).unwrap();
    id
}

pub(super) fn resolved(client: &mut Process, space: u16) -> u32 {
    let id = create(client, 1, space, CLIENT_UID);
    resolve(client, id, SERVER, PORT).unwrap();
    let timeout = two(id, 2000);
    client.call(1, Command::ResolveRoute, &timeout, 0).unwrap();
    assert_eq!(kinds(client), [0, 2]);
    id
}

/// Resolves, and asks a server for a connection.
pub(super) fn ask(client: &mut Process, server: &mut Process, space: u16, private: u8) -> u32 {
    let id = resolved(client, space);
    connect(client, id, private).unwrap();
    client.exchange(server);
    id
}

/// The response: how many events the program has read.
pub(super) fn destroy(process: &mut Process, id: u32) -> Result<Vec<u8>> {
    process.call(1, Command::DestroyId, &[vec![0; 8], two(id, 0)].concat(), 4)
}

pub(super) fn init_qp_attr(process: &mut Process, id: u32, state: u32) -> Result<Vec<u8>> {
    let input = [vec![0; 8], two(id, state)].concat();
    process.call(1, Command::InitQpAttr, &input, 144)
}

#[test]
fn a_connection_from_both_ends() {
    let (mut server, mut client) = pair();
    let listening = listen(&mut server, TCP);
    let id = ask(&mut client, &mut server, TCP, 56);
    let request = next(&mut server).unwrap();
    assert_eq!(
        (request.uid, request.event, request.status),
        (SERVER_UID, 4, 0)
    );
    assert_ne!(request.id, listening);
    // The peer's queue pair; all 56 bytes of private data; responder resources and initiator depth are
    // those of this end.
    let input = Input(&request.bytes);
    assert_eq!(input.u32(20), 0x1234);
    assert_eq!(input.from(28)[..57], [[0xab; 56].as_slice(), &[0]].concat());
    assert_eq!(input.from(284)[..7], [56, 0, 2, 1, 0, 7, 6]);
    for state in [2, 3] {
        init_qp_attr(&mut server, request.id, state).unwrap();
    }
    let init = init_qp_attr(&mut server, request.id, 1).unwrap();
    assert_eq!(Input(&init).u32(36), 0x30e, "the peer may FLUSH, too");
    accept(&mut server, request.id, 196).unwrap();
    client.exchange(&mut server);
    let response = next(&mut client).unwrap();
    assert_eq!(
        (response.uid, response.id, response.event),
        (CLIENT_UID, id, 5)
    );
    assert_eq!(Input(&response.bytes).u32(20), 0x5678);
    assert_eq!(response.bytes[284], 196);
    let rtr = init_qp_attr(&mut client, id, 2).unwrap();
    assert_eq!(Input(&rtr).u32(32), 0x5678, "dest_qp_num");
    assert_eq!(rtr[40..56], roce::wire::gid_of(SERVER));
    // librdmacm confirms with an ACCEPT without parameters.
    let mut confirm = vec![0; 296];
    confirm[280..284].copy_from_slice(&id.to_ne_bytes());
    client.call(1, Command::Accept, &confirm, 0).unwrap();
    client.exchange(&mut server);
    let established = next(&mut server).unwrap();
    assert_eq!((established.uid, established.event), (CHILD_UID, 9));
    client
        .call(1, Command::Disconnect, &id.to_ne_bytes(), 0)
        .unwrap();
    client.exchange(&mut server);
    assert_eq!(kinds(&mut server), [10]);
    server
        .call(1, Command::Disconnect, &request.id.to_ne_bytes(), 0)
        .unwrap();
    client.exchange(&mut server);
    assert_eq!(kinds(&mut client), [10]);
    for process in [&mut server, &mut client] {
        process.now = roce::engine::Time(10_000_000_000);
        process.manager.handle_timeouts(process.now);
        assert_eq!(kinds(process), [15]);
        assert!(!process.manager.os().readable[&1]);
    }
    // Events of the connection that the program has read, as DESTROY_ID reports them.
    let reported = destroy(&mut client, id).unwrap();
    assert_eq!(reported, 5_u32.to_ne_bytes());
}

#[test]
fn rejections() {
    let (mut server, mut client) = pair();
    ask(&mut client, &mut server, TCP, 0);
    let rejected = next(&mut client).unwrap();
    assert_eq!((rejected.event, rejected.status), (8, 8), "nobody listens");
    listen(&mut server, TCP);
    ask(&mut client, &mut server, TCP, 0);
    let request = next(&mut server).unwrap();
    let mut input = request.id.to_ne_bytes().to_vec();
    input.extend([148, 0, 0, 0]);
    input.extend([0xcd; 148]);
    server
        .call(1, Command::Reject, &padded(input, 264), 0)
        .unwrap();
    client.exchange(&mut server);
    let rejected = next(&mut client).unwrap();
    assert_eq!((rejected.event, rejected.status), (8, 28));
    assert_eq!(rejected.bytes[28..28 + 148], [0xcd; 148]);
    assert_eq!(rejected.bytes[284], 148);
    let id = resolved(&mut client, TCP);
    assert_eq!(
        connect(&mut client, id, 57),
        Err(EINVAL),
        "too much private data"
    );
    connect(&mut client, id, 56).unwrap();
}

#[test]
fn datagrams() {
    let (mut server, mut client) = pair();
    listen(&mut server, UDP);
    ask(&mut client, &mut server, UDP, 180);
    let request = next(&mut server).unwrap();
    assert_eq!(request.event, 4);
    // Private data is behind the address handle.
    assert_eq!(request.bytes[20 + 8 + 32..][..180], [0xab; 180]);
    assert_eq!(request.bytes[20 + 8 + 32 + 256], 180);
    accept(&mut server, request.id, 136).unwrap();
    client.exchange(&mut server);
    let established = next(&mut client).unwrap();
    let input = Input(&established.bytes);
    assert_eq!((established.event, established.status), (9, 0));
    assert_eq!((input.u32(20), input.u32(24)), (0x5678, 0x0123_4567));
    assert_eq!(established.bytes[28..44], roce::wire::gid_of(SERVER));
    assert_eq!(established.bytes[48], 1, "the index of the source GID");
}

#[test]
fn a_full_backlog_drops_requests() {
    let (mut server, mut client) = pair();
    let id = create(&mut server, 1, TCP, SERVER_UID);
    bind(&mut server, id, SERVER, PORT).unwrap();
    server.call(1, Command::Listen, &two(id, 1), 0).unwrap();
    for _ in 0..2 {
        let id = resolved(&mut client, TCP);
        connect(&mut client, id, 0).unwrap();
    }
    client.exchange(&mut server);
    assert_eq!(kinds(&mut server), [4]);
    // There is room now, and the request is retransmitted.
    client.now = roce::engine::Time(300_000_000);
    client.manager.handle_timeouts(client.now);
    client.exchange(&mut server);
    assert_eq!(kinds(&mut server), [4]);
}

#[test]
fn port_numbers() {
    const EADDRINUSE: Errno = Errno(libc::EADDRINUSE);
    const EADDRNOTAVAIL: Errno = Errno(libc::EADDRNOTAVAIL);
    let ports = Default::default();
    let mut first = Process::new(1, SERVER, &ports);
    let mut second = Process::new(2, SERVER, &ports);
    let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let new = |process: &mut Process, space| create(process, 1, space, SERVER_UID);
    let a = new(&mut first, TCP);
    bind(&mut first, a, SERVER, PORT).unwrap();
    assert_eq!(
        bind(&mut first, a, SERVER, PORT),
        Err(EINVAL),
        "bound already"
    );
    // Another port space has numbers of its own.
    let b = new(&mut first, UDP);
    bind(&mut first, b, SERVER, PORT).unwrap();
    let c = new(&mut first, TCP);
    assert_eq!(bind(&mut first, c, SERVER, PORT), Err(EADDRINUSE));
    assert_eq!(bind(&mut first, c, any, PORT), Err(EADDRNOTAVAIL));
    assert_eq!(bind(&mut first, c, SERVER, 80), Err(Errno(libc::EACCES)));
    assert_eq!(bind(&mut first, c, CLIENT, PORT), Err(EADDRNOTAVAIL));
    let d = new(&mut second, TCP);
    assert_eq!(bind(&mut second, d, SERVER, PORT), Err(EADDRINUSE));
    assert_eq!(bind(&mut second, d, any, PORT), Err(EADDRNOTAVAIL));
    // It is free again when the id is destroyed, and when the process ends.
    destroy(&mut first, a).unwrap();
    bind(&mut second, d, SERVER, PORT).unwrap();
    drop(second);
    bind(&mut first, c, SERVER, PORT).unwrap();
    // Chosen numbers: four in all.
    for _ in 0..4 {
        let id = new(&mut first, TCP);
        bind(&mut first, id, SERVER, 0).unwrap();
    }
    let id = new(&mut first, TCP);
    assert_eq!(bind(&mut first, id, SERVER, 0), Err(EADDRNOTAVAIL));
}

#[test]
fn wrong_commands() {
    let (mut process, _) = pair();
    let id = create(&mut process, 1, TCP, CLIENT_UID);
    let other = create(&mut process, 2, TCP, CLIENT_UID);
    let destroy = |id| [vec![0; 8], two(id, 0)].concat();
    let mut call = |command, input: &[u8], out_len| process.call(1, command, input, out_len);
    assert_eq!(
        call(Command::DestroyId, &destroy(99), 4),
        Err(Errno(libc::ENOENT))
    );
    assert_eq!(call(Command::DestroyId, &destroy(other), 4), Err(EINVAL));
    assert_eq!(
        call(Command::DestroyId, &destroy(id), 3),
        Err(Errno(libc::ENOSPC))
    );
    assert_eq!(
        call(Command::CreateId, &[0; 24], 4),
        Err(EINVAL),
        "port space 0"
    );
    assert_eq!(
        call(Command::GetEvent, &[0; 8], 323),
        Err(Errno(libc::ENOSPC))
    );
    assert_eq!(call(Command::GetEvent, &[0; 8], 324), Err(EAGAIN));
    assert_eq!(call(Command::ResolveRoute, &two(id, 0), 0), Err(EINVAL));
    assert_eq!(call(Command::Disconnect, &id.to_ne_bytes(), 0), Err(EINVAL));
    assert_eq!(call(Command::Notify, &two(id, 4), 0), Err(EINVAL));
    let unreachable = resolve(&mut process, id, CLIENT, 0);
    unreachable.unwrap();
    assert_eq!(connect(&mut process, id, 0), Err(EINVAL), "no route yet");
    assert_eq!(resolve(&mut process, id, CLIENT, 0), Err(EINVAL), "again");
}

#[test]
fn an_id_moves_with_its_events() {
    let (mut process, _) = pair();
    let id = create(&mut process, 1, TCP, CLIENT_UID);
    resolve(&mut process, id, CLIENT, PORT).unwrap();
    assert!(process.manager.os().readable[&1]);
    let input = [vec![0; 8], two(id, 3)].concat();
    let reported = process.call(2, Command::MigrateId, &input, 4).unwrap();
    assert_eq!(reported, [0; 4]);
    assert!(!process.manager.os().readable[&1] && process.manager.os().readable[&2]);
    assert_eq!(next(&mut process), Err(EAGAIN));
    let event = process.call(2, Command::GetEvent, &[0; 8], EVENT_LEN);
    assert_eq!(Input(&event.unwrap()).u64(0), CLIENT_UID);
}

#[test]
fn multicast() {
    let (mut process, _) = pair();
    let id = create(&mut process, 1, UDP, CLIENT_UID);
    bind(&mut process, id, SERVER, 0).unwrap();
    let join = |flags: u8, group| {
        let mut input = vec![0; 8];
        input.extend(0x4444_u64.to_ne_bytes());
        input.extend(id.to_ne_bytes());
        input.extend([16, 0, flags, 0]);
        input.extend(sockaddr(group, 0));
        padded(input, 152)
    };
    let group = IpAddr::V4(Ipv4Addr::new(239, 1, 2, 3));
    let mut call = |command, input: &[u8]| process.call(1, command, input, 4);
    assert_eq!(call(Command::JoinMcast, &join(2, group)), Err(EINVAL));
    assert_eq!(call(Command::JoinMcast, &join(0, SERVER)), Err(EINVAL));
    let joined = call(Command::JoinMcast, &join(0, group)).unwrap();
    let joined = u32::from_ne_bytes(joined.try_into().unwrap());
    let event = next(&mut process).unwrap();
    assert_eq!((event.uid, event.id, event.event), (0x4444, joined, 12));
    assert_eq!(Input(&event.bytes).u32(20), 0xff_ffff);
    assert_eq!(event.bytes[28..44], roce::wire::gid_of(group));
    let leave = [vec![0; 8], two(joined, 0)].concat();
    let reported = process.call(1, Command::LeaveMcast, &leave, 4).unwrap();
    assert_eq!(reported, 1_u32.to_ne_bytes());
    let again = process.call(1, Command::LeaveMcast, &leave, 4);
    assert_eq!(again, Err(Errno(libc::ENOENT)));
}

#[test]
fn a_removed_device() {
    let (mut server, mut client) = pair();
    listen(&mut server, TCP);
    let id = resolved(&mut client, TCP);
    connect(&mut client, id, 0).unwrap();
    client.manager.address_changed(0);
    client.manager.device_removed(0, client.now);
    assert_eq!(kinds(&mut client), [14, 11]);
    assert_eq!(connect(&mut client, id, 0), Err(Errno(libc::EIO)));
    destroy(&mut client, id).unwrap();
}

#[test]
fn nobody_replies_to_arp() {
    let mut client = Process::new(2, CLIENT, &Default::default());
    client.manager.os().is_alone = true;
    let id = create(&mut client, 1, TCP, CLIENT_UID);
    resolve(&mut client, id, SERVER, PORT).unwrap();
    let start = client.now;
    assert!(next(&mut client).is_err());
    assert_eq!(
        resolve(&mut client, id, SERVER, PORT),
        Err(Errno(libc::EINVAL))
    );
    run_timers(&mut client);
    assert_eq!(client.now.0 - start.0, 2_000_000_000);
    let got = next(&mut client).unwrap();
    assert_eq!((got.id, got.event, got.status), (id, 1, -libc::ETIMEDOUT));
    // The program may try again; this time there is a reply.
    resolve(&mut client, id, SERVER, PORT).unwrap();
    client.manager.os().is_alone = false;
    run_timers(&mut client);
    let got = next(&mut client).unwrap();
    assert_eq!((got.id, got.event, got.status), (id, 0, 0));
    assert_eq!(client.manager.deadline(), None);
}

#[test]
fn events_that_the_program_writes() {
    let (mut process, _) = pair();
    let id = create(&mut process, 1, TCP, CLIENT_UID);
    let command = |id: u32, event: u32| {
        let mut input = two(id, 0);
        input.extend(two(event, 5));
        input.extend(0x1234_5678_9abc_def0_u64.to_ne_bytes());
        padded(input, 320)
    };
    let mut write = |file, id, event| {
        let written = process.call(file, Command::WriteCmEvent, &command(id, event), 0);
        written.map(|_| next(&mut process).unwrap())
    };
    for kind in [18, 19] {
        let event = write(1, id, kind).unwrap();
        assert_eq!((event.uid, event.id, event.event), (CLIENT_UID, id, kind));
        assert_eq!(Input(&event.bytes).u32(16), 5);
        assert_eq!(Input(&event.bytes).u64(20), 0x1234_5678_9abc_def0);
    }
    for kind in [0, 4, 17, 20] {
        assert_eq!(write(1, id, kind).err(), Some(EINVAL));
    }
    assert_eq!(write(1, id + 1, 18).err(), Some(Errno(libc::ENOENT)));
    assert_eq!(write(2, id, 18).err(), Some(EINVAL));
}

#[test]
fn services_of_infiniband_are_not_resolved() {
    let (mut process, _) = pair();
    let id = create(&mut process, 1, TCP, CLIENT_UID);
    let command = padded(two(id, 0), 88);
    let call = |process: &mut Process| process.call(1, Command::ResolveIbService, &command, 0);
    assert_eq!(call(&mut process), Err(EINVAL));
    resolve(&mut process, id, CLIENT, PORT).unwrap();
    assert_eq!(next(&mut process).unwrap().event, 0);
    assert_eq!(call(&mut process), Err(Errno(libc::EOPNOTSUPP)));
}

/// The kernel takes every ACK timeout. It is the queue pair that refuses one.
#[test]
fn an_ack_timeout_may_be_too_large() {
    let (mut process, _) = pair();
    for (space, expected) in [(TCP, Ok(vec![])), (UDP, Err(EINVAL))] {
        let id = create(&mut process, 1, space, CLIENT_UID);
        let mut option = vec![0; 8];
        option.extend([id, 0, 3, 1].map(u32::to_ne_bytes).concat());
        let set = process.call_with_option(1, Command::SetOption, &option, 0, &[255]);
        assert_eq!(set, expected);
    }
}

/// However many ids wait for a neighbour, the kernel is asked once at a time.
#[test]
fn ids_wait_together_for_a_neighbour() {
    let mut client = Process::new(2, CLIENT, &Default::default());
    client.manager.os().is_alone = true;
    let mut ids = Vec::new();
    // The port numbers make no difference.
    for port in [PORT, PORT + 1, PORT + 2] {
        let id = create(&mut client, 1, TCP, CLIENT_UID);
        resolve(&mut client, id, SERVER, port).unwrap();
        ids.push(id);
    }
    assert_eq!(client.manager.os().asked, 1);
    destroy(&mut client, ids[1]).unwrap();
    client.manager.os().is_alone = false;
    run_timers(&mut client);
    assert_eq!(client.manager.os().asked, 2);
    for id in [ids[0], ids[2]] {
        let got = next(&mut client).unwrap();
        assert_eq!((got.id, got.event, got.status), (id, 0, 0));
    }
    assert!(next(&mut client).is_err());
}

fn run_timers(process: &mut Process) {
    while let Some(deadline) = process.manager.deadline() {
        process.now = process.now.max(deadline);
        process.manager.handle_timeouts(process.now);
    }
}

/// A link-local address is on the interface of its route, if the program names none.
#[test]
fn a_link_local_address_needs_no_interface() {
    let own: IpAddr = "fe80::1".parse().unwrap();
    for (ip, scope) in [("fe80::2", 0_u8), ("fe80::2", 2), ("fe80::1", 0)] {
        let mut process = Process::new(1, own, &Default::default());
        let id = create(&mut process, 1, TCP, CLIENT_UID);
        let IpAddr::V6(to) = ip.parse().unwrap() else {
            unreachable!()
        };
        let address = [
            &[10, 0, 0x1c, 0x06, 0, 0, 0, 0][..],
            &to.octets(),
            &[scope, 0, 0, 0],
        ];
        let mut input = two(id, 2000);
        input.extend([0, 0, 28, 0, 0, 0, 0, 0]);
        input = padded(input, 16 + 128);
        input.extend(address.concat());
        let resolving = process.call(1, Command::ResolveAddr, &padded(input, 272), 0);
        assert!(resolving.is_ok(), "{ip}%{scope}: {resolving:?}");
        assert_eq!(kinds(&mut process), [0], "{ip}%{scope}");
    }
}
