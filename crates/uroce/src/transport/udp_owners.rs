//! The owners of UDP ports: the user of each port at each address of this network namespace, as the
//! kernel says.

use std::net::IpAddr;

/// A UDP socket that is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortOwner {
    /// The address; unspecified for all.
    pub ip: IpAddr,
    /// The port.
    pub port: u16,
    /// The effective user ID of who has opened the socket.
    pub user: u32,
}

/// The owners of all UDP ports. Reads two files of `/proc`, which takes some milliseconds with thousands of
/// sockets. Empty if they cannot be read.
pub fn read() -> Vec<PortOwner> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let mut owners = parse(&read("/proc/net/udp"));
    owners.extend(parse(&read("/proc/net/udp6")));
    owners
}

/// Parses `/proc/net/udp` or `/proc/net/udp6`.
fn parse(sockets: &str) -> Vec<PortOwner> {
    sockets.lines().skip(1).filter_map(parse_owner).collect()
}

fn parse_owner(line: &str) -> Option<PortOwner> {
    let mut fields = line.split_whitespace().skip(1);
    let (ip, port) = fields.next()?.split_once(':')?;
    Some(PortOwner {
        ip: parse_ip(ip)?,
        port: u16::from_str_radix(port, 16).ok()?,
        // Behind the remote address, the state, queues, a timer and retransmissions.
        user: fields.nth(5)?.parse().ok()?,
    })
}

/// An address as words of 32 bits in hexadecimal, each in the byte order of the host.
fn parse_ip(hex: &str) -> Option<IpAddr> {
    let mut bytes = Vec::new();
    for word in hex.as_bytes().chunks(8) {
        let word = u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    let v4 = <[u8; 4]>::try_from(&bytes[..]).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(&bytes[..]).map(IpAddr::from))
        .ok()
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};

    use ibverbs_os::unix::own_user;

    use super::*;

    #[test]
    fn the_owner_of_a_socket() {
        let user = own_user();
        let addresses: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        for ip in addresses {
            let Ok(socket) = UdpSocket::bind((ip, 0)) else {
                assert!(ip.is_ipv6());
                continue;
            };
            let port = socket.local_addr().unwrap().port();
            assert!(read().contains(&PortOwner { ip, port, user }), "{ip}");
        }
        assert_eq!(parse("header\n1: 0100007F:12B7\n"), []);
    }
}
