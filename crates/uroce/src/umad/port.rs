//! A port of an open device: what its agents know of it, and where its MADs go.

use std::sync::Arc;

use ibverbs_abi::{Errno, Result};

use super::datagram::{Mad, class, header_of};
use super::facts::PortFacts;
use super::path::Path;
use super::sma::{self, Route};
use super::user_mad::{Address, Message};
use crate::cm::ucma::names::Incoming;
use crate::device::Device;
use crate::profile::Fabric;
use crate::transport::lid::{Lids, port_lid};
use crate::transport::{GidEntry, GidType, PortState};
use roce::engine::Gid;
use roce::wire::ip_of;

/// The LID of the subnet manager, as the verbs report it.
const SM_LID: u16 = 1;
/// The port that has a cable: the first.
const WITH_CABLE: u8 = 1;

/// A port that a program has opened.
pub struct OpenPort {
    pub device: Arc<Device>,
    pub number: u8,
}

/// The destination of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    Network(Path),
    /// The subnet management agent of this port.
    Here,
    /// The subnet administration, which every process has for itself.
    SubnetAdministration,
    /// No port: the message is lost.
    Nowhere,
}

/// Whether a device has queue pair 0.
pub fn has_smi(device: &Device) -> bool {
    device.profile.fabric == Fabric::InfiniBand
}

/// The GID of an entry, as packets are addressed to it.
fn address_of(entry: &GidEntry) -> Option<Gid> {
    entry.cm_gid()
}

/// The index of the entry whose packets have this GID.
pub fn gid_index(device: &Device, gid: &Gid) -> Option<u8> {
    let gids = device.net.gids();
    let is_it = |entry: &GidEntry| address_of(entry) == Some(*gid);
    let index = gids
        .iter()
        .position(|entry| entry.as_ref().is_some_and(is_it));
    index.and_then(|index| u8::try_from(index).ok())
}

/// The GIDs that a device's packets are addressed to, each once.
pub fn addresses(device: &Device) -> Vec<Gid> {
    let gids = device.net.gids();
    let mut found: Vec<Gid> = gids.iter().flatten().filter_map(address_of).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The port's attributes, as its agents report them.
pub fn facts(device: &Device, number: u8) -> PortFacts {
    let (profile, gids) = (&device.profile, device.net.gids());
    let state = match number {
        WITH_CABLE => device.net.port_state(),
        _ => PortState {
            up: false,
            active: false,
            active_mtu: 256,
        },
    };
    let lid = match number {
        WITH_CABLE => port_lid(profile, &gids),
        _ => 0,
    };
    let guid = gids.first().copied().flatten().map_or([0; 8], |entry| {
        let mut guid = [0; 8];
        guid.copy_from_slice(&entry.gid[8..]);
        guid
    });
    let (state_code, phys_state) = match state {
        PortState { active: true, .. } if has_smi(device) && lid == 0 => (2, 5),
        PortState { active: true, .. } => (4, 5),
        PortState { up: true, .. } => (1, 2),
        _ => (1, 3),
    };
    PortFacts {
        description: device.name.clone(),
        node_guid: device.node_guid,
        port_guid: guid,
        ports: profile.limits.ports as u8,
        vendor_id: profile.identity.vendor_id,
        part_id: profile.identity.vendor_part_id,
        hw_ver: profile.identity.hw_ver,
        port: number,
        lid,
        sm_lid: if has_smi(device) { SM_LID } else { 0 },
        lmc: profile.port.lmc,
        cap_mask: profile.port.cap_flags,
        state: state_code,
        phys_state,
        width: profile.port.speed.width,
        speed: profile.port.speed.code,
        active_mtu: mtu_code(state.active_mtu),
        max_mtu: mtu_code(profile.limits.max_mtu),
        max_vl: profile.port.max_vl_num,
        pkeys: profile.limits.pkey_tbl_len as u16,
        guids: profile.limits.gid_tbl_len.min(u8::MAX.into()) as u8,
    }
}

/// `enum ibv_mtu` of a number of bytes.
fn mtu_code(bytes: u32) -> u8 {
    (bytes.clamp(256, 4096).ilog2() - 7) as u8
}

impl OpenPort {
    /// Finds the destination of a message that the port at place `at` sends. EINVAL for an address
    /// that no address handle can have: without a GRH on Ethernet, or with a GID that the port does
    /// not have.
    pub fn route(&self, at: u32, message: &Message) -> Result<Destination> {
        let (device, to) = (&self.device, &message.to);
        let gids = device.net.gids();
        let header = header_of(&message.mad);
        let path = |sgid_index, dgid| {
            Destination::Network(Path {
                port: at,
                sgid_index,
                dgid,
                traffic_class: to.traffic_class,
            })
        };
        if let Some((dgid, index)) = to.grh {
            let source = gids.get(usize::from(index)).copied().flatten();
            source.ok_or(Errno(libc::EINVAL))?;
            return Ok(self.unless_lost(to, path(index, dgid)));
        }
        let lids = Lids::of(&device.profile).ok_or(Errno(libc::EINVAL))?;
        let own = lids.of_port(&gids);
        let found = match (header.class, to.lid) {
            (class::SUBN_DIRECTED_ROUTE, _) => match sma::route_of(&message.mad) {
                Route::Here => Destination::Here,
                Route::Nowhere => Destination::Nowhere,
            },
            (class::SUBN_LID_ROUTED, lid) if lid == own => Destination::Here,
            (class::SUBN_ADM, SM_LID) if has_smi(device) => Destination::SubnetAdministration,
            (_, lid) => match lids.resolve(&gids, lid) {
                Some(found) => path(found.index, found.gid),
                None => Destination::Nowhere,
            },
        };
        Ok(self.unless_lost(to, found))
    }

    /// Drops what the network would lose: only the port with the cable reaches others, and only
    /// queue pairs 0 and 1 of them.
    fn unless_lost(&self, to: &Address, destination: Destination) -> Destination {
        match destination {
            Destination::Here => destination,
            _ if self.number != WITH_CABLE || to.qpn > 1 => Destination::Nowhere,
            _ => destination,
        }
    }

    /// The address of the sender of a MAD.
    pub fn sender(&self, incoming: &Incoming) -> Address {
        let qpn = match header_of(&incoming.mad).is_smp() {
            true => 0,
            false => 1,
        };
        if has_smi(&self.device) {
            return Address {
                qpn,
                lid: Lids::of(&self.device.profile)
                    .map_or(0, |lids| lids.of_address(&incoming.src)),
                ..Address::default()
            };
        }
        let index = gid_index(&self.device, &incoming.dst).unwrap_or(0);
        Address {
            qpn,
            grh: Some((incoming.src, index)),
            ..Address::default()
        }
    }

    /// The address of this port, for MADs that do not leave it.
    pub fn own_address(&self, mad: &Mad) -> Address {
        Address {
            qpn: u32::from(!header_of(mad).is_smp()),
            lid: port_lid(&self.device.profile, &self.device.net.gids()),
            ..Address::default()
        }
    }
}

/// The LID that a GID stands for, if it is one of InfiniBand.
pub fn lid_of(device: &Device, gid: &Gid) -> Option<u16> {
    let lids = Lids::of(&device.profile)?;
    let is_own_kind = device.net.gids().iter().flatten().any(|entry| {
        entry.gid_type == GidType::Ib && ip_of(&entry.gid).is_ipv4() && entry.gid[..12] == gid[..12]
    });
    is_own_kind.then(|| lids.of_address(gid))
}
