//! Flow actions: IPsec ESP.

use crate::*;

/// An action that flow specifications can name. Allocated by the provider.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_action {
    pub context: *mut ibv_context,
}

/// Mask of the members of [`ibv_flow_action_esp_attr`] that are valid.
pub type ibv_flow_action_esp_mask = u32;
pub const IBV_FLOW_ACTION_ESP_MASK_ESN: ibv_flow_action_esp_mask = 1 << 0;

/// Attributes of an ESP action (`ibv_create_flow_action_esp(3)`).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_action_esp_attr {
    pub esp_attr: *mut ib_uverbs_flow_action_esp,
    pub keymat_proto: ib_uverbs_flow_action_esp_keymat,
    pub keymat_len: u16,
    pub keymat_ptr: *mut c_void,
    pub replay_proto: ib_uverbs_flow_action_esp_replay,
    pub replay_len: u16,
    pub replay_ptr: *mut c_void,
    pub esp_encap: *mut ib_uverbs_flow_action_esp_encap,
    pub comp_mask: u32,
    pub esn: u32,
}

/// The name that verbs.h has for the kernel's ESP attributes.
pub type ibv_flow_action_esp = ib_uverbs_flow_action_esp;

/// The name that verbs.h has for the kernel's encapsulation header.
pub type ibv_flow_action_esp_encap = ib_uverbs_flow_action_esp_encap;

/// Flags of [`ibv_flow_action_esp`].
pub type ibv_flow_action_esp_flags = ib_uverbs_flow_action_esp_flags;

/// Kinds of key material.
pub type ibv_flow_action_esp_keymat = ib_uverbs_flow_action_esp_keymat;

/// Key material for AES-GCM.
pub type ibv_flow_action_esp_keymat_aes_gcm = ib_uverbs_flow_action_esp_keymat_aes_gcm;

/// Algorithms for initialisation vectors.
pub type ibv_flow_action_esp_keymat_aes_gcm_iv_algo =
    ib_uverbs_flow_action_esp_keymat_aes_gcm_iv_algo;

/// Kinds of replay protection.
pub type ibv_flow_action_esp_replay = ib_uverbs_flow_action_esp_replay;

/// Replay protection with a bitmap.
pub type ibv_flow_action_esp_replay_bmp = ib_uverbs_flow_action_esp_replay_bmp;

/// Kinds of key material and of initialisation vectors.
pub const IBV_FLOW_ACTION_ESP_KEYMAT_AES_GCM: ib_uverbs_flow_action_esp_keymat =
    IB_UVERBS_FLOW_ACTION_ESP_KEYMAT_AES_GCM;
pub const IBV_FLOW_ACTION_IV_ALGO_SEQ: ib_uverbs_flow_action_esp_keymat_aes_gcm_iv_algo =
    IB_UVERBS_FLOW_ACTION_IV_ALGO_SEQ;

/// Kinds of replay protection.
pub const IBV_FLOW_ACTION_ESP_REPLAY_NONE: ib_uverbs_flow_action_esp_replay =
    IB_UVERBS_FLOW_ACTION_ESP_REPLAY_NONE;
pub const IBV_FLOW_ACTION_ESP_REPLAY_BMP: ib_uverbs_flow_action_esp_replay =
    IB_UVERBS_FLOW_ACTION_ESP_REPLAY_BMP;

/// Values of [`ibv_flow_action_esp_flags`].
pub const IBV_FLOW_ACTION_ESP_FLAGS_INLINE_CRYPTO: ib_uverbs_flow_action_esp_flags =
    IB_UVERBS_FLOW_ACTION_ESP_FLAGS_INLINE_CRYPTO;
pub const IBV_FLOW_ACTION_ESP_FLAGS_FULL_OFFLOAD: ib_uverbs_flow_action_esp_flags =
    IB_UVERBS_FLOW_ACTION_ESP_FLAGS_FULL_OFFLOAD;
pub const IBV_FLOW_ACTION_ESP_FLAGS_TUNNEL: ib_uverbs_flow_action_esp_flags =
    IB_UVERBS_FLOW_ACTION_ESP_FLAGS_TUNNEL;
pub const IBV_FLOW_ACTION_ESP_FLAGS_TRANSPORT: ib_uverbs_flow_action_esp_flags =
    IB_UVERBS_FLOW_ACTION_ESP_FLAGS_TRANSPORT;
pub const IBV_FLOW_ACTION_ESP_FLAGS_DECRYPT: ib_uverbs_flow_action_esp_flags =
    IB_UVERBS_FLOW_ACTION_ESP_FLAGS_DECRYPT;
pub const IBV_FLOW_ACTION_ESP_FLAGS_ENCRYPT: ib_uverbs_flow_action_esp_flags =
    IB_UVERBS_FLOW_ACTION_ESP_FLAGS_ENCRYPT;
pub const IBV_FLOW_ACTION_ESP_FLAGS_ESN_NEW_WINDOW: ib_uverbs_flow_action_esp_flags =
    IB_UVERBS_FLOW_ACTION_ESP_FLAGS_ESN_NEW_WINDOW;
