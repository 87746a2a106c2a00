//! Actions, keys, and the names that values can have. libibverbs-rs-faults(7) lists all of them; a test of
//! the manual pages compares.

use ibverbs_abi::*;

use crate::kind::{Direction, Distribution};

/// Where an action applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// A packet that a uroce device has received, or is about to send.
    Packet,
    /// A completion that the program polls.
    Completion,
    /// A verb that the program calls.
    Call,
    /// A poll of a CQ, whatever it returns.
    Poll,
    /// A time.
    Time,
}

/// A key of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// `time`: the delay.
    Time,
    /// `status` of a completion.
    Status,
    /// `call`: the verb.
    Call,
    /// `errno`: the value that the verb fails with.
    Errno,
    /// `type` of an asynchronous event.
    Type,
    /// `every`: the interval between events.
    Every,
    /// `p`: the probability that the rule applies.
    P,
    /// `count`: the most times that the rule applies.
    Count,
    /// `after`: the number of matches to skip first.
    After,
    /// `from`: the time from which on the rule applies.
    From,
    /// `to`: the time before which the rule applies.
    To,
    /// `device`: its name.
    Device,
    /// `qpn`: the queue pair number.
    Qpn,
    /// `opcode`: the operation.
    Opcode,
    /// `size`: the length in bytes.
    Size,
    /// `direction`: received or sent packets.
    Direction,
    /// `jitter`: how much a delay varies.
    Jitter,
    /// `distribution`: how it varies.
    Distribution,
    /// `length`: of a burst, in packets.
    Length,
    /// `loss`: the probability that a packet of a burst is lost.
    Loss,
    /// `rate`: bits per second.
    Rate,
    /// `queue`: bytes that may wait.
    Queue,
    /// `peer`: its address.
    Peer,
    /// `per`: what `count` and `after` are of.
    Per,
    /// `state` of the GID table.
    State,
}

/// An action.
#[derive(Debug)]
pub struct ActionEntry {
    /// The name of the action in rules.
    pub name: &'static str,
    /// The point where the action applies.
    pub point: Point,
    /// Keys that it needs.
    pub needs: &'static [Key],
    /// Keys that it may have.
    pub takes: &'static [Key],
}

/// A key.
#[derive(Debug)]
pub struct KeyEntry {
    /// The key.
    pub key: Key,
    /// The name of the key in rules.
    pub name: &'static str,
    /// The kind of value that the key takes, for messages.
    pub value: &'static str,
}

/// The keys that actions may have, in the order in which messages list them.
mod takes {
    use super::Key::{self, *};

    pub const PACKETS: &[Key] = &[
        P, Count, After, From, To, Device, Qpn, Opcode, Size, Direction, Peer, Per,
    ];
    pub const DELAYS: &[Key] = &[
        Jitter,
        Distribution,
        P,
        Count,
        After,
        From,
        To,
        Device,
        Qpn,
        Opcode,
        Size,
        Direction,
        Peer,
        Per,
    ];
    pub const BURSTS: &[Key] = &[Loss, From, To, Device, Qpn, Opcode, Size, Direction, Peer];
    pub const LINES: &[Key] = &[Queue, From, To, Device, Qpn, Opcode, Size, Direction, Peer];
    pub const MESSAGES: &[Key] = &[P, Count, After, From, To, Device, Qpn, Opcode, Size, Per];
    pub const CALLS_TAKE: &[Key] = &[P, Count, After, From, To, Device, Qpn, Size, Per];
    pub const POLLS: &[Key] = &[P, Count, After, From, To, Device];
    pub const TIMES: &[Key] = &[Count, Every, From, To, Device, Qpn];
    pub const TABLES: &[Key] = &[Count, From, To, Device];
}
use takes::*;

const fn action(
    name: &'static str,
    point: Point,
    needs: &'static [Key],
    takes: &'static [Key],
) -> ActionEntry {
    ActionEntry {
        name,
        point,
        needs,
        takes,
    }
}

/// All actions.
pub static ACTIONS: [ActionEntry; 13] = [
    action("drop", Point::Packet, &[], PACKETS),
    action("corrupt", Point::Packet, &[], PACKETS),
    action("duplicate", Point::Packet, &[], PACKETS),
    action("delay", Point::Packet, &[Key::Time], DELAYS),
    action("rnr", Point::Packet, &[], MESSAGES),
    action("wc", Point::Completion, &[Key::Status], MESSAGES),
    action("fail", Point::Call, &[Key::Call, Key::Errno], CALLS_TAKE),
    action("event", Point::Time, &[Key::Type], TIMES),
    action("slow-cq", Point::Poll, &[Key::Time], POLLS),
    action("burst", Point::Packet, &[Key::P, Key::Length], BURSTS),
    action("rate", Point::Packet, &[Key::Rate], LINES),
    action("gids", Point::Time, &[Key::State], TABLES),
    action("ecn", Point::Packet, &[], MESSAGES),
];

const fn key(key: Key, name: &'static str, value: &'static str) -> KeyEntry {
    KeyEntry { key, name, value }
}

/// All keys.
pub static KEYS: [KeyEntry; 25] = [
    key(Key::Time, "time", "a time such as 5ms"),
    key(Key::Status, "status", "a completion status"),
    key(Key::Call, "call", "a verb such as reg_mr or create_*"),
    key(Key::Errno, "errno", "a name such as ENOMEM or a number"),
    key(Key::Type, "type", "an event type"),
    key(Key::Every, "every", "a time such as 5ms"),
    key(Key::P, "p", "a probability: 0 to 1, or 0% to 100%"),
    key(Key::Count, "count", "a number"),
    key(Key::After, "after", "a number"),
    key(Key::From, "from", "a time such as 5ms"),
    key(Key::To, "to", "a time such as 5ms"),
    key(Key::Device, "device", "a device name"),
    key(Key::Qpn, "qpn", "a number"),
    key(Key::Opcode, "opcode", "an operation such as write or send*"),
    key(Key::Size, "size", "bytes: N, N-M, N- or -M"),
    key(Key::Direction, "direction", "rx, tx or both"),
    key(Key::Jitter, "jitter", "a time such as 5ms"),
    key(
        Key::Distribution,
        "distribution",
        "uniform, normal or pareto",
    ),
    key(Key::Length, "length", "packets"),
    key(Key::Loss, "loss", "a probability: 0 to 1, or 0% to 100%"),
    key(Key::Rate, "rate", "bits per second, such as 100M"),
    key(Key::Queue, "queue", "bytes, such as 64K"),
    key(Key::Peer, "peer", "an address, or ADDRESS/BITS"),
    key(Key::Per, "per", "qp"),
    key(Key::State, "state", "removed or present"),
];

/// The directions by their names in rules.
pub static DIRECTIONS: [(&str, Direction); 3] = [
    ("rx", Direction::Received),
    ("tx", Direction::Sent),
    ("both", Direction::Both),
];

/// The states of a GID table: whether it has its entries.
pub static GID_STATES: [(&str, bool); 2] = [("removed", false), ("present", true)];

/// How delays vary.
pub static DISTRIBUTIONS: [(&str, Distribution); 3] = [
    ("uniform", Distribution::Uniform),
    ("normal", Distribution::Normal),
    ("pareto", Distribution::Pareto),
];

/// The operations of packets.
pub static PACKET_OPCODES: [&str; 13] = [
    "send",
    "send-imm",
    "send-inv",
    "write",
    "write-imm",
    "read",
    "read-response",
    "ack",
    "atomic-ack",
    "cmp-swap",
    "fetch-add",
    "flush",
    "atomic-write",
];

/// The operations of completions. Of those that failed only `recv` is known to be a receive.
pub static COMPLETION_OPCODES: [(&str, u32); 12] = [
    ("send", IBV_WC_SEND),
    ("write", IBV_WC_RDMA_WRITE),
    ("read", IBV_WC_RDMA_READ),
    ("cmp-swap", IBV_WC_COMP_SWAP),
    ("fetch-add", IBV_WC_FETCH_ADD),
    ("bind-mw", IBV_WC_BIND_MW),
    ("local-inv", IBV_WC_LOCAL_INV),
    ("tso", IBV_WC_TSO),
    ("flush", IBV_WC_FLUSH),
    ("atomic-write", IBV_WC_ATOMIC_WRITE),
    ("recv", IBV_WC_RECV),
    ("recv-imm", IBV_WC_RECV_RDMA_WITH_IMM),
];

/// The verbs that can be made to fail, without `ibv_`, sorted.
pub static CALLS: [&str; 41] = [
    "alloc_dm",
    "alloc_mw",
    "alloc_null_mr",
    "alloc_parent_domain",
    "alloc_pd",
    "alloc_td",
    "attach_mcast",
    "bind_mw",
    "create_ah",
    "create_counters",
    "create_cq",
    "create_cq_ex",
    "create_flow",
    "create_qp",
    "create_qp_ex",
    "create_rwq_ind_table",
    "create_srq",
    "create_srq_ex",
    "create_wq",
    "modify_cq",
    "modify_qp",
    "modify_qp_rate_limit",
    "modify_srq",
    "modify_wq",
    "open_qp",
    "open_xrcd",
    "post_recv",
    "post_send",
    "post_srq_recv",
    "query_device_ex",
    "query_port",
    "query_qp",
    "query_srq",
    "reg_dm_mr",
    "reg_dmabuf_mr",
    "reg_mr",
    "reg_mr_ex",
    "req_notify_cq",
    "rereg_mr",
    "resize_cq",
    "wr_complete",
];

/// The completion statuses: `IBV_WC_` and the name in capitals.
pub static STATUSES: [(&str, u32); 23] = [
    ("loc-len-err", IBV_WC_LOC_LEN_ERR),
    ("loc-qp-op-err", IBV_WC_LOC_QP_OP_ERR),
    ("loc-eec-op-err", IBV_WC_LOC_EEC_OP_ERR),
    ("loc-prot-err", IBV_WC_LOC_PROT_ERR),
    ("wr-flush-err", IBV_WC_WR_FLUSH_ERR),
    ("mw-bind-err", IBV_WC_MW_BIND_ERR),
    ("bad-resp-err", IBV_WC_BAD_RESP_ERR),
    ("loc-access-err", IBV_WC_LOC_ACCESS_ERR),
    ("rem-inv-req-err", IBV_WC_REM_INV_REQ_ERR),
    ("rem-access-err", IBV_WC_REM_ACCESS_ERR),
    ("rem-op-err", IBV_WC_REM_OP_ERR),
    ("retry-exc-err", IBV_WC_RETRY_EXC_ERR),
    ("rnr-retry-exc-err", IBV_WC_RNR_RETRY_EXC_ERR),
    ("loc-rdd-viol-err", IBV_WC_LOC_RDD_VIOL_ERR),
    ("rem-inv-rd-req-err", IBV_WC_REM_INV_RD_REQ_ERR),
    ("rem-abort-err", IBV_WC_REM_ABORT_ERR),
    ("inv-eecn-err", IBV_WC_INV_EECN_ERR),
    ("inv-eec-state-err", IBV_WC_INV_EEC_STATE_ERR),
    ("fatal-err", IBV_WC_FATAL_ERR),
    ("resp-timeout-err", IBV_WC_RESP_TIMEOUT_ERR),
    ("general-err", IBV_WC_GENERAL_ERR),
    ("tm-err", IBV_WC_TM_ERR),
    ("tm-rndv-incomplete", IBV_WC_TM_RNDV_INCOMPLETE),
];

/// The event types: `IBV_EVENT_` and the name in capitals. Not those of work queues.
pub static EVENTS: [(&str, u32); 20] = [
    ("cq-err", IBV_EVENT_CQ_ERR),
    ("qp-fatal", IBV_EVENT_QP_FATAL),
    ("qp-req-err", IBV_EVENT_QP_REQ_ERR),
    ("qp-access-err", IBV_EVENT_QP_ACCESS_ERR),
    ("comm-est", IBV_EVENT_COMM_EST),
    ("sq-drained", IBV_EVENT_SQ_DRAINED),
    ("path-mig", IBV_EVENT_PATH_MIG),
    ("path-mig-err", IBV_EVENT_PATH_MIG_ERR),
    ("device-fatal", IBV_EVENT_DEVICE_FATAL),
    ("port-active", IBV_EVENT_PORT_ACTIVE),
    ("port-err", IBV_EVENT_PORT_ERR),
    ("lid-change", IBV_EVENT_LID_CHANGE),
    ("pkey-change", IBV_EVENT_PKEY_CHANGE),
    ("sm-change", IBV_EVENT_SM_CHANGE),
    ("srq-err", IBV_EVENT_SRQ_ERR),
    ("srq-limit-reached", IBV_EVENT_SRQ_LIMIT_REACHED),
    ("qp-last-wqe-reached", IBV_EVENT_QP_LAST_WQE_REACHED),
    ("client-reregister", IBV_EVENT_CLIENT_REREGISTER),
    ("gid-change", IBV_EVENT_GID_CHANGE),
    ("device-speed-change", IBV_EVENT_DEVICE_SPEED_CHANGE),
];

/// The errno values that have names here; others are written as numbers.
pub(crate) static ERRNOS: [(&str, i32); 24] = [
    ("EPERM", libc::EPERM),
    ("ENOENT", libc::ENOENT),
    ("EINTR", libc::EINTR),
    ("EIO", libc::EIO),
    ("ENXIO", libc::ENXIO),
    ("E2BIG", libc::E2BIG),
    ("EAGAIN", libc::EAGAIN),
    ("ENOMEM", libc::ENOMEM),
    ("EACCES", libc::EACCES),
    ("EFAULT", libc::EFAULT),
    ("EBUSY", libc::EBUSY),
    ("EEXIST", libc::EEXIST),
    ("ENODEV", libc::ENODEV),
    ("EINVAL", libc::EINVAL),
    ("ENFILE", libc::ENFILE),
    ("EMFILE", libc::EMFILE),
    ("ENOSPC", libc::ENOSPC),
    ("ERANGE", libc::ERANGE),
    ("ENOSYS", libc::ENOSYS),
    ("EOVERFLOW", libc::EOVERFLOW),
    ("EPROTONOSUPPORT", libc::EPROTONOSUPPORT),
    ("EOPNOTSUPP", libc::EOPNOTSUPP),
    ("ENETUNREACH", libc::ENETUNREACH),
    ("ETIMEDOUT", libc::ETIMEDOUT),
];

/// The name of a value in one of the tables, or its number.
pub fn name_of(table: &[(&'static str, u32)], value: u32) -> String {
    match table.iter().find(|(_, of)| *of == value) {
        Some((name, _)) => (*name).into(),
        None => value.to_string(),
    }
}

/// The name of an errno value, or its number.
pub fn errno_name(value: i32) -> String {
    match ERRNOS.iter().find(|(_, of)| *of == value) {
        Some((name, _)) => (*name).into(),
        None => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_keys_complete() {
        assert!(CALLS.is_sorted());
        let mut actions: Vec<_> = ACTIONS.iter().map(|action| action.name).collect();
        actions.sort_unstable();
        actions.dedup();
        assert_eq!(actions.len(), ACTIONS.len());
        for action in &ACTIONS {
            for key in action.needs.iter().chain(action.takes) {
                assert_eq!(KEYS.iter().filter(|entry| entry.key == *key).count(), 1);
            }
        }
    }
}
