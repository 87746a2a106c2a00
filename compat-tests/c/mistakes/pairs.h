/* The two processes of a pair: a server and its client. */
#pragma once

#include "mistakes.h"

/* The numbers of a side, which the other needs: of a queue pair and of a region, and a GID. */
struct card {
	uint32_t qpn, rkey;
	uint64_t addr;
	union ibv_gid gid;
};

/* Sends what this side has, and receives the same of the other. */
struct card swap(int peer, struct card mine);
/* Both have come here. */
void meet(int peer);
/* Writes 64 bytes of the rig. Returns the status of the completion. */
int write_to(struct rig *rig, struct ibv_qp *qp, uint64_t addr, uint32_t rkey);
