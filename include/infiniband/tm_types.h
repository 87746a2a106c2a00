/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Headers of tag matching messages, in wire format. */
#ifndef _TM_TYPES_H
#define _TM_TYPES_H

#include <stdint.h>

#include <linux/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Message types: without tag, start of a rendezvous, end of a rendezvous, eager. */
enum ibv_tmh_op {
	IBV_TMH_NO_TAG = 0,
	IBV_TMH_RNDV = 1,
	IBV_TMH_FIN = 2,
	IBV_TMH_EAGER = 3
};

/* Tag matching header, at the start of a message. */
struct ibv_tmh {
	uint8_t opcode; /* enum ibv_tmh_op */
	uint8_t reserved[3];
	__be32 app_ctx; /* for the program */
	__be64 tag;
};

/* Rendezvous header, after the tag matching header: memory from which to read the data. */
struct ibv_rvh {
	__be64 va;
	__be32 rkey;
	__be32 len;
};

#ifdef __cplusplus
}
#endif

#endif
