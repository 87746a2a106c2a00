//! Listeners of this host that a client has missed: for IBV_EXPLAIN, when nobody listens at its destination.
//!
//! Each listener has a name that the kernel lists with the unix sockets of the network namespace, whosever
//! process it is (see `names.rs`).

use std::net::SocketAddr;

use ibverbs_abi::CmListener;
use ibverbs_os::unix;

use super::id::space;
use super::names;
use super::os::Port;
use super::state;
use roce::wire::gid_of;

/// __SO_ACCEPTCON of the kernel, as /proc/net/unix shows the flags of a socket that listens.
const LISTENS: &str = "00010000";

/// A program of this host that listens at the destination of an id but for the order of the port's bytes, or
/// in another port space.
pub fn listener_alike(id: u32) -> Option<CmListener> {
    let (space, to) = state::destination(id)?;
    let sockets = unix::table().ok()?;
    find(&sockets, space, to)
}

fn find(sockets: &str, own: u16, to: SocketAddr) -> Option<CmListener> {
    let number = to.port();
    let listens = |port: Port| is_listening(sockets, &names::of_port(port, &gid_of(to.ip())));
    let spaces = [own, space::TCP, space::UDP];
    let ports = spaces
        .into_iter()
        .flat_map(|space| [number, number.swap_bytes()].map(|number| Port { space, number }));
    let mut others = ports.filter(|port| (port.space, port.number) != (own, number));
    let found = others.find(|port| listens(*port))?;
    Some(CmListener {
        wanted: number,
        listens: found.number,
        in_udp: (found.space != own).then_some(found.space == space::UDP),
    })
}

/// Whether the socket of a name listens.
fn is_listening(sockets: &str, name: &str) -> bool {
    sockets.lines().any(|line| {
        let mut words = line.split_whitespace();
        let flags = words.nth(3);
        flags == Some(LISTENS) && words.nth(3).and_then(|path| path.strip_prefix('@')) == Some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of /proc/net/unix about a port at 127.0.0.1.
    fn line(space: u16, number: u16, flags: &str) -> String {
        let gid = gid_of([127, 0, 0, 1].into());
        let name = names::of_port(Port { space, number }, &gid);
        format!("00000000dc062bf2: 00000003 00000000 {flags} 0005 01 61995758 @{name}\n")
    }

    fn found(sockets: &str, port: u16) -> Option<(u16, Option<bool>)> {
        let to = SocketAddr::from(([127, 0, 0, 1], port));
        find(sockets, space::TCP, to).map(|of| (of.listens, of.in_udp))
    }

    #[test]
    fn a_port_whose_bytes_are_reversed() {
        let sockets = line(space::TCP, 0x3412, LISTENS);
        assert_eq!(found(&sockets, 0x1234), Some((0x3412, None)));
        assert_eq!(found(&sockets, 0x1235), None);
        assert_eq!(found(&sockets, 0x3412), None, "that is the port itself");
        let bound = line(space::TCP, 0x3412, "00000000");
        assert_eq!(found(&bound, 0x1234), None, "it does not listen");
    }

    #[test]
    fn a_port_in_another_space() {
        let sockets = line(space::UDP, 80, LISTENS);
        assert_eq!(found(&sockets, 80), Some((80, Some(true))));
        let to = SocketAddr::from(([127, 0, 0, 1], 80));
        let tcp = line(space::TCP, 80, LISTENS);
        let from_udp = find(&tcp, space::UDP, to).unwrap();
        assert_eq!(from_udp.in_udp, Some(false));
        let elsewhere = SocketAddr::from(([127, 0, 0, 2], 80));
        assert!(find(&tcp, space::UDP, elsewhere).is_none());
    }
}
