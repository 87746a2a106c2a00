//! The arguments of ibv_modify_qp that has failed with EINVAL though the transition and the mask are right.

use core::ffi::c_int;

use ibverbs_abi::*;

use super::super::super::check::state::{mask_names, state_name};
use super::super::super::facts;
use super::super::super::finding::Kind;
use super::super::argument::{Argument, number, object, reason};
use super::super::{attributes, preserving_errno, with};
use super::{Arguments, PORT, device};

/// # Safety
/// See the module above.
pub unsafe fn modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> Arguments {
    let mask = mask as u32;
    // SAFETY: see the module above.
    unsafe {
        let context = (*qp).context;
        let attr = attributes::copy(attr, mask).attr;
        let number_of_port = match attr.port_num {
            0 => 1,
            port => port,
        };
        let of_port = preserving_errno(|| facts::port(context, number_of_port));
        let mut all = vec![object("qp", Kind::Qp, qp as usize)];
        let state = with(|shadow| shadow.qps.get(&(qp as usize)).map(|qp| qp.state)).flatten();
        all.extend(state.map(|state| current_state(mask, attr.cur_qp_state, state)));
        all.extend(
            device(context)
                .map(|device| alternate_path(mask, &attr, &device))
                .into_iter()
                .flatten(),
        );
        let Some(port) = of_port else { return all };
        if mask & IBV_QP_PKEY_INDEX != 0 {
            let max = port.pkey_tbl_len.max(1) - 1;
            let meaning =
                "it is an index of the port's P_Key table, of pkey_tbl_len entries; RoCE has one";
            all.push(number("pkey_index", attr.pkey_index, 0, max, meaning));
        }
        if mask & IBV_QP_PATH_MTU != 0 {
            let meaning = "a path MTU is at most active_mtu of the port (ibv_query_port)";
            all.push(number(
                "path_mtu",
                attr.path_mtu,
                1,
                port.active_mtu,
                meaning,
            ));
        }
        all
    }
}

/// The state that the program says the queue pair is in.
fn current_state(mask: u32, said: ibv_qp_state, state: ibv_qp_state) -> Argument {
    reason(
        mask & IBV_QP_CUR_STATE != 0 && said != state,
        format!(
            "attr_mask has IBV_QP_CUR_STATE, cur_qp_state is {}, and the queue pair is in {}",
            state_name(said),
            state_name(state)
        ),
        "the bit says from which state the transition goes, and the device compares it",
        "remove IBV_QP_CUR_STATE from the mask, or set cur_qp_state to the state",
    )
}

/// Attributes of automatic path migration.
fn alternate_path(mask: u32, attr: &ibv_qp_attr, device: &ibv_device_attr) -> [Argument; 2] {
    let asked = mask & (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
    let has_path = mask & IBV_QP_ALT_PATH != 0;
    let names = mask_names(asked);
    let no_migration = device.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG == 0;
    let port = match has_path {
        true => attr.alt_port_num,
        false => 1,
    };
    [
        reason(
            asked != 0 && no_migration,
            format!("attr_mask has {names}, and the device has no automatic path migration"),
            "an alternate path is for InfiniBand devices with IBV_DEVICE_AUTO_PATH_MIG in device_cap_flags; \
             RoCE has none",
            "remove IBV_QP_ALT_PATH and IBV_QP_PATH_MIG_STATE from the mask",
        ),
        number("alt_port_num", port, 1, device.phys_port_cnt, PORT),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_wrong(argument: &Argument) -> bool {
        match argument {
            Argument::Reason { is_wrong, .. } => *is_wrong,
            Argument::Number {
                value, min, max, ..
            } => !(min..=max).contains(&value),
            _ => false,
        }
    }

    #[test]
    fn the_state_counts_only_with_its_bit() {
        let judge = |mask, said| is_wrong(&current_state(mask, said, IBV_QPS_RTR));
        assert!(judge(IBV_QP_CUR_STATE, IBV_QPS_RESET));
        assert!(!judge(IBV_QP_CUR_STATE, IBV_QPS_RTR));
        assert!(!judge(IBV_QP_STATE, IBV_QPS_RESET));
    }

    #[test]
    fn alternate_paths() {
        // SAFETY: both structures have integers and bytes only, for which zeros are valid.
        let (mut attr, mut device): (ibv_qp_attr, ibv_device_attr) =
            unsafe { (core::mem::zeroed(), core::mem::zeroed()) };
        device.phys_port_cnt = 1;
        let judge = |mask, attr: &ibv_qp_attr, device: &ibv_device_attr| {
            alternate_path(mask, attr, device).each_ref().map(is_wrong)
        };
        assert_eq!(judge(IBV_QP_AV, &attr, &device), [false, false]);
        assert_eq!(judge(IBV_QP_PATH_MIG_STATE, &attr, &device), [true, false]);
        device.device_cap_flags = IBV_DEVICE_AUTO_PATH_MIG;
        assert_eq!(judge(IBV_QP_ALT_PATH, &attr, &device), [false, true]);
        attr.alt_port_num = 1;
        assert_eq!(judge(IBV_QP_ALT_PATH, &attr, &device), [false, false]);
    }
}
