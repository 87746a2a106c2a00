//! ESP actions and counters in ioctl commands (`rdma/ib_user_ioctl_verbs.h`).

use crate::*;

/// Kinds of key material.
pub type ib_uverbs_flow_action_esp_keymat = u32;
pub const IB_UVERBS_FLOW_ACTION_ESP_KEYMAT_AES_GCM: ib_uverbs_flow_action_esp_keymat = 0;

/// Algorithms for initialisation vectors.
pub type ib_uverbs_flow_action_esp_keymat_aes_gcm_iv_algo = u32;
pub const IB_UVERBS_FLOW_ACTION_IV_ALGO_SEQ: ib_uverbs_flow_action_esp_keymat_aes_gcm_iv_algo = 0;

/// Key material for AES-GCM.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_action_esp_keymat_aes_gcm {
    pub iv: u64,
    pub iv_algo: u32,
    pub salt: u32,
    pub icv_len: u32,
    pub key_len: u32,
    pub aes_key: [u32; 8],
}

/// Kinds of replay protection.
pub type ib_uverbs_flow_action_esp_replay = u32;
pub const IB_UVERBS_FLOW_ACTION_ESP_REPLAY_NONE: ib_uverbs_flow_action_esp_replay = 0;
pub const IB_UVERBS_FLOW_ACTION_ESP_REPLAY_BMP: ib_uverbs_flow_action_esp_replay = 1;

/// Replay protection with a bitmap.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_action_esp_replay_bmp {
    pub size: u32,
}

/// Flags of an ESP action.
pub type ib_uverbs_flow_action_esp_flags = u32;
pub const IB_UVERBS_FLOW_ACTION_ESP_FLAGS_INLINE_CRYPTO: ib_uverbs_flow_action_esp_flags = 0;
pub const IB_UVERBS_FLOW_ACTION_ESP_FLAGS_FULL_OFFLOAD: ib_uverbs_flow_action_esp_flags = 1 << 0;
pub const IB_UVERBS_FLOW_ACTION_ESP_FLAGS_TUNNEL: ib_uverbs_flow_action_esp_flags = 0;
pub const IB_UVERBS_FLOW_ACTION_ESP_FLAGS_TRANSPORT: ib_uverbs_flow_action_esp_flags = 1 << 1;
pub const IB_UVERBS_FLOW_ACTION_ESP_FLAGS_DECRYPT: ib_uverbs_flow_action_esp_flags = 0;
pub const IB_UVERBS_FLOW_ACTION_ESP_FLAGS_ENCRYPT: ib_uverbs_flow_action_esp_flags = 1 << 2;
pub const IB_UVERBS_FLOW_ACTION_ESP_FLAGS_ESN_NEW_WINDOW: ib_uverbs_flow_action_esp_flags = 1 << 3;

/// An encapsulation header in a list. The pointers are 64 bits wide on every architecture.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ib_uverbs_flow_action_esp_encap {
    pub val_ptr: *mut c_void,
    pub next_ptr: *mut ib_uverbs_flow_action_esp_encap,
    /// In bytes.
    pub len: u16,
    pub type_: u16,
}

/// An ESP action.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_action_esp {
    pub spi: u32,
    pub seq: u32,
    pub tfc_pad: u32,
    pub flags: u32,
    pub hard_limit_pkts: u64,
}
