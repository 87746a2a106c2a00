/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Part of infiniband/ofed.h: experimental verbs of flow steering.
 */
#ifndef INFINIBAND_OFED_EXP_FLOW_H
#define INFINIBAND_OFED_EXP_FLOW_H

#ifdef __cplusplus
extern "C" {
#endif

/* No successor. */
enum ibv_exp_flow_flags {
	IBV_EXP_FLOW_ATTR_FLAGS_ALLOW_LOOP_BACK = 1
};

enum ibv_exp_flow_attr_type {
	IBV_EXP_FLOW_ATTR_NORMAL = 0x0,
	IBV_EXP_FLOW_ATTR_ALL_DEFAULT = 0x1,
	IBV_EXP_FLOW_ATTR_MC_DEFAULT = 0x2,
	IBV_EXP_FLOW_ATTR_SNIFFER = 0x3
};

/* No successor: IB. */
enum ibv_exp_flow_spec_type {
	IBV_EXP_FLOW_SPEC_ETH = 0x20,
	IBV_EXP_FLOW_SPEC_IB = 0x21,
	IBV_EXP_FLOW_SPEC_IPV4 = 0x30,
	IBV_EXP_FLOW_SPEC_IPV6 = 0x31,
	IBV_EXP_FLOW_SPEC_IPV4_EXT = 0x32,
	IBV_EXP_FLOW_SPEC_IPV6_EXT = 0x33,
	IBV_EXP_FLOW_SPEC_TCP = 0x40,
	IBV_EXP_FLOW_SPEC_UDP = 0x41,
	IBV_EXP_FLOW_SPEC_VXLAN_TUNNEL = 0x50,
	IBV_EXP_FLOW_SPEC_INNER = 0x100,
	IBV_EXP_FLOW_SPEC_ACTION_TAG = 0x1000,
	IBV_EXP_FLOW_SPEC_ACTION_DROP = 0x1001
};

struct ibv_exp_flow_eth_filter {
	uint8_t dst_mac[6];
	uint8_t src_mac[6];
	uint16_t ether_type;
	uint16_t vlan_tag;
};

struct ibv_exp_flow_spec_eth {
	enum ibv_exp_flow_spec_type type;
	uint16_t size;
	struct ibv_exp_flow_eth_filter val;
	struct ibv_exp_flow_eth_filter mask;
};

struct ibv_exp_flow_ib_filter {
	uint32_t qpn;
	uint8_t dst_gid[16];
};

struct ibv_exp_flow_spec_ib {
	enum ibv_exp_flow_spec_type type;
	uint16_t size;
	struct ibv_exp_flow_ib_filter val;
	struct ibv_exp_flow_ib_filter mask;
};

struct ibv_exp_flow_ipv4_filter {
	uint32_t src_ip;
	uint32_t dst_ip;
};

struct ibv_exp_flow_spec_ipv4 {
	enum ibv_exp_flow_spec_type type;
	uint16_t size;
	struct ibv_exp_flow_ipv4_filter val;
	struct ibv_exp_flow_ipv4_filter mask;
};

struct ibv_exp_flow_ipv6_filter {
	uint8_t src_ip[16];
	uint8_t dst_ip[16];
};

struct ibv_exp_flow_spec_ipv6 {
	enum ibv_exp_flow_spec_type type;
	uint16_t size;
	struct ibv_exp_flow_ipv6_filter val;
	struct ibv_exp_flow_ipv6_filter mask;
};

struct ibv_exp_flow_spec_action_tag {
	enum ibv_exp_flow_spec_type type;
	uint16_t size;
	uint32_t tag_id;
};

struct ibv_exp_flow_spec_action_drop {
	enum ibv_exp_flow_spec_type type;
	uint16_t size;
};

struct ibv_exp_flow_ipv6_ext_filter {
	uint8_t src_ip[16];
	uint8_t dst_ip[16];
	uint32_t flow_label;
	uint8_t next_hdr;
	uint8_t traffic_class;
	uint8_t hop_limit;
};

struct ibv_exp_flow_spec_ipv6_ext {
	enum ibv_exp_flow_spec_type type;
	uint16_t size;
	struct ibv_exp_flow_ipv6_ext_filter val;
	struct ibv_exp_flow_ipv6_ext_filter mask;
};

struct ibv_exp_flow_ipv4_ext_filter {
	uint32_t src_ip;
	uint32_t dst_ip;
	uint8_t proto;
	uint8_t tos;
	uint8_t ttl;
	uint8_t flags;
};

struct ibv_exp_flow_spec_ipv4_ext {
	enum ibv_exp_flow_spec_type type;
	uint16_t size;
	struct ibv_exp_flow_ipv4_ext_filter val;
	struct ibv_exp_flow_ipv4_ext_filter mask;
};

struct ibv_exp_flow_tcp_udp_filter {
	uint16_t dst_port;
	uint16_t src_port;
};

struct ibv_exp_flow_spec_tcp_udp {
	enum ibv_exp_flow_spec_type type;
	uint16_t size;
	struct ibv_exp_flow_tcp_udp_filter val;
	struct ibv_exp_flow_tcp_udp_filter mask;
};

struct ibv_exp_flow_tunnel_filter {
	uint32_t tunnel_id;
};

struct ibv_exp_flow_spec_tunnel {
	enum ibv_exp_flow_spec_type type;
	uint16_t size;
	struct ibv_exp_flow_tunnel_filter val;
	struct ibv_exp_flow_tunnel_filter mask;
};

__extension__ struct ibv_exp_flow_spec {
	__extension__ union {
		struct {
			uint32_t type;
			uint16_t size;
		} hdr;
		struct ibv_exp_flow_spec_ib ib;
		struct ibv_exp_flow_spec_eth eth;
		struct ibv_exp_flow_spec_ipv4 ipv4;
		struct ibv_exp_flow_spec_ipv4_ext ipv4_ext;
		struct ibv_exp_flow_spec_tcp_udp tcp_udp;
		struct ibv_exp_flow_spec_ipv6 ipv6;
		struct ibv_exp_flow_spec_ipv6_ext ipv6_ext;
		struct ibv_exp_flow_spec_tunnel tunnel;
		struct ibv_exp_flow_spec_action_tag flow_tag;
		struct ibv_exp_flow_spec_action_drop drop;
	};
};

/* A flow to create. num_of_specs specifications follow the struct in memory. */
struct ibv_exp_flow_attr {
	enum ibv_exp_flow_attr_type type;
	uint16_t size;
	uint16_t priority;
	uint8_t num_of_specs;
	uint8_t port;
	uint32_t flags;    /* enum ibv_exp_flow_flags */
	uint64_t reserved; /* must be 0 */
};

struct ibv_exp_flow {
	struct ibv_context *context;
	uint32_t handle;
	struct ibv_flow *flow; /* the object in today's verbs */
};

/* Copies a specification of the old interface into one of today. Returns its size, or 0: it has no successor.
 */
static inline size_t ibv_ofed_flow_spec(struct ibv_flow_spec *now, const struct ibv_exp_flow_spec *spec,
					size_t size)
{
	uint32_t inner = spec->hdr.type & IBV_EXP_FLOW_SPEC_INNER;

	memset(now, 0, sizeof(*now));
	switch (spec->hdr.type & ~(uint32_t)IBV_EXP_FLOW_SPEC_INNER) {
	case IBV_EXP_FLOW_SPEC_IPV6:
		/* today's filter is the extended one: its further fields match anything */
		memcpy(now->ipv6.val.src_ip, spec->ipv6.val.src_ip, 16);
		memcpy(now->ipv6.val.dst_ip, spec->ipv6.val.dst_ip, 16);
		memcpy(now->ipv6.mask.src_ip, spec->ipv6.mask.src_ip, 16);
		memcpy(now->ipv6.mask.dst_ip, spec->ipv6.mask.dst_ip, 16);
		size = sizeof(now->ipv6);
		break;
	case IBV_EXP_FLOW_SPEC_IPV6_EXT:
		memcpy(now, spec, sizeof(now->ipv6));
		size = sizeof(now->ipv6);
		break;
	case IBV_EXP_FLOW_SPEC_ETH:
	case IBV_EXP_FLOW_SPEC_IPV4:
	case IBV_EXP_FLOW_SPEC_IPV4_EXT:
	case IBV_EXP_FLOW_SPEC_TCP:
	case IBV_EXP_FLOW_SPEC_UDP:
	case IBV_EXP_FLOW_SPEC_VXLAN_TUNNEL:
	case IBV_EXP_FLOW_SPEC_ACTION_TAG:
	case IBV_EXP_FLOW_SPEC_ACTION_DROP:
		/* the same layout and the same number */
		if (size > sizeof(*now))
			return 0;
		memcpy(now, spec, size);
		return size;
	default:
		return 0;
	}
	now->hdr.type = (enum ibv_flow_spec_type)(IBV_FLOW_SPEC_IPV6 | inner);
	now->hdr.size = (uint16_t)size;
	return size;
}

/*
 * Copies the specification at *from, which ends before end, to *to, and moves both on. Returns 0, EINVAL or
 * ENOSYS.
 */
static inline int ibv_ofed_next_flow_spec(const char **from, const char *end, char **to)
{
	struct ibv_exp_flow_spec spec;
	struct ibv_flow_spec now;
	size_t size;

	if ((size_t)(end - *from) < sizeof(spec.hdr))
		return EINVAL;
	memset(&spec, 0, sizeof(spec));
	memcpy(&spec.hdr, *from, sizeof(spec.hdr));
	size = spec.hdr.size;
	if (size < sizeof(spec.hdr) || size > sizeof(spec) || size > (size_t)(end - *from))
		return EINVAL;
	memcpy(&spec, *from, size);
	*from += size;
	size = ibv_ofed_flow_spec(&now, &spec, size);
	memcpy(*to, &now, size);
	*to += size;
	return size ? 0 : ENOSYS;
}

/* Today's attributes with their specifications, in memory of malloc. NULL with errno: ENOMEM, EINVAL, ENOSYS.
 */
static inline struct ibv_flow_attr *ibv_ofed_flow_attr(const struct ibv_exp_flow_attr *flow)
{
	const char *from = (const char *)(flow + 1), *end = (const char *)flow + flow->size;
	size_t room = sizeof(struct ibv_flow_attr) + flow->num_of_specs * sizeof(struct ibv_flow_spec);
	struct ibv_flow_attr *now;
	int i, error = 0;
	char *to;

	if (flow->size < sizeof(*flow) || flow->type > IBV_EXP_FLOW_ATTR_SNIFFER)
		return (struct ibv_flow_attr *)ibv_ofed_null(EINVAL);
	if (flow->flags)
		return (struct ibv_flow_attr *)ibv_ofed_null(ENOSYS);
	now = (struct ibv_flow_attr *)calloc(1, room);
	if (!now)
		return NULL;
	to = (char *)(now + 1);
	for (i = 0; !error && i < flow->num_of_specs; i++)
		error = ibv_ofed_next_flow_spec(&from, end, &to);
	if (error) {
		free(now);
		return (struct ibv_flow_attr *)ibv_ofed_null(error);
	}
	now->type = (enum ibv_flow_attr_type)flow->type;
	now->size = (uint16_t)(to - (char *)now);
	now->priority = flow->priority;
	now->num_of_specs = flow->num_of_specs;
	now->port = flow->port;
	return now;
}

/* Steers packets that match the specifications to a QP. Destroy the flow with ibv_exp_destroy_flow. */
static inline struct ibv_exp_flow *ibv_exp_create_flow(struct ibv_qp *qp, struct ibv_exp_flow_attr *flow)
{
	struct ibv_exp_flow *created = (struct ibv_exp_flow *)calloc(1, sizeof(*created));
	struct ibv_flow_attr *now;

	if (!created)
		return NULL;
	now = ibv_ofed_flow_attr(flow);
	if (now)
		created->flow = ibv_create_flow(qp, now);
	free(now);
	if (!created->flow) {
		free(created);
		return NULL;
	}
	created->context = qp->context;
	created->handle = created->flow->handle;
	return created;
}

static inline int ibv_exp_destroy_flow(struct ibv_exp_flow *flow_id)
{
	int error = ibv_destroy_flow(flow_id->flow);

	if (!error)
		free(flow_id);
	return error;
}

#ifdef __cplusplus
}
#endif

#endif
