//! The functions that providers call, in the version node of each provider ABI.
//!
//! A node has the functions of one form in all ABIs ([`common!`]), those that ABIs from some number on have
//! (`since_*`), and its own forms of those whose arguments or structures differ. The node of ABI 34 has the
//! default versions, which programs and providers get that are linked with this library and do not ask for
//! another ABI (driver.h does, by IBVERBS_PABI_VERSION); functions that it lacks have theirs in the first
//! node with them.

use super::variadic;

/// The functions that all provider ABIs have in the same form.
macro_rules! common {
    ($kind:ident $node:literal) => {
        export!($kind $node:
            [variadic] { __verbs_log, ibv_read_ibdev_sysfs_file }
            [crate::uverbs::linked] { __ioctl_final_num_attrs, execute_ioctl }
            [crate::verbs::device] { verbs_open_device }
            [crate::verbs::cq] { verbs_init_cq }
            [crate::verbs::gid] { ibv_query_gid_type }
            [crate::verbs::strings] { ibv_wr_opcode_str }
            [crate::uverbs::cmd::ah] { ibv_cmd_create_ah }
            [crate::uverbs::cmd::counters] { ibv_cmd_create_counters, ibv_cmd_read_counters }
            [crate::uverbs::cmd::cq] {
                ibv_cmd_create_cq,
                ibv_cmd_destroy_cq,
                ibv_cmd_modify_cq,
                ibv_cmd_resize_cq,
            }
            [crate::uverbs::cmd::cq_poll] { ibv_cmd_poll_cq, ibv_cmd_req_notify_cq }
            [crate::uverbs::cmd::destroy] {
                ibv_cmd_close_xrcd,
                ibv_cmd_dealloc_mw,
                ibv_cmd_dealloc_pd,
                ibv_cmd_dereg_mr,
                ibv_cmd_destroy_ah,
                ibv_cmd_destroy_counters,
                ibv_cmd_destroy_flow,
                ibv_cmd_destroy_flow_action,
                ibv_cmd_destroy_rwq_ind_table,
                ibv_cmd_free_dm,
            }
            [crate::uverbs::cmd::device] { ibv_cmd_query_context, ibv_cmd_query_device_any }
            [crate::uverbs::cmd::dm] { ibv_cmd_alloc_dm, ibv_cmd_reg_dm_mr }
            [crate::uverbs::cmd::flow] { ibv_cmd_create_flow }
            [crate::uverbs::cmd::flow_action] {
                ibv_cmd_create_flow_action_esp,
                ibv_cmd_modify_flow_action_esp,
            }
            [crate::uverbs::cmd::mcast] { ibv_cmd_attach_mcast, ibv_cmd_detach_mcast }
            [crate::uverbs::cmd::mr] {
                ibv_cmd_advise_mr,
                ibv_cmd_query_mr,
                ibv_cmd_reg_mr,
                ibv_cmd_rereg_mr,
            }
            [crate::uverbs::cmd::mw] { ibv_cmd_alloc_mw }
            [crate::uverbs::cmd::pd] { ibv_cmd_alloc_pd }
            [crate::uverbs::cmd::post] {
                ibv_cmd_post_recv,
                ibv_cmd_post_send,
                ibv_cmd_post_srq_recv,
            }
            [crate::uverbs::cmd::qp] {
                ibv_cmd_create_qp,
                ibv_cmd_create_qp_ex,
                ibv_cmd_destroy_qp,
                ibv_cmd_open_qp,
            }
            [crate::uverbs::cmd::qp_attr] {
                ibv_cmd_modify_qp,
                ibv_cmd_modify_qp_ex,
                ibv_cmd_query_qp,
            }
            [crate::uverbs::cmd::rwq_ind] { ibv_cmd_create_rwq_ind_table }
            [crate::uverbs::cmd::srq] {
                ibv_cmd_create_srq,
                ibv_cmd_create_srq_ex,
                ibv_cmd_destroy_srq,
                ibv_cmd_modify_srq,
                ibv_cmd_query_srq,
            }
            [crate::uverbs::cmd::wq] {
                ibv_cmd_create_wq,
                ibv_cmd_destroy_wq,
                ibv_cmd_modify_wq,
            }
            [crate::uverbs::cmd::xrcd] { ibv_cmd_open_xrcd }
        );
    };
}

/// The functions that depend on the layout of the provider's structures. All ABIs have them.
macro_rules! by_layout {
    ($kind:ident $node:literal $number:literal) => {
        export!($kind $node:
            [crate::provider::context] {
                _verbs_init_and_alloc_context = _verbs_init_and_alloc_context::<$number>,
                verbs_uninit_context = verbs_uninit_context::<$number>,
            }
            [crate::provider::ops] { verbs_set_ops = verbs_set_ops::<$number> }
        );
    };
}

/// Exports the functions that ABI 57 changed: more arguments, and a structure of which all
/// providers have the newest form.
macro_rules! since_57 {
    ($kind:ident $node:literal $number:literal) => {
        export!($kind $node:
            [crate::provider::context] {
                ibv_cmd_get_context = ibv_cmd_get_context_fds::<$number>,
            }
            [crate::uverbs::cmd::mr] { ibv_cmd_reg_dmabuf_mr = reg_dmabuf_mr }
            [crate::uverbs::cmd::port] { ibv_cmd_query_port = ibv_cmd_query_port_whole }
        );
    };
}

/// The creation of CQs until ABI 57.
macro_rules! until_57 {
    ($kind:ident $node:literal) => {
        export!($kind $node:
            [crate::uverbs::cmd::cq] { ibv_cmd_create_cq_ex, ibv_cmd_create_cq_ex2 }
        );
    };
}

/// The same since ABI 59.
macro_rules! since_59 {
    ($kind:ident $node:literal) => {
        export!($kind $node:
            [crate::uverbs::cmd::cq] {
                ibv_cmd_create_cq_ex = ibv_cmd_create_cq_ex_memory,
                ibv_cmd_create_cq_ex2 = ibv_cmd_create_cq_ex2_memory,
            }
        );
    };
}

/// Functions that ABI 59 added. Release 62 added two of them without a new number.
macro_rules! new_in_59 {
    ($kind:ident $node:literal) => {
        export!($kind $node:
            [crate::uverbs::cmd::dmah] { ibv_cmd_alloc_dmah }
            [crate::uverbs::cmd::destroy] { ibv_cmd_free_dmah }
            [crate::uverbs::cmd::mr] { ibv_cmd_reg_mr_ex }
            [crate::uverbs::cmd::dm] { ibv_cmd_export_dmabuf_fd }
            [crate::uverbs::cmd::port] { ibv_cmd_query_port_speed }
        );
    };
}

/// The creation of QPs until ABI 59.
macro_rules! until_59 {
    ($kind:ident $node:literal) => {
        export!($kind $node: [crate::uverbs::cmd::qp] { ibv_cmd_create_qp_ex2 });
    };
}

/// The same since ABI 64.
macro_rules! since_64 {
    ($kind:ident $node:literal) => {
        export!($kind $node:
            [crate::uverbs::cmd::qp] { ibv_cmd_create_qp_ex2 = ibv_cmd_create_qp_ex2_driver }
        );
    };
}

/// Functions that ABI 64 added.
macro_rules! new_in_64 {
    ($kind:ident $node:literal) => {
        export!($kind $node:
            [crate::memory::dma_heap] {
                ibv_dmabuf_heap_alloc,
                ibv_dmabuf_heap_cc_shared_init,
                ibv_dmabuf_heap_destroy,
                ibv_dmabuf_heap_free,
            }
        );
    };
}

export_bss!(default "IBVERBS_PRIVATE_34"
    compat "IBVERBS_PRIVATE_57" "IBVERBS_PRIVATE_59" "IBVERBS_PRIVATE_64" "IBVERBS_PRIVATE_65";
    verbs_allow_disassociate_destroy: bool);

// Called by programs of rdma-core 25 to 33: ibv_devinfo of Debian 11 and Ubuntu 20.04. Providers of these
// releases, which are refused before they are loaded, need more.
export!(compat "IBVERBS_PRIVATE_25": [crate::verbs::gid] { ibv_query_gid_type });
export!(compat "IBVERBS_PRIVATE_33": [crate::verbs::gid] { ibv_query_gid_type });

common!(default "IBVERBS_PRIVATE_34");
by_layout!(default "IBVERBS_PRIVATE_34" 34);
until_57!(default "IBVERBS_PRIVATE_34");
until_59!(default "IBVERBS_PRIVATE_34");
export!(default "IBVERBS_PRIVATE_34":
    [crate::provider::registry] { verbs_register_driver_34 = verbs_register_driver::<34> }
    [crate::provider::context] { ibv_cmd_get_context }
    [crate::provider::dmabuf] { ibv_cmd_reg_dmabuf_mr }
    [crate::uverbs::cmd::port] { ibv_cmd_query_port }
);

common!(compat "IBVERBS_PRIVATE_57");
by_layout!(compat "IBVERBS_PRIVATE_57" 57);
since_57!(compat "IBVERBS_PRIVATE_57" 57);
until_57!(compat "IBVERBS_PRIVATE_57");
until_59!(compat "IBVERBS_PRIVATE_57");
export!(default "IBVERBS_PRIVATE_57":
    [crate::provider::registry] { verbs_register_driver_57 = verbs_register_driver::<57> }
);

common!(compat "IBVERBS_PRIVATE_59");
by_layout!(compat "IBVERBS_PRIVATE_59" 59);
since_57!(compat "IBVERBS_PRIVATE_59" 59);
since_59!(compat "IBVERBS_PRIVATE_59");
until_59!(compat "IBVERBS_PRIVATE_59");
new_in_59!(default "IBVERBS_PRIVATE_59");
export!(default "IBVERBS_PRIVATE_59":
    [crate::provider::registry] { verbs_register_driver_59 = verbs_register_driver::<59> }
);

common!(compat "IBVERBS_PRIVATE_64");
by_layout!(compat "IBVERBS_PRIVATE_64" 64);
since_57!(compat "IBVERBS_PRIVATE_64" 64);
since_59!(compat "IBVERBS_PRIVATE_64");
since_64!(compat "IBVERBS_PRIVATE_64");
new_in_59!(compat "IBVERBS_PRIVATE_64");
new_in_64!(default "IBVERBS_PRIVATE_64");
export!(default "IBVERBS_PRIVATE_64":
    [crate::provider::registry] { verbs_register_driver_64 = verbs_register_driver::<64> }
);

common!(compat "IBVERBS_PRIVATE_65");
by_layout!(compat "IBVERBS_PRIVATE_65" 65);
since_57!(compat "IBVERBS_PRIVATE_65" 65);
since_59!(compat "IBVERBS_PRIVATE_65");
since_64!(compat "IBVERBS_PRIVATE_65");
new_in_59!(compat "IBVERBS_PRIVATE_65");
new_in_64!(compat "IBVERBS_PRIVATE_65");
export!(default "IBVERBS_PRIVATE_65":
    [crate::provider::registry] { verbs_register_driver_65 = verbs_register_driver::<65> }
    [crate::uverbs::cmd::destroy] { ibv_cmd_destroy_comp_cntr }
    [crate::uverbs::cmd::comp_cntr] {
        ibv_cmd_create_comp_cntr,
        ibv_cmd_inc_comp_cntr,
        ibv_cmd_inc_err_comp_cntr,
        ibv_cmd_qp_attach_comp_cntr,
        ibv_cmd_query_comp_cntr_caps,
        ibv_cmd_read_comp_cntr,
        ibv_cmd_read_err_comp_cntr,
        ibv_cmd_set_comp_cntr,
        ibv_cmd_set_err_comp_cntr,
    }
);
