/* Faults at one end that must be reported to the other, and must not affect anybody else. */
#include "rig.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct options plain;

/* The receiver posts no receive. */
static void rnr(void)
{
	struct options limited = { .rnr_retry = 3 };
	struct end a, b;

	make_pair(&a, &b, &limited, &plain);
	MUST(post(&a, IBV_WR_SEND, NULL, 0, 64) == 0 && post(&a, IBV_WR_SEND, NULL, 0, 64) == 0);
	report("rnr_retry 3: %s", status(&a));
	report("the next send: %s", status(&a));
	report("requester: %s", state(&a));
	report("responder: %s, %s", state(&b), nothing(&b) ? "no completion" : "a completion");
	close_pair(&a, &b);

	make_pair(&a, &b, &plain, &plain);
	MUST(post(&a, IBV_WR_SEND, NULL, 0, 64) == 0);
	usleep(300000);
	report("rnr_retry 7, no receive for 300 ms: %s", nothing(&a) ? "still retrying" : status(&a));
	MUST(post_receive(&b) == 0);
	report("receive posted: %s, %s", status(&a), status(&b));
	close_pair(&a, &b);

	limited.rnr_retry = ZERO;
	make_pair(&a, &b, &limited, &plain);
	MUST(post(&a, IBV_WR_SEND, NULL, 0, 64) == 0);
	report("rnr_retry 0: %s", status(&a));
	close_pair(&a, &b);
}

/* A peer is killed. Other connections of the same and of another process are not affected. */
static void killed(void)
{
	struct options quick = { .timeout = 10, .retry_cnt = 2 };
	struct end dying, living, other, own;
	struct address peer;
	int socket, pid = spawn(&socket);

	if (pid == 0) {
		open_end(&dying, &plain);
		send_bytes(socket, &dying.self, sizeof dying.self);
		receive_bytes(socket, &peer, sizeof peer);
		join(&dying, &peer, &plain);
		send_bytes(socket, "", 1);
		pause();
	}
	receive_bytes(socket, &peer, sizeof peer);
	open_end(&own, &quick);
	join(&own, &peer, &quick);
	send_bytes(socket, &own.self, sizeof own.self);
	char ready;
	receive_bytes(socket, &ready, 1);
	make_pair(&living, &other, &plain, &plain);

	MUST(post(&own, IBV_WR_RDMA_WRITE, &peer, 0, 64) == 0);
	report("before the peer is killed: %s", status(&own));
	MUST(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	MUST(post(&own, IBV_WR_RDMA_WRITE, &peer, 0, 64) == 0 && post(&own, IBV_WR_SEND, NULL, 0, 64) == 0);
	report("after the peer is killed: %s", status(&own));
	report("the next send: %s", status(&own));
	report("requester: %s", state(&own));
	report("other queue pairs: %s", traffic(&living, &other));
	close_pair(&own, &living);
	close_end(&other);
}

/* Requests that the responder must reject. */
static void access_one(const char *what, enum ibv_wr_opcode opcode, const struct options *target,
		       uint64_t offset, uint32_t rkey_change, bool other_pd)
{
	struct end a, b, c = { 0 };
	struct address to;
	char before[SIZE];

	make_pair(&a, &b, &plain, target);
	to = b.self;
	to.rkey ^= rkey_change;
	if (other_pd) {
		/* memory of the same process, registered in another protection domain */
		c = b;
		MUST(c.pd = ibv_alloc_pd(b.context));
		MUST(c.mr = ibv_reg_mr(c.pd, b.memory, SIZE, ALL_ACCESS));
		to.rkey = c.mr->rkey;
	}
	for (int i = 0; i < SIZE; i++)
		b.memory[i] = i * 7;
	memcpy(before, b.memory, SIZE);
	memset(a.memory, 0x5a, SIZE);
	MUST(post(&a, opcode, &to, offset, opcode >= IBV_WR_ATOMIC_CMP_AND_SWP ? 8 : 4096) == 0);
	const char *got = status(&a);
	bool untouched = !memcmp(before, b.memory, SIZE), got_nothing = true;
	for (int i = 0; i < 4096; i++)
		got_nothing &= a.memory[i] == 0x5a;
	short_wait();
	report("%s: %s, requester %s, responder %s, %s%s%s", what, got, state(&a), state(&b),
	       no_event(&b) ? "no event" : event(&b), untouched ? "" : ", WRITTEN",
	       got_nothing ? "" : ", READ");
	if (other_pd) {
		MUST(ibv_dereg_mr(c.mr) == 0 && ibv_dealloc_pd(c.pd) == 0);
	}
	close_pair(&a, &b);
}

static void access_rights(void)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		const char *name;
		int right;
	} ops[] = {
		{ IBV_WR_RDMA_WRITE, "write", IBV_ACCESS_REMOTE_WRITE },
		{ IBV_WR_RDMA_READ, "read", IBV_ACCESS_REMOTE_READ },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, "swap", IBV_ACCESS_REMOTE_ATOMIC },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, "add", IBV_ACCESS_REMOTE_ATOMIC },
	};

	for (unsigned i = 0; i < sizeof ops / sizeof *ops; i++) {
		struct options without_mr = { .mr_access = ALL_ACCESS & ~ops[i].right },
			       without_qp = { .qp_access = ALL_ACCESS & ~ops[i].right };
		char line[80];
#define ONE(text, ...) \
	(snprintf(line, sizeof line, "%s, " text, ops[i].name), access_one(line, ops[i].opcode, __VA_ARGS__))
		ONE("wrong rkey", &plain, 0, 0x5300, false);
		ONE("wrong low byte of the rkey", &plain, 0, 1, false);
		ONE("past the end", &plain, SIZE - (ops[i].right == IBV_ACCESS_REMOTE_ATOMIC ? 0 : 8), 0,
		    false);
		ONE("before the start", &plain, -8, 0, false);
		ONE("far away", &plain, 1ull << 63, 0, false);
		ONE("region without the right", &without_mr, 0, 0, false);
		ONE("queue pair without the right", &without_qp, 0, 0, false);
		ONE("another protection domain", &plain, 0, 0, true);
	}
}

/*
 * Of requests that are posted together and acknowledged together, the invalid one fails, and those after it
 * are flushed.
 */
static void failing_request(void)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };

	for (unsigned i = 0; i < sizeof opcodes / sizeof *opcodes; i++) {
		struct ibv_send_wr wrs[4] = { 0 }, *bad;
		struct ibv_sge sge;
		struct end a, b;
		const char *got[4];

		make_pair(&a, &b, &plain, &plain);
		sge = (struct ibv_sge){ .addr = (uintptr_t)a.memory, .length = 64, .lkey = a.mr->lkey };
		for (unsigned k = 0; k < 4; k++) {
			wrs[k] = (struct ibv_send_wr){ .wr_id = k,
						       .next = k < 3 ? &wrs[k + 1] : NULL,
						       .sg_list = &sge,
						       .num_sge = 1,
						       .opcode = k == 2 ? opcodes[i] : IBV_WR_RDMA_WRITE };
			wrs[k].wr.rdma.remote_addr = b.self.addr;
			wrs[k].wr.rdma.rkey = k == 2 ? b.self.rkey ^ 0x5300 : b.self.rkey;
		}
		MUST(ibv_post_send(a.qp, wrs, &bad) == 0);
		for (unsigned k = 0; k < 4; k++) {
			struct ibv_wc wc = next(&a);

			MUST(wc.wr_id == k);
			got[k] = ibv_wc_status_str(wc.status);
		}
		report("%s: %s, %s, %s, %s", i == 0 ? "write" : "read", got[0], got[1], got[2], got[3]);
		close_pair(&a, &b);
	}
}

/* A region that has been deregistered. */
static void deregistered(void)
{
	struct end a, b;

	make_pair(&a, &b, &plain, &plain);
	struct address to = b.self;
	MUST(post(&a, IBV_WR_RDMA_WRITE, &to, 0, 64) == 0);
	report("registered: %s", status(&a));
	MUST(ibv_dereg_mr(b.mr) == 0);
	MUST(post(&a, IBV_WR_RDMA_WRITE, &to, 0, 64) == 0);
	report("deregistered: %s", status(&a));
	MUST(b.mr = ibv_reg_mr(b.pd, b.memory, SIZE, ALL_ACCESS));
	close_pair(&a, &b);
}

/* A message that is longer than the receive buffer. */
static void too_long(void)
{
	struct end a, b;

	make_pair(&a, &b, &plain, &plain);
	MUST(post_receive(&b) == 0 && post(&a, IBV_WR_SEND, NULL, 0, SIZE) == 0);
	report("requester: %s", status(&a));
	report("responder: %s", status(&b));
	short_wait();
	report("requester %s, responder %s", state(&a), state(&b));
	close_pair(&a, &b);
}

/* One-sided operations are executed while the target program sleeps, and while it computes. */
static void served(void)
{
	for (int computing = 0; computing < 2; computing++) {
		struct end a, b;
		struct address peer;
		int socket, pid = spawn(&socket);
		volatile unsigned long spin = 0;
		char ready;

		if (pid == 0) {
			open_end(&b, &plain);
			memset(b.memory, 'b', SIZE);
			send_bytes(socket, &b.self, sizeof b.self);
			receive_bytes(socket, &peer, sizeof peer);
			join(&b, &peer, &plain);
			send_bytes(socket, "", 1);
			while (computing)
				spin++;
			for (;;)
				pause();
		}
		receive_bytes(socket, &peer, sizeof peer);
		open_end(&a, &plain);
		join(&a, &peer, &plain);
		send_bytes(socket, &a.self, sizeof a.self);
		receive_bytes(socket, &ready, 1);
		memset(a.memory, 'a', SIZE);
		MUST(post(&a, IBV_WR_RDMA_WRITE, &peer, 8, 30000) == 0);
		const char *write = status(&a);
		memset(a.memory, 0, SIZE);
		MUST(post(&a, IBV_WR_RDMA_READ, &peer, 0, SIZE) == 0);
		const char *read = status(&a);
		bool right = true;
		for (int i = 0; i < SIZE; i++)
			right &= a.memory[i] == (i >= 8 && i < 30008 ? 'a' : 'b');
		MUST(post(&a, IBV_WR_ATOMIC_FETCH_AND_ADD, &peer, 0, 8) == 0);
		const char *add = status(&a);
		report("the target %s: write %s, read %s%s, fetch and add %s",
		       computing ? "computes" : "sleeps", write, read, right ? "" : " (wrong bytes)", add);
		MUST(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
		close_end(&a);
	}
}

const struct scene remote_scenes[] = {
	{ "rnr", rnr },
	{ "killed", killed },
	{ "access", access_rights },
	{ "failing-request", failing_request },
	{ "deregistered", deregistered },
	{ "too-long", too_long },
	{ "served", served },
	{ 0 },
};
