//! Device profiles: what a device says of itself, and what it refuses. Pure.
//!
//! A profile is data. `table.rs` has the profiles, with the public sources of their values; the provider
//! reports the values and enforces the limits, the view shows them in sysfs. A limit never exceeds what uroce
//! itself can do: a program that meets the limits of a profile never meets others.
//!
//! A profile says what a program meets when it calls verbs. How fast the device is, and how its packets look,
//! stays uroce's own.

mod speed;
mod table;

use ibverbs_abi::*;

pub use speed::Speed;
pub use table::{DEFAULT, PROFILES};

/// IB_UVERBS_DEVICE_FLUSH_GLOBAL and FLUSH_PERSISTENT of the kernel, for which verbs.h has no names.
const FLUSH: u64 = 3 << 38;

/// The link layer of a port, and what its GIDs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fabric {
    /// Ethernet, with a GID of type RoCE v2 for each address of the interface.
    RoceV2,
    /// Ethernet, with two GIDs for each address: RoCE v1, then RoCE v2.
    RoceV1AndV2,
    /// InfiniBand: LIDs, and one GID, of the subnet prefix and the port's GUID.
    InfiniBand,
    /// Neither: one GID, and no LID. EFA has this.
    Unspecified,
}

impl Fabric {
    /// `ibv_port_attr.link_layer`.
    pub fn link_layer(self) -> u32 {
        match self {
            Fabric::RoceV2 | Fabric::RoceV1AndV2 => IBV_LINK_LAYER_ETHERNET,
            Fabric::InfiniBand => IBV_LINK_LAYER_INFINIBAND,
            Fabric::Unspecified => IBV_LINK_LAYER_UNSPECIFIED,
        }
    }

    /// The link layer as sysfs names it.
    pub fn name(self) -> &'static str {
        match self {
            Fabric::RoceV2 | Fabric::RoceV1AndV2 => "Ethernet",
            Fabric::InfiniBand => "InfiniBand",
            Fabric::Unspecified => "Unknown",
        }
    }

    /// Whether GIDs are the addresses of the interface, as with RoCE.
    pub fn has_address_gids(self) -> bool {
        matches!(self, Fabric::RoceV2 | Fabric::RoceV1AndV2)
    }
}

/// The name of a device, and its vendor and part numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// `ibv_device_attr.vendor_id`: an OUI of IEEE, or a number of the PCI SIG.
    pub vendor_id: u32,
    /// `ibv_device_attr.vendor_part_id`.
    pub vendor_part_id: u32,
    /// `ibv_device_attr.hw_ver`.
    pub hw_ver: u32,
    /// `ibv_device_attr.fw_ver`.
    pub fw_ver: &'static str,
    /// `board_id` in sysfs; "" if there is no such file.
    pub board_id: &'static str,
    /// `hca_type` in sysfs; "" if there is no such file.
    pub hca_type: &'static str,
    /// Vendor and device number of the PCI function.
    pub pci: (u16, u16),
    /// The node GUID is 0.
    pub no_guid: bool,
}

/// The services that a device has, in place of which `ibv_create_qp` fails with EOPNOTSUPP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Services {
    pub rc: bool,
    pub uc: bool,
    pub ud: bool,
    pub xrc: bool,
}

/// `ibv_device_attr_ex.odp_caps` and `xrc_odp_caps`. All zero: regions with on-demand paging are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Odp {
    pub general: u32,
    pub rc: u32,
    pub uc: u32,
    pub ud: u32,
    pub xrc: u32,
}

/// The attributes of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortProfile {
    /// `ibv_port_attr.port_cap_flags`.
    pub cap_flags: u32,
    /// `ibv_port_attr.max_vl_num`.
    pub max_vl_num: u8,
    /// `ibv_port_attr.lmc`.
    pub lmc: u8,
    /// Width and speed.
    pub speed: Speed,
}

macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The limits of a device, by their names in `ibv_device_attr` and its kin.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Limits {
            $($(#[$doc])* pub $name: u32,)*
        }

        impl Limits {
            /// The names of all limits.
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];

            /// The limit of this name.
            pub fn get_mut(&mut self, name: &str) -> Option<&mut u32> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)*
                    _ => None,
                }
            }
        }
    };
}

limits! {
    /// Queue pairs.
    max_qp,
    /// Work requests of a queue.
    max_qp_wr,
    /// SGEs of a work request.
    max_sge,
    /// SGEs of an RDMA READ.
    max_sge_rd,
    /// Completion queues.
    max_cq,
    /// Entries of a completion queue.
    max_cqe,
    /// Memory regions.
    max_mr,
    /// Protection domains.
    max_pd,
    /// READs and atomics outstanding at a queue pair as the responder.
    max_qp_rd_atom,
    /// The same, of all queue pairs. Only reported.
    max_res_rd_atom,
    /// READs and atomics that a queue pair may have outstanding.
    max_qp_init_rd_atom,
    /// Memory windows; 0: they are refused.
    max_mw,
    /// Multicast groups; 0: they are refused.
    max_mcast_grp,
    /// Queue pairs attached to a group.
    max_mcast_qp_attach,
    /// Address handles.
    max_ah,
    /// Shared receive queues; 0: they are refused.
    max_srq,
    /// Work requests of a shared receive queue.
    max_srq_wr,
    /// SGEs of its work requests.
    max_srq_sge,
    /// Bytes of inline data of a work request, which no verb reports.
    max_inline_data,
    /// Completions that an event can wait for; 0: moderation is refused.
    max_cq_count,
    /// Microseconds that it can wait.
    max_cq_period,
    /// Bytes of device memory; 0: it is refused.
    max_dm_size,
    /// Completion counters; 0: they are refused.
    max_comp_cntr,
    /// Bytes of a message.
    max_msg_sz,
    /// Bytes of a path MTU, and of the active MTU.
    max_mtu,
    /// Entries of the GID table, 256 at most.
    gid_tbl_len,
    /// Entries of the P_Key table. All but the first are empty.
    pkey_tbl_len,
    /// Completion vectors; 0: one for each CPU of the process.
    num_comp_vectors,
    /// Ports. All but the first have no cable.
    ports,
}

/// A kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The name of the profile in `profile=` of `IBV_UROCE`.
    pub name: &'static str,
    pub identity: Identity,
    pub fabric: Fabric,
    pub services: Services,
    pub limits: Limits,
    /// `ibv_device_attr.max_mr_size`.
    pub max_mr_size: u64,
    /// `ibv_device_attr.page_size_cap`.
    pub page_size_cap: u64,
    /// `ibv_device_attr.device_cap_flags`.
    pub cap_flags: u32,
    /// The bits of `device_cap_flags_ex` above them.
    pub cap_flags_ex: u64,
    /// Atomic operations; without them they are refused.
    pub atomic_cap: ibv_atomic_cap,
    /// `ibv_device_attr.local_ca_ack_delay`.
    pub local_ca_ack_delay: u8,
    pub odp: Odp,
    /// 0: completions have no timestamps.
    pub timestamp_mask: u64,
    /// `ibv_device_attr_ex.hca_core_clock`, in kHz.
    pub core_clock: u64,
    /// A slot of a queue is free when its work request has completed, as with Soft-RoCE; else when the
    /// program has polled a completion that covers it, as with RNICs.
    pub slots_by_completion: bool,
    /// A path MTU above the active MTU is refused.
    pub refuses_large_mtu: bool,
    pub port: PortProfile,
}

impl Profile {
    /// The profile of this name.
    pub fn named(name: &str) -> Option<Profile> {
        PROFILES
            .iter()
            .find(|profile| profile.name == name)
            .map(|profile| **profile)
    }

    /// Whether the device executes FLUSH.
    pub fn has_flush(&self) -> bool {
        self.cap_flags_ex & FLUSH != 0
    }

    /// Sets a limit, for a value that `IBV_UROCE` has. Fails with what is wrong.
    pub fn set(&mut self, name: &str, value: u32) -> Result<(), String> {
        let mut most = DEFAULT.limits;
        let most = match name {
            // 0 means one per CPU.
            "num_comp_vectors" => 4096,
            "ports" => 8,
            "pkey_tbl_len" => 128,
            _ => *most.get_mut(name).ok_or("there is no such limit")?,
        };
        let least = match name {
            "max_mtu" => 256,
            "ports" | "gid_tbl_len" | "pkey_tbl_len" | "max_msg_sz" => 1,
            _ => 0,
        };
        if !(least..=most).contains(&value) {
            return Err(format!("{name} is from {least} to {most}"));
        }
        if name == "max_mtu" && !value.is_power_of_two() {
            return Err("an MTU is 256, 512, 1024, 2048 or 4096".into());
        }
        if let Some(limit) = self.limits.get_mut(name) {
            *limit = value;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_profile_promises_more_than_uroce_has() {
        for profile in PROFILES {
            let (mut of, mut most) = (profile.limits, DEFAULT.limits);
            for name in Limits::NAMES {
                let (limit, most) = (*of.get_mut(name).unwrap(), *most.get_mut(name).unwrap());
                // The following are reported only.
                let only_reported = [
                    "max_res_rd_atom",
                    "num_comp_vectors",
                    "pkey_tbl_len",
                    "ports",
                ];
                assert!(
                    limit <= most || only_reported.contains(name),
                    "{}: {name}",
                    profile.name
                );
            }
            assert!(profile.limits.max_mtu.is_power_of_two());
            assert_eq!(profile.odp.general & !DEFAULT.odp.general, 0);
            assert_eq!(profile.odp.rc & !DEFAULT.odp.rc, 0);
            assert_eq!(Profile::named(profile.name).as_ref(), Some(*profile));
        }
        assert_eq!(Profile::named("nosuch"), None);
    }

    #[test]
    fn capabilities_agree_with_limits() {
        for profile in PROFILES {
            let (limits, has) = (&profile.limits, |flag| profile.cap_flags & flag != 0);
            assert_eq!(
                has(IBV_DEVICE_XRC),
                profile.services.xrc,
                "{}",
                profile.name
            );
            assert!(limits.max_srq > 0 || !has(IBV_DEVICE_SRQ_RESIZE));
            assert_eq!(
                limits.max_srq > 0,
                limits.max_srq_wr > 0,
                "{}",
                profile.name
            );
            assert!(
                limits.max_mw > 0 || !has(IBV_DEVICE_MEM_WINDOW),
                "{}",
                profile.name
            );
            assert_eq!(limits.max_mcast_grp > 0, limits.max_mcast_qp_attach > 0);
        }
    }

    #[test]
    fn single_limits_can_be_set() {
        let mut profile = DEFAULT;
        assert_eq!(profile.set("max_qp", 2), Ok(()));
        assert_eq!(profile.limits.max_qp, 2);
        assert_eq!(profile.set("ports", 2), Ok(()));
        for (name, value, why) in [
            ("max_sge", 33, "max_sge is from 0 to 32"),
            ("max_mtu", 1500, "an MTU is 256, 512, 1024, 2048 or 4096"),
            ("ports", 0, "ports is from 1 to 8"),
            ("colour", 1, "there is no such limit"),
        ] {
            assert_eq!(profile.set(name, value), Err(why.into()));
        }
    }
}
