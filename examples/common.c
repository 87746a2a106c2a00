/* Options, error messages, and the TCP connection over which the two sides exchange their addresses. */
#include <getopt.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

static const char *program;

void fail(int err, const char *format, ...)
{
	va_list arguments;

	fflush(stdout);
	fprintf(stderr, "%s: ", program);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	if (err)
		fprintf(stderr, ": %s", strerror(err));
	fputc('\n', stderr);
	exit(EXIT_FAILURE);
}

static void usage(FILE *to, const char *description)
{
	fprintf(to,
		"usage: %s [-d device] [-i port] [-g index | -l] [-p port] [host]\n"
		"%s\n"
		"Without a host it is the server, with one it is the client.\n"
		"  -d device  the RDMA device (default: the first one)\n"
		"  -i port    the device's port (default: 1)\n"
		"  -g index   index of our GID (default: the GID that is the TCP connection's address)\n"
		"  -l         address the peer by LID (the default on InfiniBand; not possible on RoCE)\n"
		"  -p port    the TCP port for the exchange of addresses (default: 18519)\n",
		program, description);
}

/* The number in an option, or -1 if it is none from min to max. */
static int number(const char *text, int min, int max)
{
	char *end;
	long value = strtol(text, &end, 10);

	return *text && !*end && value >= min && value <= max ? (int)value : -1;
}

struct options parse_options(int argc, char **argv, const char *description)
{
	struct options options = { .ib_port = 1, .gid_index = -1, .tcp_port = "18519" };
	int option, value = 0;

	program = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (value >= 0 && (option = getopt(argc, argv, "d:i:g:lp:h")) != -1) {
		switch (option) {
		case 'd':
			options.device = optarg;
			break;
		case 'i':
			value = number(optarg, 1, 255);
			options.ib_port = (uint8_t)value;
			break;
		case 'g':
			value = number(optarg, 0, 255);
			options.gid_index = value;
			break;
		case 'l':
			options.lid = true;
			break;
		case 'p':
			value = number(optarg, 1, 65535);
			options.tcp_port = optarg;
			break;
		case 'h':
			usage(stdout, description);
			exit(EXIT_SUCCESS);
		default:
			usage(stderr, description);
			exit(EXIT_FAILURE);
		}
	}
	if (value < 0)
		fail(0, "-%c %s: the number is out of range (%s -h prints the usage)", option, optarg,
		     program);
	if (argc - optind > 1 || (options.lid && options.gid_index >= 0)) {
		usage(stderr, description);
		exit(EXIT_FAILURE);
	}
	options.host = argv[optind];
	return options;
}

static int accept_client(const char *port)
{
	/* An IPv6 socket also takes IPv4 clients; where there is no IPv6, an IPv4 socket does. */
	static const int families[] = { AF_INET6, AF_INET };
	struct addrinfo *address;
	int listener = -1, sock, err = 0, on = 1, off = 0;

	for (size_t i = 0; i < 2 && listener < 0; i++) {
		struct addrinfo hints = { .ai_family = families[i],
					  .ai_socktype = SOCK_STREAM,
					  .ai_flags = AI_PASSIVE | AI_NUMERICSERV };

		if (getaddrinfo(NULL, port, &hints, &address))
			continue;
		listener = socket(address->ai_family, address->ai_socktype, 0);
		if (listener >= 0) {
			setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
			if (families[i] == AF_INET6)
				setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
			if (bind(listener, address->ai_addr, address->ai_addrlen) || listen(listener, 1)) {
				err = errno;
				close(listener);
				listener = -1;
			}
		}
		freeaddrinfo(address);
	}
	if (listener < 0)
		fail(err ? err : EAFNOSUPPORT, "cannot listen on TCP port %s", port);
	printf("waiting for a client on TCP port %s\n", port);
	sock = accept(listener, NULL, NULL);
	if (sock < 0)
		fail(errno, "accept on TCP port %s", port);
	close(listener);
	return sock;
}

static int connect_to_server(const char *host, const char *port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *addresses;
	int sock = -1, failed = getaddrinfo(host, port, &hints, &addresses), err = 0;

	if (failed)
		fail(0, "%s: %s", host, gai_strerror(failed));
	for (struct addrinfo *a = addresses; a && sock < 0; a = a->ai_next) {
		sock = socket(a->ai_family, a->ai_socktype, 0);
		if (sock >= 0 && connect(sock, a->ai_addr, a->ai_addrlen)) {
			err = errno;
			close(sock);
			sock = -1;
		}
	}
	freeaddrinfo(addresses);
	if (sock < 0)
		fail(err, "cannot connect to %s, TCP port %s (is the server running?)", host, port);
	return sock;
}

int tcp_open(const struct options *options)
{
	if (options->host)
		return connect_to_server(options->host, options->tcp_port);
	return accept_client(options->tcp_port);
}

void send_line(int sock, const char *format, ...)
{
	char line[256];
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(line, sizeof(line) - 1, format, arguments);
	va_end(arguments);
	if (length < 0 || (size_t)length >= sizeof(line) - 1)
		fail(0, "a line is too long for the exchange");
	line[length++] = '\n';
	/* A line fits the socket's buffer, so it is sent whole. MSG_NOSIGNAL: an error instead of SIGPIPE. */
	if (send(sock, line, (size_t)length, MSG_NOSIGNAL) != length)
		fail(errno, "cannot send to the peer over TCP");
}

void receive_line(int sock, char *line, size_t size)
{
	size_t length = 0;

	for (;;) {
		ssize_t n = recv(sock, line + length, 1, 0);

		if (n < 0)
			fail(errno, "cannot receive from the peer over TCP");
		if (n == 0)
			fail(0, "the peer has closed the TCP connection: see its own messages");
		if (line[length] == '\n')
			break;
		if (++length == size)
			fail(0, "the peer has sent a longer line than this example sends");
	}
	line[length] = '\0';
}

void barrier(int sock)
{
	char line[8];

	send_line(sock, "done");
	receive_line(sock, line, sizeof(line));
	if (strcmp(line, "done") != 0)
		fail(0, "the peer has sent \"%s\" instead of \"done\": is it the same example?", line);
}

uint32_t random_psn(void)
{
	uint32_t psn;

	if (getrandom(&psn, sizeof(psn), 0) != sizeof(psn))
		fail(errno, "getrandom");
	return psn & 0xffffff;
}

void check_completion(const struct ibv_wc *wc, const char *what)
{
	/* If status is not IBV_WC_SUCCESS, only wr_id, status, qp_num and vendor_err are valid. */
	if (wc->status != IBV_WC_SUCCESS)
		fail(0, "%s (wr_id %llu, QP 0x%06x): %s (status %d, vendor_err 0x%x)", what,
		     (unsigned long long)wc->wr_id, wc->qp_num, ibv_wc_status_str(wc->status), wc->status,
		     wc->vendor_err);
}

struct ibv_wc wait_completion(struct ibv_cq *cq, const char *what)
{
	time_t begin = time(NULL);
	struct ibv_wc wc;
	int n;

	/* Busy-polling has the lowest latency and uses a whole core. events.c shows how to sleep instead. */
	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		if (time(NULL) - begin > 10)
			fail(0, "%s: no completion within 10 s: has the peer ended? a firewall?", what);
	if (n < 0)
		fail(0, "%s: ibv_poll_cq returned %d", what, n);
	check_completion(&wc, what);
	return wc;
}
