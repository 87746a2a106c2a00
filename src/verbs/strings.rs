//! Descriptions of enumeration values, with the C library's texts.
//!
//! All functions return a static string, which the caller does not free; "unknown" for other values.

use core::ffi::CStr;

use libc::c_char;

use crate::abi::*;

fn text(texts: &'static [&'static CStr], index: u32) -> *const c_char {
    texts.get(index as usize).unwrap_or(&c"unknown").as_ptr()
}

const NODE_TYPES: [&CStr; 7] = [
    c"InfiniBand channel adapter",
    c"InfiniBand switch",
    c"InfiniBand router",
    c"iWARP NIC",
    c"usNIC",
    c"usNIC UDP",
    c"unspecified",
];

const PORT_STATES: [&CStr; 6] = [
    c"no state change (NOP)",
    c"down",
    c"init",
    c"armed",
    c"active",
    c"active defer",
];

const EVENT_TYPES: [&CStr; 21] = [
    c"CQ error",
    c"local work queue catastrophic error",
    c"invalid request local work queue error",
    c"local access violation work queue error",
    c"communication established",
    c"send queue drained",
    c"path migrated",
    c"path migration request error",
    c"local catastrophic error",
    c"port active",
    c"port error",
    c"LID change",
    c"P_Key change",
    c"SM change",
    c"SRQ catastrophic error",
    c"SRQ limit reached",
    c"last WQE reached",
    c"client reregistration",
    c"GID table change",
    c"WQ fatal",
    c"Device link speed change",
];

const WC_STATUSES: [&CStr; 24] = [
    c"success",
    c"local length error",
    c"local QP operation error",
    c"local EE context operation error",
    c"local protection error",
    c"Work Request Flushed Error",
    c"memory management operation error",
    c"bad response error",
    c"local access error",
    c"remote invalid request error",
    c"remote access error",
    c"remote operation error",
    c"transport retry counter exceeded",
    c"RNR retry counter exceeded",
    c"local RDD violation error",
    c"remote invalid RD request",
    c"aborted error",
    c"invalid EE context number",
    c"invalid EE context state",
    c"fatal error",
    c"response timeout error",
    c"general error",
    c"TM error",
    c"TM software rendezvous",
];

/// The two unknown ones in the middle are operations of the kernel only.
const WR_OPCODES: [&CStr; 16] = [
    c"rdma-write",
    c"rdma-write-with-imm",
    c"send",
    c"send-with-imm",
    c"rdma-read",
    c"atomic-cmp-and-swp",
    c"atomic-fetch-and-add",
    c"local-inv",
    c"bind-mw",
    c"send-with-inv",
    c"tso",
    c"driver1",
    c"unknown",
    c"unknown",
    c"flush",
    c"atomic-write",
];

/// Describes the type of a device (ibv_event_type_str(3)).
pub extern "C" fn ibv_node_type_str(node_type: ibv_node_type) -> *const c_char {
    // The first type is 1. Zero and negative values become numbers beyond the table.
    text(&NODE_TYPES, (node_type as u32).wrapping_sub(1))
}

/// Describes the state of a port (ibv_event_type_str(3)).
pub extern "C" fn ibv_port_state_str(port_state: ibv_port_state) -> *const c_char {
    text(&PORT_STATES, port_state)
}

/// Describes an asynchronous event (ibv_event_type_str(3)).
pub extern "C" fn ibv_event_type_str(event: ibv_event_type) -> *const c_char {
    text(&EVENT_TYPES, event)
}

/// Describes the status of a work completion (ibv_wc_status_str(3)).
pub extern "C" fn ibv_wc_status_str(status: ibv_wc_status) -> *const c_char {
    text(&WC_STATUSES, status)
}

/// Names the opcode of a work request (ibv_wr_opcode_str(3)).
pub extern "C" fn ibv_wr_opcode_str(opcode: ibv_wr_opcode) -> *const c_char {
    text(&WR_OPCODES, opcode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::oracle;

    fn read(text: *const c_char) -> &'static str {
        // SAFETY: both libraries return static strings that end with a NUL.
        unsafe { CStr::from_ptr(text) }.to_str().unwrap()
    }

    #[test]
    fn ends_of_the_tables() {
        assert_eq!(read(ibv_node_type_str(IBV_NODE_UNKNOWN)), "unknown");
        assert_eq!(read(ibv_node_type_str(0)), "unknown");
        assert_eq!(
            read(ibv_node_type_str(IBV_NODE_CA)),
            "InfiniBand channel adapter"
        );
        assert_eq!(read(ibv_node_type_str(IBV_NODE_UNSPECIFIED)), "unspecified");
        assert_eq!(read(ibv_node_type_str(8)), "unknown");
        assert_eq!(read(ibv_port_state_str(IBV_PORT_ACTIVE)), "active");
        assert_eq!(
            read(ibv_event_type_str(IBV_EVENT_DEVICE_SPEED_CHANGE)),
            "Device link speed change"
        );
        assert_eq!(read(ibv_event_type_str(21)), "unknown");
        assert_eq!(
            read(ibv_wc_status_str(IBV_WC_TM_RNDV_INCOMPLETE)),
            "TM software rendezvous"
        );
        assert_eq!(read(ibv_wr_opcode_str(IBV_WR_DRIVER1)), "driver1");
        assert_eq!(read(ibv_wr_opcode_str(12)), "unknown");
        assert_eq!(read(ibv_wr_opcode_str(IBV_WR_FLUSH)), "flush");
        assert_eq!(read(ibv_wr_opcode_str(IBV_WR_ATOMIC_WRITE)), "atomic-write");
        assert_eq!(read(ibv_wr_opcode_str(16)), "unknown");
    }

    #[test]
    fn texts_are_those_of_the_c_library() {
        type Str = unsafe extern "C" fn(u32) -> *const c_char;
        let library = oracle::library();
        let ours: [(&str, &dyn Fn(u32) -> *const c_char); 4] = [
            ("ibv_node_type_str", &|v| ibv_node_type_str(v as i32)),
            ("ibv_port_state_str", &|v| ibv_port_state_str(v)),
            ("ibv_event_type_str", &|v| ibv_event_type_str(v)),
            ("ibv_wc_status_str", &|v| ibv_wc_status_str(v)),
        ];
        for (name, our) in ours {
            let theirs = oracle::symbol::<Str>(&library, name);
            for value in -5..1300_i32 {
                let value = value as u32;
                // SAFETY: these functions accept any number.
                let (our, their) = (read(our(value)), read(unsafe { theirs(value) }));
                // Debian 12's library does not have this event yet.
                let newer = name == "ibv_event_type_str" && value == IBV_EVENT_DEVICE_SPEED_CHANGE;
                assert!(
                    our == their || newer && their == "unknown",
                    "{name}({value}): {our:?}, not {their:?}"
                );
            }
        }
    }
}
