//! Commands of flow actions: ESP.

use core::ptr::null;

use ibverbs_abi::*;
use libc::c_int;

use super::{mr::LINK_ROOM, to_c};
use crate::uverbs::{ioctl::Command, linked};

/// The handle, the five attributes of an ESP action, and the provider's.
const ROOM: usize = 6 + LINK_ROOM;

/// Adds the attributes that `esp` has.
///
/// # Safety
/// Each pointer in `esp` is null, or readable until the command is executed: for the length beside it, or
/// for the size of its type.
unsafe fn fill(esp: &ibv_flow_action_esp_attr, cmd: &mut Command<ROOM>) {
    const ENCAP_LEN: usize = size_of::<ib_uverbs_flow_action_esp_encap>();
    const ATTRS_LEN: usize = size_of::<ib_uverbs_flow_action_esp>();
    let esn: *const u8 = if esp.comp_mask & IBV_FLOW_ACTION_ESP_MASK_ESN != 0 {
        (&raw const esp.esn).cast()
    } else {
        null()
    };
    let (keymat, keymat_len) = (esp.keymat_ptr.cast_const().cast(), esp.keymat_len.into());
    let (replay, replay_len) = (esp.replay_ptr.cast_const().cast(), esp.replay_len.into());
    let (encap, attrs) = (
        esp.esp_encap.cast_const().cast(),
        esp.esp_attr.cast_const().cast(),
    );
    let (keymat_proto, replay_proto) = (esp.keymat_proto as u8, esp.replay_proto as u8);
    // The attribute, what it holds (for those with a choice), where it is, and its length.
    let inputs = [
        (UVERBS_ATTR_FLOW_ACTION_ESP_ESN, None, esn, size_of::<u32>()),
        (
            UVERBS_ATTR_FLOW_ACTION_ESP_KEYMAT,
            Some(keymat_proto),
            keymat,
            keymat_len,
        ),
        (
            UVERBS_ATTR_FLOW_ACTION_ESP_REPLAY,
            Some(replay_proto),
            replay,
            replay_len,
        ),
        (UVERBS_ATTR_FLOW_ACTION_ESP_ENCAP, None, encap, ENCAP_LEN),
        (UVERBS_ATTR_FLOW_ACTION_ESP_ATTRS, None, attrs, ATTRS_LEN),
    ];
    for (id, elem, data, len) in inputs {
        if data.is_null() {
            continue;
        }
        // SAFETY: `data` is readable for `len` bytes until the command is executed.
        unsafe {
            match elem {
                Some(elem) => cmd.input_enum(id, elem, data, len),
                None => _ = cmd.input(id, data, len),
            }
        }
    }
}

/// Creates an ESP action.
///
/// # Safety
/// As the module [`cmd`](super) says; the pointers in `attr` are null or live.
pub unsafe extern "C" fn ibv_cmd_create_flow_action_esp(
    context: *mut ibv_context,
    attr: *mut ibv_flow_action_esp_attr,
    flow_action: *mut verbs_flow_action,
    driver: *mut ibv_command_buffer,
) -> c_int {
    to_c(|| {
        let mut cmd = Command::<ROOM>::new(
            UVERBS_OBJECT_FLOW_ACTION,
            UVERBS_METHOD_FLOW_ACTION_ESP_CREATE,
        );
        let handle = cmd.new_object(UVERBS_ATTR_CREATE_FLOW_ACTION_ESP_HANDLE);
        // SAFETY: `context` is open; `attr` and what it points to, `flow_action` and `driver` are live.
        unsafe {
            fill(&*attr, &mut cmd);
            linked::execute(context, &mut cmd, driver)?;
            (*flow_action).action.context = context;
            (*flow_action).type_ = IBV_FLOW_ACTION_ESP;
            (*flow_action).handle = cmd.created(handle);
        }
        Ok(())
    })
}

/// Modifies an ESP action.
///
/// # Safety
/// As for [`ibv_cmd_create_flow_action_esp`].
pub unsafe extern "C" fn ibv_cmd_modify_flow_action_esp(
    flow_action: *mut verbs_flow_action,
    attr: *mut ibv_flow_action_esp_attr,
    driver: *mut ibv_command_buffer,
) -> c_int {
    const ID: u32 = UVERBS_ATTR_MODIFY_FLOW_ACTION_ESP_HANDLE;
    let mut cmd = Command::<ROOM>::new(
        UVERBS_OBJECT_FLOW_ACTION,
        UVERBS_METHOD_FLOW_ACTION_ESP_MODIFY,
    );
    // SAFETY: `flow_action` is live, its context open; `attr` and what it points to and `driver` are live.
    to_c(|| unsafe {
        cmd.object(ID, (*flow_action).handle);
        fill(&*attr, &mut cmd);
        linked::execute((*flow_action).action.context, &mut cmd, driver)
    })
}
