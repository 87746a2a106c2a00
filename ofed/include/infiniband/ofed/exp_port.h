/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Part of infiniband/ofed.h: experimental verbs of ports, GIDs and the device clock.
 */
#ifndef INFINIBAND_OFED_EXP_PORT_H
#define INFINIBAND_OFED_EXP_PORT_H

#ifdef __cplusplus
extern "C" {
#endif

/* Node, transport and link layer of Intel's MIC, which no device of today has. */
#define IBV_EXP_NODE_TYPE_START 32
#define IBV_EXP_NODE_MIC ((enum ibv_node_type)IBV_EXP_NODE_TYPE_START)
#define IBV_EXP_TRANSPORT_TYPE_START 32
#define IBV_EXP_TRANSPORT_SCIF ((enum ibv_transport_type)IBV_EXP_TRANSPORT_TYPE_START)
#define IBV_EXP_LINK_LAYER_START 32
#define IBV_EXP_LINK_LAYER_SCIF IBV_EXP_LINK_LAYER_START

/* mask1 of struct ibv_exp_port_attr: which members to query */
enum {
	IBV_EXP_QUERY_PORT_STATE = 1 << 0,
	IBV_EXP_QUERY_PORT_MAX_MTU = 1 << 1,
	IBV_EXP_QUERY_PORT_ACTIVE_MTU = 1 << 2,
	IBV_EXP_QUERY_PORT_GID_TBL_LEN = 1 << 3,
	IBV_EXP_QUERY_PORT_CAP_FLAGS = 1 << 4,
	IBV_EXP_QUERY_PORT_MAX_MSG_SZ = 1 << 5,
	IBV_EXP_QUERY_PORT_BAD_PKEY_CNTR = 1 << 6,
	IBV_EXP_QUERY_PORT_QKEY_VIOL_CNTR = 1 << 7,
	IBV_EXP_QUERY_PORT_PKEY_TBL_LEN = 1 << 8,
	IBV_EXP_QUERY_PORT_LID = 1 << 9,
	IBV_EXP_QUERY_PORT_SM_LID = 1 << 10,
	IBV_EXP_QUERY_PORT_LMC = 1 << 11,
	IBV_EXP_QUERY_PORT_MAX_VL_NUM = 1 << 12,
	IBV_EXP_QUERY_PORT_SM_SL = 1 << 13,
	IBV_EXP_QUERY_PORT_SUBNET_TIMEOUT = 1 << 14,
	IBV_EXP_QUERY_PORT_INIT_TYPE_REPLY = 1 << 15,
	IBV_EXP_QUERY_PORT_ACTIVE_WIDTH = 1 << 16,
	IBV_EXP_QUERY_PORT_ACTIVE_SPEED = 1 << 17,
	IBV_EXP_QUERY_PORT_PHYS_STATE = 1 << 18,
	IBV_EXP_QUERY_PORT_LINK_LAYER = 1 << 19,
	IBV_EXP_QUERY_PORT_STD_MASK = (1 << 20) - 1,
	IBV_EXP_QUERY_PORT_MASK = IBV_EXP_QUERY_PORT_STD_MASK
};

enum ibv_exp_query_port_attr_comp_mask {
	IBV_EXP_QUERY_PORT_ATTR_MASK1 = 1 << 0,
	IBV_EXP_QUERY_PORT_ATTR_RESERVED = 1 << 1,
	IBV_EXP_QUERY_PORT_ATTR_MASKS = IBV_EXP_QUERY_PORT_ATTR_RESERVED - 1
};

struct ibv_exp_port_attr {
	__extension__ union {
		__extension__ struct {
			enum ibv_port_state state;
			enum ibv_mtu max_mtu;
			enum ibv_mtu active_mtu;
			int gid_tbl_len;
			uint32_t port_cap_flags;
			uint32_t max_msg_sz;
			uint32_t bad_pkey_cntr;
			uint32_t qkey_viol_cntr;
			uint16_t pkey_tbl_len;
			uint16_t lid;
			uint16_t sm_lid;
			uint8_t lmc;
			uint8_t max_vl_num;
			uint8_t sm_sl;
			uint8_t subnet_timeout;
			uint8_t init_type_reply;
			uint8_t active_width;
			uint8_t active_speed;
			uint8_t phys_state;
			uint8_t link_layer;
			uint8_t reserved;
		};
		struct ibv_port_attr port_attr;
	};
	uint32_t comp_mask; /* enum ibv_exp_query_port_attr_comp_mask */
	uint32_t mask1;     /* IBV_EXP_QUERY_PORT_* */
};

/* Queries a port: all members, also those that mask1 does not name. Fails with a negative errno value. */
static inline int ibv_exp_query_port(struct ibv_context *context, uint8_t port_num,
				     struct ibv_exp_port_attr *port_attr)
{
	int error;

	if (port_attr->comp_mask & ~(uint32_t)IBV_EXP_QUERY_PORT_ATTR_MASKS ||
	    (port_attr->comp_mask && port_attr->mask1 & ~(uint32_t)IBV_EXP_QUERY_PORT_MASK))
		error = EINVAL;
	else
		error = ibv_query_port(context, port_num, &port_attr->port_attr);
	if (error)
		errno = error;
	return -error;
}

enum ibv_exp_roce_gid_type {
	IBV_EXP_IB_ROCE_V1_GID_TYPE,
	IBV_EXP_ROCE_V2_GID_TYPE,
	IBV_EXP_ROCE_V1_5_GID_TYPE
};

enum ibv_exp_query_gid_attr {
	IBV_EXP_QUERY_GID_ATTR_TYPE = (1 << 0),
	IBV_EXP_QUERY_GID_ATTR_GID = (1 << 1),
	IBV_EXP_QUERY_GID_ATTR_RESERVED = (1 << 2)
};

struct ibv_exp_gid_attr {
	uint32_t comp_mask; /* enum ibv_exp_query_gid_attr: which members to query */
	enum ibv_exp_roce_gid_type type;
	union ibv_gid gid;
};

/* Queries an entry of a port's GID table. Fails with ENODATA if the entry is empty. */
static inline int ibv_exp_query_gid_attr(struct ibv_context *context, uint8_t port_num, unsigned int index,
					 struct ibv_exp_gid_attr *attr)
{
	struct ibv_gid_entry entry;
	int error;

	if (attr->comp_mask >= IBV_EXP_QUERY_GID_ATTR_RESERVED)
		return EINVAL;
	error = ibv_query_gid_ex(context, port_num, index, &entry, 0);
	if (error)
		return error;
	if (attr->comp_mask & IBV_EXP_QUERY_GID_ATTR_TYPE)
		attr->type = entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? IBV_EXP_ROCE_V2_GID_TYPE
								    : IBV_EXP_IB_ROCE_V1_GID_TYPE;
	if (attr->comp_mask & IBV_EXP_QUERY_GID_ATTR_GID)
		attr->gid = entry.gid;
	return 0;
}

enum ibv_exp_clock_info_comp_mask {
	IBV_EXP_CLOCK_INFO_RESERVED = 1 << 0
};

/* How to convert ticks to nanoseconds: nsec + ((ticks - cycles) * mult + frac) / 2^shift. */
struct ibv_exp_clock_info {
	uint64_t cycles;
	uint64_t nsec;
	uint64_t frac;
	uint64_t mask; /* valid bits of a tick count */
	uint32_t shift;
	uint32_t mult;
	uint32_t comp_mask; /* must be 0 */
};

enum ibv_exp_values_comp_mask {
	IBV_EXP_VALUES_HW_CLOCK_NS = 1 << 0,
	IBV_EXP_VALUES_HW_CLOCK = 1 << 1,
	IBV_EXP_VALUES_CLOCK_INFO = 1 << 2,
	IBV_EXP_VALUES_RESERVED = 1 << 3
};

struct ibv_exp_values {
	uint32_t comp_mask; /* out: the values that are valid */
	uint64_t hwclock_ns;
	uint64_t hwclock;
	struct ibv_exp_clock_info clock_info;
};

static inline void ibv_ofed_clock_info(struct ibv_exp_clock_info *info, uint64_t cycles, uint64_t nsec,
				       const struct ibv_device_attr_ex *device)
{
	uint64_t mult;

	memset(info, 0, sizeof(*info));
	info->cycles = cycles;
	info->nsec = nsec;
	info->mask = device->completion_timestamp_mask;
	/* as precise as 32 bits allow, and no more than needed for 1e-8 */
	for (info->shift = 24;; info->shift--) {
		mult = ((uint64_t)1000000 << info->shift) / device->hca_core_clock;
		if (!info->shift || !(mult >> 32))
			break;
	}
	info->mult = (uint32_t)mult;
}

/*
 * Queries the device clock. q_values is a mask of enum ibv_exp_values_comp_mask. hwclock_ns and clock_info
 * need its frequency: without it their bits in values->comp_mask are clear. Fails with a negative errno
 * value.
 */
static inline int ibv_exp_query_values(struct ibv_context *context, int q_values,
				       struct ibv_exp_values *values)
{
	uint32_t wanted = (uint32_t)q_values;
	struct ibv_device_attr_ex device;
	struct ibv_values_ex now;
	uint64_t khz, cycles;
	int error;

	memset(&now, 0, sizeof(now));
	now.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
	error = wanted >= IBV_EXP_VALUES_RESERVED ? EINVAL : ibv_query_rt_values_ex(context, &now);
	if (!error)
		error = ibv_query_device_ex(context, NULL, &device);
	if (!error && !(now.comp_mask & IBV_VALUES_MASK_RAW_CLOCK))
		error = EOPNOTSUPP;
	if (error) {
		errno = error;
		return -error;
	}
	khz = device.hca_core_clock;
	if (!khz)
		wanted &= IBV_EXP_VALUES_HW_CLOCK;
	cycles = (uint64_t)now.raw_clock.tv_nsec;
	values->comp_mask = wanted;
	if (wanted & IBV_EXP_VALUES_HW_CLOCK)
		values->hwclock = cycles;
	if (wanted & IBV_EXP_VALUES_HW_CLOCK_NS)
		values->hwclock_ns = cycles / khz * 1000000 + cycles % khz * 1000000 / khz;
	if (wanted & IBV_EXP_VALUES_CLOCK_INFO)
		ibv_ofed_clock_info(&values->clock_info, cycles,
				    cycles / khz * 1000000 + cycles % khz * 1000000 / khz, &device);
	return 0;
}

/* The timestamp of a completion in nanoseconds. It is less than half the clock's range away from
 * info->cycles. */
static inline uint64_t ibv_exp_cqe_ts_to_ns(struct ibv_exp_clock_info *info, uint64_t ts)
{
	uint64_t after = (ts - info->cycles) & info->mask;

	if (info->comp_mask) {
		errno = EINVAL;
		return 0;
	}
	if (after <= info->mask / 2)
		return info->nsec + ((after * info->mult + info->frac) >> info->shift);
	return info->nsec - ((((info->cycles - ts) & info->mask) * info->mult - info->frac) >> info->shift);
}

struct ibv_exp_open_device_attr {
	uint32_t comp_mask; /* enum ibv_exp_set_context_attr */
	struct {
		uint64_t peer_id;
		char *peer_name;
	} peer_info;
};

enum ibv_exp_set_context_attr {
	IBV_EXP_SET_ATTR_PEER_INFO = (1 << 0),
	IBV_EXP_SET_CONTEXT_ATTR_RESERVED = (1 << 1)
};

#ifdef __cplusplus
}
#endif

#endif
