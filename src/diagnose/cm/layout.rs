//! The structures and constants of rdma/rdma_cma.h that the checks of librdmacm's calls read.

use ibverbs_abi::*;

/// The members of `struct rdma_cm_id` of rdma/rdma_cma.h that matter here.
#[repr(C)]
pub struct Id {
    pub verbs: *mut ibv_context,
    pub channel: usize,
    context: usize,
    pub qp: *mut ibv_qp,
    pub route: Route,
    pub space: u32,
    port: u8,
    event: usize,
    send_cq_channel: usize,
    pub send_cq: *mut ibv_cq,
    recv_cq_channel: usize,
    pub recv_cq: *mut ibv_cq,
    srq: usize,
    pub pd: *mut ibv_pd,
    qp_type: u32,
}

impl Id {
    /// Says which members are NULL, as long as librdmacm has not set them.
    pub fn unset(&self) -> Option<String> {
        let members = [
            ("verbs", self.verbs.is_null()),
            ("pd", self.pd.is_null()),
            ("qp", self.qp.is_null()),
        ];
        let unset = members
            .into_iter()
            .filter_map(|(name, is_null)| is_null.then_some(name));
        let unset: Vec<&str> = unset.collect();
        (!unset.is_empty()).then(|| {
            format!(
                "{} NULL: verbs and pd are set before the event RDMA_CM_EVENT_ADDR_RESOLVED, qp by \
                 rdma_create_qp",
                unset.join(", ")
            )
        })
    }
}

/// The members of `struct rdma_route` that matter here.
#[repr(C)]
pub struct Route {
    source: SocketAddress,
    pub destination: SocketAddress,
    others: [u64; 7],
}

/// `struct sockaddr_storage`.
#[repr(C, align(8))]
pub struct SocketAddress {
    family: u16,
    data: [u8; 126],
}

impl SocketAddress {
    /// It has neither a port nor an address. Binding an id gives its destination the family of its source.
    pub fn is_empty(&self) -> bool {
        let bytes = match i32::from(self.family) {
            libc::AF_UNSPEC => return true,
            libc::AF_INET => 6,
            libc::AF_INET6 => 22,
            _ => return false,
        };
        self.data[..bytes].iter().all(|byte| *byte == 0)
    }
}

const _: () = assert!(core::mem::offset_of!(Id, space) == 344);
const _: () = assert!(core::mem::offset_of!(Id, qp_type) == 408);

/// The first members of `struct rdma_conn_param`.
#[repr(C)]
pub struct Param {
    pub private_data: usize,
    pub private_data_len: u8,
    responder_resources: u8,
    initiator_depth: u8,
    flow_control: u8,
    retry_count: u8,
    rnr_retry_count: u8,
    pub srq: u8,
    pub qp_num: u32,
}

const _: () = assert!(core::mem::offset_of!(Param, qp_num) == 16);

pub const RDMA_PS_IPOIB: u32 = 0x0002;
pub const RDMA_PS_UDP: u32 = 0x0111;
