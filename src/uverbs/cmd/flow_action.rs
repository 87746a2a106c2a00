//! Flow actions: ESP.

use ibverbs_abi::*;
use libc::c_int;

use super::mr::LINK_ROOM;
use crate::uverbs::{Destroyed, destroyed, ioctl::Command, linked};

/// The room for the handle, the five attributes of an ESP action, and the provider's.
const ROOM: usize = 6 + LINK_ROOM;

/// The attributes that `esp` names.
///
/// # Safety
/// What `esp` points to is live until the command is executed.
unsafe fn fill(esp: &ibv_flow_action_esp_attr, cmd: &mut Command<ROOM>) {
    // SAFETY: by the contract, each pointer is readable for the length that belongs to it.
    unsafe {
        if esp.comp_mask & IBV_FLOW_ACTION_ESP_MASK_ESN != 0 {
            let esn = (&raw const esp.esn).cast();
            cmd.input(UVERBS_ATTR_FLOW_ACTION_ESP_ESN, esn, size_of::<u32>());
        }
        if !esp.keymat_ptr.is_null() {
            cmd.input_enum(
                UVERBS_ATTR_FLOW_ACTION_ESP_KEYMAT,
                esp.keymat_proto as u8,
                esp.keymat_ptr.cast(),
                esp.keymat_len.into(),
            );
        }
        if !esp.replay_ptr.is_null() {
            cmd.input_enum(
                UVERBS_ATTR_FLOW_ACTION_ESP_REPLAY,
                esp.replay_proto as u8,
                esp.replay_ptr.cast(),
                esp.replay_len.into(),
            );
        }
        if !esp.esp_encap.is_null() {
            cmd.input(
                UVERBS_ATTR_FLOW_ACTION_ESP_ENCAP,
                esp.esp_encap.cast(),
                size_of::<ib_uverbs_flow_action_esp_encap>(),
            );
        }
        if !esp.esp_attr.is_null() {
            cmd.input(
                UVERBS_ATTR_FLOW_ACTION_ESP_ATTRS,
                esp.esp_attr.cast(),
                size_of::<ib_uverbs_flow_action_esp>(),
            );
        }
    }
}

/// Creates an ESP action.
///
/// # Safety
/// All pointers are live, those in `attr` too; `driver` is null or the provider's live chain of
/// command buffers.
pub unsafe extern "C" fn ibv_cmd_create_flow_action_esp(
    context: *mut ibv_context,
    attr: *mut ibv_flow_action_esp_attr,
    flow_action: *mut verbs_flow_action,
    driver: *mut ibv_command_buffer,
) -> c_int {
    let mut cmd = Command::<ROOM>::new(
        UVERBS_OBJECT_FLOW_ACTION,
        UVERBS_METHOD_FLOW_ACTION_ESP_CREATE,
    );
    let handle = cmd.new_object(UVERBS_ATTR_CREATE_FLOW_ACTION_ESP_HANDLE);
    // SAFETY: by the contract.
    unsafe {
        fill(&*attr, &mut cmd);
        if let Err(error) = linked::execute(context, &mut cmd, driver) {
            return error.0;
        }
        (*flow_action).action.context = context;
        (*flow_action).type_ = IBV_FLOW_ACTION_ESP;
        (*flow_action).handle = cmd.made(handle);
    }
    0
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
    let mut cmd = Command::<ROOM>::new(
        UVERBS_OBJECT_FLOW_ACTION,
        UVERBS_METHOD_FLOW_ACTION_ESP_MODIFY,
    );
    // SAFETY: by the contract.
    unsafe {
        cmd.object(
            UVERBS_ATTR_MODIFY_FLOW_ACTION_ESP_HANDLE,
            (*flow_action).handle,
        );
        fill(&*attr, &mut cmd);
        linked::execute((*flow_action).action.context, &mut cmd, driver).into_c()
    }
}

/// Destroys a flow action.
///
/// # Safety
/// `action` is live.
pub unsafe extern "C" fn ibv_cmd_destroy_flow_action(action: *mut verbs_flow_action) -> c_int {
    let mut cmd = Command::<1>::new(UVERBS_OBJECT_FLOW_ACTION, UVERBS_METHOD_FLOW_ACTION_DESTROY);
    // SAFETY: by the contract.
    let ret = unsafe {
        cmd.object(UVERBS_ATTR_DESTROY_FLOW_ACTION_HANDLE, (*action).handle);
        cmd.execute((*action).action.context)
    };
    match destroyed(ret.into_c()) {
        Destroyed::Yes => 0,
        Destroyed::Return(ret) => ret,
    }
}
