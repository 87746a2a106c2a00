/* How often things are tried, as a third party on the wire counts it. */
#include "wire.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const struct how plain;

/* Tries are told apart by the refusals between them: a packet that is sent again because nothing was heard of
 * it yet (a receiver that gets no processor) is none. */
struct tries {
	int tries, refusals, sends;
	bool refused; /* the last one */
};

static bool count_one(struct tries *tries, int tap, const struct end *from, const struct end *to, int ms)
{
	struct seen seen;

	if (!see(tap, to->self.qpn, from->self.qpn, &seen, ms))
		return false;
	if (seen.qpn == to->self.qpn && seen.opcode == SEND_ONLY) {
		tries->tries += tries->tries == 0 || tries->refused;
		tries->sends++;
		tries->refused = false;
	} else if (seen.qpn == from->self.qpn && IS_RNR(seen)) {
		tries->refusals += !tries->refused;
		tries->refused = true;
	}
	return true;
}

/* The receiver posts nothing: as many tries as the requester's rnr_retry says. */
static void rnr_tries(void)
{
	static const int retries[] = { 0, 1, 3, 6 };
	struct end a, b;
	struct tries tries;
	int wire;

	for (unsigned i = 0; i < sizeof retries / sizeof *retries; i++) {
		struct how how = { .rnr_retry = retries[i] ? retries[i] : NEVER };

		tries = (struct tries){ 0 };
		make_pair(&a, &b, &how, &plain);
		wire = tap();
		MUST(post(&a, IBV_WR_SEND, NULL, 0, 64) == 0);
		const char *got = status(&a);
		settle();
		while (count_one(&tries, wire, &a, &b, 0))
			;
		tell("rnr_retry %d: %d tries, %d refused, %s; then %s", retries[i], tries.tries,
		     tries.refusals, got, tries.refused ? "silence" : "MORE");
		fprintf(stderr, "faults: figure: rnr_retry %d: %d packets\n", retries[i], tries.sends);
		close(wire);
		close_end(&a);
		close_end(&b);
	}
	/* 7: for ever, that is, more often than its three bits could count */
	tries = (struct tries){ 0 };
	make_pair(&a, &b, &plain, &plain);
	wire = tap();
	MUST(post(&a, IBV_WR_SEND, NULL, 0, 64) == 0);
	while (tries.refusals < 100)
		MUST(count_one(&tries, wire, &a, &b, WAIT));
	tell("rnr_retry 7, refused 100 times: %s", nothing(&a) ? "still trying" : status(&a));
	MUST(post_receive(&b) == 0);
	tell("then a receive: %s, %s", status(&a), status(&b));
	close(wire);
	close_end(&a);
	close_end(&b);
}

static int64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * (int64_t)1000000 + t.tv_nsec / 1000;
}

/* How often a message is sent to somebody who never answers, and how long it takes until that is told. */
static int silent_try(const struct how *how, int64_t *took, const char **got)
{
	struct end a;
	struct stranger nobody;
	struct seen seen;
	int sends = 0, wire;

	open_end(&a, how);
	appear(&nobody, &a, NULL);
	struct address peer = { .qpn = nobody.port << 8, .gid = a.self.gid };
	join(&a, &peer, how);
	wire = tap();
	int64_t begin = now_us();
	MUST(post(&a, IBV_WR_SEND, NULL, 0, 64) == 0);
	*got = status(&a);
	*took = now_us() - begin;
	settle();
	while (see(wire, peer.qpn, peer.qpn, &seen, 0))
		sends += seen.opcode == SEND_ONLY && seen.psn == a.self.psn;
	close(wire);
	close(nobody.fd);
	close_end(&a);
	return sends;
}

/* Nobody answers: as many tries as retry_cnt says, and not one more; each has its time. Who is woken too late
 * by a quarter of that time does not count that try, up to three times: so what is to be seen exactly is seen
 * where the machine is in time. */
static void silent_tries(void)
{
	static const struct {
		uint8_t timeout, retry_cnt;
	} cases[] = { { 11, 0 }, { 11, 1 }, { 12, 3 }, { 11, 7 } };

	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct how how = { .timeout = cases[i].timeout,
				   .retry_cnt = cases[i].retry_cnt ? cases[i].retry_cnt : NEVER };
		int most = cases[i].retry_cnt + 1, sends;
		int64_t each = ((int64_t)4096 << how.timeout) / 1000, took;
		const char *got;
		bool late = true;

		for (int k = 0; late && k < 20; k++) {
			sends = silent_try(&how, &took, &got);
			late = took >= each * most + each / 4;
			fprintf(stderr,
				"faults: figure: %d tries; given up after %.1f ms; the attributes say %.1f\n",
				sends, took / 1e3, each * most / 1e3);
			if (took < each * most || sends < most || sends > 4 * most)
				break;
		}
		tell("timeout %d, retry_cnt %d: %d tries, %s%s", how.timeout, cases[i].retry_cnt,
		     late && sends >= most && sends <= 4 * most ? most : sends, got,
		     took < each * most ? ", TOO EARLY" : "");
	}
}

/* A process with two ends; it waits to be stopped. */
static void stalling(int socket)
{
	struct end ends[2];
	struct address peers[2];
	struct how share = { .share = true };

	open_end(&ends[0], &plain);
	ends[1] = ends[0];
	open_end(&ends[1], &share);
	for (int i = 0; i < 2; i++) {
		give(socket, &ends[i].self, sizeof ends[i].self);
		take(socket, &peers[i], sizeof peers[i]);
		join(&ends[i], &peers[i], &plain);
	}
	give(socket, "", 1);
	for (;;)
		pause();
}

static void stop(int pid)
{
	int status;

	MUST(kill(pid, SIGSTOP) == 0);
	MUST(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
}

/* A peer that stalls, and one that stalls for too long: that costs the queue pair that has waited long
 * enough. */
static void stalled(void)
{
	struct how hows[2] = { { .timeout = 19 }, { .timeout = 10, .retry_cnt = 2 } };
	struct end patient, hasty, *ends[2] = { &patient, &hasty }, one, other;
	struct address peers[2];
	struct seen seen;
	char ready;
	int socket, wire, pid = spawn(&socket);

	if (pid == 0)
		stalling(socket);
	for (int i = 0; i < 2; i++) {
		take(socket, &peers[i], sizeof peers[i]);
		open_end(ends[i], &hows[i]);
		join(ends[i], &peers[i], &hows[i]);
		give(socket, &ends[i]->self, sizeof ends[i]->self);
	}
	take(socket, &ready, 1);
	make_pair(&one, &other, &plain, &plain);

	stop(pid);
	wire = tap();
	MUST(post(&patient, IBV_WR_RDMA_WRITE, &peers[0], 0, 64) == 0);
	for (int sends = 0; sends < 3; sends++)
		MUST(see(wire, peers[0].qpn, peers[0].qpn, &seen, WAIT));
	tell("stopped, and sent three times: %s", nothing(&patient) ? "still trying" : status(&patient));
	tell("others go on: %s", traffic(&one, &other));
	MUST(kill(pid, SIGCONT) == 0);
	tell("continued: %s", status(&patient));
	MUST(post(&patient, IBV_WR_RDMA_READ, &peers[0], 0, 64) == 0);
	tell("and after that: %s", status(&patient));

	stop(pid);
	MUST(post(&patient, IBV_WR_RDMA_WRITE, &peers[0], 0, 64) == 0);
	MUST(post(&hasty, IBV_WR_RDMA_WRITE, &peers[1], 0, 64) == 0);
	const char *got = status(&hasty);
	settle();
	tell("stopped for too long: %s, %s", got, state(&hasty));
	got = nothing(&patient) ? "still trying" : status(&patient);
	tell("the one that has more patience: %s, %s", got, state(&patient));
	tell("others go on: %s", traffic(&one, &other));
	MUST(kill(pid, SIGCONT) == 0);
	tell("continued: %s", status(&patient));
	tell("events: %s",
	     no_event(&patient) && no_event(&hasty) && no_event(&one) && no_event(&other) ? "none" : "SOME");
	MUST(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	close(wire);
	close_end(&patient);
	close_end(&hasty);
	close_end(&one);
	close_end(&other);
}

const struct scene tries_scenes[] = {
	{ "rnr-tries", rnr_tries, true },
	{ "silent-tries", silent_tries, true },
	{ "stalled", stalled, true },
	{ 0 },
};
