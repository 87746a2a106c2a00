//! The symbol table: the exported C symbols and their version nodes. No other module defines C symbols.
//!
//! `libibverbs.map` has the same names for the linker. `compat-tests/symbols` compares the built library
//! with the committed list and with the distribution's library.

#[macro_use]
mod entry;
#[cfg(not(feature = "static"))]
#[macro_use]
mod versions;
#[cfg(feature = "static")]
#[macro_use]
mod plain;
#[cfg(feature = "static")]
mod archive;
mod provider;
#[cfg(not(feature = "static"))]
mod unwinder;
mod variadic;

node_markers!(
    "IBVERBS_1.0",
    "IBVERBS_1.1",
    "IBVERBS_1.5",
    "IBVERBS_1.6",
    "IBVERBS_1.7",
    "IBVERBS_1.8",
    "IBVERBS_1.9",
    "IBVERBS_1.10",
    "IBVERBS_1.11",
    "IBVERBS_1.12",
    "IBVERBS_1.13",
    "IBVERBS_1.14",
    "IBVERBS_1.15",
    "IBVERBS_1.16",
    "IBVERBS_1.17",
    "IBVERBS_1.18",
    "IBVERBS_PRIVATE_25",
    "IBVERBS_PRIVATE_33",
    "IBVERBS_PRIVATE_34",
    "IBVERBS_PRIVATE_57",
    "IBVERBS_PRIVATE_59",
    "IBVERBS_PRIVATE_64",
    "IBVERBS_PRIVATE_65",
    "LIBIBVERBS_RS_1.0",
);

// The verbs of programs linked with libibverbs 1.0.
export!(compat "IBVERBS_1.0":
    [crate::compat::device] {
        ibv_get_device_list = ibv_get_device_list_1_0,
        ibv_free_device_list = ibv_free_device_list_1_0,
        ibv_get_device_name = ibv_get_device_name_1_0,
        ibv_get_device_guid = ibv_get_device_guid_1_0,
    }
    [crate::compat::context] {
        ibv_open_device = ibv_open_device_1_0,
        ibv_close_device = ibv_close_device_1_0,
        ibv_query_device = ibv_query_device_1_0,
        ibv_query_port = ibv_query_port_1_0,
        ibv_query_gid = ibv_query_gid_1_0,
        ibv_query_pkey = ibv_query_pkey_1_0,
    }
    [crate::compat::event] {
        ibv_get_async_event = ibv_get_async_event_1_0,
        ibv_ack_async_event = ibv_ack_async_event_1_0,
        ibv_get_cq_event = ibv_get_cq_event_1_0,
        ibv_ack_cq_events = ibv_ack_cq_events_1_0,
    }
    [crate::compat::pd] {
        ibv_alloc_pd = ibv_alloc_pd_1_0,
        ibv_dealloc_pd = ibv_dealloc_pd_1_0,
    }
    [crate::compat::mr] {
        ibv_reg_mr = ibv_reg_mr_1_0,
        ibv_dereg_mr = ibv_dereg_mr_1_0,
    }
    [crate::compat::cq] {
        ibv_create_cq = ibv_create_cq_1_0,
        ibv_resize_cq = ibv_resize_cq_1_0,
        ibv_destroy_cq = ibv_destroy_cq_1_0,
    }
    [crate::compat::srq] {
        ibv_create_srq = ibv_create_srq_1_0,
        ibv_modify_srq = ibv_modify_srq_1_0,
        ibv_query_srq = ibv_query_srq_1_0,
        ibv_destroy_srq = ibv_destroy_srq_1_0,
    }
    [crate::compat::qp] {
        ibv_create_qp = ibv_create_qp_1_0,
        ibv_query_qp = ibv_query_qp_1_0,
        ibv_modify_qp = ibv_modify_qp_1_0,
        ibv_destroy_qp = ibv_destroy_qp_1_0,
    }
    [crate::compat::ah] {
        ibv_create_ah = ibv_create_ah_1_0,
        ibv_destroy_ah = ibv_destroy_ah_1_0,
    }
    [crate::compat::mcast] {
        ibv_attach_mcast = ibv_attach_mcast_1_0,
        ibv_detach_mcast = ibv_detach_mcast_1_0,
    }
);
export!(default "IBVERBS_1.0":
    [crate::verbs::marshall] {
        ibv_copy_path_rec_from_kern,
        ibv_copy_path_rec_to_kern,
        ibv_copy_qp_attr_from_kern,
    }
    [crate::compat::comp_channel] { ibv_create_comp_channel }
    [crate::verbs::comp_channel] { ibv_destroy_comp_channel }
    [crate::discover::sysfs] { ibv_get_sysfs_path, ibv_read_sysfs_file }
    [crate::verbs::rate] { ibv_rate_to_mult, mult_to_ibv_rate }
);

export!(default "IBVERBS_1.1":
    [crate::verbs::ah] {
        ibv_create_ah,
        ibv_create_ah_from_wc,
        ibv_destroy_ah,
        ibv_init_ah_from_wc,
    }
    [crate::verbs::cq] {
        ibv_ack_cq_events,
        ibv_create_cq,
        ibv_destroy_cq,
        ibv_get_cq_event,
        ibv_resize_cq,
    }
    [crate::verbs::device] {
        ibv_close_device,
        ibv_free_device_list,
        ibv_get_device_guid,
        ibv_get_device_list,
        ibv_get_device_name,
        ibv_open_device,
    }
    [crate::verbs::event] { ibv_ack_async_event, ibv_get_async_event }
    [crate::verbs::gid] { ibv_query_gid }
    [crate::verbs::marshall] { ibv_copy_ah_attr_from_kern }
    [crate::verbs::mcast] { ibv_attach_mcast, ibv_detach_mcast }
    [crate::verbs::mr] { ibv_dereg_mr, ibv_reg_mr, ibv_rereg_mr }
    [crate::verbs::pd] { ibv_alloc_pd, ibv_dealloc_pd }
    [crate::verbs::pkey] { ibv_query_pkey }
    [crate::verbs::device_attr] { ibv_query_device }
    [crate::verbs::port] { ibv_query_port }
    [crate::verbs::qp] { ibv_create_qp, ibv_destroy_qp, ibv_modify_qp, ibv_query_qp }
    [crate::verbs::rate] { ibv_rate_to_mbps, mbps_to_ibv_rate }
    [crate::verbs::resolve] { ibv_resolve_eth_l2_from_gid }
    [crate::verbs::srq] { ibv_create_srq, ibv_destroy_srq, ibv_modify_srq, ibv_query_srq }
    [crate::verbs::strings] {
        ibv_event_type_str,
        ibv_node_type_str,
        ibv_port_state_str,
        ibv_wc_status_str,
    }
    [crate::memory] { ibv_dofork_range, ibv_dontfork_range, ibv_fork_init }
);
export!(compat "IBVERBS_1.1": [crate::verbs::driver] { ibv_register_driver });
export!(default "IBVERBS_1.5": [crate::verbs::pkey] { ibv_get_pkey_index });
export!(default "IBVERBS_1.6": [crate::verbs::qp] { ibv_qp_to_qp_ex });
export!(default "IBVERBS_1.7": [crate::verbs::mr] { ibv_reg_mr_iova });
export!(default "IBVERBS_1.8": [crate::verbs::mr] { ibv_reg_mr_iova2 });
export!(default "IBVERBS_1.9": [crate::verbs::device] { ibv_get_device_index });
export!(default "IBVERBS_1.10":
    [crate::verbs::device] { ibv_import_device }
    [crate::verbs::mr] { ibv_import_mr, ibv_unimport_mr }
    [crate::verbs::pd] { ibv_import_pd, ibv_unimport_pd }
    [crate::verbs::ece] { ibv_query_ece, ibv_set_ece }
);
export!(default "IBVERBS_1.11":
    [crate::verbs::gid_table] { _ibv_query_gid_ex, _ibv_query_gid_table }
);
export!(default "IBVERBS_1.12": [crate::verbs::mr] { ibv_reg_dmabuf_mr });
export!(default "IBVERBS_1.13":
    [crate::verbs::dm] { ibv_import_dm, ibv_unimport_dm }
    [crate::memory] { ibv_is_fork_initialized }
);
export!(default "IBVERBS_1.14": [crate::verbs::qp] { ibv_query_qp_data_in_order });
export!(default "IBVERBS_1.15":
    [crate::verbs::dmah] { ibv_alloc_dmah, ibv_dealloc_dmah }
    [crate::verbs::mr] { ibv_reg_mr_ex }
);
export!(default "IBVERBS_1.16":
    [crate::verbs::dm] { ibv_dm_export_dmabuf_fd }
    [crate::verbs::port] { ibv_query_port_speed }
);
export!(default "IBVERBS_1.17":
    [crate::verbs::buf] { ibv_alloc_buf, ibv_free_buf }
    [crate::verbs::mr] { ibv_reg_buf_mr }
);
export!(default "IBVERBS_1.18":
    [crate::verbs::comp_cntr] {
        _ibv_query_comp_cntr_caps,
        ibv_create_comp_cntr,
        ibv_destroy_comp_cntr,
        ibv_inc_comp_cntr,
        ibv_inc_err_comp_cntr,
        ibv_qp_attach_comp_cntr,
        ibv_read_comp_cntr,
        ibv_read_err_comp_cntr,
        ibv_set_comp_cntr,
        ibv_set_err_comp_cntr,
    }
    [crate::verbs::buf] { ibv_export_buf_dmabuf_fd }
);

// What rdma-core's library does not have, in a node of its own. Programs look it up (names.h).
export!(default "LIBIBVERBS_RS_1.0": [crate::diagnose::names] { ibverbs_rs_set_name });
