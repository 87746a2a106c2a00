//! Symbols that only the static library has. `scripts/build-static` renames the helpers to the names that
//! rdma-core's archives use, and puts `verbs_provider_all` and `rdmanl_policy` into archive members of their
//! own.

export!(default "":
    [crate::rdma_util::providers] { ibv_static_providers }
    [crate::rdma_util::bitmap] {
        bitmap_fill_region,
        bitmap_find_first_bit,
        bitmap_find_free_region,
        bitmap_zero_region,
    }
    [crate::rdma_util::qmap] { cl_qmap_get, cl_qmap_init, cl_qmap_insert, cl_qmap_remove_item }
    [crate::rdma_util::iset] {
        iset_alloc_range,
        iset_alloc_range_aligned,
        iset_create,
        iset_destroy,
        iset_insert_range,
    }
    [crate::rdma_util::misc] { get_random, open_cdev, set_fd_nonblock, xorshift32 }
    [crate::rdma_util::rdmanl] { rdmanl_get_chardev, rdmanl_socket_alloc }
    [crate::uverbs::cmd::mr] { ibv_cmd_reg_dmabuf_mr_8 = reg_dmabuf_mr }
    // The functions of provider ABI 65, where they differ.
    [crate::provider::context] {
        _verbs_init_and_alloc_context_65 = _verbs_init_and_alloc_context::<65>,
        verbs_uninit_context_65 = verbs_uninit_context::<65>,
        ibv_cmd_get_context_65 = ibv_cmd_get_context_fds::<65>,
    }
    [crate::provider::ops] { verbs_set_ops_65 = verbs_set_ops::<65> }
    [crate::uverbs::cmd::port] { ibv_cmd_query_port_65 = ibv_cmd_query_port_whole }
    [crate::uverbs::cmd::cq] {
        ibv_cmd_create_cq_ex_65 = ibv_cmd_create_cq_ex_memory,
        ibv_cmd_create_cq_ex2_65 = ibv_cmd_create_cq_ex2_memory,
    }
    [crate::uverbs::cmd::qp] { ibv_cmd_create_qp_ex2_65 = ibv_cmd_create_qp_ex2_driver }
);

// A `struct verbs_device_ops`, 72 bytes. The macro RDMA_STATIC_PROVIDERS of verbs.h pads its list with it.
table!("verbs_provider_none", ".rodata": ".zero 72");

// The same, whose `static_providers` (at offset 24) lists all providers. A program that refers to it
// links their archives. libionic.a exists since rdma-core 60. It must be linked if it is there, and not
// be missed otherwise, so its table is a common symbol: linkers search the archives for the definition of
// such a symbol, and without one it is 72 zero bytes, as `verbs_provider_none` is.
table!("verbs_provider_all", ".data.rel.ro": ".zero 24\n.quad __all_providers\n.zero 40");
macro_rules! all_providers {
    ($($name:literal)+) => {
        table!("__all_providers", ".data.rel.ro":
            $(".quad verbs_provider_", $name, "\n",)+
            ".quad verbs_provider_ionic, 0\n",
            ".comm verbs_provider_ionic, 72, 32");
    };
}
all_providers!("bnxt_re" "cxgb4" "efa" "erdma" "hfi1verbs" "hns" "ipathverbs" "irdma" "mana" "mlx4" "mlx5"
    "mthca" "ocrdma" "qedr" "rxe" "siw" "vmw_pvrdma");

// A `struct nla_policy` of libnl (a type and two lengths of 16 bits each) for each RDMA_NLDEV_ATTR_*. It has
// more entries than the enumeration of any release. Attributes of type 0 are not checked.
macro_rules! policy {
    ($($attribute:literal: $nla_type:literal),+ $(,)?) => {
        table!("rdmanl_policy", ".rodata":
            $(".org rdmanl_policy + 6 * ", $attribute, "\n.short ", $nla_type, "\n",)+
            ".org rdmanl_policy + 6 * 256");
    };
}
// NLA_U8 is 1, U32 3, U64 4, NUL_STRING 10. The attributes are those of `crates/netlink/src/nldev`.
policy!(1: 3, 2: 10, 3: 3, 6: 4, 14: 1, 70: 10, 71: 4, 72: 4, 73: 3, 93: 1);
