//! The events of rdma_cm that report an error: a table.

use ibverbs_abi::CmListener;

/// The reason of IB's connection manager: no program listens.
const INVALID_SERVICE_ID: i32 = 8;

/// Whether an event says that nobody listens at the destination.
pub fn is_nobody(event: u32, status: i32) -> bool {
    (event, status) == (8, INVALID_SERVICE_ID)
}

/// Says that a program listens at nearly the destination, and what to do.
pub fn listens_alike(found: CmListener) -> (String, &'static str) {
    let CmListener {
        wanted, listens, ..
    } = found;
    let space = match found.in_udp {
        None => "",
        Some(true) => " in the port space RDMA_PS_UDP",
        Some(false) => " in the port space RDMA_PS_TCP",
    };
    let is_reversed = match wanted == listens {
        true => "",
        false => ", which is the same number with its two bytes in reverse order",
    };
    let why = format!(
        "nobody listens at port {wanted} of this address in the port space of this id; a program of this \
         host listens there at port {listens}{space}{is_reversed}"
    );
    let todo = match found.in_udp {
        None => {
            "pass the port through htons() in both programs: sin_port (sin6_port) is in network byte order"
        }
        Some(_) => {
            "create the ids of both programs in one port space (ps of rdma_create_id, or ai_port_space)"
        }
    };
    (why, todo)
}

/// An event that reports an error: its name, what it means, and what to do.
pub fn meaning(event: u32, status: i32) -> Option<(&'static str, &'static str, &'static str)> {
    /// The program has called rdma_reject.
    const CONSUMER: i32 = 28;
    Some(match (event, status) {
        (1, _) => (
            "RDMA_CM_EVENT_ADDR_ERROR",
            "the destination address was not resolved: no route, no answer to ARP or NDP, or no RDMA device \
             on the way",
            "check `ip route get` and `ping` for the destination, and that its interface has an RDMA device",
        ),
        (3, _) => (
            "RDMA_CM_EVENT_ROUTE_ERROR",
            "the route to the destination was not resolved",
            "check the destination, and call rdma_resolve_addr anew",
        ),
        (6, _) => (
            "RDMA_CM_EVENT_CONNECT_ERROR",
            "the connection could not be established: a message got lost, or a queue pair could not be moved",
            "check both programs, and connect anew with a new id",
        ),
        (7, _) => (
            "RDMA_CM_EVENT_UNREACHABLE",
            "the peer did not answer the request for a connection: it is down, or has not called rdma_accept \
             in time",
            "check that the peer runs and reads its events, and that UDP port 4791 is not filtered",
        ),
        (8, CONSUMER) => (
            "RDMA_CM_EVENT_REJECTED",
            "the peer's program has called rdma_reject, or has destroyed the id of the request or ended \
             without an answer",
            "see why it does not accept; private_data of the event may say so",
        ),
        (8, INVALID_SERVICE_ID) => (
            "RDMA_CM_EVENT_REJECTED",
            "nobody listens at this address and port in the port space of this id",
            "start the server first, compare address, port (with htons() at both ends) and port space \
             (RDMA_PS_TCP), and check that it has called rdma_listen",
        ),
        (8, _) => (
            "RDMA_CM_EVENT_REJECTED",
            "the peer's connection manager has refused the connection: its backlog is full, or its program \
             has ended",
            "check the peer's program, and the reason (status) in the specification, table 109",
        ),
        _ => return None,
    })
}
