//! DMA handles: hints for the device's accesses to memory (since v59).

use crate::*;

/// The kind of memory: volatile or persistent.
pub type ibv_tph_mem_type = u32;
pub const IBV_TPH_MEM_TYPE_VM: ibv_tph_mem_type = 0;
pub const IBV_TPH_MEM_TYPE_PM: ibv_tph_mem_type = 1;

/// Mask of the members of [`ibv_dmah_init_attr`] that are valid.
pub type ibv_dmah_init_attr_mask = u32;
pub const IBV_DMAH_INIT_ATTR_MASK_CPU_ID: ibv_dmah_init_attr_mask = 1 << 0;
pub const IBV_DMAH_INIT_ATTR_MASK_PH: ibv_dmah_init_attr_mask = 1 << 1;
pub const IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE: ibv_dmah_init_attr_mask = 1 << 2;

/// The hints of a DMA handle (`ibv_alloc_dmah(3)`).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_dmah_init_attr {
    pub comp_mask: u32,
    /// The CPU that the data is for.
    pub cpu_id: u32,
    /// The PH field of PCIe TLP processing hints.
    pub ph: u8,
    pub tph_mem_type: u8,
}

/// A DMA handle: hints for a memory region. Allocated by the provider.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_dmah {
    pub context: *mut ibv_context,
}
