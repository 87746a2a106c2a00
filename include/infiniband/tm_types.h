/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The headers of tag matching, as they stand in messages.
 */
#ifndef _TM_TYPES_H
#define _TM_TYPES_H

#include <stdint.h>

#include <linux/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a message is: without a tag, the start of a rendezvous, its end, or the data itself. */
enum ibv_tmh_op {
	IBV_TMH_NO_TAG = 0,
	IBV_TMH_RNDV = 1,
	IBV_TMH_FIN = 2,
	IBV_TMH_EAGER = 3
};

/* The tag matching header: the first bytes of a message. */
struct ibv_tmh {
	uint8_t opcode; /* enum ibv_tmh_op */
	uint8_t reserved[3];
	__be32 app_ctx; /* the program's */
	__be64 tag;
};

/* The rendezvous header, which follows it: where the data can be read. */
struct ibv_rvh {
	__be64 va;
	__be32 rkey;
	__be32 len;
};

#ifdef __cplusplus
}
#endif

#endif
