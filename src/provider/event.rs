//! The kind of object that an asynchronous event is about.

use ibverbs_abi::*;

/// The kind of object that an event affects, which says which member of its union is valid.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Subject {
    Cq,
    Qp,
    Srq,
    Wq,
    /// A port, or the whole device (then the port number has no meaning). Unknown events are handled as
    /// these.
    Port,
}

/// The kind of object that events of a type affect.
pub const fn subject(event_type: ibv_event_type) -> Subject {
    match event_type {
        IBV_EVENT_CQ_ERR => Subject::Cq,
        IBV_EVENT_QP_FATAL
        | IBV_EVENT_QP_REQ_ERR
        | IBV_EVENT_QP_ACCESS_ERR
        | IBV_EVENT_COMM_EST
        | IBV_EVENT_SQ_DRAINED
        | IBV_EVENT_PATH_MIG
        | IBV_EVENT_PATH_MIG_ERR
        | IBV_EVENT_QP_LAST_WQE_REACHED => Subject::Qp,
        IBV_EVENT_SRQ_ERR | IBV_EVENT_SRQ_LIMIT_REACHED => Subject::Srq,
        IBV_EVENT_WQ_FATAL => Subject::Wq,
        _ => Subject::Port,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_has_its_subject() {
        use Subject::*;
        // In the order of enum ibv_event_type, then values outside it.
        let subjects = [
            Cq, Qp, Qp, Qp, Qp, Qp, Qp, Qp, Port, Port, Port, Port, Port, Port, Srq, Srq, Qp, Port,
            Port, Wq, Port,
        ];
        for (event, expected) in (0..).zip(subjects) {
            assert_eq!(subject(event), expected, "event {event}");
        }
        assert_eq!(subject(21), Port);
        assert_eq!(subject(u32::MAX), Port);
    }
}
