//! Making the kernel find a neighbour: a packet is sent there, so that it has to ask, and its
//! neighbour table is watched for the answer.

use super::message::LinkAddress;
use super::rtnl::{Rtnl, errno};
use libc::{EADDRNOTAVAIL, EAFNOSUPPORT, EDESTADDRREQ, EINVAL, c_int};
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::time::{Duration, Instant};

/// The discard service (RFC 863).
const PORT: u16 = 9;
const PAYLOAD: &[u8] = b"H\0";
/// How often a packet is tried again while the source address is not usable yet (an IPv6 address
/// is tentative for a moment after it was given).
const SENDS: u32 = 100_000;

/// When to look and send again.
///
/// Time is cut into 11 equal parts of the 3 seconds that the whole may take. At the end of each the
/// neighbour is looked for once more (a message may have been missed), and after all but the last
/// the packet is sent again.
struct Schedule {
    ends: u32,
}

impl Schedule {
    const ENDS: u32 = 11;
    const PART: Duration = Duration::from_millis(3000 / 11);

    fn new() -> Schedule {
        Schedule { ends: 0 }
    }

    /// How long there is until the end of this part, `elapsed` after the start. Zero if it is over.
    fn rest(&self, elapsed: Duration) -> Duration {
        ((self.ends + 1) * Self::PART).saturating_sub(elapsed)
    }

    /// Ends this part. Returns whether there is another.
    fn next(&mut self) -> bool {
        self.ends += 1;
        self.ends < Self::ENDS
    }
}

/// Sends packets from `source` to a neighbour until its address is known or 3 seconds are over. The
/// error is an errno value.
pub fn provoke(
    rtnl: &mut Rtnl,
    source: IpAddr,
    neighbour: IpAddr,
    interface: u32,
) -> Result<LinkAddress, c_int> {
    // First of all, so that no answer is missed.
    rtnl.listen()?;
    let packet = Packet::new(source, neighbour, interface)?;
    packet.send()?;
    let start = Instant::now();
    let mut schedule = Schedule::new();
    loop {
        let rest = schedule.rest(start.elapsed());
        if !rest.is_zero() {
            // A signal ends this early, as does other neighbours' news.
            if let Some(address) = rtnl.hear(neighbour, interface, rest) {
                return Ok(address);
            }
            continue;
        }
        if let Some(address) = rtnl.neighbour(neighbour, interface) {
            return Ok(address);
        }
        if !schedule.next() {
            return Err(EDESTADDRREQ);
        }
        // It may work the next time.
        let _ = packet.send();
    }
}

/// A packet that nobody needs to receive.
struct Packet {
    socket: UdpSocket,
    to: SocketAddr,
}

impl Packet {
    fn new(source: IpAddr, to: IpAddr, interface: u32) -> Result<Packet, c_int> {
        let to = match (source, to) {
            (IpAddr::V4(_), IpAddr::V4(_)) => SocketAddr::new(to, PORT),
            (IpAddr::V6(_), IpAddr::V6(v6)) => SocketAddrV6::new(v6, PORT, 0, interface).into(),
            // What bind(2) has to say to an address of the other family.
            (IpAddr::V6(_), IpAddr::V4(_)) => return Err(EAFNOSUPPORT),
            (IpAddr::V4(_), IpAddr::V6(_)) => return Err(EINVAL),
        };
        let socket = UdpSocket::bind(SocketAddr::new(source, 0)).map_err(errno)?;
        Ok(Packet { socket, to })
    }

    fn send(&self) -> Result<(), c_int> {
        for _ in 0..SENDS {
            match self.socket.send_to(PAYLOAD, self.to).map_err(errno) {
                Ok(_) => return Ok(()),
                Err(EADDRNOTAVAIL) => {}
                Err(error) => return Err(error),
            }
        }
        Err(EADDRNOTAVAIL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eleven_looks_and_ten_more_packets_in_three_seconds() {
        let mut schedule = Schedule::new();
        let mut now = Duration::ZERO;
        let mut packets = 1;
        let mut looks = 0;
        loop {
            let rest = schedule.rest(now);
            assert_eq!(rest, Duration::from_millis(272));
            now += rest;
            assert!(schedule.rest(now).is_zero());
            looks += 1;
            match schedule.next() {
                true => packets += 1,
                false => break,
            }
        }
        assert_eq!((looks, packets, now.as_millis()), (11, 11, 2992));
    }

    #[test]
    fn a_late_look_does_not_make_the_next_one_late() {
        let mut schedule = Schedule::new();
        assert_eq!(
            schedule.rest(Duration::from_millis(100)),
            Duration::from_millis(172)
        );
        assert!(schedule.rest(Duration::from_millis(300)).is_zero());
        assert!(schedule.next());
        assert_eq!(
            schedule.rest(Duration::from_millis(300)),
            Duration::from_millis(244)
        );
    }

    #[test]
    fn a_packet_stays_in_its_family() {
        let v4 = IpAddr::from([127, 0, 0, 1]);
        let v6 = IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1u16]);
        assert!(Packet::new(v4, v6, 1).is_err());
        assert!(Packet::new(v6, v4, 1).is_err());
        assert!(Packet::new(v4, v4, 1).is_ok());
    }
}
