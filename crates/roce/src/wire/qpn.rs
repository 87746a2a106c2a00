//! Queue pair numbers of uroce, which determine UDP ports.
//!
//! The numbers from 2^23 up belong to ports of processes that do not have port 4791. They consist of one bit
//! that is set, 11 bits for the port (its distance from 61440), and 12 bits that the process chooses. All
//! other numbers mean port 4791, as those of other implementations do.

use super::PORT;

/// The destination queue pair number of multicast datagrams.
pub const MULTICAST_QPN: u32 = 0xff_ffff;
/// Queue pair numbers of each port but 4791: a power of two.
pub const QPNS_PER_PORT: u32 = 1 << 12;
/// The first port with numbers of its own. Such ports lie above the kernel's default range of ephemeral ports
/// (32768 to 60999), so other programs' sockets seldom have them.
pub const FIRST_PORT: u16 = 61440;
/// How many ports have numbers of their own. The numbers of one more would include [`MULTICAST_QPN`].
pub const PORTS: u16 = (1 << 11) - 1;
/// The first number of [`FIRST_PORT`].
const FIRST_QPN: u32 = 1 << 23;

/// The UDP port that packets for a queue pair go to. A uroce process also sends the queue pair's packets
/// from it.
pub const fn port_of(qpn: u32) -> u16 {
    if qpn < FIRST_QPN || qpn > MULTICAST_QPN {
        return PORT;
    }
    let port = (qpn - FIRST_QPN) / QPNS_PER_PORT;
    if port < PORTS as u32 {
        FIRST_PORT + port as u16
    } else {
        PORT
    }
}

/// The first of the numbers of a port, which is not 4791: the inverse of [`port_of`].
pub const fn first_qpn(port: u16) -> u32 {
    FIRST_QPN + (port - FIRST_PORT) as u32 * QPNS_PER_PORT
}
