//! The attributes that the transitions of a queue pair require and allow (specification 11.2.4.2), to say
//! which of them a refused ibv_modify_qp lacks or has too many.

use ibverbs_abi::*;

use crate::diagnose::finding::{Finding, Object, Outcome};
use crate::diagnose::rules::Rule;

const CALL: &str = "ibv_modify_qp";

/// The attributes that describe the peer, in the transition to RTR.
const PEER: u32 = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
const RESPONDER: u32 = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
const REQUESTER: u32 =
    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
const MIGRATION: u32 = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE;

/// The masks of required and of optional attributes; None if there is no such transition, or if the type of
/// queue pair is not known here.
fn masks(kind: ibv_qp_type, from: ibv_qp_state, to: ibv_qp_state) -> Option<(u32, u32)> {
    let datagram = kind == IBV_QPT_UD;
    let responder = matches!(kind, IBV_QPT_RC | IBV_QPT_XRC_RECV);
    let requester = matches!(kind, IBV_QPT_RC | IBV_QPT_XRC_SEND);
    let when = |condition: bool, mask: u32| if condition { mask } else { 0 };
    let access = match datagram {
        true => IBV_QP_QKEY,
        false => IBV_QP_ACCESS_FLAGS,
    };
    let in_operation = match datagram {
        true => IBV_QP_QKEY,
        false => IBV_QP_ACCESS_FLAGS | MIGRATION | when(responder, IBV_QP_MIN_RNR_TIMER),
    };
    match (from, to) {
        (_, IBV_QPS_RESET) => Some((0, 0)),
        (IBV_QPS_RESET, IBV_QPS_INIT) => Some((IBV_QP_PKEY_INDEX | IBV_QP_PORT | access, 0)),
        (IBV_QPS_RESET, _) => None,
        (_, IBV_QPS_ERR) => Some((0, 0)),
        (IBV_QPS_INIT, IBV_QPS_INIT) => Some((0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | access)),
        (IBV_QPS_INIT, IBV_QPS_RTR) if datagram => Some((0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY)),
        (IBV_QPS_INIT, IBV_QPS_RTR) => Some((
            PEER | when(responder, RESPONDER),
            IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX,
        )),
        (IBV_QPS_RTR, IBV_QPS_RTS) => {
            let timeout = when(kind == IBV_QPT_XRC_RECV, IBV_QP_TIMEOUT);
            let required = IBV_QP_SQ_PSN | when(requester, REQUESTER) | timeout;
            Some((required, IBV_QP_CUR_STATE | in_operation))
        }
        (IBV_QPS_RTS | IBV_QPS_SQD, IBV_QPS_RTS) => Some((0, IBV_QP_CUR_STATE | in_operation)),
        (IBV_QPS_RTS, IBV_QPS_SQD) => Some((0, IBV_QP_EN_SQD_ASYNC_NOTIFY)),
        (IBV_QPS_SQD, IBV_QPS_SQD) if datagram => Some((0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY)),
        (IBV_QPS_SQD, IBV_QPS_SQD) => Some((
            0,
            IBV_QP_AV
                | in_operation
                | IBV_QP_PKEY_INDEX
                | when(requester, REQUESTER | IBV_QP_PORT)
                | when(
                    responder,
                    IBV_QP_PORT | IBV_QP_TIMEOUT | IBV_QP_MAX_DEST_RD_ATOMIC,
                ),
        )),
        (IBV_QPS_SQE, IBV_QPS_RTS) if datagram || kind == IBV_QPT_UC => {
            Some((0, IBV_QP_CUR_STATE | access))
        }
        _ => None,
    }
}

/// Why a refused ibv_modify_qp (EINVAL) with `mask` of a queue pair in `from` was refused; None if the
/// transition and the mask are right, so that a value must be wrong.
pub fn refused(
    object: &Object,
    kind: ibv_qp_type,
    from: ibv_qp_state,
    to: Option<ibv_qp_state>,
    mask: u32,
) -> Option<Finding> {
    if !matches!(
        kind,
        IBV_QPT_RC | IBV_QPT_UC | IBV_QPT_UD | IBV_QPT_XRC_SEND | IBV_QPT_XRC_RECV
    ) {
        return None;
    }
    let asked = to;
    let to = to.unwrap_or(from);
    let finding = |rule| {
        Finding::new(rule, object.clone(), CALL, Outcome::of(libc::EINVAL))
            .with("from", state_name(from))
            .with("to", state_name(to))
            .with("type", type_name(kind))
    };
    if asked.is_none() && mask & IBV_QP_STATE == 0 && from == IBV_QPS_RESET {
        return Some(without_state(finding(Rule::QpAttrMissing)));
    }
    let Some((required, optional)) = masks(kind, from, to) else {
        return Some(finding(Rule::QpTransition).with("next", next_state_towards(from, to)));
    };
    // The kernel ignores the attributes of the half that an XRC queue pair does not have.
    let ignored = match kind {
        IBV_QPT_XRC_SEND => RESPONDER,
        IBV_QPT_XRC_RECV => IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY,
        _ => 0,
    };
    let missing = required & !mask;
    if missing != 0 {
        return Some(finding(Rule::QpAttrMissing).with("bits", mask_names(missing)));
    }
    let invalid = mask & !(required | optional | ignored | IBV_QP_STATE);
    (invalid != 0).then(|| {
        let mut found = finding(Rule::QpAttrInvalid).with("bits", mask_names(invalid));
        found.notes.extend(connects_again(kind, from, to, mask));
        found
    })
}

/// A note on a mask that is right for the transition to this state, in which the queue pair is already.
fn connects_again(
    kind: ibv_qp_type,
    from: ibv_qp_state,
    to: ibv_qp_state,
    mask: u32,
) -> Option<String> {
    let before = match to {
        IBV_QPS_RTR => IBV_QPS_INIT,
        IBV_QPS_RTS => IBV_QPS_RTR,
        _ => return None,
    };
    let (required, _) = masks(kind, before, to)?;
    (from == to && required != 0 && required & !mask == 0).then(|| {
        format!(
            "these are the attributes of {} to {}, and the queue pair is in {} already: to connect it anew, \
             modify it to RESET and then through all states",
            state_name(before),
            state_name(to),
            state_name(to)
        )
    })
}

/// The mask names attributes of a queue pair in RESET, and no state.
fn without_state(finding: Finding) -> Finding {
    let mut found = finding.with("bits", "IBV_QP_STATE");
    let note = "without this bit the call does not change the state, whatever attr.qp_state is; a queue pair \
                in RESET has no attributes that can change";
    found.notes.push(note.into());
    found
}

/// The state to go to first.
fn next_state_towards(from: ibv_qp_state, to: ibv_qp_state) -> &'static str {
    match (from, to) {
        (IBV_QPS_RESET, _) => "INIT",
        (IBV_QPS_INIT, _) => "RTR",
        (IBV_QPS_RTR, IBV_QPS_SQD) => "RTS",
        _ => "RESET",
    }
}

pub fn state_name(state: ibv_qp_state) -> &'static str {
    const NAMES: [&str; 8] = [
        "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR", "UNKNOWN",
    ];
    NAMES.get(state as usize).copied().unwrap_or("UNKNOWN")
}

pub fn type_name(kind: ibv_qp_type) -> &'static str {
    match kind {
        IBV_QPT_RC => "RC",
        IBV_QPT_UC => "UC",
        IBV_QPT_UD => "UD",
        IBV_QPT_RAW_PACKET => "raw packet",
        IBV_QPT_XRC_SEND => "XRC send",
        IBV_QPT_XRC_RECV => "XRC receive",
        _ => "driver's",
    }
}

/// The names in verbs.h of the bits.
pub fn mask_names(mask: u32) -> String {
    const NAMES: [(u32, &str); 22] = [
        (IBV_QP_STATE, "IBV_QP_STATE"),
        (IBV_QP_CUR_STATE, "IBV_QP_CUR_STATE"),
        (IBV_QP_EN_SQD_ASYNC_NOTIFY, "IBV_QP_EN_SQD_ASYNC_NOTIFY"),
        (IBV_QP_ACCESS_FLAGS, "IBV_QP_ACCESS_FLAGS"),
        (IBV_QP_PKEY_INDEX, "IBV_QP_PKEY_INDEX"),
        (IBV_QP_PORT, "IBV_QP_PORT"),
        (IBV_QP_QKEY, "IBV_QP_QKEY"),
        (IBV_QP_AV, "IBV_QP_AV"),
        (IBV_QP_PATH_MTU, "IBV_QP_PATH_MTU"),
        (IBV_QP_TIMEOUT, "IBV_QP_TIMEOUT"),
        (IBV_QP_RETRY_CNT, "IBV_QP_RETRY_CNT"),
        (IBV_QP_RNR_RETRY, "IBV_QP_RNR_RETRY"),
        (IBV_QP_RQ_PSN, "IBV_QP_RQ_PSN"),
        (IBV_QP_MAX_QP_RD_ATOMIC, "IBV_QP_MAX_QP_RD_ATOMIC"),
        (IBV_QP_ALT_PATH, "IBV_QP_ALT_PATH"),
        (IBV_QP_MIN_RNR_TIMER, "IBV_QP_MIN_RNR_TIMER"),
        (IBV_QP_SQ_PSN, "IBV_QP_SQ_PSN"),
        (IBV_QP_MAX_DEST_RD_ATOMIC, "IBV_QP_MAX_DEST_RD_ATOMIC"),
        (IBV_QP_PATH_MIG_STATE, "IBV_QP_PATH_MIG_STATE"),
        (IBV_QP_CAP, "IBV_QP_CAP"),
        (IBV_QP_DEST_QPN, "IBV_QP_DEST_QPN"),
        (IBV_QP_RATE_LIMIT, "IBV_QP_RATE_LIMIT"),
    ];
    let mut names: Vec<String> = NAMES
        .iter()
        .filter(|(bit, _)| mask & bit != 0)
        .map(|(_, name)| name.to_string())
        .collect();
    let known: u32 = NAMES
        .iter()
        .map(|(bit, _)| bit)
        .fold(0, |all, bit| all | bit);
    if mask & !known != 0 {
        names.push(format!("{:#x}", mask & !known));
    }
    names.join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::finding::is_complete;

    fn judge(kind: ibv_qp_type, from: u32, to: u32, mask: u32) -> Option<(Rule, String)> {
        let finding = refused(&Object::qp(1, 2), kind, from, Some(to), mask)?;
        assert!(is_complete(&finding), "{}", finding.line());
        let bits = finding.values.iter().find(|(name, _)| *name == "bits");
        Some((
            finding.rule,
            bits.map(|(_, bits)| bits.clone()).unwrap_or_default(),
        ))
    }

    const TO_INIT: u32 = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

    #[test]
    fn the_usual_masks_are_right() {
        let rc_init = TO_INIT | IBV_QP_ACCESS_FLAGS;
        assert_eq!(
            judge(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, rc_init),
            None
        );
        let rtr = IBV_QP_STATE | PEER | RESPONDER;
        assert_eq!(judge(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, rtr), None);
        // XRC queue pairs may have the attributes of the other half.
        assert_eq!(
            judge(IBV_QPT_XRC_SEND, IBV_QPS_INIT, IBV_QPS_RTR, rtr),
            None
        );
        let rts = IBV_QP_STATE | IBV_QP_SQ_PSN | REQUESTER;
        assert_eq!(judge(IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, rts), None);
        assert_eq!(
            judge(IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_ERR, IBV_QP_STATE),
            None
        );
        // A type that is not known here.
        assert_eq!(judge(IBV_QPT_DRIVER, IBV_QPS_RESET, IBV_QPS_RTS, 0), None);
    }

    #[test]
    fn the_bits_are_named() {
        assert_eq!(
            judge(IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_INIT, TO_INIT),
            Some((Rule::QpAttrMissing, "IBV_QP_QKEY".into()))
        );
        let more = TO_INIT | IBV_QP_ACCESS_FLAGS | IBV_QP_AV | 1 << 30;
        assert_eq!(
            judge(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, more),
            Some((Rule::QpAttrInvalid, "IBV_QP_AV | 0x40000000".into()))
        );
    }

    #[test]
    fn skipped_states() {
        for (from, to) in [
            (IBV_QPS_RESET, IBV_QPS_RTS),
            (IBV_QPS_RESET, IBV_QPS_RTR),
            (IBV_QPS_INIT, IBV_QPS_RTS),
            (IBV_QPS_ERR, IBV_QPS_RTS),
            (IBV_QPS_RTS, IBV_QPS_RTR),
        ] {
            let (rule, _) = judge(IBV_QPT_RC, from, to, IBV_QP_STATE).unwrap();
            assert_eq!(rule, Rule::QpTransition, "{from} {to}");
        }
    }
}
