//! A port as the built-in agents describe it. Pure.

/// The default subnet prefix (4.1.1).
pub const PREFIX: [u8; 8] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0];

/// A port and its device, as far as the agents know them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortFacts {
    /// The device's description, in NodeDescription.
    pub description: String,
    pub node_guid: [u8; 8],
    pub port_guid: [u8; 8],
    /// Ports of the device.
    pub ports: u8,
    pub vendor_id: u32,
    pub part_id: u32,
    pub hw_ver: u32,
    /// The port.
    pub port: u8,
    pub lid: u16,
    pub sm_lid: u16,
    pub lmc: u8,
    /// `PortInfo.CapabilityMask`.
    pub cap_mask: u32,
    /// `PortInfo.PortState`: 1 is down, 2 initialize, 4 active.
    pub state: u8,
    /// `PortInfo.PortPhysicalState`: 2 is polling, 3 disabled, 5 link up.
    pub phys_state: u8,
    /// `ibv_port_attr.active_width`.
    pub width: u8,
    /// `ibv_port_attr.active_speed_ex`.
    pub speed: u16,
    /// As `enum ibv_mtu`.
    pub active_mtu: u8,
    pub max_mtu: u8,
    pub max_vl: u8,
    /// Entries of the P_Key table, of which the first alone is not empty.
    pub pkeys: u16,
    /// Entries of the GUID table.
    pub guids: u8,
}
