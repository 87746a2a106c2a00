//! The invariant CRC (specification 7.8.1, annex A17.3.3).

use std::net::IpAddr;

/// What of the IP and UDP headers the ICRC covers, besides constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    pub src: IpAddr,
    pub dst: IpAddr,
    pub src_port: u16,
    pub dst_port: u16,
}
