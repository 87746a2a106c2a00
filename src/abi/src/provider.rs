//! What providers share with the library.

use super::*;

pub type verbs_xrcd_mask = u32;

pub type create_cq_cmd_flags = u32;

pub type verbs_qp_mask = u32;

pub type ibv_gid_type_sysfs = u32;

pub type verbs_query_gid_attr_mask = u32;

pub type ibv_mr_type = u32;

pub const VERBS_LOG_LEVEL_NONE: u32 = 0;

pub const VERBS_LOG_ERR: u32 = 1;

pub const VERBS_LOG_WARN: u32 = 2;

pub const VERBS_LOG_INFO: u32 = 3;

pub const VERBS_LOG_DEBUG: u32 = 4;

pub const VERBS_XRCD_HANDLE: verbs_xrcd_mask = 1;

pub const VERBS_XRCD_RESERVED: verbs_xrcd_mask = 2;

pub const CREATE_CQ_CMD_FLAGS_TS_IGNORED_EX: create_cq_cmd_flags = 1;

pub const CREATE_CQ_CMD_FLAGS_WITH_MEM_VA: create_cq_cmd_flags = 2;

pub const CREATE_CQ_CMD_FLAGS_WITH_MEM_DMABUF: create_cq_cmd_flags = 4;

pub const VERBS_QP_XRCD: verbs_qp_mask = 1;

pub const VERBS_QP_EX: verbs_qp_mask = 2;

pub const IBV_GID_TYPE_SYSFS_IB_ROCE_V1: ibv_gid_type_sysfs = 0;

pub const IBV_GID_TYPE_SYSFS_ROCE_V2: ibv_gid_type_sysfs = 1;

pub const VERBS_QUERY_GID_ATTR_GID: verbs_query_gid_attr_mask = 1;

pub const VERBS_QUERY_GID_ATTR_TYPE: verbs_query_gid_attr_mask = 2;

pub const VERBS_QUERY_GID_ATTR_NDEV_IFINDEX: verbs_query_gid_attr_mask = 4;

pub const IBV_MR_TYPE_MR: ibv_mr_type = 0;

pub const IBV_MR_TYPE_NULL_MR: ibv_mr_type = 1;

pub const IBV_MR_TYPE_IMPORTED_MR: ibv_mr_type = 2;

pub const IBV_MR_TYPE_DMABUF_MR: ibv_mr_type = 3;

pub const VERBS_MATCH_SENTINEL: u32 = 0;

pub const VERBS_MATCH_PCI: u32 = 1;

pub const VERBS_MATCH_MODALIAS: u32 = 2;

pub const VERBS_MATCH_DRIVER_ID: u32 = 3;

pub const VSYSFS_READ_MODALIAS: u32 = 1;

pub const VSYSFS_READ_NODE_GUID: u32 = 2;

/// The extended context, of which `context` is the last field: programs find the slots by their
/// distance in front of it. This is the part that every provider ABI from 34 on has; newer ones
/// put more slots before it, which nobody reads. `sz` is the size the provider allocated.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_context {
    pub query_port: Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            port_num: u8,
            port_attr: *mut ibv_port_attr,
            port_attr_len: usize,
        ) -> c_int,
    >,
    pub advise_mr: Option<
        unsafe extern "C" fn(
            pd: *mut ibv_pd,
            advice: ib_uverbs_advise_mr_advice,
            flags: u32,
            sg_list: *mut ibv_sge,
            num_sges: u32,
        ) -> c_int,
    >,
    pub alloc_null_mr: Option<unsafe extern "C" fn(pd: *mut ibv_pd) -> *mut ibv_mr>,
    pub read_counters: Option<
        unsafe extern "C" fn(
            counters: *mut ibv_counters,
            counters_value: *mut u64,
            ncounters: u32,
            flags: u32,
        ) -> c_int,
    >,
    pub attach_counters_point_flow: Option<
        unsafe extern "C" fn(
            counters: *mut ibv_counters,
            attr: *mut ibv_counter_attach_attr,
            flow: *mut ibv_flow,
        ) -> c_int,
    >,
    pub create_counters: Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            init_attr: *mut ibv_counters_init_attr,
        ) -> *mut ibv_counters,
    >,
    pub destroy_counters: Option<unsafe extern "C" fn(counters: *mut ibv_counters) -> c_int>,
    pub reg_dm_mr: Option<
        unsafe extern "C" fn(
            pd: *mut ibv_pd,
            dm: *mut ibv_dm,
            dm_offset: u64,
            length: usize,
            access: c_uint,
        ) -> *mut ibv_mr,
    >,
    pub alloc_dm: Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            attr: *mut ibv_alloc_dm_attr,
        ) -> *mut ibv_dm,
    >,
    pub free_dm: Option<unsafe extern "C" fn(dm: *mut ibv_dm) -> c_int>,
    pub modify_flow_action_esp: Option<
        unsafe extern "C" fn(
            action: *mut ibv_flow_action,
            attr: *mut ibv_flow_action_esp_attr,
        ) -> c_int,
    >,
    pub destroy_flow_action: Option<unsafe extern "C" fn(action: *mut ibv_flow_action) -> c_int>,
    pub create_flow_action_esp: Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            attr: *mut ibv_flow_action_esp_attr,
        ) -> *mut ibv_flow_action,
    >,
    pub modify_qp_rate_limit:
        Option<unsafe extern "C" fn(qp: *mut ibv_qp, attr: *mut ibv_qp_rate_limit_attr) -> c_int>,
    pub alloc_parent_domain: Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            attr: *mut ibv_parent_domain_init_attr,
        ) -> *mut ibv_pd,
    >,
    pub dealloc_td: Option<unsafe extern "C" fn(td: *mut ibv_td) -> c_int>,
    pub alloc_td: Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            init_attr: *mut ibv_td_init_attr,
        ) -> *mut ibv_td,
    >,
    pub modify_cq:
        Option<unsafe extern "C" fn(cq: *mut ibv_cq, attr: *mut ibv_modify_cq_attr) -> c_int>,
    pub post_srq_ops: Option<
        unsafe extern "C" fn(
            srq: *mut ibv_srq,
            op: *mut ibv_ops_wr,
            bad_op: *mut *mut ibv_ops_wr,
        ) -> c_int,
    >,
    pub destroy_rwq_ind_table:
        Option<unsafe extern "C" fn(rwq_ind_table: *mut ibv_rwq_ind_table) -> c_int>,
    pub create_rwq_ind_table: Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            init_attr: *mut ibv_rwq_ind_table_init_attr,
        ) -> *mut ibv_rwq_ind_table,
    >,
    pub destroy_wq: Option<unsafe extern "C" fn(wq: *mut ibv_wq) -> c_int>,
    pub modify_wq:
        Option<unsafe extern "C" fn(wq: *mut ibv_wq, wq_attr: *mut ibv_wq_attr) -> c_int>,
    pub create_wq: Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            wq_init_attr: *mut ibv_wq_init_attr,
        ) -> *mut ibv_wq,
    >,
    pub query_rt_values: Option<
        unsafe extern "C" fn(context: *mut ibv_context, values: *mut ibv_values_ex) -> c_int,
    >,
    pub create_cq_ex: Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            init_attr: *mut ibv_cq_init_attr_ex,
        ) -> *mut ibv_cq_ex,
    >,
    pub priv_: *mut c_void,
    pub query_device_ex: Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            input: *const ibv_query_device_ex_input,
            attr: *mut ibv_device_attr_ex,
            attr_size: usize,
        ) -> c_int,
    >,
    pub ibv_destroy_flow: Option<unsafe extern "C" fn(flow: *mut ibv_flow) -> c_int>,
    pub ABI_placeholder2: Option<unsafe extern "C" fn()>,
    pub ibv_create_flow: Option<
        unsafe extern "C" fn(qp: *mut ibv_qp, flow_attr: *mut ibv_flow_attr) -> *mut ibv_flow,
    >,
    pub ABI_placeholder1: Option<unsafe extern "C" fn()>,
    pub open_qp: Option<
        unsafe extern "C" fn(context: *mut ibv_context, attr: *mut ibv_qp_open_attr) -> *mut ibv_qp,
    >,
    pub create_qp_ex: Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            qp_init_attr_ex: *mut ibv_qp_init_attr_ex,
        ) -> *mut ibv_qp,
    >,
    pub get_srq_num: Option<unsafe extern "C" fn(srq: *mut ibv_srq, srq_num: *mut u32) -> c_int>,
    pub create_srq_ex: Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            srq_init_attr_ex: *mut ibv_srq_init_attr_ex,
        ) -> *mut ibv_srq,
    >,
    pub open_xrcd: Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            xrcd_init_attr: *mut ibv_xrcd_init_attr,
        ) -> *mut ibv_xrcd,
    >,
    pub close_xrcd: Option<unsafe extern "C" fn(xrcd: *mut ibv_xrcd) -> c_int>,
    pub _ABI_placeholder3: u64,
    pub sz: usize,
    pub context: ibv_context,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ex_hdr {
    pub hdr: ib_uverbs_cmd_hdr,
    pub ex_hdr: ib_uverbs_ex_cmd_hdr,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_kern_ipv4_filter {
    pub src_ip: u32,
    pub dst_ip: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_kern_spec_ipv4 {
    pub type_: u32,
    pub size: u16,
    pub reserved: u16,
    pub val: ibv_kern_ipv4_filter,
    pub mask: ibv_kern_ipv4_filter,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_kern_spec {
    pub u: ibv_kern_spec_u,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union ibv_kern_spec_u {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub eth: ib_uverbs_flow_spec_eth,
    pub ipv4: ibv_kern_spec_ipv4,
    pub ipv4_ext: ib_uverbs_flow_spec_ipv4,
    pub esp: ib_uverbs_flow_spec_esp,
    pub tcp_udp: ib_uverbs_flow_spec_tcp_udp,
    pub ipv6: ib_uverbs_flow_spec_ipv6,
    pub gre: ib_uverbs_flow_spec_gre,
    pub tunnel: ib_uverbs_flow_spec_tunnel,
    pub mpls: ib_uverbs_flow_spec_mpls,
    pub flow_tag: ib_uverbs_flow_spec_action_tag,
    pub drop: ib_uverbs_flow_spec_action_drop,
    pub handle: ib_uverbs_flow_spec_action_handle,
    pub flow_count: ib_uverbs_flow_spec_action_count,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_create_qp_resp_v3 {
    pub qp_handle: u32,
    pub qpn: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_create_qp_resp_v4 {
    pub qp_handle: u32,
    pub qpn: u32,
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_create_srq_resp_v5 {
    pub srq_handle: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_command_buffer {
    pub next: *mut ibv_command_buffer,
    pub next_attr: *mut ib_uverbs_attr,
    pub last_attr: *mut ib_uverbs_attr,
    pub uhw_in_idx: u8,
    pub uhw_out_idx: u8,
    pub uhw_in_headroom_dwords: u8,
    pub uhw_out_headroom_dwords: u8,
    pub flags: u8,
    pub hdr: ib_uverbs_ioctl_hdr,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct list_node {
    pub next: *mut list_node,
    pub prev: *mut list_node,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_buf {
    pub addr: *mut c_void,
    pub size: usize,
    pub pd: *mut ibv_pd,
    pub dmabuf_fd: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_create_cq_prov_attr {
    pub buffer: verbs_create_cq_prov_attr_buffer,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_create_cq_prov_attr_buffer {
    pub length: u64,
    pub u: verbs_create_cq_prov_attr_buffer_u,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union verbs_create_cq_prov_attr_buffer_u {
    pub ptr: *mut u8,
    pub dmabuf: verbs_create_cq_prov_attr_buffer_u_dmabuf,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct verbs_create_cq_prov_attr_buffer_u_dmabuf {
    pub offset: u64,
    pub fd: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_xrcd {
    pub xrcd: ibv_xrcd,
    pub comp_mask: u32,
    pub handle: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_srq {
    pub srq: ibv_srq,
    pub srq_type: ibv_srq_type,
    pub xrcd: *mut verbs_xrcd,
    pub cq: *mut ibv_cq,
    pub srq_num: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_mr {
    pub ibv_mr: ibv_mr,
    pub mr_type: ibv_mr_type,
    pub access: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_qp {
    pub u: verbs_qp_u,
    pub comp_mask: u32,
    pub xrcd: *mut verbs_xrcd,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union verbs_qp_u {
    pub qp: ibv_qp,
    pub qp_ex: ibv_qp_ex,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_cq {
    pub u: verbs_cq_u,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union verbs_cq_u {
    pub cq: ibv_cq,
    pub cq_ex: ibv_cq_ex,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_flow_action {
    pub action: ibv_flow_action,
    pub handle: u32,
    pub type_: ibv_flow_action_type,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_dm {
    pub dm: ibv_dm,
    pub handle: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_dmah {
    pub dmah: ibv_dmah,
    pub handle: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_match_ent {
    pub driver_data: *mut c_void,
    pub u: verbs_match_ent_u,
    pub vendor: u16,
    pub device: u16,
    pub kind: u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union verbs_match_ent_u {
    pub modalias: *const c_char,
    pub driver_id: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_sysfs_dev {
    pub entry: list_node,
    pub provider_data: *mut c_void,
    pub match_: *const verbs_match_ent,
    pub flags: c_uint,
    pub sysfs_name: [c_char; 64],
    pub sysfs_cdev: dev_t,
    pub ibdev_name: [c_char; 64],
    pub ibdev_path: [c_char; 256],
    pub modalias: [c_char; 512],
    pub node_guid: u64,
    pub driver_id: u32,
    pub node_type: ibv_node_type,
    pub ibdev_idx: c_int,
    pub num_ports: u32,
    pub abi_ver: u32,
    pub time_created: timespec,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_device_ops {
    pub name: *const c_char,
    pub match_min_abi_version: u32,
    pub match_max_abi_version: u32,
    pub match_table: *const verbs_match_ent,
    pub static_providers: *mut *const verbs_device_ops,
    pub match_device: Option<unsafe extern "C" fn(sysfs_dev: *mut verbs_sysfs_dev) -> bool>,
    pub alloc_context: Option<
        unsafe extern "C" fn(
            device: *mut ibv_device,
            cmd_fd: c_int,
            private_data: *mut c_void,
        ) -> *mut verbs_context,
    >,
    pub import_context:
        Option<unsafe extern "C" fn(device: *mut ibv_device, cmd_fd: c_int) -> *mut verbs_context>,
    pub alloc_device:
        Option<unsafe extern "C" fn(sysfs_dev: *mut verbs_sysfs_dev) -> *mut verbs_device>,
    pub uninit_device: Option<unsafe extern "C" fn(device: *mut verbs_device)>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_device {
    pub device: ibv_device,
    pub ops: *const verbs_device_ops,
    pub refcount: c_int,
    pub entry: list_node,
    pub sysfs: *mut verbs_sysfs_dev,
    pub core_support: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_counters {
    pub counters: ibv_counters,
    pub handle: u32,
}

/// A legacy write command: header, then the kernel's request.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Cmd<T> {
    pub hdr: ib_uverbs_cmd_hdr,
    pub core_payload: T,
}

/// An extended write command: both headers, then the kernel's request.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct CmdEx<T> {
    pub hdr: ex_hdr,
    pub core_payload: T,
}

pub type ibv_alloc_mw = Cmd<ib_uverbs_alloc_mw>;
pub type ibv_alloc_pd = Cmd<ib_uverbs_alloc_pd>;
pub type ibv_attach_mcast = Cmd<ib_uverbs_attach_mcast>;
pub type ibv_close_xrcd = Cmd<ib_uverbs_close_xrcd>;
pub type ibv_create_ah = Cmd<ib_uverbs_create_ah>;
pub type ibv_create_comp_channel = Cmd<ib_uverbs_create_comp_channel>;
pub type ibv_create_cq = Cmd<ib_uverbs_create_cq>;
pub type ibv_create_qp = Cmd<ib_uverbs_create_qp>;
pub type ibv_create_srq = Cmd<ib_uverbs_create_srq>;
pub type ibv_create_xsrq = Cmd<ib_uverbs_create_xsrq>;
pub type ibv_dealloc_mw = Cmd<ib_uverbs_dealloc_mw>;
pub type ibv_dealloc_pd = Cmd<ib_uverbs_dealloc_pd>;
pub type ibv_dereg_mr = Cmd<ib_uverbs_dereg_mr>;
pub type ibv_destroy_ah = Cmd<ib_uverbs_destroy_ah>;
pub type ibv_destroy_cq = Cmd<ib_uverbs_destroy_cq>;
pub type ibv_destroy_qp = Cmd<ib_uverbs_destroy_qp>;
pub type ibv_destroy_srq = Cmd<ib_uverbs_destroy_srq>;
pub type ibv_detach_mcast = Cmd<ib_uverbs_detach_mcast>;
pub type ibv_get_context = Cmd<ib_uverbs_get_context>;
pub type ibv_modify_qp = Cmd<ib_uverbs_modify_qp>;
pub type ibv_modify_srq = Cmd<ib_uverbs_modify_srq>;
pub type ibv_open_qp = Cmd<ib_uverbs_open_qp>;
pub type ibv_open_xrcd = Cmd<ib_uverbs_open_xrcd>;
pub type ibv_poll_cq = Cmd<ib_uverbs_poll_cq>;
pub type ibv_post_recv = Cmd<ib_uverbs_post_recv>;
pub type ibv_post_send = Cmd<ib_uverbs_post_send>;
pub type ibv_post_srq_recv = Cmd<ib_uverbs_post_srq_recv>;
pub type ibv_query_device = Cmd<ib_uverbs_query_device>;
pub type ibv_query_port = Cmd<ib_uverbs_query_port>;
pub type ibv_query_qp = Cmd<ib_uverbs_query_qp>;
pub type ibv_query_srq = Cmd<ib_uverbs_query_srq>;
pub type ibv_reg_mr = Cmd<ib_uverbs_reg_mr>;
pub type ibv_req_notify_cq = Cmd<ib_uverbs_req_notify_cq>;
pub type ibv_rereg_mr = Cmd<ib_uverbs_rereg_mr>;
pub type ibv_resize_cq = Cmd<ib_uverbs_resize_cq>;
pub type ibv_create_cq_ex = CmdEx<ib_uverbs_ex_create_cq>;
pub type ibv_create_flow = CmdEx<ib_uverbs_create_flow>;
pub type ibv_create_qp_ex = CmdEx<ib_uverbs_ex_create_qp>;
pub type ibv_create_rwq_ind_table = CmdEx<ib_uverbs_ex_create_rwq_ind_table>;
pub type ibv_create_wq = CmdEx<ib_uverbs_ex_create_wq>;
pub type ibv_destroy_flow = CmdEx<ib_uverbs_destroy_flow>;
pub type ibv_destroy_rwq_ind_table = CmdEx<ib_uverbs_ex_destroy_rwq_ind_table>;
pub type ibv_destroy_wq = CmdEx<ib_uverbs_ex_destroy_wq>;
pub type ibv_modify_cq = CmdEx<ib_uverbs_ex_modify_cq>;
pub type ibv_modify_qp_ex = CmdEx<ib_uverbs_ex_modify_qp>;
pub type ibv_modify_wq = CmdEx<ib_uverbs_ex_modify_wq>;
pub type ibv_query_device_ex = CmdEx<ib_uverbs_ex_query_device>;
pub type ibv_modify_srq_v3 = Cmd<ib_uverbs_modify_srq_v3>;
pub type ibv_create_srq_v5 = Cmd<ib_uverbs_create_srq>;
pub type ibv_create_qp_v4 = Cmd<ib_uverbs_create_qp>;
pub type ibv_create_qp_v3 = Cmd<ib_uverbs_create_qp>;

/// `ibv_command_buffer.flags`: a step of building the command failed.
pub const CMDB_BUFFER_ERROR: u8 = 1;
/// `ibv_command_buffer.flags`: the fallback must use the extended write command.
pub const CMDB_FALLBACK_REQUIRE_EX: u8 = 2;
/// `ibv_command_buffer.flags`: there is no write command that can say this.
pub const CMDB_FALLBACK_IOCTL_ONLY: u8 = 4;
/// Where `comp_mask` of `verbs_qp` stands in providers of v34..v43, v44 and v45 on.
pub const VERBS_QP_COMP_MASK_OFFSETS: [usize; 3] = [344, 352, 360];
