/*
 * killed: rdma_cm at the end whose peer is killed by SIGKILL. The peer is another process of this program:
 * `killed ADDRESS client` or `killed ADDRESS server`; early-client and early-server end in the handshake.
 */
#include <rdma/rdma_cma.h>
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define PORT 17924
#define LIMIT_MS 20000
/* The counter of packets that came from processes of this host without UDP. It has no file. */
#define COUNTER "\"local_rcvd_pkts\":"
#define MUST(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "line %d: ", __LINE__); \
			perror(#condition); \
			exit(2); \
		} \
	} while (0)

static struct rdma_event_channel *channel;
static struct sockaddr_in address = { .sin_family = AF_INET };
static struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };

/* The next event's type, or -1 after LIMIT_MS; its id. */
static int next(struct rdma_cm_id **id)
{
	struct pollfd ready = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;
	int type;

	if (poll(&ready, 1, LIMIT_MS) != 1)
		return -1;
	MUST(rdma_get_cm_event(channel, &event) == 0);
	type = event->event;
	*id = event->id;
	rdma_ack_cm_event(event);
	return type;
}

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	MUST(rdma_create_qp(id, NULL, &init) == 0);
}

static struct rdma_cm_id *listen_at(unsigned short port)
{
	struct rdma_cm_id *id;

	address.sin_port = htons(port);
	MUST(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_bind_addr(id, (struct sockaddr *)&address) == 0 && rdma_listen(id, 1) == 0);
	return id;
}

static struct rdma_cm_id *accept_request(void)
{
	struct rdma_cm_id *id;

	MUST(next(&id) == RDMA_CM_EVENT_CONNECT_REQUEST);
	make_qp(id);
	MUST(rdma_accept(id, &param) == 0);
	return id;
}

static struct rdma_cm_id *accept_one(void)
{
	struct rdma_cm_id *id = accept_request();

	MUST(next(&id) == RDMA_CM_EVENT_ESTABLISHED);
	return id;
}

static struct rdma_cm_id *request(unsigned short port)
{
	struct rdma_cm_id *id;

	address.sin_port = htons(port);
	MUST(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, LIMIT_MS) == 0);
	MUST(next(&id) == RDMA_CM_EVENT_ADDR_RESOLVED && rdma_resolve_route(id, LIMIT_MS) == 0);
	MUST(next(&id) == RDMA_CM_EVENT_ROUTE_RESOLVED);
	make_qp(id);
	MUST(rdma_connect(id, &param) == 0);
	return id;
}

static struct rdma_cm_id *connect_to(unsigned short port)
{
	struct rdma_cm_id *id = request(port);

	MUST(next(&id) == RDMA_CM_EVENT_ESTABLISHED);
	return id;
}

/* Is killed when the peer's message has been repeated, and this end has asked for time, but no sooner. */
static void die_in_the_handshake(void)
{
	struct pollfd ready = { .fd = channel->fd, .events = POLLIN };

	MUST(poll(&ready, 1, LIMIT_MS) == 1);
	usleep(600000);
	raise(SIGKILL);
}

/* Sends messages without data until it is killed. */
static void send_on(struct rdma_cm_id *id)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_wc wc;

	for (;;) {
		MUST(ibv_post_send(id->qp, &wr, &bad) == 0);
		while (ibv_poll_cq(id->send_cq, 1, &wc) == 0)
			usleep(100);
		MUST(wc.status == IBV_WC_SUCCESS);
		usleep(1000);
	}
}

/* The counter by uroce's control socket, which IBV_CONTROL=1 opens. */
static unsigned long local_packets(void)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	char answer[16384], *found;
	size_t length = offsetof(struct sockaddr_un, sun_path) + 1;
	ssize_t part;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	length += snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "libibverbs-rs/%d", getpid());
	MUST(connect(fd, (struct sockaddr *)&name, length) == 0 && write(fd, "counters\n", 9) == 9);
	for (length = 0; (part = read(fd, answer + length, sizeof(answer) - 1 - length)) > 0;)
		length += part;
	answer[length] = 0;
	close(fd);
	MUST(found = strstr(answer, COUNTER));
	return strtoul(found + strlen(COUNTER), NULL, 10);
}

/* Waits until the peer's packets come without UDP. This end never sends anything itself. */
static void await_channel(void)
{
	unsigned long before = local_packets();

	while (local_packets() == before)
		usleep(1000);
}

static int reports(const char *name, struct rdma_cm_id *id, pid_t peer)
{
	struct rdma_cm_id *of = NULL;
	int holds;

	await_channel();
	MUST(kill(peer, SIGKILL) == 0 && waitpid(peer, NULL, 0) == peer);
	holds = next(&of) == RDMA_CM_EVENT_DISCONNECTED && of == id && rdma_disconnect(id) == 0;
	printf("%s %s\n", holds ? "ok" : "not ok", name);
	rdma_destroy_qp(id);
	return rdma_destroy_id(id) == 0 && holds;
}

/* The peer, which is killed in the handshake, has rejected. */
static int is_rejected(const char *name, struct rdma_cm_id *id, pid_t peer)
{
	struct rdma_cm_id *of = NULL;
	int holds = next(&of) == RDMA_CM_EVENT_REJECTED && of == id;

	MUST(waitpid(peer, NULL, 0) == peer);
	printf("%s %s\n", holds ? "ok" : "not ok", name);
	rdma_destroy_qp(id);
	return rdma_destroy_id(id) == 0 && holds;
}

static pid_t start(char **argv, const char *role)
{
	pid_t pid = fork();

	MUST(pid >= 0);
	if (pid == 0) {
		execl("/proc/self/exe", argv[0], argv[1], role, (char *)NULL);
		_exit(127);
	}
	return pid;
}

int main(int argc, char **argv)
{
	struct rdma_cm_id *listening, *id;
	char byte;
	pid_t peer;
	int holds;

	MUST(argc > 1 && inet_aton(argv[1], &address.sin_addr) && (channel = rdma_create_event_channel()));
	if (argc > 2 && !strcmp(argv[2], "client"))
		send_on(connect_to(PORT));
	if (argc > 2 && !strcmp(argv[2], "early-client")) {
		request(PORT);
		die_in_the_handshake();
	}
	if (argc > 2) {
		int is_early = !strcmp(argv[2], "early-server");

		listen_at(PORT + 1 + is_early);
		MUST(write(STDIN_FILENO, "l", 1) == 1);
		if (is_early)
			die_in_the_handshake();
		send_on(accept_one());
	}
	listening = listen_at(PORT);
	peer = start(argv, "client");
	holds = reports("client", accept_one(), peer);
	peer = start(argv, "early-client");
	holds &= is_rejected("client before its RTU", accept_request(), peer);
	rdma_destroy_id(listening);
	/* The server says by a pipe that it listens. */
	int ends[2];
	MUST(pipe(ends) == 0 && dup2(ends[1], STDIN_FILENO) == STDIN_FILENO);
	peer = start(argv, "server");
	MUST(read(ends[0], &byte, 1) == 1);
	id = connect_to(PORT + 1);
	holds &= reports("server", id, peer);
	peer = start(argv, "early-server");
	MUST(read(ends[0], &byte, 1) == 1);
	holds &= is_rejected("server before its REP", request(PORT + 2), peer);
	return !holds;
}
