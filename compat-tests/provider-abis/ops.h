/*
 * The ops of struct verbs_context_ops by the release that introduced them; N is what a call returns:
 * a number, a pointer to an object, or nothing. `args` is the number of arguments.
 */
#ifndef OPS_H
#define OPS_H

#define OPS_34(X) \
	X(advise_mr, INT, 5) \
	X(alloc_dm, PTR, 2) \
	X(alloc_mw, PTR, 2) \
	X(alloc_null_mr, PTR, 1) \
	X(alloc_parent_domain, PTR, 2) \
	X(alloc_pd, PTR, 1) \
	X(alloc_td, PTR, 2) \
	X(async_event, VOID, 2) \
	X(attach_counters_point_flow, INT, 3) \
	X(attach_mcast, INT, 3) \
	X(bind_mw, INT, 3) \
	X(close_xrcd, INT, 1) \
	X(cq_event, VOID, 1) \
	X(create_ah, PTR, 2) \
	X(create_counters, PTR, 2) \
	X(create_cq, PTR, 4) \
	X(create_cq_ex, PTR, 2) \
	X(create_flow, PTR, 2) \
	X(create_flow_action_esp, PTR, 2) \
	X(create_qp, PTR, 2) \
	X(create_qp_ex, PTR, 2) \
	X(create_rwq_ind_table, PTR, 2) \
	X(create_srq, PTR, 2) \
	X(create_srq_ex, PTR, 2) \
	X(create_wq, PTR, 2) \
	X(dealloc_mw, INT, 1) \
	X(dealloc_pd, INT, 1) \
	X(dealloc_td, INT, 1) \
	X(dereg_mr, INT, 1) \
	X(destroy_ah, INT, 1) \
	X(destroy_counters, INT, 1) \
	X(destroy_cq, INT, 1) \
	X(destroy_flow, INT, 1) \
	X(destroy_flow_action, INT, 1) \
	X(destroy_qp, INT, 1) \
	X(destroy_rwq_ind_table, INT, 1) \
	X(destroy_srq, INT, 1) \
	X(destroy_wq, INT, 1) \
	X(detach_mcast, INT, 3) \
	X(free_dm, INT, 1) \
	X(get_srq_num, INT, 2) \
	X(import_dm, PTR, 2) \
	X(import_mr, PTR, 2) \
	X(import_pd, PTR, 2) \
	X(modify_cq, INT, 2) \
	X(modify_flow_action_esp, INT, 2) \
	X(modify_qp, INT, 3) \
	X(modify_qp_rate_limit, INT, 2) \
	X(modify_srq, INT, 3) \
	X(modify_wq, INT, 2) \
	X(open_qp, PTR, 2) \
	X(open_xrcd, PTR, 2) \
	X(poll_cq, INT, 3) \
	X(post_recv, INT, 3) \
	X(post_send, INT, 3) \
	X(post_srq_ops, INT, 3) \
	X(post_srq_recv, INT, 3) \
	X(query_device_ex, INT, 4) \
	X(query_ece, INT, 2) \
	X(query_port, INT, 2) \
	X(query_qp, INT, 4) \
	X(query_qp_data_in_order, INT, 3) \
	X(query_rt_values, INT, 2) \
	X(query_srq, INT, 2) \
	X(read_counters, INT, 4) \
	X(reg_dm_mr, PTR, 5) \
	X(reg_dmabuf_mr, PTR, 6) \
	X(reg_mr, PTR, 5) \
	X(req_notify_cq, INT, 2) \
	X(rereg_mr, INT, 6) \
	X(resize_cq, INT, 2) \
	X(set_ece, INT, 2) \
	X(unimport_dm, VOID, 1) \
	X(unimport_mr, VOID, 1) \
	X(unimport_pd, VOID, 1)

#define OPS_59(X) \
	X(alloc_dmah, PTR, 2) \
	X(dealloc_dmah, INT, 1) \
	X(reg_mr_ex, PTR, 1)

#define OPS_62(X) \
	X(dm_export_dmabuf_fd, INT, 1) \
	X(query_port_speed, INT, 3)

#define OPS_64(X) \
	X(alloc_buf, PTR, 3) \
	X(free_buf, VOID, 1)

#define OPS_65(X) \
	X(create_comp_cntr, PTR, 2) \
	X(destroy_comp_cntr, INT, 1) \
	X(inc_comp_cntr, INT, 2) \
	X(inc_err_comp_cntr, INT, 2) \
	X(qp_attach_comp_cntr, INT, 3) \
	X(query_comp_cntr_caps, INT, 3) \
	X(read_comp_cntr, INT, 2) \
	X(read_err_comp_cntr, INT, 2) \
	X(set_comp_cntr, INT, 2) \
	X(set_err_comp_cntr, INT, 2)

/* The result of an INT op. */
#define OP_RESULT 77

/* The last call of an op. */
struct op_call {
	const char *op;
	unsigned long args[6];
	void *object; /* what a PTR op returns */
	int calls;
};

#endif
