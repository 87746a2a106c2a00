//! Records of the subnet administrator, as the kernel's connection managers pass them.

/// `flags` of [`ib_path_rec_data`].
pub const IB_PATH_GMP: u32 = 1 << 0;
pub const IB_PATH_PRIMARY: u32 = 1 << 1;
pub const IB_PATH_OUTBOUND: u32 = 1 << 3;
pub const IB_PATH_INBOUND_REVERSE: u32 = 1 << 5;

/// A path record in the wire format, and its purpose.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_path_rec_data {
    pub flags: u32,
    pub reserved: u32,
    pub path_rec: [u32; 16],
}

/// A path record with a member per field.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_user_path_rec {
    pub dgid: [u8; 16],
    pub sgid: [u8; 16],
    pub dlid: u16,
    pub slid: u16,
    pub raw_traffic: u32,
    pub flow_label: u32,
    pub reversible: u32,
    pub mtu: u32,
    pub pkey: u16,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub numb_path: u8,
    pub sl: u8,
    pub mtu_selector: u8,
    pub rate_selector: u8,
    pub rate: u8,
    pub packet_life_time_selector: u8,
    pub packet_life_time: u8,
    pub preference: u8,
}

/// A service record.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ib_user_service_rec {
    pub id: u64,
    pub gid: [u8; 16],
    pub pkey: u16,
    pub reserved: [u8; 2],
    pub lease: u32,
    pub key: [u8; 16],
    pub name: [u8; 64],
    pub data_8: [u8; 16],
    pub data_16: [u16; 8],
    pub data_32: [u32; 4],
    pub data_64: [u64; 2],
}
