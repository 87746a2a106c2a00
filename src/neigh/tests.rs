//! The resolver on real interfaces: two network namespaces, connected by a veth pair. Needs root.

use super::*;
use std::net::{IpAddr, Ipv6Addr};
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

fn gid(text: &str) -> [u8; 16] {
    match text.parse().unwrap() {
        IpAddr::V4(v4) if v4.is_multicast() => {
            let [a, b, c, d] = v4.octets();
            [0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]
        }
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => Ipv6Addr::octets(&v6),
    }
}

/// Runs commands of ip(8) in this thread's network namespace.
fn ip(commands: &str) {
    for command in commands
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let needed = command.trim_start_matches('?');
        let output = Command::new("ip")
            .args(needed.split_whitespace())
            .output()
            .unwrap();
        assert!(
            output.status.success() || needed != command,
            "ip {command}: {output:?}"
        );
    }
}

/// Moves this thread to a network namespace of its own. False when it may not.
fn unshare() -> bool {
    // SAFETY: the thread gets another network namespace and nothing else changes.
    unsafe { libc::unshare(libc::CLONE_NEWNET) == 0 }
}

/// Runs `test` in a namespace whose `veth0` (02:…:01, 10.77.0.1/24, fd77::1/64) is connected to another
/// namespace's (02:…:02, 10.77.0.2, fd77::2). Where the kernel has VLANs, VLAN 100 is on top (10.78.0.1 and
/// .2): a command that begins with `?` may fail.
fn connected(test: impl FnOnce() + Send + 'static) {
    let (peer_ready, peer_ids) = mpsc::channel();
    let (done, wait) = mpsc::channel::<()>();
    let peer = std::thread::spawn(move || {
        if !unshare() {
            return;
        }
        // SAFETY: gettid cannot fail.
        peer_ready.send(unsafe { libc::gettid() }).unwrap();
        let _ = wait.recv();
        ip("link set veth1 up
            addr add 10.77.0.2/24 dev veth1
            -6 addr add fd77::2/64 dev veth1 nodad
            ?link add link veth1 name veth1.100 type vlan id 100
            ?link set veth1.100 up
            ?addr add 10.78.0.2/24 dev veth1.100");
        let _ = wait.recv();
    });
    let Ok(peer_id) = peer_ids.recv() else {
        peer.join().unwrap();
        eprintln!("skipped: network namespaces need root");
        return;
    };
    let test = std::thread::spawn(move || {
        assert!(unshare());
        ip(&format!(
            "link set lo up
             link add veth0 address 02:00:00:00:00:01 type veth peer name veth1 address 02:00:00:00:00:02
             link set veth1 netns {peer_id}
             link set veth0 up
             addr add 10.77.0.1/24 dev veth0
             -6 addr add fd77::1/64 dev veth0 nodad
             ?link add link veth0 name veth0.100 type vlan id 100
             ?link set veth0.100 up
             ?addr add 10.78.0.1/24 dev veth0.100"
        ));
        done.send(()).unwrap();
        // Wait for the carrier, which comes once both ends are up.
        while !std::fs::read_to_string("/proc/thread-self/net/if_inet6")
            .unwrap()
            .contains("fe80")
        {
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(100));
        test();
        drop(done);
    });
    test.join().unwrap();
    peer.join().unwrap();
}

fn resolve(sgid: &str, dgid: &str) -> Result<Vec<u8>, c_int> {
    let mut resolver = Resolver::new().unwrap();
    match resolver.resolve(gid(sgid), gid(dgid)) {
        Ok(found) => Ok(found.address.bytes().to_vec()),
        Err(failure) => Err(failure.code),
    }
}

const HERE: [u8; 6] = [2, 0, 0, 0, 0, 1];
const THERE: [u8; 6] = [2, 0, 0, 0, 0, 2];

#[test]
fn neighbours_are_found() {
    connected(|| {
        for (from, to) in [("10.77.0.1", "10.77.0.2"), ("fd77::1", "fd77::2")] {
            // First the kernel resolves the neighbour, then it has an entry.
            assert_eq!(resolve(from, to), Ok(THERE.to_vec()), "{to}");
            assert_eq!(resolve(from, to), Ok(THERE.to_vec()), "{to}");
            let mut rtnl = RtnlClient::open().unwrap();
            let interface = rtnl.interface_of(from.parse().unwrap()).unwrap();
            let hop = to.parse().unwrap();
            let listed = rtnl.neighbour_by_dump(hop, interface);
            assert_eq!(listed.unwrap().bytes(), THERE);
            assert_eq!(rtnl.neighbour(hop, interface), listed);
            assert_eq!(rtnl.neighbour(hop, interface + 1), None);
        }
    });
}

#[test]
fn destinations_behind_a_router() {
    connected(|| {
        ip("route add 192.0.2.0/24 via 10.77.0.2
            -6 route add 2001:db8::/64 via fd77::2
            -6 route add 2001:db8:1::/64 via fe80::ff:fe00:2 dev veth0
            route add blackhole 198.51.100.0/24
            route add unreachable 203.0.113.0/24");
        assert_eq!(resolve("10.77.0.1", "192.0.2.9"), Ok(THERE.to_vec()));
        assert_eq!(resolve("fd77::1", "2001:db8::9"), Ok(THERE.to_vec()));
        assert_eq!(resolve("fd77::1", "2001:db8:1::9"), Ok(THERE.to_vec()));
    });
}

#[test]
fn own_addresses_resolve_to_the_own_interface() {
    connected(|| {
        for address in ["10.77.0.1", "fd77::1"] {
            assert_eq!(resolve(address, address), Ok(HERE.to_vec()));
        }
        assert_eq!(resolve("127.0.0.1", "127.0.0.1"), Ok(vec![0; 6]));
        // Another interface's address is no neighbour on this interface.
        assert_eq!(resolve("10.77.0.1", "127.0.0.1"), Err(-EHOSTUNREACH));
    });
}

#[test]
fn groups_and_link_local_addresses_need_no_neighbour() {
    connected(|| {
        assert_eq!(
            resolve("10.77.0.1", "224.0.0.5"),
            Ok(vec![1, 0, 0x5e, 0, 0, 5])
        );
        assert_eq!(
            resolve("10.77.0.1", "239.129.2.3"),
            Ok(vec![1, 0, 0x5e, 1, 2, 3])
        );
        assert_eq!(
            resolve("fd77::1", "ff0e::1:2"),
            Ok(vec![0x33, 0x33, 0, 1, 0, 2])
        );
        let own = resolve("fe80::ff:fe00:1", "fe80::a8bb:ccff:fedd:eeff");
        assert_eq!(own, Ok(vec![0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff]));
    });
}

#[test]
fn vlans() {
    connected(|| {
        let mut resolver = Resolver::new().unwrap();
        let plain = resolver
            .resolve(gid("10.77.0.1"), gid("10.77.0.2"))
            .unwrap();
        assert_eq!(resolver.vlan(plain.interface), None);
        assert_eq!(resolver.vlan(9999), None);
        if !Command::new("ip")
            .args(["link", "show", "veth0.100"])
            .output()
            .unwrap()
            .status
            .success()
        {
            eprintln!("skipped: this kernel has no VLAN devices");
            return;
        }
        let tagged = resolver
            .resolve(gid("10.78.0.1"), gid("10.78.0.2"))
            .unwrap();
        assert_eq!(tagged.address.bytes(), THERE);
        assert_eq!(resolver.vlan(tagged.interface), Some(100));
    });
}

#[test]
fn a_neighbour_that_does_not_reply() {
    connected(|| {
        let start = Instant::now();
        assert_eq!(resolve("10.77.0.1", "10.77.0.77"), Err(-EHOSTUNREACH));
        // At least as long as the C library waits; how much longer depends on the machine.
        let took = start.elapsed().as_millis();
        assert!(took >= 2900, "{took} ms");
    });
}

#[test]
fn no_route() {
    connected(|| {
        assert_eq!(
            resolve("10.99.0.1", "10.77.0.2"),
            Err(-EINVAL),
            "no interface has the source address"
        );
        assert_eq!(resolve("::", "10.77.0.2"), Err(-EINVAL));
        assert_eq!(
            resolve("10.77.0.1", "10.77.0.255"),
            Err(-EHOSTUNREACH),
            "broadcast"
        );
        assert_eq!(
            resolve("fd77::1", "10.77.0.99"),
            Err(-EHOSTUNREACH),
            "the other family"
        );
        ip("route add blackhole 198.51.100.0/24
            route add unreachable 203.0.113.0/24");
        assert_eq!(resolve("10.77.0.1", "198.51.100.1"), Err(-EHOSTUNREACH));
        assert_eq!(resolve("10.77.0.1", "203.0.113.1"), Err(-EHOSTUNREACH));
    });
}

/// An entry in state NUD_FAILED is resolved again.
#[test]
fn a_neighbour_that_fails_and_returns() {
    connected(|| {
        ip("neigh add 10.77.0.2 dev veth0 nud failed");
        assert_eq!(resolve("10.77.0.1", "10.77.0.2"), Ok(THERE.to_vec()));
        ip("neigh replace 10.77.0.2 dev veth0 lladdr 02:00:00:00:00:09 nud permanent");
        assert_eq!(
            resolve("10.77.0.1", "10.77.0.2"),
            Ok(vec![2, 0, 0, 0, 0, 9])
        );
    });
}
