/* Number of retransmissions, as counted by a third party on the wire. */
#include "wire.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const struct options plain;

/*
 * Attempts are separated by RNR NAKs: retransmissions before the RNR NAK (from a receiver that is scheduled
 * out, for example) do not count.
 */
struct attempts {
	int count, rnr_naks, sends;
	bool last_was_nak; /* the last packet seen */
};

static bool count_one(struct attempts *attempts, int tap, const struct end *from, const struct end *to,
		      int ms)
{
	struct captured seen;

	if (!next_captured(tap, to->self.qpn, from->self.qpn, &seen, ms))
		return false;
	if (seen.qpn == to->self.qpn && seen.opcode == SEND_ONLY) {
		attempts->count += attempts->count == 0 || attempts->last_was_nak;
		attempts->sends++;
		attempts->last_was_nak = false;
	} else if (seen.qpn == from->self.qpn && IS_RNR(seen)) {
		attempts->rnr_naks += !attempts->last_was_nak;
		attempts->last_was_nak = true;
	}
	return true;
}

/* No receive is posted: the requester makes 1 + rnr_retry attempts. */
static void rnr_retries(void)
{
	static const int retries[] = { 0, 1, 3, 6 };
	struct end a, b;
	struct attempts attempts;
	int wire;

	for (unsigned i = 0; i < sizeof retries / sizeof *retries; i++) {
		struct options options = { .rnr_retry = retries[i] ? retries[i] : ZERO };

		attempts = (struct attempts){ 0 };
		make_pair(&a, &b, &options, &plain);
		wire = tap();
		MUST(post(&a, IBV_WR_SEND, NULL, 0, 64) == 0);
		const char *got = status(&a);
		short_wait();
		while (count_one(&attempts, wire, &a, &b, 0))
			;
		report("rnr_retry %d: %d attempts, %d RNR NAKs, %s, %s", retries[i], attempts.count,
		       attempts.rnr_naks, got, attempts.last_was_nak ? "no more packets" : "MORE PACKETS");
		fprintf(stderr, "faults: figure: rnr_retry %d: %d packets\n", retries[i], attempts.sends);
		close(wire);
		close_pair(&a, &b);
	}
	/* 7 means unlimited, that is, more than three bits can count */
	attempts = (struct attempts){ 0 };
	make_pair(&a, &b, &plain, &plain);
	wire = tap();
	MUST(post(&a, IBV_WR_SEND, NULL, 0, 64) == 0);
	while (attempts.rnr_naks < 100)
		MUST(count_one(&attempts, wire, &a, &b, WAIT));
	report("rnr_retry 7, after 100 RNR NAKs: %s", nothing(&a) ? "still retrying" : status(&a));
	MUST(post_receive(&b) == 0);
	report("receive posted: %s, %s", status(&a), status(&b));
	close(wire);
	close_pair(&a, &b);
}

static int64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * (int64_t)1000000 + t.tv_nsec / 1000;
}

/*
 * Sends a message to an address that never responds. Returns the number of transmissions, and the time until
 * the request failed.
 */
static int send_to_nobody(const struct options *options, int64_t *took, const char **got)
{
	struct end a;
	struct outsider nobody;
	struct captured seen;
	int sends = 0, wire;

	open_end(&a, options);
	open_outsider(&nobody, &a, NULL);
	struct address peer = { .qpn = first_qpn(nobody.port), .gid = a.self.gid };
	join(&a, &peer, options);
	wire = tap();
	int64_t begin = now_us();
	MUST(post(&a, IBV_WR_SEND, NULL, 0, 64) == 0);
	*got = status(&a);
	*took = now_us() - begin;
	short_wait();
	while (next_captured(wire, peer.qpn, peer.qpn, &seen, 0))
		sends += seen.opcode == SEND_ONLY && seen.psn == a.self.psn;
	close(wire);
	close(nobody.fd);
	close_end(&a);
	return sends;
}

/*
 * The peer does not respond: the request is sent 1 + retry_cnt times, one ack timeout apart. A retransmission
 * that is late by a quarter of the timeout is not charged to retry_cnt, at most three times in a row, so the
 * exact number is required only if the machine is fast enough.
 */
static void timeout_retries(void)
{
	static const struct {
		uint8_t timeout, retry_cnt;
	} cases[] = { { 11, 0 }, { 11, 1 }, { 12, 3 }, { 11, 7 } };

	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct options options = { .timeout = cases[i].timeout,
					   .retry_cnt = cases[i].retry_cnt ? cases[i].retry_cnt : ZERO };
		int most = cases[i].retry_cnt + 1, sends;
		int64_t each = ((int64_t)4096 << options.timeout) / 1000, took;
		const char *got;
		bool late = true;

		for (int k = 0; late && k < 20; k++) {
			sends = send_to_nobody(&options, &took, &got);
			late = took >= each * most + each / 4;
			fprintf(stderr,
				"faults: figure: %d transmissions; failed after %.1f ms, expected %.1f\n",
				sends, took / 1e3, each * most / 1e3);
			if (took < each * most || sends < most || sends > 4 * most)
				break;
		}
		report("timeout %d, retry_cnt %d: %d transmissions, %s%s", options.timeout,
		       cases[i].retry_cnt, late && sends >= most && sends <= 4 * most ? most : sends, got,
		       took < each * most ? ", TOO EARLY" : "");
	}
}

/* A process with two ends, which waits to be stopped. */
static void stallable_peer(int socket)
{
	struct end ends[2];
	struct address peers[2];
	struct options share = { .share = true };

	open_end(&ends[0], &plain);
	ends[1] = ends[0];
	open_end(&ends[1], &share);
	for (int i = 0; i < 2; i++) {
		send_bytes(socket, &ends[i].self, sizeof ends[i].self);
		receive_bytes(socket, &peers[i], sizeof peers[i]);
		join(&ends[i], &peers[i], &plain);
	}
	send_bytes(socket, "", 1);
	for (;;)
		pause();
}

/*
 * A peer that is stopped for a while, and one that is stopped for too long: only the queue pair whose retries
 * are used up fails.
 */
static void stalled(void)
{
	struct options options_of[2] = { { .timeout = 19 }, { .timeout = 10, .retry_cnt = 2 } };
	struct end lenient, strict, *ends[2] = { &lenient, &strict }, one, other;
	struct address peers[2];
	struct captured seen;
	char ready;
	int socket, wire, pid = spawn(&socket);

	if (pid == 0)
		stallable_peer(socket);
	for (int i = 0; i < 2; i++) {
		receive_bytes(socket, &peers[i], sizeof peers[i]);
		open_end(ends[i], &options_of[i]);
		join(ends[i], &peers[i], &options_of[i]);
		send_bytes(socket, &ends[i]->self, sizeof ends[i]->self);
	}
	receive_bytes(socket, &ready, 1);
	make_pair(&one, &other, &plain, &plain);

	stop(pid);
	wire = tap();
	MUST(post(&lenient, IBV_WR_RDMA_WRITE, &peers[0], 0, 64) == 0);
	for (int sends = 0; sends < 3; sends++)
		MUST(next_captured(wire, peers[0].qpn, peers[0].qpn, &seen, WAIT));
	report("peer stopped, request sent 3 times: %s",
	       nothing(&lenient) ? "still retrying" : status(&lenient));
	report("other queue pairs: %s", traffic(&one, &other));
	MUST(kill(pid, SIGCONT) == 0);
	report("peer continued: %s", status(&lenient));
	MUST(post(&lenient, IBV_WR_RDMA_READ, &peers[0], 0, 64) == 0);
	report("next request: %s", status(&lenient));

	stop(pid);
	MUST(post(&lenient, IBV_WR_RDMA_WRITE, &peers[0], 0, 64) == 0);
	MUST(post(&strict, IBV_WR_RDMA_WRITE, &peers[1], 0, 64) == 0);
	const char *got = status(&strict);
	short_wait();
	report("peer stopped for longer than the retries: %s, %s", got, state(&strict));
	got = nothing(&lenient) ? "still retrying" : status(&lenient);
	report("queue pair with a longer timeout: %s, %s", got, state(&lenient));
	report("other queue pairs: %s", traffic(&one, &other));
	MUST(kill(pid, SIGCONT) == 0);
	report("peer continued: %s", status(&lenient));
	report("events: %s", no_event(&lenient) && no_event(&strict) && no_event(&one) && no_event(&other)
				     ? "none"
				     : "SOME");
	MUST(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	close(wire);
	close_pair(&lenient, &strict);
	close_pair(&one, &other);
}

const struct scene retry_scenes[] = {
	{ "rnr-retries", rnr_retries, true },
	{ "timeout-retries", timeout_retries, true },
	{ "stalled", stalled, true },
	{ 0 },
};
