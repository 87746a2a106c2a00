/*
 * many DEVICE PROCESSES NUMBER: this process is connected to PROCESSES others, and sends 8 bytes to one of
 * them at a time, chosen at random, which answers. The others sleep until a completion event, as 100 that
 * poll would wait for a processor each. Prints half the median time of a round trip in microseconds.
 */
#include "../../compat-tests/uroce/faults/rig.h"

#include <stdlib.h>
#include <time.h>

const char *device_name;
bool on_uroce;

enum {
	MESSAGE = 8,
	STOP = 1, /* bytes of the message that ends a process */
	MOST = 1000
};

static const struct options plain = { .cq_entries = 4 * MOST }, shared = { .share = true };

/* Waits for a completion without polling. */
static struct ibv_wc sleep_for_next(struct end *end)
{
	struct ibv_wc wc;
	struct ibv_cq *cq;
	void *unused;

	while (ibv_poll_cq(end->cq, 1, &wc) == 0) {
		MUST(ibv_req_notify_cq(end->cq, 0) == 0);
		if (ibv_poll_cq(end->cq, 1, &wc) == 1)
			break;
		MUST(ibv_get_cq_event(end->channel, &cq, &unused) == 0);
		ibv_ack_cq_events(cq, 1);
	}
	return wc;
}

/* One of the others: answers each message, until one ends it. */
static void answer(int socket)
{
	struct address peer;
	struct end end;

	open_end(&end, &plain);
	send_bytes(socket, &end.self, sizeof end.self);
	receive_bytes(socket, &peer, sizeof peer);
	join(&end, &peer, &plain);
	MUST(post_receive(&end) == 0);
	send_bytes(socket, "r", 1);
	for (;;) {
		struct ibv_wc wc = sleep_for_next(&end);

		MUST(wc.status == IBV_WC_SUCCESS);
		if (wc.opcode != IBV_WC_RECV)
			continue;
		if (wc.byte_len == STOP)
			break;
		MUST(post_receive(&end) == 0 && post(&end, IBV_WR_SEND, NULL, 0, MESSAGE) == 0);
	}
	close_end(&end);
	exit(0);
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void round_trip(struct end *end)
{
	MUST(post_receive(end) == 0 && post(end, IBV_WR_SEND, NULL, 0, MESSAGE) == 0);
	for (int left = 2; left > 0; left--)
		MUST(next(end).status == IBV_WC_SUCCESS);
}

static int compare(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;

	return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
	static struct end ends[MOST];
	static int sockets[MOST];
	char ready;

	if (argc != 4)
		return 2;
	device_name = argv[1];
	int processes = atoi(argv[2]), number = atoi(argv[3]);
	if (processes < 1 || processes > MOST || number < 1)
		return 2;
	for (int i = 0; i < processes; i++)
		if (spawn(&sockets[i]) == 0)
			answer(sockets[i]);
	for (int i = 0; i < processes; i++) {
		struct address peer;

		ends[i] = ends[0];
		open_end(&ends[i], i == 0 ? &plain : &shared);
		receive_bytes(sockets[i], &peer, sizeof peer);
		send_bytes(sockets[i], &ends[i].self, sizeof ends[i].self);
		join(&ends[i], &peer, &plain);
		receive_bytes(sockets[i], &ready, 1);
		/* The first messages may take another path. */
		for (int k = 0; k < 10; k++)
			round_trip(&ends[i]);
	}
	double *times = calloc(number, sizeof *times);
	MUST(times);
	for (int i = 0; i < number; i++) {
		struct end *end = &ends[rand() % processes];
		double begin = now_us();

		round_trip(end);
		times[i] = (now_us() - begin) / 2;
	}
	qsort(times, number, sizeof *times, compare);
	printf("%.3f\n", times[number / 2]);
	for (int i = 0; i < processes; i++)
		MUST(post(&ends[i], IBV_WR_SEND, NULL, 0, STOP) == 0);
	for (int i = 0; i < processes; i++)
		MUST(next(&ends[0]).status == IBV_WC_SUCCESS);
	for (int i = 1; i < processes; i++)
		MUST(ibv_destroy_qp(ends[i].qp) == 0);
	close_end(&ends[0]);
	return 0;
}
