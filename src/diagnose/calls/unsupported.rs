//! Features that a device lacks and ibv_create_qp_ex asks for (EOPNOTSUPP): the type, a flag, an operation.

use ibverbs_abi::*;

use super::super::check::state::type_name;
use super::argument::{Argument, reason};

fn is_unsupported() -> bool {
    Errno::last() == Errno(libc::EOPNOTSUPP)
}

/// Bits with their names.
macro_rules! bits {
    ($($bit:ident),* $(,)?) => {
        [$(($bit as u64, stringify!($bit))),*]
    };
}

/// The names of the bits that are set.
fn names(value: u64, all: &[(u64, &str)]) -> String {
    let named = all.iter().filter(|(bit, _)| value & bit != 0);
    let names: Vec<&str> = named.map(|(_, name)| *name).collect();
    names.join(" | ")
}

/// The type of a queue pair.
pub fn qp_type(kind: ibv_qp_type) -> Argument {
    reason(
        is_unsupported(),
        format!("qp_type is that of {} queue pairs", type_name(kind)),
        "the device has no queue pairs of this type, or not with all that is asked for (an SRQ, TSO, RSS)",
        "use a type that the device has: uroce has RC, UC, UD and XRC; raw packets need an RNIC that has \
         them (raw_packet_caps of ibv_query_device_ex)",
    )
}

/// The features that ibv_create_qp_ex asks for, and the operations: first those that the type does not have.
///
/// # Safety
/// `attr` is readable as far as its comp_mask says.
pub unsafe fn qp_features(attr: *const ibv_qp_init_attr_ex) -> Vec<Argument> {
    const CREATE: [(u64, &str); 5] = bits![
        IBV_QP_CREATE_BLOCK_SELF_MCAST_LB,
        IBV_QP_CREATE_SCATTER_FCS,
        IBV_QP_CREATE_CVLAN_STRIPPING,
        IBV_QP_CREATE_SOURCE_QPN,
        IBV_QP_CREATE_PCI_WRITE_END_PADDING,
    ];
    // SAFETY: the attributes are readable, as the caller promises: each member if its bit is set.
    let (kind, flags, ops) = unsafe {
        let mask = (*attr).comp_mask;
        let flags = match mask & IBV_QP_INIT_ATTR_CREATE_FLAGS {
            0 => 0,
            _ => (*attr).create_flags,
        };
        let ops = match mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS {
            0 => 0,
            _ => (*attr).send_ops_flags,
        };
        ((*attr).qp_type, u64::from(flags), ops)
    };
    let fails = is_unsupported();
    let wrong_ops = ops & !ops_of(kind);
    vec![
        reason(
            fails && wrong_ops != 0,
            format!(
                "send_ops_flags is {ops:#x}, and {} queue pairs do not have the operations of {wrong_ops:#x} \
                 ({})",
                type_name(kind),
                names(wrong_ops, &OPERATIONS)
            ),
            "UD has SEND only, and UC neither READ nor atomic operations (specification, table 44)",
            "remove these flags, or create a queue pair of another type",
        ),
        reason(
            fails && flags != 0,
            format!("create_flags is {flags:#x} ({})", names(flags, &CREATE)),
            "the device does not have one of these features, or not for this type",
            "create the queue pair without them, and look at what the device has with ibv_query_device_ex",
        ),
        reason(
            fails && ops != 0,
            format!("send_ops_flags is {ops:#x} ({})", names(ops, &OPERATIONS)),
            "the device does not have one of these operations for this type, or not by functions of ibv_wr_*",
            "ask for the operations that the program uses only, or use ibv_post_send",
        ),
    ]
}

/// The flags of send_ops_flags.
const OPERATIONS: [(u64, &str); 13] = bits![
    IBV_QP_EX_WITH_RDMA_WRITE,
    IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
    IBV_QP_EX_WITH_SEND,
    IBV_QP_EX_WITH_SEND_WITH_IMM,
    IBV_QP_EX_WITH_RDMA_READ,
    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,
    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
    IBV_QP_EX_WITH_LOCAL_INV,
    IBV_QP_EX_WITH_BIND_MW,
    IBV_QP_EX_WITH_SEND_WITH_INV,
    IBV_QP_EX_WITH_TSO,
    IBV_QP_EX_WITH_FLUSH,
    IBV_QP_EX_WITH_ATOMIC_WRITE,
];

/// The flags of the operations that a type may have.
fn ops_of(kind: ibv_qp_type) -> u64 {
    match kind {
        IBV_QPT_UD => {
            u64::from(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_TSO)
        }
        IBV_QPT_UC => !u64::from(
            IBV_QP_EX_WITH_RDMA_READ
                | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
                | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD
                | IBV_QP_EX_WITH_FLUSH
                | IBV_QP_EX_WITH_ATOMIC_WRITE,
        ),
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_types() {
        let write = u64::from(IBV_QP_EX_WITH_RDMA_WRITE);
        let send = u64::from(IBV_QP_EX_WITH_SEND);
        assert_eq!((write | send) & !ops_of(IBV_QPT_UD), write);
        assert_eq!((write | send) & !ops_of(IBV_QPT_UC), 0);
        assert_ne!(u64::from(IBV_QP_EX_WITH_RDMA_READ) & !ops_of(IBV_QPT_UC), 0);
        assert_eq!(names(write, &OPERATIONS), "IBV_QP_EX_WITH_RDMA_WRITE");
    }
}
