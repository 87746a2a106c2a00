//! Making the kernel resolve a neighbour: a packet sent to the neighbour makes the kernel send ARP or
//! neighbour discovery requests; notifications of the neighbour table report the result.

use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::time::{Duration, Instant};

use ibverbs_abi::Errno;
use ibverbs_netlink::{RtnlClient, rtnl::LinkAddress};
use libc::{EADDRNOTAVAIL, EAFNOSUPPORT, EDESTADDRREQ, EINVAL};

/// The discard service (RFC 863).
const PORT: u16 = 9;
const PAYLOAD: &[u8] = b"H\0";
/// How many times a packet is sent while the source address is not usable yet: an IPv6 address is tentative
/// for a moment after it was added.
const SEND_TRIES: u32 = 100_000;

/// When to read the neighbour table and to send again.
///
/// The 3 seconds that resolution may take are cut into 11 equal intervals. At the end of each the neighbour
/// table is read, since a notification may have been missed. After each but the last the packet is sent
/// again.
struct Schedule {
    intervals_over: u32,
}

impl Schedule {
    const INTERVALS: u32 = 11;
    const INTERVAL: Duration = Duration::from_millis(3000 / 11);

    fn new() -> Schedule {
        Schedule { intervals_over: 0 }
    }

    /// The time until the end of this interval, `elapsed` after the start. Zero if it is over.
    fn remaining(&self, elapsed: Duration) -> Duration {
        ((self.intervals_over + 1) * Self::INTERVAL).saturating_sub(elapsed)
    }

    /// Ends this interval. Returns whether there is another.
    fn next(&mut self) -> bool {
        self.intervals_over += 1;
        self.intervals_over < Self::INTERVALS
    }
}

/// Sends packets from `source` to a neighbour until the kernel knows its link-layer address. EDESTADDRREQ
/// after 3 seconds.
pub fn probe(
    rtnl: &mut RtnlClient,
    source: IpAddr,
    neighbour: IpAddr,
    interface: u32,
) -> Result<LinkAddress, Errno> {
    // Before the first packet, so that no notification is missed.
    rtnl.monitor_neighbours()?;
    let packet = ProbePacket::new(source, neighbour, interface)?;
    packet.send()?;
    let start = Instant::now();
    let mut schedule = Schedule::new();
    loop {
        let remaining = schedule.remaining(start.elapsed());
        if !remaining.is_zero() {
            // A signal or another neighbour's notification ends this early.
            if let Some(address) = rtnl.await_neighbour(neighbour, interface, remaining) {
                return Ok(address);
            }
            continue;
        }
        if let Some(address) = rtnl.neighbour(neighbour, interface) {
            return Ok(address);
        }
        if !schedule.next() {
            return Err(Errno(EDESTADDRREQ));
        }
        // An error may be gone at the end of the next interval.
        let _ = packet.send();
    }
}

/// A UDP packet whose reception does not matter.
struct ProbePacket {
    socket: UdpSocket,
    to: SocketAddr,
}

impl ProbePacket {
    fn new(source: IpAddr, to: IpAddr, interface: u32) -> Result<ProbePacket, Errno> {
        let to = match (source, to) {
            (IpAddr::V4(_), IpAddr::V4(_)) => SocketAddr::new(to, PORT),
            (IpAddr::V6(_), IpAddr::V6(v6)) => SocketAddrV6::new(v6, PORT, 0, interface).into(),
            // As bind(2) fails for an address of the other family.
            (IpAddr::V6(_), IpAddr::V4(_)) => return Err(Errno(EAFNOSUPPORT)),
            (IpAddr::V4(_), IpAddr::V6(_)) => return Err(Errno(EINVAL)),
        };
        let socket = UdpSocket::bind(SocketAddr::new(source, 0))?;
        Ok(ProbePacket { socket, to })
    }

    fn send(&self) -> Result<(), Errno> {
        for _ in 0..SEND_TRIES {
            match self.socket.send_to(PAYLOAD, self.to).map_err(Errno::from) {
                Ok(_) => return Ok(()),
                Err(Errno(EADDRNOTAVAIL)) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Errno(EADDRNOTAVAIL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eleven_reads_and_eleven_packets_in_three_seconds() {
        let mut schedule = Schedule::new();
        let mut now = Duration::ZERO;
        let mut packets = 1;
        let mut reads = 0;
        loop {
            let remaining = schedule.remaining(now);
            assert_eq!(remaining, Duration::from_millis(272));
            now += remaining;
            assert!(schedule.remaining(now).is_zero());
            reads += 1;
            match schedule.next() {
                true => packets += 1,
                false => break,
            }
        }
        assert_eq!((reads, packets, now.as_millis()), (11, 11, 2992));
    }

    #[test]
    fn a_late_read_does_not_delay_the_next() {
        let mut schedule = Schedule::new();
        assert_eq!(
            schedule.remaining(Duration::from_millis(100)),
            Duration::from_millis(172)
        );
        assert!(schedule.remaining(Duration::from_millis(300)).is_zero());
        assert!(schedule.next());
        assert_eq!(
            schedule.remaining(Duration::from_millis(300)),
            Duration::from_millis(244)
        );
    }

    #[test]
    fn a_packet_stays_in_its_family() {
        let v4 = IpAddr::from([127, 0, 0, 1]);
        let v6 = IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1u16]);
        assert!(ProbePacket::new(v4, v6, 1).is_err());
        assert!(ProbePacket::new(v6, v4, 1).is_err());
        assert!(ProbePacket::new(v4, v4, 1).is_ok());
    }
}
