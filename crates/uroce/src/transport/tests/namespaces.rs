//! Devices on interfaces of network namespaces.

use std::process::Command;
use std::time::{Duration, Instant};

use super::super::*;
use super::{alone, at, datagram, exchange, path, push, receive, write};
use crate::config::Netdev;
use roce::wire::{MULTICAST_QPN, PORT, Part, gid_of, ip_of, port_of};

/// Runs commands of ip(8) in this thread's network namespace.
pub fn ip(commands: &str) {
    for command in commands.lines().map(str::trim) {
        let args = command.split_whitespace();
        let output = Command::new("ip").args(args).output().unwrap();
        assert!(output.status.success(), "ip {command}: {output:?}");
    }
}

/// Waits until the interface sends packets, which is a moment after the carrier comes up, and until its IPv6
/// addresses can be used, which is another moment later: packets to them are lost before.
pub fn await_carrier(interface: &str) {
    let show = |words: &str| {
        let words = words.split(' ').chain([interface]);
        let output = Command::new("ip").args(words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for _ in 0..1000 {
        let is_up = show("-o link show dev").contains("state UP");
        if is_up && show("-o -6 addr show tentative dev").is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{interface} does not come up");
}

/// Runs `test` in its own network namespace. An unprivileged user needs a user namespace for that, which a
/// thread cannot enter: the test then runs again in its own process.
pub fn in_namespace(test: impl FnOnce() + Send + 'static) {
    let ran = std::thread::spawn(|| {
        // SAFETY: unshare(CLONE_NEWNET) changes the network namespace of this thread only.
        let unshared = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
        if unshared {
            test();
        }
        unshared
    });
    if ran.join().unwrap() {
        return;
    }
    let unshared = |command: &[&str]| {
        let mut whole = Command::new("unshare");
        whole
            .args(["--user", "--map-root-user", "--net"])
            .args(command);
        whole.output().unwrap()
    };
    if !unshared(&["true"]).status.success() {
        eprintln!("skipped: this machine does not let unprivileged users create namespaces");
        return;
    }
    let program = std::env::current_exe().unwrap();
    let this = std::thread::current();
    let output = unshared(&[program.to_str().unwrap(), "--exact", this.name().unwrap()]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}

/// Lets the device follow its interface until `done` accepts a change. Fails after ten seconds.
fn follow(net: &Net, done: impl Fn(NetChange) -> bool) -> NetChange {
    let (mut inbox, start) = (Inbox::new(), Instant::now());
    loop {
        net.receive(&mut inbox, &mut |_, _| {});
        let change = net.changes();
        if done(change) {
            return change;
        }
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "{:?}",
            texts(net)
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits for a change and returns it.
fn changed(net: &Net) -> NetChange {
    follow(net, |change| change != NetChange::default())
}

fn texts(net: &Net) -> Vec<String> {
    let entry = |entry: Option<GidEntry>| entry.map(|entry| ip_of(&entry.gid).to_string());
    let gids = net.gids().into_iter();
    gids.map(|gid| entry(gid).unwrap_or_default()).collect()
}

#[test]
fn follows_its_interface() {
    in_namespace(|| {
        ip("link set lo up
            link add v0 address 02:00:00:00:00:01 type veth peer name v1
            -6 addr add fd77::1/64 dev v0 nodad
            addr add 10.77.0.1/24 dev v0
            addr add 10.77.0.2/24 dev v0
            link set v0 up");
        let net = at(Netdev::Interface("v0".into()));
        let default = "fe80::ff:fe00:1";
        let want = [default, "10.77.0.1", "10.77.0.2", "fd77::1"];
        // The default GID is no address of the interface yet: there is no carrier.
        assert_eq!(texts(&net), want);
        assert!(!net.port_state().active);
        assert_eq!(net.port_state().active_mtu, 1024);

        let other = at(Netdev::Interface("v0".into()));
        let gid = |index: usize| net.gids()[index].unwrap().gid;
        exchange(&net, &other, 1, gid(2), gid(1));
        exchange(&net, &other, 0, gid(0), gid(0));

        ip("link set v1 up");
        let change = changed(&net);
        assert!(change.became_active && !change.gids, "{change:?}");
        assert!(net.port_state().active);

        ip("addr del 10.77.0.1/24 dev v0");
        // With a primary address the kernel deletes its secondary addresses.
        assert!(changed(&net).gids);
        follow(&net, |_| net.gids()[1..3] == [None, None]);
        ip("addr add 10.77.0.3/24 dev v0");
        assert!(changed(&net).gids);
        assert_eq!(texts(&net), [default, "10.77.0.3", "", "fd77::1"]);
        follow(&other, |_| texts(&other) == texts(&net));
        for index in [0, 1, 3] {
            exchange(&net, &other, index as u8, gid(index), gid(index));
        }
        ip("link set v0 mtu 9000");
        follow(&net, |_| net.port_state().active_mtu == 4096);
        ip("link set v1 down");
        let change = changed(&net);
        assert!(change.became_inactive && !change.gids, "{change:?}");
        ip("link del v0");
        assert!(changed(&net).gids);
        follow(&net, |_| net.gids().iter().all(Option::is_none));
        // No GID to send from: the packet is dropped.
        let qpn = net.alloc_qpn().unwrap();
        let mut outbox = Outbox::try_new().unwrap();
        push(
            &net,
            &mut outbox,
            qpn,
            write(0, 2, Part::Only),
            8,
            path([1; 16], 1),
        );
        net.flush(&mut outbox);
    });
}

/// Devices at IPv4 addresses of one interface do not compete for its link-local address. Of those at IPv6
/// addresses the first gets it, and the others have a GID of their own at index 0.
#[test]
fn the_link_local_address_is_one_devices() {
    in_namespace(|| {
        ip("link set lo up
            link add v0 address 02:00:00:00:00:01 type veth peer name v1
            -6 addr add fe80::ff:fe00:1/64 dev v0 nodad
            -6 addr add fd77::1/64 dev v0 nodad
            -6 addr add fd77::2/64 dev v0 nodad
            addr add 10.77.0.1/24 dev v0
            addr add 10.77.0.2/24 dev v0
            link set v0 up
            link set v1 up");
        await_carrier("v0");
        let on = |ip: &str| {
            let ip = ip.parse().unwrap();
            at(Netdev::Address { ip, scope: None })
        };
        let gid = |net: &Net, index: u8| net.gids()[usize::from(index)].unwrap().gid;
        let has_primary = |net: &Net| port_of(net.alloc_qpn().unwrap()) == PORT;
        let (a, b) = (on("10.77.0.1"), on("10.77.0.2"));
        assert!(has_primary(&a) && has_primary(&b));
        for index in [0, 1] {
            exchange(&a, &b, index, gid(&b, index), gid(&a, 1));
        }
        let (first, second, again) = (on("fd77::1"), on("fd77::2"), on("fd77::2"));
        assert!(has_primary(&first) && has_primary(&second) && !has_primary(&again));
        assert_eq!(texts(&first), ["fe80::ff:fe00:1", "fd77::1"]);
        assert_eq!(texts(&second), ["fe80::2", "fd77::2"]);
        // Another process at the address has another port, which is free at the link-local address too.
        assert_eq!(texts(&again), ["fe80::ff:fe00:1", "fd77::2"]);
        exchange(&first, &again, 0, gid(&again, 0), gid(&first, 0));
        exchange(&second, &first, 1, gid(&first, 1), gid(&second, 1));
        // The GIDs stay the same when other addresses of the interface change.
        ip("addr add 10.77.0.9/24 dev v0");
        let mut inbox = Inbox::new();
        for _ in 0..20 {
            second.receive(&mut inbox, &mut |_, _| {});
            assert_eq!(second.changes(), NetChange::default());
            std::thread::sleep(Duration::from_millis(5));
        }
    });
}

#[test]
fn multicast_stays_on_its_interface() {
    in_namespace(|| {
        ip("link set lo up
            link add v0 type veth peer name v1
            link add v2 type veth peer name v3
            addr add 10.77.0.1/24 dev v0
            addr add 10.78.0.1/24 dev v2
            -6 addr add fd77::1/64 dev v0 nodad
            -6 addr add fd78::1/64 dev v2 nodad
            link set v0 up
            link set v1 up
            link set v2 up
            link set v3 up");
        await_carrier("v0");
        await_carrier("v2");
        let on = |name: &str| at(Netdev::Interface(name.into()));
        let (from, same, other) = (on("v0"), on("v0"), on("v2"));
        let groups = ["239.77.1.3", "ff0e::77:1", "ff02::77:1"];
        for (psn, group) in (0..).zip(groups) {
            let group = gid_of(group.parse().unwrap());
            for net in [&from, &same, &other] {
                net.join(&group).unwrap();
            }
            let qpn = from.alloc_qpn().unwrap();
            let mut outbox = Outbox::try_new().unwrap();
            let sgid_index = if psn == 0 { 1 } else { 2 };
            let path = path(group, sgid_index);
            let headers = datagram(psn, MULTICAST_QPN, qpn);
            push(&from, &mut outbox, qpn, headers, 8, path);
            from.flush(&mut outbox);
            for (net, count) in [(&from, 1), (&same, 1), (&other, 0)] {
                let got = receive(net, count);
                assert_eq!(got.len(), count);
                for (headers, _, addresses) in got {
                    assert_eq!(headers.bth.psn.get(), psn);
                    assert_eq!(addresses.dst, group);
                    assert_eq!(addresses.src, from.gids()[sgid_index as usize].unwrap().gid);
                }
                net.leave(&group);
            }
        }
    });
}

/// Checks the ICRC against the real IP header, which a raw socket receives, as a kernel device does.
#[test]
fn the_icrc_is_right_for_what_is_on_the_wire() {
    in_namespace(|| {
        // GSO buffers are segmented on the loopback interface, and not coalesced by GRO.
        ip("link set lo up gso_max_segs 1");
        let raw = socket2::Socket::new(
            socket2::Domain::IPV4,
            socket2::Type::RAW,
            Some(socket2::Protocol::UDP),
        )
        .unwrap();
        raw.set_recv_buffer_size(1 << 20).unwrap();
        raw.set_nonblocking(true).unwrap();
        let (a, b) = (alone(5), alone(5));
        let gid = b.gids()[1].unwrap().gid;
        exchange(&a, &b, 0, gid, gid);
        let mut ids = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        while let Ok(len) = std::io::Read::read(&mut &raw, &mut buffer) {
            let (header, udp) = buffer[..len].split_at(20);
            let [ports, datagram] = [&udp[..4], &udp[8..]];
            let flow = roce::wire::Flow {
                src: <[u8; 4]>::try_from(&header[12..16]).unwrap().into(),
                dst: <[u8; 4]>::try_from(&header[16..]).unwrap().into(),
                src_port: u16::from_be_bytes([ports[0], ports[1]]),
                dst_port: u16::from_be_bytes([ports[2], ports[3]]),
            };
            let found = flow.check(datagram).unwrap();
            assert_eq!(header[4..6], found.id.to_be_bytes());
            assert_eq!(header[6..8], [0x40, 0], "not to be fragmented");
            assert!(found.dont_fragment);
            ids.push(found.id);
        }
        assert_eq!(ids.len(), 77);
        // Identifications count up within a GSO buffer; the first buffer is a single long packet.
        assert_eq!(ids[..5], [0, 1, 0, 1, 2]);
    });
}

#[test]
fn the_default_route_decides() {
    in_namespace(|| {
        let name = || {
            let config = Config::new("uroce0", Netdev::DefaultRoute);
            Interface::find(&config).unwrap().link.name
        };
        assert_eq!(name(), "lo");
        ip("link add v0 type veth peer name v1
            link add v2 type veth peer name v3
            addr add 10.77.0.1/24 dev v0
            addr add 10.78.0.1/24 dev v2
            link set v0 up
            link set v2 up
            route add default via 10.77.0.9 metric 20");
        assert_eq!(name(), "v0");
        ip("route add default via 10.78.0.9 metric 10");
        assert_eq!(name(), "v2");
    });
}
