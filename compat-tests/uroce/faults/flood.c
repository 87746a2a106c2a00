/*
 * Other programs on the same machine: what they can access, and how much they disturb when they send as fast
 * as they can. They run as the same user here, which is the stronger case.
 */
#include "wire.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const struct options plain;

enum {
	PAIRS = 4,
	ROUNDS = 20
};

static struct end pairs[PAIRS][2];
static volatile unsigned long *flooded; /* packets or requests sent by the flooding process */

static void count(bool sent)
{
	if (sent)
		++*flooded;
}

/* Transfers data with each operation and compares every byte. */
static void exchange(struct end *a, struct end *b, unsigned round)
{
	uint64_t *word = (uint64_t *)a->memory, *counter = (uint64_t *)(b->memory + SIZE / 2 - 8);
	const char *got = NULL;
	uint32_t length = 1 + any() % 20000;

	for (uint32_t i = 0; i < length; i++)
		a->memory[i] = i * 13 + round;
	memset(b->memory, 0, SIZE / 2 - 8);
	MUST(post_receive(b) == 0 && post(a, IBV_WR_SEND, NULL, 0, length) == 0);
	struct ibv_wc wc = next(b);
	if (wc.status != IBV_WC_SUCCESS || wc.byte_len != length ||
	    memcmp(a->memory, b->memory + SIZE / 2, length))
		fail("a message arrives unchanged");
	if (strcmp(got = status(a), "success"))
		fail(got);
	MUST(post(a, IBV_WR_RDMA_WRITE, &b->self, 0, length) == 0);
	if (strcmp(got = status(a), "success") || memcmp(a->memory, b->memory, length))
		fail(got);
	memset(a->memory, 0, length);
	MUST(post(a, IBV_WR_RDMA_READ, &b->self, 0, length) == 0);
	if (strcmp(got = status(a), "success") || memcmp(a->memory, b->memory, length))
		fail(got);
	MUST(post(a, IBV_WR_ATOMIC_FETCH_AND_ADD, &b->self, SIZE / 2 - 8, 8) == 0);
	if (strcmp(got = status(a), "success") || *word + 1 != *counter)
		fail(got);
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Whether an end has nothing to report, and can send to its peer. Prints what is wrong. */
static bool is_well(struct end *end, struct end *peer)
{
	bool silent = nothing(end), quiet = no_event(end);
	const char *now = state(end), *sent = traffic(end, peer);
	bool well = silent && quiet && !strcmp(now, "RTS") && !strcmp(sent, "success");

	if (!well)
		fprintf(stderr, "faults: %s, %s, %s, traffic: %s\n",
			silent ? "no completion" : "a completion", quiet ? "no event" : "an event", now,
			sent);
	return well;
}

/* Tests the queue pairs while `flood` runs in another process, and afterwards. */
static void run_under(const char *what, void (*flood)(int socket), void (*greet)(int socket),
		      unsigned long enough)
{
	/* the default ack timeout would be long enough, but not on every test machine */
	struct options lenient = { .timeout = 17 };
	int socket, pid;
	unsigned rounds = 0;

	flooded = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(flooded != MAP_FAILED);
	for (int i = 0; i < PAIRS; i++)
		make_pair(&pairs[i][0], &pairs[i][1], &lenient, &lenient);
	if ((pid = spawn(&socket)) == 0)
		flood(socket);
	if (greet)
		greet(socket);
	while (*flooded == 0)
		usleep(1000);
	unsigned long first = *flooded;
	double begin = seconds();
	for (; rounds < ROUNDS || *flooded < enough; rounds++)
		exchange(&pairs[rounds % PAIRS][0], &pairs[rounds % PAIRS][1], rounds);
	fprintf(stderr, "faults: figure: %s: %lu sent in %.2f s and %u rounds of four operations\n", what,
		*flooded - first, seconds() - begin, rounds);
	report("%s: all %d queue pairs work", what, 2 * PAIRS);
	MUST(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	bool well = true;
	for (int i = 0; i < PAIRS; i++)
		for (int k = 0; k < 2; k++)
			well &= is_well(&pairs[i][k], &pairs[i][1 - k]);
	report("afterwards: %s", well ? "no extra completions or events, all in RTS, traffic" : "WRONG");
	report("then idle: %s", sleeping(1) ? "its threads sleep" : "ITS THREADS WAKE UP");
	for (int i = 0; i < PAIRS; i++)
		for (int k = 0; k < 2; k++)
			close_end(&pairs[i][k]);
	munmap((void *)flooded, 4096);
	close(socket);
}

/* A PSN that none of the queue pairs reaches during the test. */
static uint32_t psn_far_from_all(void)
{
	uint32_t psn;
	bool far;

	do {
		psn = any() & 0xffffff;
		far = true;
		for (int i = 0; i < PAIRS * 2; i++) {
			uint32_t distance = (psn - pairs[i / 2][i % 2].self.psn) & 0xffffff;

			far &= distance > 900000 && distance < 0xffffff - 1000;
		}
	} while (!far);
	return psn;
}

/* Sends bytes that are not packets. */
static void garbage(int socket)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	struct outsider outsider;
	static uint8_t bytes[16384];

	(void)socket;
	open_outsider(&outsider, &pairs[0][0], NULL);
	memcpy(&to.sin_addr, pairs[0][0].self.gid.raw + 12, 4);
	MUST(getrandom(bytes, sizeof bytes, 0) == sizeof bytes);
	for (unsigned i = 0;; i++) {
		uint32_t qpn = pairs[i % PAIRS][0].self.qpn;

		to.sin_port = htons(port_of(qpn));
		count(sendto(outsider.fd, bytes + i * 61 % 8192, i * 17 % (i % 8 ? 300 : 8000), 0,
			     (void *)&to, sizeof to) >= 0);
	}
}

/* Sends well-formed packets: to QPs that do not exist, or with wrong PSNs and rkeys. */
static void forge(int socket)
{
	struct outsider outsider;
	uint8_t packet[1200];

	(void)socket;
	open_outsider(&outsider, &pairs[0][0], NULL);
	MUST(getrandom(packet, sizeof packet, 0) == sizeof packet);
	for (unsigned i = 0;; i++) {
		static const uint8_t opcodes[] = { SEND_ONLY, WRITE_ONLY, READ_REQUEST,
						   FETCH_ADD, ACK,        READ_ONLY };
		struct end *victim = &pairs[i % PAIRS][i / PAIRS % 2];
		uint8_t opcode = opcodes[i % 6];
		uint32_t qpn = i % 5 == 0 ? victim->self.qpn ^ (1 + any() % 255) : victim->self.qpn;
		size_t payload = opcode == SEND_ONLY || opcode == WRITE_ONLY || opcode == READ_ONLY
					 ? i % 257 * 4
					 : 0;

		set_bth(packet, opcode, qpn, psn_far_from_all());
		set_reth(packet, victim->self.addr, any(), opcode == WRITE_ONLY ? payload : 64);
		size_t more = opcode == FETCH_ADD                              ? 28
			      : opcode == WRITE_ONLY || opcode == READ_REQUEST ? 16
			      : opcode == SEND_ONLY                            ? 0
									       : 4;
		count(send_forged(&outsider, victim, qpn, packet, HEADER + more + payload));
	}
}

static struct end own; /* the end to which the flooding process is connected */

/* A valid connection that keeps its queue full of requests. */
static void busy(int socket)
{
	struct options options = { .cq_entries = 64 };
	struct address peer;
	struct end end;
	int in_flight = 0;

	open_end(&end, &options);
	send_bytes(socket, &end.self, sizeof end.self);
	receive_bytes(socket, &peer, sizeof peer);
	join(&end, &peer, &options);
	for (unsigned i = 0;; i++) {
		static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
							      IBV_WR_RDMA_WRITE,
							      IBV_WR_ATOMIC_FETCH_AND_ADD };
		enum ibv_wr_opcode opcode = opcodes[i % 4];

		if (in_flight == 60) {
			MUST(next(&end).status == IBV_WC_SUCCESS);
			in_flight--;
			count(true);
		}
		MUST(post(&end, opcode, &peer, 0,
			  opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8
			  : i % 64 == 0                         ? 30000
								: i % 1000) == 0);
		in_flight++;
	}
}

static void welcome(int socket)
{
	struct address peer;

	receive_bytes(socket, &peer, sizeof peer);
	open_end(&own, &plain);
	join(&own, &peer, &plain);
	send_bytes(socket, &own.self, sizeof own.self);
}

static void flood_garbage(void)
{
	run_under("garbage", garbage, NULL, 20000);
}
static void flood_forged(void)
{
	run_under("forged packets", forge, NULL, 20000);
}

static void flood_valid(void)
{
	run_under("valid requests", busy, welcome, 5000);
	report("its own queue pair: %s", state(&own));
	close_end(&own);
}

/* Number of abstract or bound Unix socket names, named mappings and System V shared memory segments. */
static int names(void)
{
	char line[500], name[200];
	FILE *file = fopen("/proc/net/unix", "r");
	int n = 0;

	MUST(file);
	while (fgets(line, sizeof line, file))
		n += sscanf(line, "%*s %*s %*s %*s %*s %*s %*s %199s", name) == 1;
	fclose(file);
	MUST(file = fopen("/proc/self/maps", "r"));
	while (fgets(line, sizeof line, file))
		n += sscanf(line, "%*s %199s", name) == 1 && name[3] == 's';
	fclose(file);
	MUST(file = fopen("/proc/sysvipc/shm", "r"));
	while (fgets(line, sizeof line, file))
		n++;
	fclose(file);
	return n;
}

/* Whether all new descriptors of the process are sockets, pipes or anonymous inodes. */
static bool all_anonymous(const bool *before)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	bool so = true;

	MUST(dir);
	while ((entry = readdir(dir))) {
		char to[300] = "";
		int fd = atoi(entry->d_name);

		if (entry->d_name[0] == '.' || fd == dirfd(dir) || (fd < 1024 && before[fd]))
			continue;
		MUST(readlinkat(dirfd(dir), entry->d_name, to, sizeof to - 1) > 0);
		so &= !strncmp(to, "socket:", 7) || !strncmp(to, "pipe:", 5) ||
		      !strncmp(to, "anon_inode:", 11);
	}
	closedir(dir);
	return so;
}

/* Tries to bind another socket to a port; returns 0 or errno. */
static int try_bind(int family, uint16_t port, const void *address, bool share)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = share, e = 0;

	MUST(fd >= 0);
	if (address)
		memcpy(&v4.sin_addr, address, 4);
	MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
	MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0);
	if (bind(fd, family == AF_INET ? (void *)&v4 : (void *)&v6,
		 family == AF_INET ? sizeof v4 : sizeof v6) != 0)
		e = errno;
	close(fd);
	return e;
}

/*
 * Sends one request from an outsider. Reports whether it was executed, and whether and to whom a response was
 * sent.
 */
static void attempt(const char *what, struct outsider *outsider, const struct end *victim, uint32_t qpn,
		    uint32_t psn, uint32_t rkey, int wire, uint32_t peer)
{
	uint8_t packet[HEADER + 16 + 8 + 4] = { 0 };
	struct captured seen;
	bool answered = false;

	memset(victim->memory, 'v', 8);
	set_bth(packet, WRITE_ONLY, qpn, psn);
	set_reth(packet, victim->self.addr, rkey, 8);
	memset(packet + HEADER + 16, 's', 8);
	MUST(send_forged(outsider, victim, qpn, packet, HEADER + 16 + 8));
	short_wait();
	while (next_captured(wire, peer, peer, &seen, 0))
		answered = true;
	char byte;
	bool got_response = recv(outsider->fd, &byte, 1, MSG_DONTWAIT) >= 0;
	report("%s: %s, %s%s", what, memcmp(victim->memory, "vvvvvvvv", 8) ? "WRITTEN" : "nothing written",
	       answered ? "a response to the peer" : "no response",
	       got_response ? ", ONE TO THE SENDER" : "");
}

static void third_party(void)
{
	bool before[1024] = { false };
	struct outsider same, other;
	struct end a, b;
	int n = names(), wire;
	bool none = false;

	for (int fd = 0; fd < 1024; fd++)
		before[fd] = fcntl(fd, F_GETFD) >= 0;
	make_pair(&a, &b, &plain, &plain);
	MUST(post_receive(&b) == 0);
	/* A sealed file without a name, which this process alone has. */
	before[a.context->cmd_fd] = before[b.context->cmd_fd] = true;
	/* The background thread opens a file of /proc or /sys for an instant now and then. */
	for (int tries = 0; tries < 20 && !(none = names() == n && all_anonymous(before)); tries++)
		short_wait();
	report("names, files, shared memory: %s", none ? "none" : "SOME");
	uint16_t port = port_of(b.self.qpn);
	bool shut = true;
	for (int share = 0; share < 2; share++)
		shut &= try_bind(AF_INET, port, b.self.gid.raw + 12, share) == EADDRINUSE &&
			try_bind(AF_INET, port, NULL, share) == EADDRINUSE &&
			try_bind(AF_INET6, port, NULL, share) == EADDRINUSE;
	report("its ports: %s", shut ? "exclusive" : "SHARED");

	sh("ip addr add 10.9.8.1/32 dev lo");
	open_outsider(&other, &a, "10.9.8.1");
	open_outsider(&same, &a, NULL);
	wire = tap();
	attempt("all known, from another address", &other, &b, b.self.qpn, a.self.psn, b.self.rkey, wire,
		a.self.qpn);
	attempt("all but the PSN", &same, &b, b.self.qpn, a.self.psn ^ 0x800000, b.self.rkey, wire,
		a.self.qpn);
	attempt("all but the QP number", &same, &b, b.self.qpn ^ 0x55, a.self.psn, b.self.rkey, wire,
		a.self.qpn);
	const char *flows = traffic(&a, &b);
	report("the connection: %s, %s, %s", state(&a), state(&b), flows);
	/*
	 * Control: with the peer's address and all its values, a packet is indistinguishable. `traffic` has
	 * advanced the PSN by one.
	 */
	attempt("all known, from the peer's address", &same, &b, b.self.qpn, (a.self.psn + 1) & 0xffffff,
		b.self.rkey, wire, a.self.qpn);
	sh("ip addr del 10.9.8.1/32 dev lo");
	close(wire);
	close(same.fd);
	close(other.fd);
	close_pair(&a, &b);
}

const struct scene flood_scenes[] = {
	{ "flood-garbage", flood_garbage, true },
	{ "flood-forged", flood_forged, true },
	{ "flood-valid", flood_valid, true },
	{ "third-party", third_party, true },
	{ 0 },
};
