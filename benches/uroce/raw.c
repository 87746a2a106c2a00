/*
 * raw ADDRESS TEST [SIZE]: measures the network stack without RDMA, between two processes of this machine.
 *
 *	udp-lat       ping-pong with blocking sockets: microseconds one way
 *	udp-lat-spin  the same with non-blocking sockets, busy-polling
 *	udp-bw        a stream of datagrams of SIZE bytes: MiB/s received
 *	tcp-bw        a stream written SIZE bytes at a time: MiB/s
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MUST(condition) ((condition) ? (void)0 : (perror(#condition), _exit(1)))

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static struct sockaddr_in here = { .sin_family = AF_INET };

static int bound(int type, struct sockaddr_in *name)
{
	int fd = socket(AF_INET, type, 0);
	socklen_t length = sizeof *name;

	MUST(fd >= 0 && bind(fd, (void *)&here, sizeof here) == 0 &&
	     getsockname(fd, (void *)name, &length) == 0);
	return fd;
}

static void receive(int fd, char *buffer, size_t size, int flags)
{
	while (recv(fd, buffer, size, flags) < 0)
		MUST(errno == EAGAIN || errno == EINTR);
}

static void latency(int flags)
{
	enum {
		N = 20000,
		SIZE = 8 + 12 + 16 + 4
	};
	char buffer[SIZE] = "";
	struct sockaddr_in a_name, b_name;
	int a = bound(SOCK_DGRAM, &a_name), b = bound(SOCK_DGRAM, &b_name);
	pid_t child;

	MUST(connect(a, (void *)&b_name, sizeof b_name) == 0 &&
	     connect(b, (void *)&a_name, sizeof a_name) == 0);
	MUST((child = fork()) >= 0);
	if (child == 0)
		for (;;) {
			receive(b, buffer, SIZE, flags);
			send(b, buffer, SIZE, 0);
		}
	double start = 0;
	for (int i = -1000; i < N; i++) {
		if (i == 0)
			start = now();
		MUST(send(a, buffer, SIZE, 0) == SIZE);
		receive(a, buffer, SIZE, flags);
	}
	printf("%.2f\n", (now() - start) / N / 2 * 1e6);
	kill(child, SIGKILL);
}

static void bandwidth(int type, size_t size)
{
	struct sockaddr_in name;
	int server = bound(type, &name), fd = server, room = 4 << 20;
	char *buffer = calloc(1, size);
	double start = now(), first = 0, last = 0;
	size_t bytes = 0;
	pid_t child;

	setsockopt(server, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
	MUST(type != SOCK_STREAM || listen(server, 1) == 0);
	MUST((child = fork()) >= 0);
	if (child == 0) {
		int out = socket(AF_INET, type, 0);

		MUST(connect(out, (void *)&name, sizeof name) == 0);
		while (send(out, buffer, size, 0) > 0)
			;
		_exit(0);
	}
	if (type == SOCK_STREAM)
		MUST((fd = accept(server, NULL, NULL)) >= 0);
	while (now() < start + 3) {
		ssize_t n = recv(fd, buffer, size, 0);

		MUST(n > 0);
		last = now();
		if (first == 0)
			first = last;
		else
			bytes += n;
	}
	kill(child, SIGKILL);
	printf("%.1f\n", bytes / (last - first) / (1 << 20));
}

int main(int argc, char **argv)
{
	size_t size = argc > 3 ? strtoul(argv[3], NULL, 0) : 4096;

	if (argc < 3 || inet_pton(AF_INET, argv[1], &here.sin_addr) != 1)
		return 2;
	if (!strcmp(argv[2], "udp-lat"))
		latency(0);
	else if (!strcmp(argv[2], "udp-lat-spin"))
		latency(MSG_DONTWAIT);
	else if (!strcmp(argv[2], "udp-bw"))
		bandwidth(SOCK_DGRAM, size);
	else if (!strcmp(argv[2], "tcp-bw"))
		bandwidth(SOCK_STREAM, size);
	else
		return 2;
	return 0;
}
