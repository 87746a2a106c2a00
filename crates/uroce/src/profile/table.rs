//! The profiles: the values of each device, and where they come from.
//!
//! Not here: what the values mean, and how IBV_UROCE changes them (`mod.rs`, `config`).
//!
//! Invariant: no value is larger than uroce's own, which replaces it then ([`within`]): a mlx5
//! device has 16,777,216 memory regions, uroce 1,048,576.

use ibverbs_abi::*;

use super::{Fabric, Identity, Limits, Odp, PortProfile, Profile, Services, Speed};

/// IB_UVERBS_DEVICE_ATOMIC_WRITE of the kernel, for which verbs.h has no name.
const ATOMIC_WRITE: u64 = 1 << 40;
const FLUSH_AND_ATOMIC_WRITE: u64 = super::FLUSH | ATOMIC_WRITE;

const ODP_UD: u32 = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
const ODP_UC: u32 = ODP_UD | IBV_ODP_SUPPORT_WRITE;
const ODP_RC: u32 = ODP_UC
    | IBV_ODP_SUPPORT_READ
    | IBV_ODP_SUPPORT_ATOMIC
    | IBV_ODP_SUPPORT_FLUSH
    | IBV_ODP_SUPPORT_ATOMIC_WRITE;
const NO_ODP: Odp = Odp {
    general: 0,
    rc: 0,
    uc: 0,
    ud: 0,
    xrc: 0,
};

/// All profiles.
pub static PROFILES: &[&Profile] = &[
    &DEFAULT,
    &RXE,
    &CONNECTX_ROCE,
    &CONNECTX_IB,
    &IRDMA,
    &EFA,
    &SMALL,
];

/// uroce as it is. Limits are those of Soft-RoCE, or larger; only the GID table has 256 entries, as
/// `sgid_index` has 8 bits, where Soft-RoCE reports 1024. There is no vendor, as with Soft-RoCE.
pub const DEFAULT: Profile = Profile {
    name: "uroce",
    identity: Identity {
        vendor_id: 0xff_ffff,
        vendor_part_id: 0,
        hw_ver: 0,
        fw_ver: env!("CARGO_PKG_VERSION"),
        board_id: "uroce",
        hca_type: "uroce",
        // Red Hat's number for QEMU's devices, and one that it has not given to any.
        pci: (0x1b36, 0x4791),
        no_guid: false,
    },
    fabric: Fabric::RoceV2,
    services: Services {
        rc: true,
        uc: true,
        ud: true,
        xrc: true,
    },
    limits: Limits {
        max_qp: 1_048_560,
        max_qp_wr: 1 << 20,
        max_sge: 32,
        max_sge_rd: 32,
        max_cq: 1 << 20,
        max_cqe: 1 << 20,
        // Regions and windows share 2^24 key indices, of which these limits leave most free.
        max_mr: 1 << 20,
        max_pd: 1 << 20,
        max_qp_rd_atom: 128,
        max_res_rd_atom: 258_048,
        max_qp_init_rd_atom: 128,
        max_mw: 1 << 20,
        max_mcast_grp: 8192,
        max_mcast_qp_attach: 56,
        max_ah: 1 << 20,
        max_srq: 1 << 20,
        max_srq_wr: 1 << 20,
        max_srq_sge: 32,
        max_inline_data: 4096,
        max_cq_count: 65_535,
        max_cq_period: 65_535,
        max_dm_size: 1 << 20,
        max_comp_cntr: 1 << 20,
        max_msg_sz: 1 << 31,
        max_mtu: 4096,
        gid_tbl_len: 256,
        pkey_tbl_len: 1,
        num_comp_vectors: 0,
        ports: 1,
    },
    max_mr_size: u64::MAX,
    page_size_cap: 0xffff_f000,
    cap_flags: IBV_DEVICE_UD_AV_PORT_ENFORCE
        | IBV_DEVICE_CURR_QP_STATE_MOD
        | IBV_DEVICE_PORT_ACTIVE_EVENT
        | IBV_DEVICE_SYS_IMAGE_GUID
        | IBV_DEVICE_RC_RNR_NAK_GEN
        | IBV_DEVICE_SRQ_RESIZE
        | IBV_DEVICE_MEM_WINDOW
        | IBV_DEVICE_XRC
        | IBV_DEVICE_MEM_MGT_EXTENSIONS
        | IBV_DEVICE_MEM_WINDOW_TYPE_2B,
    cap_flags_ex: FLUSH_AND_ATOMIC_WRITE,
    atomic_cap: IBV_ATOMIC_HCA,
    local_ca_ack_delay: 15,
    odp: Odp {
        general: IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
        rc: ODP_RC,
        uc: ODP_UC,
        ud: ODP_UD,
        xrc: ODP_RC,
    },
    timestamp_mask: u64::MAX,
    core_clock: 1_000_000,
    slots_by_completion: false,
    refuses_large_mtu: false,
    port: PortProfile {
        cap_flags: IBV_PORT_CM_SUP,
        max_vl_num: 1,
        lmc: 0,
        speed: Speed::SDR_1X,
    },
};

/// Soft-RoCE of Linux 6.1. Sources: drivers/infiniband/sw/rxe/rxe_param.h; its values as gdb shows them, in
/// the thread "RDMA/rxe: Bump up default maximum values used via uverbs" of linux-rdma.
const RXE: Profile = Profile {
    name: "rxe",
    identity: Identity {
        fw_ver: "0.0.0",
        board_id: "",
        hca_type: "",
        ..DEFAULT.identity
    },
    services: Services {
        xrc: false,
        ..DEFAULT.services
    },
    limits: Limits {
        max_cqe: 32_767,
        max_mw: 4096,
        max_srq_sge: 27,
        max_inline_data: 512,
        max_cq_count: 0,
        max_cq_period: 0,
        max_dm_size: 0,
        max_comp_cntr: 0,
        ..DEFAULT.limits
    },
    cap_flags: IBV_DEVICE_BAD_PKEY_CNTR
        | IBV_DEVICE_BAD_QKEY_CNTR
        | IBV_DEVICE_AUTO_PATH_MIG
        | IBV_DEVICE_CHANGE_PHY_PORT
        | IBV_DEVICE_UD_AV_PORT_ENFORCE
        | IBV_DEVICE_PORT_ACTIVE_EVENT
        | IBV_DEVICE_SYS_IMAGE_GUID
        | IBV_DEVICE_RC_RNR_NAK_GEN
        | IBV_DEVICE_SRQ_RESIZE
        | IBV_DEVICE_MEM_WINDOW
        | IBV_DEVICE_MEM_MGT_EXTENSIONS
        | IBV_DEVICE_MEM_WINDOW_TYPE_2B,
    cap_flags_ex: 0,
    odp: NO_ODP,
    timestamp_mask: 0,
    core_clock: 0,
    // rxe_comp.c advances the queue when a request has completed, whoever polls.
    slots_by_completion: true,
    ..DEFAULT
};

/// The limits of a mlx5 device (ConnectX-5 to ConnectX-7).
const MLX5_LIMITS: Limits = Limits {
    max_qp: 262_144,
    max_qp_wr: 32_768,
    max_sge: 30,
    max_sge_rd: 30,
    max_cq: 16_777_216,
    max_cqe: 4_194_303,
    max_mr: 16_777_216,
    max_pd: 16_777_216,
    max_qp_rd_atom: 16,
    max_res_rd_atom: 4_194_304,
    max_qp_init_rd_atom: 16,
    max_mw: 16_777_216,
    max_mcast_grp: 2_097_152,
    max_mcast_qp_attach: 240,
    max_ah: i32::MAX as u32,
    max_srq: 8_388_608,
    max_srq_wr: 32_767,
    max_srq_sge: 31,
    max_inline_data: 988,
    max_cq_count: 65_535,
    max_cq_period: 4095,
    max_dm_size: 131_072,
    max_comp_cntr: 0,
    max_msg_sz: 1 << 30,
    max_mtu: 4096,
    gid_tbl_len: 255,
    pkey_tbl_len: 1,
    num_comp_vectors: 63,
    ports: 1,
};

/// A ConnectX-5 with an Ethernet port. Sources: `ibv_devinfo -v` in openucx/ucx issues 9727 (limits,
/// on-demand paging, clock), 9830 (identity, capabilities), 10317 (port, GID types) and 10430 (device
/// memory, completion vectors, port); the inline data of ofiwg/libfabric pull request 3790. That firmware
/// refuses a path MTU above the active one is the advice of many a forum; it is not in the driver.
const CONNECTX_ROCE: Profile = Profile {
    name: "connectx-roce",
    identity: Identity {
        vendor_id: 0x02c9,
        vendor_part_id: 4119,
        hw_ver: 0,
        fw_ver: "16.27.1016",
        board_id: "MT_0000000080",
        hca_type: "MT4119",
        pci: (0x15b3, 0x1017),
        no_guid: false,
    },
    fabric: Fabric::RoceV1AndV2,
    limits: within(MLX5_LIMITS),
    page_size_cap: 0xffff_ffff_ffff_f000,
    cap_flags: 0xed72_1c36,
    cap_flags_ex: 0,
    local_ca_ack_delay: 16,
    odp: Odp {
        general: IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
        rc: ODP_UC | IBV_ODP_SUPPORT_READ,
        uc: 0,
        ud: IBV_ODP_SUPPORT_SEND,
        xrc: IBV_ODP_SUPPORT_SEND
            | IBV_ODP_SUPPORT_WRITE
            | IBV_ODP_SUPPORT_READ
            | IBV_ODP_SUPPORT_SRQ_RECV,
    },
    timestamp_mask: 0x7fff_ffff_ffff_ffff,
    refuses_large_mtu: true,
    port: PortProfile {
        cap_flags: 0x0401_0000,
        max_vl_num: 0,
        lmc: 0,
        speed: Speed::EDR_4X,
    },
    ..DEFAULT
};

/// A ConnectX-6 with an InfiniBand port. Sources: those of [`CONNECTX_ROCE`] for what both have; identity
/// from openucx/ucx issue 8229. The board ID, the PCI ID, a GID table of 8 entries, a P_Key table of 128 and
/// the port's flags are what such devices are known for, and were compared with no page.
const CONNECTX_IB: Profile = Profile {
    name: "connectx-ib",
    identity: Identity {
        vendor_part_id: 4123,
        fw_ver: "20.29.1016",
        board_id: "MT_0000000223",
        hca_type: "MT4123",
        pci: (0x15b3, 0x101b),
        ..CONNECTX_ROCE.identity
    },
    fabric: Fabric::InfiniBand,
    limits: Limits {
        gid_tbl_len: 8,
        pkey_tbl_len: 128,
        ..CONNECTX_ROCE.limits
    },
    cap_flags: 0xe97e_1c36,
    port: PortProfile {
        cap_flags: IBV_PORT_CM_SUP
            | IBV_PORT_SL_MAP_SUP
            | IBV_PORT_LED_INFO_SUP
            | IBV_PORT_SYS_IMAGE_GUID_SUP
            | IBV_PORT_EXTENDED_SPEEDS_SUP
            | IBV_PORT_CAP_MASK2_SUP
            | IBV_PORT_CLIENT_REG_SUP,
        max_vl_num: 4,
        lmc: 0,
        speed: Speed::HDR_4X,
    },
    ..CONNECTX_ROCE
};

/// An Intel E810 in RoCE mode. Sources: `ibv_devinfo -v` in deepseek-ai/3FS issue 192; the inline data of
/// linux-rdma/perftest issue 139; drivers/infiniband/hw/irdma/verbs.c (port, GID table, no atomics, no SRQ,
/// one kind of queue pairs beside UD); icrdma_hw.h (read queues).
const IRDMA: Profile = Profile {
    name: "irdma",
    identity: Identity {
        vendor_id: 0x8086,
        vendor_part_id: 5522,
        hw_ver: 2,
        fw_ver: "1.74",
        board_id: "",
        hca_type: "",
        pci: (0x8086, 0x1592),
        no_guid: false,
    },
    services: Services {
        rc: true,
        uc: false,
        ud: true,
        xrc: false,
    },
    limits: within(Limits {
        max_qp: 4092,
        max_qp_wr: 8127,
        max_sge: 6,
        max_sge_rd: 6,
        max_cq: 8189,
        max_cqe: 1_048_574,
        max_mr: 4_194_301,
        max_pd: 262_141,
        max_qp_rd_atom: 8,
        max_res_rd_atom: 0,
        max_qp_init_rd_atom: 8,
        max_mw: 4_194_301,
        max_mcast_grp: 4096,
        max_mcast_qp_attach: 8,
        max_ah: 131_072,
        max_srq: 0,
        max_srq_wr: 0,
        max_srq_sge: 0,
        max_inline_data: 101,
        max_cq_count: 0,
        max_cq_period: 0,
        max_dm_size: 0,
        max_comp_cntr: 0,
        max_msg_sz: i32::MAX as u32,
        gid_tbl_len: 32,
        ..DEFAULT.limits
    }),
    max_mr_size: 0x2000_0000_0000,
    page_size_cap: 0x4020_1000,
    cap_flags: 0x0122_1000,
    cap_flags_ex: 0,
    atomic_cap: IBV_ATOMIC_NONE,
    local_ca_ack_delay: 0,
    odp: NO_ODP,
    timestamp_mask: 0,
    core_clock: 0,
    port: PortProfile {
        cap_flags: IBV_PORT_CM_SUP | IBV_PORT_REINIT_SUP,
        max_vl_num: 0,
        lmc: 0,
        speed: Speed::EDR_4X,
    },
    ..DEFAULT
};

/// Amazon's EFA: datagrams only. Its other service, SRD, is no verb (IBV_QPT_DRIVER), and is refused.
/// Sources: drivers/infiniband/hw/efa/efa_verbs.c; `ibv_devinfo` in linux-rdma/rdma-core pull request 884.
/// The numbers of objects are the firmware's own and nowhere documented: they are of an order guessed from
/// reports. EFA's messages have 8928 bytes at most; here they are limited by the active MTU.
const EFA: Profile = Profile {
    name: "efa",
    identity: Identity {
        vendor_id: 0x1d0f,
        vendor_part_id: 61_344,
        hw_ver: 0xefa0,
        fw_ver: "0.0.0.0",
        board_id: "",
        hca_type: "",
        pci: (0x1d0f, 0xefa0),
        no_guid: true,
    },
    fabric: Fabric::Unspecified,
    services: Services {
        rc: false,
        uc: false,
        ud: true,
        xrc: false,
    },
    limits: Limits {
        max_qp: 256,
        max_qp_wr: 4096,
        max_sge: 2,
        max_sge_rd: 1,
        max_cq: 512,
        max_cqe: 32_768,
        max_mr: 262_144,
        max_pd: 256,
        max_qp_rd_atom: 0,
        max_res_rd_atom: 0,
        max_qp_init_rd_atom: 0,
        max_mw: 0,
        max_mcast_grp: 0,
        max_mcast_qp_attach: 0,
        max_ah: 65_536,
        max_srq: 0,
        max_srq_wr: 0,
        max_srq_sge: 0,
        max_inline_data: 32,
        max_cq_count: 0,
        max_cq_period: 0,
        max_dm_size: 0,
        max_comp_cntr: 0,
        max_msg_sz: 4096,
        max_mtu: 4096,
        gid_tbl_len: 1,
        pkey_tbl_len: 1,
        num_comp_vectors: 0,
        ports: 1,
    },
    cap_flags: 0,
    cap_flags_ex: 0,
    atomic_cap: IBV_ATOMIC_NONE,
    local_ca_ack_delay: 0,
    odp: NO_ODP,
    timestamp_mask: 0,
    core_clock: 0,
    port: PortProfile {
        cap_flags: 0,
        max_vl_num: 1,
        lmc: 1,
        speed: Speed::EDR_4X,
    },
    ..DEFAULT
};

/// A device with the least that the specification asks of an HCA (11.2.1), and few of all objects.
/// No real device is like it: a program that runs on it takes nothing for granted.
const SMALL: Profile = Profile {
    name: "small",
    services: Services {
        xrc: false,
        ..DEFAULT.services
    },
    limits: Limits {
        max_qp: 16,
        max_qp_wr: 64,
        max_sge: 1,
        max_sge_rd: 1,
        max_cq: 16,
        max_cqe: 128,
        max_mr: 64,
        max_pd: 8,
        max_qp_rd_atom: 1,
        max_res_rd_atom: 16,
        max_qp_init_rd_atom: 1,
        max_mw: 0,
        max_mcast_grp: 0,
        max_mcast_qp_attach: 0,
        max_ah: 16,
        max_srq: 0,
        max_srq_wr: 0,
        max_srq_sge: 0,
        max_inline_data: 0,
        max_cq_count: 0,
        max_cq_period: 0,
        max_dm_size: 0,
        max_comp_cntr: 0,
        max_msg_sz: 1 << 23,
        max_mtu: 1024,
        gid_tbl_len: 8,
        pkey_tbl_len: 1,
        num_comp_vectors: 1,
        ports: 1,
    },
    max_mr_size: 1 << 32,
    page_size_cap: 0x1000,
    cap_flags: IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_PORT_ACTIVE_EVENT,
    cap_flags_ex: 0,
    atomic_cap: IBV_ATOMIC_NONE,
    odp: NO_ODP,
    timestamp_mask: 0,
    core_clock: 0,
    refuses_large_mtu: true,
    ..DEFAULT
};

/// The limits, but where uroce has less, uroce's.
const fn within(mut limits: Limits) -> Limits {
    const fn least(limit: &mut u32, most: u32) {
        if *limit > most {
            *limit = most;
        }
    }
    let most = DEFAULT.limits;
    least(&mut limits.max_cq, most.max_cq);
    least(&mut limits.max_cqe, most.max_cqe);
    least(&mut limits.max_mr, most.max_mr);
    least(&mut limits.max_pd, most.max_pd);
    least(&mut limits.max_mw, most.max_mw);
    least(&mut limits.max_mcast_grp, most.max_mcast_grp);
    least(&mut limits.max_mcast_qp_attach, most.max_mcast_qp_attach);
    least(&mut limits.max_ah, most.max_ah);
    least(&mut limits.max_srq, most.max_srq);
    limits
}
