/* Faults of one end that the other must be told, and that must cost nobody else anything. */
#include "rig.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct how plain;

/* The receiver posts nothing. */
static void rnr(void)
{
	struct how tries = { .rnr_retry = 3 };
	struct end a, b;

	make_pair(&a, &b, &tries, &plain);
	MUST(post(&a, IBV_WR_SEND, NULL, 0, 64) == 0 && post(&a, IBV_WR_SEND, NULL, 0, 64) == 0);
	tell("rnr_retry 3: %s", status(&a));
	tell("the send behind it: %s", status(&a));
	tell("requester: %s", state(&a));
	tell("responder: %s, %s", state(&b), nothing(&b) ? "no completion" : "a completion");
	close_end(&a);
	close_end(&b);

	make_pair(&a, &b, &plain, &plain);
	MUST(post(&a, IBV_WR_SEND, NULL, 0, 64) == 0);
	usleep(300000);
	tell("rnr_retry 7, nothing posted for a while: %s", nothing(&a) ? "still trying" : status(&a));
	MUST(post_receive(&b) == 0);
	tell("then a receive: %s, %s", status(&a), status(&b));
	close_end(&a);
	close_end(&b);

	tries.rnr_retry = NEVER;
	make_pair(&a, &b, &tries, &plain);
	MUST(post(&a, IBV_WR_SEND, NULL, 0, 64) == 0);
	tell("rnr_retry 0: %s", status(&a));
	close_end(&a);
	close_end(&b);
}

/* One peer is killed; another one of the same process, and of another, does not notice. */
static void killed(void)
{
	struct how quick = { .timeout = 10, .retry_cnt = 2 };
	struct end dying, living, other, own;
	struct address peer;
	int socket, pid = spawn(&socket);

	if (pid == 0) {
		open_end(&dying, &plain);
		give(socket, &dying.self, sizeof dying.self);
		take(socket, &peer, sizeof peer);
		join(&dying, &peer, &plain);
		give(socket, "", 1);
		pause();
	}
	take(socket, &peer, sizeof peer);
	open_end(&own, &quick);
	join(&own, &peer, &quick);
	give(socket, &own.self, sizeof own.self);
	char ready;
	take(socket, &ready, 1);
	make_pair(&living, &other, &plain, &plain);

	MUST(post(&own, IBV_WR_RDMA_WRITE, &peer, 0, 64) == 0);
	tell("the peer lives: %s", status(&own));
	MUST(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	MUST(post(&own, IBV_WR_RDMA_WRITE, &peer, 0, 64) == 0 && post(&own, IBV_WR_SEND, NULL, 0, 64) == 0);
	tell("the peer is dead: %s", status(&own));
	tell("the send behind it: %s", status(&own));
	tell("requester: %s", state(&own));
	tell("others go on: %s", traffic(&living, &other));
	close_end(&own);
	close_end(&living);
	close_end(&other);
}

/* What the responder does not allow. */
static void access_one(const char *what, enum ibv_wr_opcode opcode, const struct how *target, uint64_t offset,
		       uint32_t rkey_change, bool other_pd)
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
		MUST(c.mr = ibv_reg_mr(c.pd, b.memory, SIZE, EVERYTHING));
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
	settle();
	tell("%s: %s, requester %s, responder %s, %s%s%s", what, got, state(&a), state(&b),
	     no_event(&b) ? "no event" : event(&b), untouched ? "" : ", WRITTEN",
	     got_nothing ? "" : ", READ");
	if (other_pd) {
		MUST(ibv_dereg_mr(c.mr) == 0 && ibv_dealloc_pd(c.pd) == 0);
	}
	close_end(&a);
	close_end(&b);
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
		struct how without_mr = { .mr_access = EVERYTHING & ~ops[i].right },
			   without_qp = { .qp_access = EVERYTHING & ~ops[i].right };
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

/* Of requests posted at once, which are acknowledged together, the one that is refused fails, and those
 * behind it. */
static void blame(void)
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
		tell("%s: %s, %s, %s, %s", i == 0 ? "write" : "read", got[0], got[1], got[2], got[3]);
		close_end(&a);
		close_end(&b);
	}
}

/* A region that is no more. */
static void deregistered(void)
{
	struct end a, b;

	make_pair(&a, &b, &plain, &plain);
	struct address to = b.self;
	MUST(post(&a, IBV_WR_RDMA_WRITE, &to, 0, 64) == 0);
	tell("a region: %s", status(&a));
	MUST(ibv_dereg_mr(b.mr) == 0);
	MUST(post(&a, IBV_WR_RDMA_WRITE, &to, 0, 64) == 0);
	tell("that is no more: %s", status(&a));
	MUST(b.mr = ibv_reg_mr(b.pd, b.memory, SIZE, EVERYTHING));
	close_end(&a);
	close_end(&b);
}

/* A message that does not fit the receive. */
static void too_long(void)
{
	struct end a, b;

	make_pair(&a, &b, &plain, &plain);
	MUST(post_receive(&b) == 0 && post(&a, IBV_WR_SEND, NULL, 0, SIZE) == 0);
	tell("requester: %s", status(&a));
	tell("responder: %s", status(&b));
	settle();
	tell("requester %s, responder %s", state(&a), state(&b));
	close_end(&a);
	close_end(&b);
}

/* One-sided operations are served while the program sleeps, and while it computes. */
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
			give(socket, &b.self, sizeof b.self);
			take(socket, &peer, sizeof peer);
			join(&b, &peer, &plain);
			give(socket, "", 1);
			while (computing)
				spin++;
			for (;;)
				pause();
		}
		take(socket, &peer, sizeof peer);
		open_end(&a, &plain);
		join(&a, &peer, &plain);
		give(socket, &a.self, sizeof a.self);
		take(socket, &ready, 1);
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
		tell("the target %s: write %s, read %s%s, fetch and add %s",
		     computing ? "computes" : "sleeps", write, read, right ? "" : " (wrong bytes)", add);
		MUST(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
		close_end(&a);
	}
}

const struct scene remote_scenes[] = {
	{ "rnr", rnr },
	{ "killed", killed },
	{ "access", access_rights },
	{ "blame", blame },
	{ "deregistered", deregistered },
	{ "too-long", too_long },
	{ "served", served },
	{ 0 },
};
