/*
 * control FIFO: opens the device, connects two queue pairs, and does what the lines written into FIFO say, so
 * that uroce-ctl has something to look at and to disturb. Prints the result of each.
 *
 * control ask NAME REQUEST: sends a request to the control socket of this name, and prints the answer.
 */
#define _GNU_SOURCE
#include "../../uroce/verbs/check.h"

#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

int failures;

static struct sockaddr_un abstract_name(const char *name, socklen_t *size)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	NEED(strlen(name) < sizeof(address.sun_path));
	memcpy(address.sun_path + 1, name, strlen(name));
	*size = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name);
	return address;
}

static int ask(const char *name, const char *request)
{
	socklen_t size;
	struct sockaddr_un address = abstract_name(name, &size);
	char answer[4096] = "", line[256];
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	NEED(connect(fd, (struct sockaddr *)&address, size) == 0);
	/* A stranger is refused without being read: then the socket may be closed already. */
	snprintf(line, sizeof(line), "%s\n", request);
	send(fd, line, strlen(line), MSG_NOSIGNAL);
	NEED(read(fd, answer, sizeof(answer) - 1) > 0);
	printf("%s", answer);
	return 0;
}

/* reg: registers memory. */
static void reg(struct rig *rig)
{
	static char buf[64];
	struct ibv_mr *mr = ibv_reg_mr(rig->pd, buf, sizeof(buf), 0);

	printf("reg: errno %d\n", mr ? 0 : errno);
	if (mr)
		NEED(ibv_dereg_mr(mr) == 0);
}

/* send: a message from one queue pair to the other. */
static void send_message(struct rig *rig, struct ibv_qp *a, struct ibv_qp *b)
{
	NEED(post_recv(b, rig, 1, SIZE / 2, 64) == 0);
	NEED(post(a, rig, IBV_WR_SEND, 0, 64, 0, 0) == 0);
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = next_wc(rig->cq);

		printf("send: status %d\n", wc.status);
	}
}

/* query: the state of both queue pairs. */
static void query(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	printf("query: errno %d\n", ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
}

/* event: the next event, and the number of its queue pair, if it has one. */
static void event(struct rig *rig)
{
	struct ibv_async_event event;
	bool is_of_qp;

	NEED(ibv_get_async_event(rig->context, &event) == 0);
	is_of_qp = event.event_type == IBV_EVENT_COMM_EST;
	printf("event: %d of %u\n", event.event_type, is_of_qp ? event.element.qp->qp_num : 0);
	ibv_ack_async_event(&event);
}

/* fork: a child that waits for a signal, in a process group of its own. */
static void make_child(void)
{
	pid_t child = fork();

	if (child == 0) {
		setsid();
		pause();
		_exit(0);
	}
	/* The parent sees the group once setsid has been called. */
	while (getpgid(child) != child)
		usleep(1000);
	printf("child: %d\n", child);
}

/* The descriptor of the control socket, or -1. */
static int control_socket(void)
{
	for (int fd = 3; fd < 1024; fd++) {
		struct sockaddr_un address;
		socklen_t size = sizeof(address);

		if (getsockname(fd, (struct sockaddr *)&address, &size) == 0 &&
		    address.sun_family == AF_UNIX && size > sizeof(sa_family_t) + 1 &&
		    strncmp(address.sun_path + 1, "libibverbs-rs/", 14) == 0)
			return fd;
	}
	return -1;
}

/* take: a socket of the program's own under the number of the control socket's descriptor. */
static int take(void)
{
	socklen_t size;
	struct sockaddr_un address = abstract_name("control-test", &size);
	int number = control_socket(), fd = socket(AF_UNIX, SOCK_STREAM, 0);

	NEED(number > 0);
	NEED(bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, 4) == 0);
	NEED(dup2(fd, number) == number && close(fd) == 0);
	printf("taken: %s\n", fcntl(number, F_GETFD) >= 0 ? "yes" : "no");
	return number;
}

/* taken: clients of the program's own socket reach the program, not the library. */
static void check_taken(int number)
{
	socklen_t size;
	struct sockaddr_un address = abstract_name("control-test", &size);
	int client = socket(AF_UNIX, SOCK_STREAM, 0), accepted;

	NEED(connect(client, (struct sockaddr *)&address, size) == 0);
	usleep(100000);
	NEED((accepted = accept4(number, NULL, NULL, SOCK_NONBLOCK)) >= 0);
	printf("own socket: works\n");
	close(accepted);
	close(client);
}

static void serve(FILE *commands)
{
	struct ibv_qp *a, *b;
	struct rig rig = { 0 };
	int number = -1;
	char line[64];

	set_up(&rig);
	a = make_qp(&rig, IBV_QPT_RC, 0, NULL);
	b = make_qp(&rig, IBV_QPT_RC, 0, NULL);
	join(&rig, a, b);
	printf("ready\n");
	while (fgets(line, sizeof(line), commands)) {
		line[strcspn(line, "\n")] = 0;
		if (strcmp(line, "reg") == 0)
			reg(&rig);
		else if (strcmp(line, "send") == 0)
			send_message(&rig, a, b);
		else if (strcmp(line, "query") == 0)
			query(a), query(b);
		else if (strcmp(line, "event") == 0)
			event(&rig);
		else if (strcmp(line, "fork") == 0)
			make_child();
		else if (strcmp(line, "take") == 0)
			number = take();
		else if (strcmp(line, "taken") == 0)
			check_taken(number);
		else if (strcmp(line, "quit") == 0)
			break;
	}
	tear_down(&rig);
}

int main(int argc, char **argv)
{
	FILE *commands;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 4 && strcmp(argv[1], "ask") == 0)
		return ask(argv[2], argv[3]);
	NEED(argc == 2);
	/* For writing, too: so there is no end of file between two writers. */
	NEED(commands = fopen(argv[1], "r+"));
	serve(commands);
	return failures != 0;
}
