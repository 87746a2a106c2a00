//! A process with a device of uroce at 10.0.0.1, on a host whose kernel has one at 10.0.1.1.

use std::net::{IpAddr, Ipv4Addr};

use super::super::fake::Process;
use super::super::id::qp_type;
use super::super::id_table::IdTable;
use super::super::tests::*;
use super::*;

const IN_KERNEL: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1));
const KERNELS_PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 1, 2));
const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// The process, a peer of its device, and a peer of the kernel's.
fn hosts() -> (Process, Process, Process) {
    let mut own = Process::new(1, SERVER, &Default::default());
    let kernel = Process::new(2, IN_KERNEL, &Default::default());
    own.manager.os().kernel = Some(Box::new(kernel));
    let peer = Process::new(3, CLIENT, &Default::default());
    let other = Process::new(4, KERNELS_PEER, &Default::default());
    (own, peer, other)
}

fn kernel(own: &mut Process) -> &mut Process {
    own.manager.os().kernel.as_mut().unwrap()
}

/// Exchanges messages with the kernel's peer, and gets the events.
fn exchange(own: &mut Process, peer: &mut Process) {
    peer.exchange(kernel(own));
    own.manager.take_kernel_events(1);
}

fn listen_at(process: &mut Process, ip: IpAddr, port: u16) -> u32 {
    let id = create(process, 1, TCP, SERVER_UID);
    bind(process, id, ip, port).unwrap();
    process.call(1, Command::Listen, &two(id, 0), 0).unwrap();
    id
}

fn connect_to(client: &mut Process, ip: IpAddr, port: u16) -> u32 {
    let id = create(client, 1, TCP, CLIENT_UID);
    resolve(client, id, ip, port).unwrap();
    client.manager.take_kernel_events(1);
    let timeout = two(id, 2000);
    client.call(1, Command::ResolveRoute, &timeout, 0).unwrap();
    client.manager.take_kernel_events(1);
    assert_eq!(kinds(client), [0, 2]);
    connect(client, id, 0).unwrap();
    id
}

fn kernel_ids(own: &mut Process) -> usize {
    kernel(own).manager.ids.iter().count()
}

#[test]
fn a_wildcard_address_listens_at_the_devices_of_both() {
    let (mut own, mut peer, mut other) = hosts();
    let listening = listen_at(&mut own, ANY, PORT);
    connect_to(&mut peer, SERVER, PORT);
    peer.exchange(&mut own);
    let request = next(&mut own).unwrap();
    assert_eq!((request.uid, request.event), (SERVER_UID, 4));
    accept(&mut own, request.id, 0).unwrap();

    connect_to(&mut other, IN_KERNEL, PORT);
    exchange(&mut own, &mut other);
    let second = next(&mut own).unwrap();
    assert_eq!((second.uid, second.event), (SERVER_UID, 4));
    assert!(![listening, request.id].contains(&second.id));
    init_qp_attr(&mut own, second.id, 1).unwrap();
    accept(&mut own, second.id, 0).unwrap();
    exchange(&mut own, &mut other);
    let response = next(&mut other).unwrap();
    assert_eq!(response.event, 5);
    let mut confirm = vec![0; 296];
    confirm[280..284].copy_from_slice(&response.id.to_ne_bytes());
    other.call(1, Command::Accept, &confirm, 0).unwrap();
    exchange(&mut own, &mut other);
    let established = next(&mut own).unwrap();
    let got = (established.uid, established.id, established.event);
    assert_eq!(got, (CHILD_UID, second.id, 9));

    assert_eq!(
        destroy(&mut own, second.id),
        Ok(1_u32.to_ne_bytes().to_vec())
    );
    assert_eq!(
        destroy(&mut own, listening),
        Ok(2_u32.to_ne_bytes().to_vec())
    );
    assert_eq!(kernel_ids(&mut own), 0);
}

#[test]
fn an_id_that_cannot_listen_listens_on_neither_side() {
    let (mut own, mut peer, mut other) = hosts();
    let id = create(&mut own, 1, TCP, SERVER_UID);
    bind(&mut own, id, ANY, PORT).unwrap();
    let error = Errno(libc::ENOSPC);
    own.manager.os().listen_error = Some(error);
    for _ in 0..2 {
        let listened = own.call(1, Command::Listen, &two(id, 0), 0);
        assert_eq!(listened, Err(error));
    }
    connect_to(&mut peer, SERVER, PORT);
    peer.exchange(&mut own);
    connect_to(&mut other, IN_KERNEL, PORT);
    exchange(&mut own, &mut other);
    assert_eq!([&mut peer, &mut other].map(kinds), [[8], [8]]);
    own.manager.os().listen_error = None;
    own.call(1, Command::Listen, &two(id, 0), 0).unwrap();
    connect_to(&mut other, IN_KERNEL, PORT);
    exchange(&mut own, &mut other);
    assert_eq!(kinds(&mut own), [4]);
}

#[test]
fn the_route_decides_whose_device_an_id_uses() {
    let (mut own, mut peer, mut other) = hosts();
    listen_at(&mut peer, CLIENT, PORT);
    listen_at(&mut other, KERNELS_PEER, PORT);
    connect_to(&mut own, CLIENT, PORT);
    own.exchange(&mut peer);
    assert_eq!(next(&mut peer).unwrap().event, 4);
    assert_eq!(kernel_ids(&mut own), 0);

    let id = connect_to(&mut own, KERNELS_PEER, PORT);
    exchange(&mut own, &mut other);
    let request = next(&mut other).unwrap();
    assert_eq!(request.event, 4);
    accept(&mut other, request.id, 0).unwrap();
    exchange(&mut own, &mut other);
    let response = next(&mut own).unwrap();
    let got = (response.uid, response.id, response.event);
    assert_eq!(got, (CLIENT_UID, id, 5));
    // The program's response is the kernel's.
    let query = [vec![0; 8], two(id, 0)].concat();
    let route = own.call(1, Command::QueryRoute, &query, 200).unwrap();
    let source = Address::parse(&route[136..]).unwrap();
    assert_eq!(source.ip().unwrap().ip(), IN_KERNEL);
}

#[test]
fn an_id_with_a_wildcard_address_goes_where_it_connects_to() {
    let (mut own, _, _) = hosts();
    for (ip, left) in [(KERNELS_PEER, 1), (CLIENT, 0)] {
        let id = create(&mut own, 1, TCP, CLIENT_UID);
        bind(&mut own, id, ANY, PORT).unwrap();
        assert_eq!(kernel_ids(&mut own), 1);
        resolve(&mut own, id, ip, PORT).unwrap();
        own.manager.take_kernel_events(1);
        assert_eq!(kinds(&mut own), [0]);
        assert_eq!(kernel_ids(&mut own), left);
        destroy(&mut own, id).unwrap();
        assert_eq!(kernel_ids(&mut own), 0);
        // The port is free again on both sides.
    }
}

#[test]
fn addresses_belong_to_whom_has_them() {
    let (mut own, _, _) = hosts();
    let id = create(&mut own, 1, TCP, SERVER_UID);
    bind(&mut own, id, IN_KERNEL, PORT).unwrap();
    // The port is taken there only.
    let second = create(&mut own, 1, TCP, SERVER_UID);
    bind(&mut own, second, SERVER, PORT).unwrap();
    let third = create(&mut own, 1, TCP, SERVER_UID);
    let taken = Errno(libc::EADDRINUSE);
    assert_eq!(bind(&mut own, third, IN_KERNEL, PORT), Err(taken));
    // Neither side has this one.
    let stranger = Ipv4Addr::new(192, 0, 2, 1).into();
    assert!(bind(&mut own, third, stranger, PORT).is_err());
    assert_eq!(kernel_ids(&mut own), 1);
    // It can be bound after that.
    bind(&mut own, third, IN_KERNEL, PORT + 1).unwrap();
    own.manager.close(1, own.now);
    assert_eq!(kernel_ids(&mut own), 0);
}

#[test]
fn a_port_of_the_kernels_choice_is_free_on_both_sides() {
    let (mut own, _, _) = hosts();
    // The fake operating system chooses among four.
    for _ in 0..4 {
        let id = create(&mut own, 1, TCP, SERVER_UID);
        bind(&mut own, id, ANY, 0).unwrap();
    }
    let ports: std::collections::BTreeSet<_> =
        own.manager.ids.ports().map(|port| port.number).collect();
    assert_eq!(
        ports.into_iter().collect::<Vec<_>>(),
        [40_000, 40_001, 40_002, 40_003]
    );
}

#[test]
fn more_requests_than_the_backlog_are_rejected() {
    let (mut own, _, mut other) = hosts();
    let id = create(&mut own, 1, TCP, SERVER_UID);
    bind(&mut own, id, IN_KERNEL, PORT).unwrap();
    own.call(1, Command::Listen, &two(id, 1), 0).unwrap();
    for _ in 0..2 {
        connect_to(&mut other, IN_KERNEL, PORT);
        exchange(&mut own, &mut other);
    }
    assert_eq!(kinds(&mut own), [4]);
    // The rejection.
    exchange(&mut own, &mut other);
    assert_eq!(kinds(&mut other), [8]);
}

#[test]
fn options_reach_the_kernel() {
    let (mut own, _, _) = hosts();
    let id = create(&mut own, 1, TCP, SERVER_UID);
    // RDMA_OPTION_ID_REUSEADDR.
    let input = [vec![0; 8], two(id, 0), two(1, 4)].concat();
    own.call(1, Command::SetOption, &input, 0).unwrap();
    bind(&mut own, id, IN_KERNEL, PORT).unwrap();
    let (_, counterpart) = kernel(&mut own).manager.ids.iter().next().unwrap();
    assert!(counterpart.reuse_address);
}

#[test]
fn migration_moves_the_kernels_id() {
    let (mut own, _, mut other) = hosts();
    let listening = listen_at(&mut own, IN_KERNEL, PORT);
    connect_to(&mut other, IN_KERNEL, PORT);
    exchange(&mut own, &mut other);
    // To the descriptor 2, with an event that is not read.
    let input = [vec![0; 8], two(listening, 0)].concat();
    own.call(2, Command::MigrateId, &input, 4).unwrap();
    let files = kernel(&mut own).manager.ids.iter().map(|(_, id)| id.file);
    assert_eq!(files.collect::<Vec<_>>(), [2, 2]);
    assert!(next(&mut own).is_err());
    let event = own.call(2, Command::GetEvent, &[0; 8], EVENT_LEN).unwrap();
    assert_eq!(Input(&event).u32(12), 4);
}

/// JOIN_MCAST of an id, with the uid 0x77.
fn membership(id: u32) -> Vec<u8> {
    let group = Ipv4Addr::new(239, 1, 2, 3).into();
    let mut input = [vec![0; 8], 0x77_u64.to_ne_bytes().to_vec()].concat();
    input.extend(two(id, 16));
    input.extend(sockaddr(group, 0));
    padded(input, 152)
}

#[test]
fn memberships_are_the_kernels() {
    let (mut own, _, _) = hosts();
    let id = create(&mut own, 1, UDP, SERVER_UID);
    bind(&mut own, id, IN_KERNEL, PORT).unwrap();
    let joined = own.call(1, Command::JoinMcast, &membership(id), 4).unwrap();
    own.manager.take_kernel_events(1);
    let event = next(&mut own).unwrap();
    assert_eq!((event.uid, event.event), (0x77, 12));
    assert_eq!(event.id.to_ne_bytes().as_slice(), joined);
    let leave = [vec![0; 8], two(event.id, 0)].concat();
    let reported = own.call(1, Command::LeaveMcast, &leave, 4).unwrap();
    assert_eq!(reported, 1_u32.to_ne_bytes());
    assert_eq!(kernel(&mut own).manager.memberships.count(), 0);
}

/// The program has passed an address for the response that cannot be written.
#[test]
fn a_membership_that_the_program_does_not_get_to_know_is_ended() {
    let (mut own, _, _) = hosts();
    let id = create(&mut own, 1, UDP, SERVER_UID);
    bind(&mut own, id, IN_KERNEL, PORT).unwrap();
    let efault = Errno(libc::EFAULT);
    let input = membership(id);
    let mut caller = Caller {
        out_len: 4,
        respond: &mut |_| Err(efault),
        option: &[],
        other_file: Ok(1),
    };
    let now = own.now;
    let joined = own
        .manager
        .execute(1, Command::JoinMcast, Input(&input), &mut caller, now);
    assert_eq!(joined, Err(efault.into()));
    assert_eq!(kernel(&mut own).manager.memberships.count(), 0);
    assert_eq!(own.manager.memberships.count(), 0);
    own.manager.take_kernel_events(1);
    assert!(next(&mut own).is_err(), "an event of the membership");
}

/// Without a manager: the ids and the operating system are enough.
#[test]
fn an_id_moves_to_the_kernel_and_leaves_it() {
    let (mut own, ..) = hosts();
    let mut ids = IdTable::default();
    let [at_kernel, at_both] = [7, 8].map(|uid| ids.insert(Id::new(1, uid, TCP, qp_type::RC, 1)));
    let os = own.manager.os();
    let mut in_kernel = KernelIds(Binder { os, ids: &mut ids });
    let address = |ip, port| Address::Ip((ip, port).into());
    in_kernel
        .bind_anywhere(at_kernel, address(IN_KERNEL, 5000))
        .unwrap();
    in_kernel
        .bind_anywhere(at_both, address(ANY, 5001))
        .unwrap();
    in_kernel.listen(at_both, 9).unwrap();
    in_kernel.leave(at_kernel);
    let devices = |ids: &IdTable<_>, id| ids.get(id).map(|id| (id.devices, id.backlog));
    let Some((Devices::Kernel(_), 0)) = devices(in_kernel.0.ids, at_kernel) else {
        panic!("not the kernel's");
    };
    let Some((Devices::Both(_), 9)) = devices(in_kernel.0.ids, at_both) else {
        panic!("not of both");
    };
    in_kernel.leave(at_both);
    assert_eq!(devices(&ids, at_both), Some((Devices::Uroce, 9)));
    assert_eq!(kernel_ids(&mut own), 1);
}
