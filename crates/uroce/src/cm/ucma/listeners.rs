//! The ids that listen: whom a request is for, and whether a port may be shared. Pure.

use std::net::{IpAddr, SocketAddr};

use ibverbs_abi::{Errno, Result};

use super::EINVAL;
use super::address::Address;
use super::id::{Id, IdState};
use super::id_table::IdTable;
use super::messages::{IP_HEADER, parse_ip_header};
use super::os::{DeviceInfo, Port};
use roce::cm::agent::Incoming;
use roce::engine::Gid;
use roce::wire::{gid_of, ip_of};

const EADDRINUSE: Errno = Errno(libc::EADDRINUSE);
const EADDRNOTAVAIL: Errno = Errno(libc::EADDRNOTAVAIL);

/// A connection that a peer asks for: the two ends' addresses, this one first, and the type of queue pair.
pub(super) struct Requested {
    pub listener: u32,
    pub src: SocketAddr,
    pub dst: SocketAddr,
}

impl<R> IdTable<R> {
    /// Whether an id may have a port that other ids of this process have. EADDRINUSE if one has the
    /// same address, EADDRNOTAVAIL if one of the two is a wildcard.
    pub fn check_port(&self, number: u32, port: Port, reuse: bool) -> Result<()> {
        let owners = self.with_port(port);
        let Some(own) = self.get(number) else {
            return Err(EINVAL);
        };
        let Some(address) = own.src else {
            return Err(EINVAL);
        };
        for other in owners.iter().filter(|other| **other != number) {
            let Some(other) = self.get(*other) else {
                continue;
            };
            let Some(taken) = other.src else { continue };
            if other.state != IdState::Listen && reuse && other.reuse_address {
                continue;
            }
            if own.family_only && other.family_only && !address.same_family(&taken) {
                continue;
            }
            if address.is_any() || taken.is_any() {
                return Err(EADDRNOTAVAIL);
            }
            if address.same_host(&taken) {
                return Err(EADDRINUSE);
            }
        }
        Ok(())
    }

    /// Adds an id for a request at this GID, if the listening id has room for one more. Returns its number,
    /// and the position of its device. Otherwise the request is dropped, and the peer's next retransmission
    /// may find room.
    pub fn add_requested(
        &mut self,
        requested: &Requested,
        gid: &Gid,
        kind: u8,
        devices: &[DeviceInfo],
        random: u32,
    ) -> Option<(u32, usize)> {
        let has = |device: &DeviceInfo| device.gid_index(gid).is_some();
        let device = devices.iter().position(has)?;
        let ifindex = devices[device].ifindex;
        let listening = self.get_mut(requested.listener)?;
        listening.backlog = listening.backlog.checked_sub(1)?;
        let mut id = Id::new(listening.file, 0, listening.space, kind, random);
        id.tos = listening.tos;
        id.src = Some(Address::Ip(with_interface(requested.src, ifindex)));
        id.dst = Some(Address::Ip(with_interface(requested.dst, ifindex)));
        id.device = Some(device);
        id.state = IdState::Connect;
        Some((self.insert(id), device))
    }

    /// Removes an id of [`IdTable::add_requested`] that the program has not heard of.
    pub fn drop_requested(&mut self, listener: u32, number: u32) {
        self.remove(number);
        if let Some(listening) = self.get_mut(listener) {
            listening.backlog += 1;
        }
    }

    /// Whether any id listens for a service, at whatever address.
    pub fn offers(&self, service_id: u64) -> bool {
        self.with_port(Port::of_service(service_id))
            .iter()
            .any(|owner| {
                let id = self.get(*owner);
                id.is_some_and(|id| id.state == IdState::Listen)
            })
    }

    /// The id that listens for a service at the address that a request's IP header names, with the addresses
    /// of the two ends. None if they are not those of the packet: the program
    /// takes the peer's for that of the sender.
    pub fn find_listener(
        &self,
        service_id: u64,
        header: &[u8; IP_HEADER],
        from: &Incoming,
    ) -> Option<Requested> {
        let (peer, own) = parse_ip_header(header)?;
        if !is_address_of(peer.ip(), &from.src, from) || !is_address_of(own, &from.dst, from) {
            return None;
        }
        let own = SocketAddr::new(own, service_id as u16);
        let found = self
            .with_port(Port::of_service(service_id))
            .iter()
            .copied()
            .find(|owner| {
                let Some(id) = self.get(*owner).filter(|id| id.state == IdState::Listen) else {
                    return false;
                };
                match id.src.and_then(|src| src.ip()) {
                    None => true,
                    Some(src) if src.ip() == own.ip() => true,
                    Some(src) if gid_of(src.ip()) == from.dst => true,
                    // Bound to no device: at all of them.
                    Some(src) => {
                        id.device.is_none() && (!id.family_only || src.is_ipv4() == own.is_ipv4())
                    }
                }
            })?;
        Some(Requested {
            listener: found,
            src: own,
            dst: peer,
        })
    }
}

/// Whether an address is that of one end of a packet. A device that connects to itself may have a loopback
/// or wildcard address at its ends ([`super::resolve`]).
fn is_address_of(ip: IpAddr, end: &Gid, packet: &Incoming) -> bool {
    let is_own = ip.is_loopback() || ip.is_unspecified();
    ip_of(&gid_of(ip)) == ip_of(end) || is_own && packet.src == packet.dst
}

/// A link-local address with its interface, which the IP header of a request does not name.
fn with_interface(mut address: SocketAddr, ifindex: u32) -> SocketAddr {
    if let SocketAddr::V6(v6) = &mut address {
        if v6.ip().is_unicast_link_local() {
            v6.set_scope_id(ifindex);
        }
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: Port = Port {
        space: 0x0106,
        number: 80,
    };

    fn bound(ids: &mut IdTable<()>, ip: &str, state: IdState) -> u32 {
        let mut id = Id::new(1, 0, PORT.space, 2, 1);
        let ip: IpAddr = ip.parse().unwrap();
        id.src = Some(Address::Ip((ip, PORT.number).into()));
        id.state = state;
        id.backlog = 1;
        let number = ids.insert(id);
        ids.take_port(number, PORT);
        number
    }

    #[test]
    fn one_address_has_one_owner() {
        let mut ids = IdTable::default();
        bound(&mut ids, "10.0.0.1", IdState::Bound);
        let same = bound(&mut ids, "10.0.0.1", IdState::Bound);
        let other = bound(&mut ids, "10.0.0.2", IdState::Bound);
        assert_eq!(ids.check_port(same, PORT, false), Err(EADDRINUSE));
        assert_eq!(ids.check_port(other, PORT, false), Ok(()));
        let any = bound(&mut ids, "0.0.0.0", IdState::Bound);
        assert_eq!(ids.check_port(any, PORT, false), Err(EADDRNOTAVAIL));
        ids.remove(same);
        assert_eq!(ids.check_port(same, PORT, false), Err(EINVAL));
    }

    #[test]
    fn a_listening_id_takes_as_many_requests_as_it_queues() {
        let mut ids = IdTable::default();
        let listener = bound(&mut ids, "10.0.0.1", IdState::Bound);
        let service = PORT.service_id();
        assert!(!ids.offers(service));
        ids.existing(listener).unwrap().state = IdState::Listen;
        assert!(ids.offers(service));
        let gid = gid_of("10.0.0.1".parse().unwrap());
        let device = DeviceInfo {
            node_guid: [0; 8],
            index: 0,
            ifindex: 7,
            gids: vec![(1, gid)],
            active_mtu: 3,
            active: true,
            flush: true,
        };
        let requested = Requested {
            listener,
            src: "10.0.0.1:80".parse().unwrap(),
            dst: "10.0.0.9:1234".parse().unwrap(),
        };
        let mut ask = |gid: Gid| {
            let devices = std::slice::from_ref(&device);
            ids.add_requested(&requested, &gid, 2, devices, 5)
        };
        assert_eq!(ask(gid_of("10.0.0.2".parse().unwrap())), None);
        let (number, at) = ask(gid).unwrap();
        assert_eq!((at, ask(gid)), (0, None));
        ids.drop_requested(listener, number);
        assert_eq!(ids.existing(listener).unwrap().backlog, 1);
    }
}
