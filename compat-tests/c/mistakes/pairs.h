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
/* A queue pair that is connected. `mine` has memory that the other side may write to; the rest is filled in.
 */
struct ibv_qp *connect_side(struct rig *rig, int peer, bool server, struct card mine, struct card *other);
/* Writes 64 bytes of the rig. Returns whether it completes with success. */
bool write_to(struct rig *rig, struct ibv_qp *qp, uint64_t addr, uint32_t rkey);
/* New memory of `size` bytes, at an address that the other side, which calls this too, has no region at. */
char *map_apart(bool server, size_t size);
