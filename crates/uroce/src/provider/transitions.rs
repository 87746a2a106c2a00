//! The state transitions of a queue pair, and which attributes each requires and allows (specification
//! 11.2.4.2, tables 92 and following). Pure.

use ibverbs_abi::*;

use roce::engine::{QpState, Service};

/// The attributes of a transition, as masks of `IBV_QP_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The attributes that must be in the mask.
    pub required: u32,
    /// The attributes that may be in the mask.
    pub optional: u32,
}

const NO_ATTRIBUTES: Transition = Transition {
    required: 0,
    optional: 0,
};

/// The attributes that describe the peer, in the transition to RTR.
const PEER: u32 = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
/// The attributes of path migration, which is not supported: accepted where the specification allows
/// them, as far as their values mean "none".
const MIGRATION: u32 = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE;

/// The rule of a transition; None if it does not exist.
pub fn rule(service: Service, from: QpState, to: QpState) -> Option<Transition> {
    use QpState::*;
    use Service::*;
    let datagram = service == Ud;
    // Services with a reliable responder, and with a reliable requester.
    let has_responder = matches!(service, Rc | XrcRecv);
    let has_requester = matches!(service, Rc | XrcSend);
    let rnr_timer = if has_responder {
        IBV_QP_MIN_RNR_TIMER
    } else {
        0
    };
    let access = if datagram {
        IBV_QP_QKEY
    } else {
        IBV_QP_ACCESS_FLAGS
    };
    // The attributes that may change in RTS and SQD.
    let in_operation = if datagram {
        IBV_QP_QKEY
    } else {
        IBV_QP_ACCESS_FLAGS | MIGRATION | rnr_timer
    };
    let rule = |required, optional| Some(Transition { required, optional });
    match (from, to) {
        (Reset, Reset) => Some(NO_ATTRIBUTES),
        (Reset, Init) => rule(IBV_QP_PKEY_INDEX | IBV_QP_PORT | access, 0),
        (Reset, _) => None,
        (_, Reset | Err) => Some(NO_ATTRIBUTES),
        (Init, Init) => rule(0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | access),
        (Init, Rtr) if datagram => rule(0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY),
        (Init, Rtr) => {
            let responder = if has_responder {
                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER
            } else {
                0
            };
            let optional = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX;
            rule(PEER | responder, optional)
        }
        (Rtr, Rts) => {
            let requester = match service {
                Rc | XrcSend => {
                    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC
                }
                XrcRecv => IBV_QP_TIMEOUT,
                Uc | Ud => 0,
            };
            rule(IBV_QP_SQ_PSN | requester, IBV_QP_CUR_STATE | in_operation)
        }
        (Rts, Rts) | (Sqd, Rts) => rule(0, IBV_QP_CUR_STATE | in_operation),
        (Rts, Sqd) => rule(0, IBV_QP_EN_SQD_ASYNC_NOTIFY),
        (Sqd, Sqd) if datagram => rule(0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY),
        (Sqd, Sqd) => {
            let mut optional = IBV_QP_AV | in_operation | IBV_QP_PKEY_INDEX;
            if has_requester {
                optional |= IBV_QP_PORT
                    | IBV_QP_TIMEOUT
                    | IBV_QP_RETRY_CNT
                    | IBV_QP_RNR_RETRY
                    | IBV_QP_MAX_QP_RD_ATOMIC;
            }
            if has_responder {
                optional |= IBV_QP_PORT | IBV_QP_TIMEOUT | IBV_QP_MAX_DEST_RD_ATOMIC;
            }
            rule(0, optional)
        }
        (Sqe, Rts) => match service {
            Ud => rule(0, IBV_QP_CUR_STATE | IBV_QP_QKEY),
            Uc => rule(0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS),
            // An error of their send queue moves the queue pair to ERR, never to SQE.
            Rc | XrcSend | XrcRecv => None,
        },
        _ => None,
    }
}

/// The mask without the attributes that the kernel drops before it checks: those of the half that an XRC
/// queue pair does not have. Programs set the same attributes for RC and both XRC services.
pub fn applicable(service: Service, mask: u32) -> u32 {
    mask & !match service {
        Service::XrcSend => IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
        Service::XrcRecv => IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY,
        Service::Rc | Service::Uc | Service::Ud => 0,
    }
}

/// Whether the transition exists and `mask` has all that it requires and nothing that it does not allow.
pub fn allowed(service: Service, from: QpState, to: QpState, mask: u32) -> bool {
    rule(service, from, to).is_some_and(|rule| {
        let all = rule.required | rule.optional | IBV_QP_STATE;
        mask & rule.required == rule.required && mask & !all == 0
    })
}

/// The state of a number in verbs.h; None for UNKNOWN and numbers that do not exist.
pub fn state(number: ibv_qp_state) -> Option<QpState> {
    Some(match number {
        IBV_QPS_RESET => QpState::Reset,
        IBV_QPS_INIT => QpState::Init,
        IBV_QPS_RTR => QpState::Rtr,
        IBV_QPS_RTS => QpState::Rts,
        IBV_QPS_SQD => QpState::Sqd,
        IBV_QPS_SQE => QpState::Sqe,
        IBV_QPS_ERR => QpState::Err,
        _ => return None,
    })
}

/// The number of a state in verbs.h.
pub fn number(state: QpState) -> ibv_qp_state {
    match state {
        QpState::Reset => IBV_QPS_RESET,
        QpState::Init => IBV_QPS_INIT,
        QpState::Rtr => IBV_QPS_RTR,
        QpState::Rts => IBV_QPS_RTS,
        QpState::Sqd => IBV_QPS_SQD,
        QpState::Sqe => IBV_QPS_SQE,
        QpState::Err => IBV_QPS_ERR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use QpState::*;
    use Service::*;

    const STATES: [QpState; 7] = [Reset, Init, Rtr, Rts, Sqd, Sqe, Err];
    const SERVICES: [Service; 5] = [Rc, Uc, Ud, XrcSend, XrcRecv];

    #[test]
    fn states_have_their_numbers() {
        for (n, expected) in (0..).zip(STATES) {
            assert_eq!(state(n), Some(expected));
            assert_eq!(number(expected), n);
        }
        assert_eq!(state(IBV_QPS_UNKNOWN), None);
        assert_eq!(state(u32::MAX), None);
    }

    /// The transitions as the specification draws them (figure 124).
    #[test]
    fn only_the_drawn_transitions_exist() {
        for service in SERVICES {
            for from in STATES {
                for to in STATES {
                    let drawn = match (from, to) {
                        (Reset, Reset | Init) => true,
                        (Reset, _) => false,
                        (_, Reset | Err) => true,
                        (Init, Init | Rtr) | (Rtr, Rts) => true,
                        (Rts, Rts | Sqd) | (Sqd, Sqd | Rts) => true,
                        (Sqe, Rts) => matches!(service, Ud | Uc),
                        _ => false,
                    };
                    assert_eq!(
                        rule(service, from, to).is_some(),
                        drawn,
                        "{service:?} {from:?} {to:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn no_attribute_is_both_required_and_optional() {
        for service in SERVICES {
            for from in STATES {
                for to in STATES {
                    if let Some(rule) = rule(service, from, to) {
                        assert_eq!(rule.required & rule.optional, 0);
                        assert_eq!((rule.required | rule.optional) & IBV_QP_CAP, 0);
                    }
                }
            }
        }
    }

    #[test]
    fn xrc_takes_the_attributes_of_rc() {
        let init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        let rtr = IBV_QP_STATE | PEER | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        let rts = IBV_QP_STATE
            | IBV_QP_SQ_PSN
            | IBV_QP_TIMEOUT
            | IBV_QP_RETRY_CNT
            | IBV_QP_RNR_RETRY
            | IBV_QP_MAX_QP_RD_ATOMIC;
        for service in [Rc, XrcSend, XrcRecv] {
            for (from, to, mask) in [(Reset, Init, init), (Init, Rtr, rtr), (Rtr, Rts, rts)] {
                let mask = applicable(service, mask);
                assert!(allowed(service, from, to, mask), "{service:?} {to:?}");
            }
        }
        // Attributes that a service requires stay required.
        assert_eq!(applicable(XrcSend, rts), rts);
        assert_eq!(applicable(XrcRecv, rtr), rtr);
        for service in [Rc, Uc, Ud] {
            assert_eq!(applicable(service, u32::MAX), u32::MAX);
        }
    }

    /// The attributes that programs set from RESET to RTS.
    #[test]
    fn the_usual_way_to_rts() {
        let init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
        let rtr = IBV_QP_STATE | PEER;
        let responder = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        let rts = IBV_QP_STATE | IBV_QP_SQ_PSN;
        let requester =
            IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
        for (service, steps) in [
            (
                Rc,
                [init | IBV_QP_ACCESS_FLAGS, rtr | responder, rts | requester],
            ),
            (Uc, [init | IBV_QP_ACCESS_FLAGS, rtr, rts]),
            (Ud, [init | IBV_QP_QKEY, IBV_QP_STATE, rts]),
            (XrcSend, [init | IBV_QP_ACCESS_FLAGS, rtr, rts | requester]),
            (
                XrcRecv,
                [
                    init | IBV_QP_ACCESS_FLAGS,
                    rtr | responder,
                    rts | IBV_QP_TIMEOUT,
                ],
            ),
        ] {
            for (i, mask) in steps.into_iter().enumerate() {
                let (from, to) = (STATES[i], STATES[i + 1]);
                assert!(allowed(service, from, to, mask), "{service:?} {to:?}");
                assert!(!allowed(service, from, to, mask | IBV_QP_CAP));
                // Each attribute is required.
                for bit in (0..32).map(|n| 1 << n) {
                    if bit != IBV_QP_STATE && mask & bit != 0 {
                        assert!(!allowed(service, from, to, mask & !bit));
                    }
                }
            }
        }
        assert!(!allowed(Ud, Reset, Init, init | IBV_QP_ACCESS_FLAGS));
        assert!(!allowed(Uc, Rtr, Rts, rts | requester));
        assert!(allowed(Rc, Rts, Err, IBV_QP_STATE));
        assert!(!allowed(Rc, Rts, Err, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS));
        assert!(allowed(
            Rc,
            Rts,
            Sqd,
            IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY
        ));
        assert!(allowed(Rc, Sqd, Sqd, IBV_QP_AV | IBV_QP_TIMEOUT));
        assert!(!allowed(Uc, Sqd, Sqd, IBV_QP_TIMEOUT));
    }
}
