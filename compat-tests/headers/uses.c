/*
 * What a program does with the headers that compilers could object to: each macro is used, each header
 * included twice. Compiled in every standard, with all warnings as errors; it is not run.
 */
#include <infiniband/verbs.h>
#include <infiniband/opcode.h>
#include <infiniband/sa.h>
#include <infiniband/tm_types.h>
#include <infiniband/ib_user_ioctl_verbs.h>
#include <infiniband/verbs_api.h>
#include <libibverbs-rs/names.h>
#include <libibverbs-rs/names.h>
#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif
int uses(struct ibv_context *context, struct ibv_pd *pd, void *memory, int access);
#ifdef __cplusplus
}
#endif

/* a macro that is a constant expression is one in an array's size */
#define CONSTANT(name, value) \
	struct name { \
		char bytes[(value) != 0 ? 2 : 1]; \
	}
CONSTANT(c1, IBV_DEVICE_RAW_SCATTER_FCS);
CONSTANT(c2, IBV_DEVICE_PCI_WRITE_END_PADDING);
CONSTANT(c3, IBV_DEVICE_CC_DMA_BOUNCE);
CONSTANT(c4, IBV_ACCESS_OPTIONAL_RANGE);
CONSTANT(c5, IBV_ACCESS_OPTIONAL_FIRST);
CONSTANT(c6, ETHERNET_LL_SIZE);
CONSTANT(c7, IB_ROCE_UDP_ENCAP_VALID_PORT_MIN);
CONSTANT(c8, IB_ROCE_UDP_ENCAP_VALID_PORT_MAX);
CONSTANT(c9, IB_GRH_FLOWLABEL_MASK);
CONSTANT(c10, IBV_PATH_FLAG_BIDIRECTIONAL);
CONSTANT(c11, IBV_WC_STANDARD_FLAGS);
CONSTANT(c12, IBV_CREATE_CQ_SUP_WC_FLAGS);
CONSTANT(c13, IBV_RX_HASH_INNER);
CONSTANT(c14, IBV_PATH_RECORD_REVERSIBLE);
CONSTANT(c15, IBV_QPF_GRH_REQUIRED);
CONSTANT(c16, vext_field_avail(struct ibv_flow_spec, eth, 1));

enum {
	IBV_OPCODE_MINE = 0x80,
	IBV_OPCODE_THING = 3,
	IBV_OPCODE(MINE, THING)
};

static int advise(struct ibv_pd *pd, struct ibv_sge *sge)
{
	int ret = ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, sge, 1);

	ret |= ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, sge, 1);
	return ret | ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, sge, 1);
}

static struct ibv_flow_action *esp(struct ibv_context *context)
{
	struct ibv_flow_action_esp_keymat_aes_gcm key;
	struct ibv_flow_action_esp_replay_bmp replay;
	struct ibv_flow_action_esp_encap encap;
	struct ibv_flow_action_esp_attr attr;
	struct ibv_flow_action_esp action;

	memset(&key, 0, sizeof(key));
	memset(&replay, 0, sizeof(replay));
	memset(&encap, 0, sizeof(encap));
	memset(&attr, 0, sizeof(attr));
	memset(&action, 0, sizeof(action));
	key.iv_algo = IBV_FLOW_ACTION_IV_ALGO_SEQ;
	encap.val_ptr = &key;
	encap.next_ptr = &encap;
	encap.next_ptr_data_u64 = 0;
	action.flags = IBV_FLOW_ACTION_ESP_FLAGS_FULL_OFFLOAD | IBV_FLOW_ACTION_ESP_FLAGS_TRANSPORT |
		       IBV_FLOW_ACTION_ESP_FLAGS_ENCRYPT | IBV_FLOW_ACTION_ESP_FLAGS_ESN_NEW_WINDOW;
	attr.esp_attr = &action;
	attr.keymat_proto = IBV_FLOW_ACTION_ESP_KEYMAT_AES_GCM;
	attr.keymat_ptr = &key;
	attr.replay_proto = IBV_FLOW_ACTION_ESP_REPLAY_BMP;
	attr.replay_ptr = &replay;
	attr.esp_encap = &encap;
	return ibv_create_flow_action_esp(context, &attr);
}

/* the nameless members */
static int members(struct ibv_qp *qp)
{
	struct ibv_flow_spec spec;
	struct ibv_send_wr wr, *bad;
	union ibv_gid gid;
	struct ibv_wc wc;

	memset(&spec, 0, sizeof(spec));
	memset(&wr, 0, sizeof(wr));
	memset(&gid, 0, sizeof(gid));
	memset(&wc, 0, sizeof(wc));
	spec.hdr.type = IBV_FLOW_SPEC_ETH;
	spec.eth.size = sizeof(spec.eth);
	wr.imm_data = wc.imm_data;
	wr.invalidate_rkey = wc.invalidated_rkey;
	wr.wr.rdma.rkey = 1;
	wr.wr.atomic.swap = 2;
	wr.wr.ud.remote_qpn = 3;
	wr.qp_type.xrc.remote_srqn = 4;
	wr.bind_mw.bind_info.length = 5;
	wr.tso.mss = 6;
	wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
	return ibv_post_send(qp, &wr, &bad) + (int)gid.global.subnet_prefix + spec.hdr.size;
}

int uses(struct ibv_context *context, struct ibv_pd *pd, void *memory, int access)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, query_port);
	void *use_default = IBV_ALLOCATOR_USE_DEFAULT, *extended = __VERBS_ABI_IS_EXTENDED;
	struct ibv_port_attr port;
	struct ibv_device **list;
	struct ibv_mr *mr;

	if (vctx && ibv_query_port(context, 1, &port))
		return (uintptr_t)use_default == (uintptr_t)extended;
	mr = ibv_reg_mr(pd, memory, 1, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	mr = mr ? mr : ibv_reg_mr(pd, memory, 1, IBV_ACCESS_LOCAL_WRITE);
	mr = mr ? mr : ibv_reg_mr(pd, memory, 1, access);
	mr = mr ? mr : ibv_reg_mr(pd, memory, 1, IBV_ACCESS_RELAXED_ORDERING);
	mr = mr ? mr : ibv_reg_mr_iova(pd, memory, 1, 0, IBV_ACCESS_REMOTE_WRITE);
	mr = mr ? mr : ibv_reg_mr_iova(pd, memory, 1, 0, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED);
	mr = mr ? mr : ibv_reg_mr_iova(pd, memory, 1, 0, access);
	list = ibv_get_device_list(NULL);
	ibv_free_device_list(list);
	return esp(context) != NULL && mr != NULL && advise(pd, NULL) && members(NULL) &&
	       ibv_is_qpt_supported(3, IBV_QPT_RC);
}
