/* Programs with one mistake each, made with librdmacm. */
#pragma once

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>

#include "../../uroce/verbs/failures.h"

#define PORT 17923

struct mistake {
	const char *name;
	void (*run)(bool wrong);
	/* The rule that names the mistake, and a part of the explanation: the case reads them here. */
	const char *rule, *says;
};
extern const struct mistake connected_mistakes[], order_mistakes[], own_mistakes[];

struct cm {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
};

struct cm begin_in(enum rdma_port_space space);
struct cm begin(void);
/* Destroys an id now; the runner does so with those that are left. */
void finish(struct cm cm);
struct sockaddr_in address(const char *ip);
/* The type of the next event, or -1. */
int next(struct cm cm);
void resolve(struct cm cm, bool route);
void make_qp(struct cm cm);
/* An id that listens. */
struct cm server_in(enum rdma_port_space space);
/* Destroys what connected.c has beside its ids. */
void end_pair(void);
