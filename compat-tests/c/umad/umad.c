/*
 * /dev/infiniband/umadN, by libibumad and by the calls below it: agents, messages, timeouts. Prints `ok NAME`
 * or `not ok NAME`. Runs on uroce and on the kernel's devices; what only a port with the link layer
 * InfiniBand has is left out on Ethernet.
 *
 *     umad DEVICE
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/umad.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	MAD = 256,
	PING = 0x32,
	PERF = 4,
	SMI = 1,
	GET = 1,
	SET = 2,
	SEND = 3,
	RESPONSE = 0x80
};
static const uint8_t OUI[3] = { 0, 0x14, 5 };

/* ib_user_mad_reg_req and ib_user_mad_reg_req2 of the kernel's rdma/ib_user_mad.h. */
struct reg_req {
	uint32_t id;
	uint32_t methods[4];
	uint8_t qpn, class, version, oui[3], rmpp, pad;
};

struct reg_req2 {
	uint32_t id, qpn;
	uint8_t class, version;
	uint16_t res;
	uint32_t flags;
	uint64_t methods[2];
	uint32_t oui;
	uint8_t rmpp, reserved[3];
};

#define REGISTER _IOWR(0x1b, 1, struct reg_req)
#define UNREGISTER _IOW(0x1b, 2, uint32_t)
#define ENABLE_PKEY _IO(0x1b, 3)
#define REGISTER2 _IOWR(0x1b, 4, struct reg_req2)

static const char *device;
static struct umad_port port;
static int is_infiniband;

/* Descriptors that are closed, and messages that are freed, at the end of a check. */
static int opened[8];
static void *messages[256];
static int open_count, message_count;

static int open_port(void)
{
	int fd = umad_open_port(device, 1);

	if (fd < 0) {
		fprintf(stderr, "umad_open_port: %d\n", fd);
		exit(1);
	}
	return opened[open_count++] = fd;
}

static void *new_message(void)
{
	return messages[message_count++] = umad_alloc(1, umad_size() + MAD);
}

static void end_check(void)
{
	while (open_count)
		close(opened[--open_count]);
	while (message_count)
		umad_free(messages[--message_count]);
}

/* The device file, as libibumad does not open it: without ENABLE_PKEY, and blocking. */
static int open_raw(int flags)
{
	char path[64], name[64];
	ssize_t len;

	for (int n = 0; n < 64; n++) {
		FILE *file;
		int of_port = 0;

		snprintf(path, sizeof path, "/sys/class/infiniband_mad/umad%d/ibdev", n);
		file = fopen(path, "r");
		if (!file)
			continue;
		len = fscanf(file, "%63s", name);
		fclose(file);
		snprintf(path, sizeof path, "/sys/class/infiniband_mad/umad%d/port", n);
		file = fopen(path, "r");
		if (file) {
			of_port = fscanf(file, "%d", &of_port) == 1 ? of_port : 0;
			fclose(file);
		}
		if (len == 1 && !strcmp(name, device) && of_port == 1) {
			snprintf(path, sizeof path, "/dev/infiniband/umad%d", n);
			return opened[open_count++] = open(path, O_RDWR | flags);
		}
	}
	return -1;
}

static struct reg_req request(uint8_t class, uint32_t methods)
{
	struct reg_req req = { .methods = { methods }, .qpn = class != SMI, .class = class, .version = 1 };

	memcpy(req.oui, OUI, sizeof OUI);
	return req;
}

/* 0 or errno. */
static int registers(int fd, struct reg_req req)
{
	return ioctl(fd, REGISTER, &req) ? errno : 0;
}

/* The agent's number, or -1. */
static int add(int fd, uint8_t class, uint32_t methods)
{
	struct reg_req req = request(class, methods);

	return ioctl(fd, REGISTER, &req) ? -1 : (int)req.id;
}

static void *message(uint8_t class, uint8_t method, uint64_t tid)
{
	void *umad = new_message();
	uint8_t *mad = umad_get_mad(umad);

	mad[0] = 1;
	mad[1] = class;
	mad[2] = 1;
	mad[3] = method;
	for (int i = 0; i < 8; i++)
		mad[8 + i] = tid >> (56 - 8 * i);
	if (class == PING)
		memcpy(mad + 37, OUI, sizeof OUI);
	return umad;
}

/* To the port itself, by what its link layer needs. */
static void to_self(void *umad)
{
	struct ib_mad_addr addr = { .hop_limit = 64 };

	umad_set_addr(umad, is_infiniband ? port.base_lid : 0, 1, 0, 0x80010000);
	if (!is_infiniband) {
		addr.gid[0] = 0;
		memcpy(addr.ib_gid.raw, &port.gid_prefix, 8);
		memcpy(addr.ib_gid.raw + 8, &port.port_guid, 8);
		umad_set_grh(umad, &addr);
	}
}

/* To a port that nobody has. */
static void to_nobody(void *umad)
{
	to_self(umad);
	if (is_infiniband)
		umad_set_addr(umad, 0x3ff0, 1, 0, 0x80010000);
	else
		umad_set_addr(umad, 0, 7, 0, 0x80010000);
}

static int64_t milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* Waits 20 seconds for a message: its length, or -1. */
static int receive(int fd, void *umad)
{
	int len = MAD;

	return umad_recv(fd, umad, &len, 20000) < 0 ? -1 : len;
}

static int reads_ports(void)
{
	char names[UMAD_MAX_DEVICES][UMAD_CA_NAME_LEN];
	int count = umad_get_cas_names(names, UMAD_MAX_DEVICES), found = 0;
	umad_ca_t ca;

	for (int i = 0; i < count; i++)
		found |= !strcmp(names[i], device);
	if (!found || umad_get_ca(device, &ca))
		return 0;
	found = ca.numports >= 1 && ca.ports[1] && ca.node_guid != 0;
	umad_release_ca(&ca);
	return found && port.state == 4 && port.pkeys_size >= 1 && port.pkeys[0] == 0xffff;
}

static int has_its_files(void)
{
	char path[128];

	return open_raw(O_NONBLOCK) >= 0 && !umad_get_issm_path(device, 1, path, sizeof path) &&
	       !access(path, F_OK);
}

static int refuses_registrations(void)
{
	static const struct {
		uint8_t qpn, class, version, rmpp, oui;
		int error;
	} all[] = {
		{ 2, PING, 1, 0, 1, EINVAL }, { 1, PING, 1, 0, 0, EINVAL }, { 1, PING, 0x83, 0, 1, EINVAL },
		{ 1, PING, 1, 2, 1, EINVAL }, { 1, PERF, 1, 1, 1, EINVAL }, { 1, 0x50, 1, 0, 1, EINVAL },
		{ 1, SMI, 1, 0, 1, EINVAL },  { 1, 0x81, 1, 0, 1, EINVAL }, { 1, PING, 1, 1, 1, 0 },
		{ 1, 0, 0, 0, 0, 0 },         { 1, 0x2f, 1, 0, 0, 0 },
	};
	int fd = open_port(), right = 1;

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		struct reg_req req = request(all[i].class, 2);
		int error;

		req.qpn = all[i].qpn;
		req.version = all[i].version;
		req.rmpp = all[i].rmpp;
		if (!all[i].oui)
			memset(req.oui, 0, sizeof req.oui);
		error = registers(fd, req);
		if (error != all[i].error) {
			fprintf(stderr, "registration %zu: %s\n", i, strerror(error));
			right = 0;
		}
	}
	return right;
}

static int has_no_qp0_on_ethernet(void)
{
	return registers(open_port(), request(SMI, 0)) == (is_infiniband ? 0 : EPROTONOSUPPORT);
}

static int second_agent_is_refused(void)
{
	int one = open_port(), two = open_port(), right;

	right = add(one, PING, 6) == 0 && registers(two, request(PING, 4)) == EINVAL;
	right &= add(two, PING, 8) == 0 && add(two, 0x33, 6) == 1;
	close(one);
	/* The registration is gone at once. */
	return right && add(two, PING, 6) == 2;
}

static int has_32_agents(void)
{
	int fd = open_port(), right = 1;
	uint32_t id = 5, none = 40;

	for (int i = 0; i < 32; i++)
		right &= add(fd, PERF, 0) == i;
	right &= registers(fd, request(PERF, 0)) == ENOMEM;
	right &= !ioctl(fd, UNREGISTER, &id) && ioctl(fd, UNREGISTER, &id) && errno == EINVAL;
	right &= ioctl(fd, UNREGISTER, &none) && errno == EINVAL;
	return right && add(fd, PERF, 0) == 5;
}

static int registers_with_flags(void)
{
	struct umad_reg_attr attr = { .mgmt_class = PING, .mgmt_class_version = 1, .oui = 0x1405 };
	struct reg_req2 bad = { .qpn = 1, .class = PING, .version = 1, .flags = 6, .oui = 0x1405 };
	int fd = open_port(), right;
	uint32_t id = 9;

	attr.flags = UMAD_USER_RMPP;
	attr.rmpp_version = 1;
	attr.method_mask[0] = 6;
	right = umad_register2(fd, &attr, &id) == 0 && id == 0;
	right &= ioctl(fd, REGISTER2, &bad) && errno == EINVAL && bad.flags == 1;
	bad.flags = 0;
	bad.oui = 0x1000000;
	return right && ioctl(fd, REGISTER2, &bad) && errno == EINVAL && bad.flags == 0;
}

static int knows_its_ioctls(void)
{
	int fd = open_port(), right;

	right = ioctl(fd, _IO(0x1b, 9)) && errno == ENOTTY;
	right &= ioctl(fd, REGISTER, (void *)8) && errno == EFAULT;
	right &= ioctl(fd, UNREGISTER, (void *)8) && errno == EFAULT;
	right &= !ioctl(fd, ENABLE_PKEY);
	return right && add(fd, PERF, 0) == 0 && ioctl(fd, ENABLE_PKEY) && errno == EINVAL;
}

static int refuses_messages(void)
{
	int fd = open_port(), right;
	void *umad = message(PING, GET, 1);
	struct ib_user_mad *header = umad;

	to_self(umad);
	right = add(fd, PING, 0) == 0;
	right &= write(fd, umad, umad_size() + 35) < 0 && errno == EINVAL;
	right &= write(fd, (void *)8, umad_size() + MAD) < 0 && errno == EFAULT;
	header->agent_id = 1;
	right &= write(fd, umad, umad_size() + MAD) < 0 && errno == EIO;
	header->agent_id = 32;
	right &= write(fd, umad, umad_size() + MAD) < 0 && errno == EINVAL;
	header->agent_id = 0;
	header->addr.grh_present = 1;
	header->addr.gid_index = 255;
	return right && write(fd, umad, umad_size() + MAD) < 0 && errno == EINVAL;
}

static int times_out(void)
{
	int fd = open_port(), agent = add(fd, PING, 0), right;
	void *umad = message(PING, GET, 0x11223344), *read_back = new_message();
	int64_t start = milliseconds();
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN | POLLOUT };
	uint8_t *mad = umad_get_mad(read_back);

	to_nobody(umad);
	right = umad_send(fd, agent, umad, MAD, 250, 3) == 0;
	/* The same transaction has no answer yet. */
	right &= umad_send(fd, agent, umad, MAD, 250, 3) < 0 && errno == EINVAL;
	right &= poll(&poll_fd, 1, 0) == 1 && poll_fd.revents == POLLOUT;
	right &= receive(fd, read_back) == 24 && umad_status(read_back) == ETIMEDOUT;
	right &= milliseconds() - start >= 999 && !memcmp(mad + 12, "\x11\x22\x33\x44", 4);
	/* One without a timeout is never reported. */
	return right && umad_send(fd, agent, umad, MAD, 0, 0) == 0 && umad_poll(fd, 100) == -ETIMEDOUT;
}

static int reads_nothing(void)
{
	char bytes[MAD + 64];

	return read(open_port(), bytes, sizeof bytes) < 0 && errno == EAGAIN;
}

/* Sends a request to the port itself, whose agent answers. */
static int answers(int client, int server, int agent, int server_agent, uint64_t tid)
{
	void *ask = message(PING, GET, tid), *got = new_message();
	uint8_t *mad = umad_get_mad(got);
	struct ib_user_mad *header = got;
	int right;

	to_self(ask);
	((uint8_t *)umad_get_mad(ask))[60] = 77;
	right = umad_send(client, agent, ask, MAD, 1000, 0) == 0;
	right &= receive(server, got) == MAD && header->agent_id == (uint32_t)server_agent;
	right &= mad[60] == 77 && be32toh(header->addr.qpn) == 1;
	right &= is_infiniband ? be16toh(header->addr.lid) == port.base_lid : header->addr.grh_present == 1;
	mad[3] |= RESPONSE;
	mad[61] = 78;
	right &= umad_send(server, server_agent, got, MAD, 0, 0) == 0;
	right &= receive(client, got) == MAD && umad_status(got) == 0;
	right &= mad[3] == (GET | RESPONSE) && mad[61] == 78 && mad[15] == (uint8_t)tid;
	return right;
}

static int two_descriptors_talk(void)
{
	int client = open_port(), server = open_port(), right = 1;
	int agent = add(client, PING, 0), server_agent = add(server, PING, 6);

	for (int i = 0; i < 100; i++)
		right &= answers(client, server, agent, server_agent, i + 1);
	return right;
}

static int one_descriptor_talks_to_itself(void)
{
	int fd = open_port(), agent = add(fd, PERF, 0), client = add(fd, PING, 0), server = add(fd, PING, 6);

	return agent == 0 && client == 1 && server == 2 && answers(fd, fd, client, server, 5);
}

static int copies_are_the_same_file(void)
{
	int fd = open_port(), copy = dup(fd), agent = add(copy, PING, 0), right;
	int server = open_port(), server_agent = add(server, PING, 6);

	close(fd);
	right = agent == 0 && answers(copy, server, agent, server_agent, 3);
	close(copy);
	return right;
}

/* A request that nobody wants is answered so. */
static int unwanted_request_is_refused(void)
{
	int fd = open_port(), agent = add(fd, PING, 0), right;
	void *umad = message(PING, GET, 4);
	uint8_t *mad = umad_get_mad(umad);

	to_self(umad);
	right = umad_send(fd, agent, umad, MAD, 1000, 0) == 0 && receive(fd, umad) == MAD;
	right &= mad[3] == (GET | RESPONSE) && mad[4] == 0 && mad[5] == 0x0c;
	return right;
}

/* More messages than the descriptor's buffer holds. */
static int many_messages_wait(void)
{
	enum {
		COUNT = 1000
	};
	int client = open_port(), server = open_port(), agent = add(client, PING, 0), got = 0;
	void *umad = message(PING, SEND, 0);

	if (add(server, PING, 1 << SEND) != 0)
		return 0;
	to_self(umad);
	for (int i = 0; i < COUNT; i++) {
		umad_send(client, agent, umad, MAD, 0, 0);
		if (i % 50 == 49)
			usleep(2000);
	}
	while (umad_poll(server, 300) == 0) {
		int len = MAD;

		got += umad_recv(server, umad, &len, 0) >= 0 && len == MAD;
	}
	if (got != COUNT)
		fprintf(stderr, "%d of %d messages\n", got, COUNT);
	return got == COUNT;
}

static void *answer_later(void *argument)
{
	int server = *(int *)argument;
	void *umad = new_message();

	usleep(100000);
	if (receive(server, umad) == MAD) {
		((uint8_t *)umad_get_mad(umad))[3] |= RESPONSE;
		umad_send(server, 0, umad, MAD, 0, 0);
	}
	return NULL;
}

/* read(2) blocks, without ENABLE_PKEY: the header has 56 bytes. */
static int blocking_read_and_old_layout(void)
{
	int fd = open_raw(0), server = open_port(), agent = add(fd, PING, 0), right;
	uint8_t *umad = message(PING, GET, 9), old[56 + MAD], got[56 + MAD];
	uint32_t timeout = 1000;
	pthread_t thread;

	right = fd >= 0 && add(server, PING, 6) == 0;
	to_self(umad);
	memcpy(old, umad, 56);
	memcpy(old, &agent, 4);
	memcpy(old + 8, &timeout, 4);
	memcpy(old + 56, umad_get_mad(umad), MAD);
	pthread_create(&thread, NULL, answer_later, &server);
	right &= write(fd, old, sizeof old) == sizeof old;
	right &= read(fd, got, sizeof got) == sizeof got && got[56 + 3] == (GET | RESPONSE);
	pthread_join(thread, NULL);
	return right;
}

static int epoll_reports_input(void)
{
	int fd = open_port(), agent = add(fd, PING, 0), right, set = epoll_create1(0);
	struct epoll_event event = { .events = EPOLLIN | EPOLLET }, got;
	void *umad = message(PING, GET, 6);

	right = !epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) && epoll_wait(set, &got, 1, 0) == 0;
	to_self(umad);
	right &= umad_send(fd, agent, umad, MAD, 1000, 0) == 0 && epoll_wait(set, &got, 1, 2000) == 1;
	right &= got.events == EPOLLIN && receive(fd, umad) == MAD && epoll_wait(set, &got, 1, 0) == 0;
	close(set);
	return right;
}

/* Requests of a process that has ended can be registered again. */
static int registrations_end_with_the_process(void)
{
	int fd = open_port(), right, status, ends[2];
	pid_t child;
	char byte;

	if (pipe(ends))
		return 0;
	child = fork();
	if (!child) {
		int own = open_port();

		byte = add(own, PING, 6) == 0;
		_exit(write(ends[1], &byte, 1) != 1 || pause());
	}
	right = read(ends[0], &byte, 1) == 1 && byte == 1;
	right &= registers(fd, request(PING, 6)) == EINVAL;
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	right &= add(fd, PING, 6) == 0;
	close(ends[0]);
	close(ends[1]);
	return right;
}

/* Get of a subnet management attribute, by a directed route without hops. */
static int subnet_management_agent(void)
{
	int fd = open_port(), agent = add(fd, 0x81, 0), right;
	void *umad = message(0x81, GET, 8);
	uint8_t *mad = umad_get_mad(umad);
	struct reg_req req = request(0x81, 0);

	req.qpn = 0;
	right = agent < 0 && registers(fd, req) == 0;
	mad[17] = 0x11;
	memset(mad + 32, 0xff, 4);
	umad_set_addr(umad, 0xffff, 0, 0, 0);
	right &= umad_send(fd, 0, umad, MAD, 1000, 0) == 0 && receive(fd, umad) == MAD;
	right &= mad[3] == (GET | RESPONSE) && mad[4] == 0x80 && mad[5] == 0 && mad[64] == 1 && mad[66] == 1;
	return right && !memcmp(mad + 64 + 20, &port.port_guid, 8);
}

static const struct {
	int (*holds)(void);
	const char *name;
	int only_infiniband;
} checks[] = {
	{ reads_ports, "ports", 0 },
	{ has_its_files, "files", 0 },
	{ refuses_registrations, "registrations", 0 },
	{ has_no_qp0_on_ethernet, "qp0", 0 },
	{ second_agent_is_refused, "second-agent", 0 },
	{ has_32_agents, "32-agents", 0 },
	{ registers_with_flags, "register2", 0 },
	{ knows_its_ioctls, "ioctls", 0 },
	{ refuses_messages, "messages", 0 },
	{ times_out, "timeout", 0 },
	{ reads_nothing, "nothing", 0 },
	{ two_descriptors_talk, "two-descriptors", 0 },
	{ one_descriptor_talks_to_itself, "one-descriptor", 0 },
	{ copies_are_the_same_file, "copies", 0 },
	{ unwanted_request_is_refused, "unwanted", 0 },
	{ many_messages_wait, "many", 0 },
	{ blocking_read_and_old_layout, "blocking", 0 },
	{ epoll_reports_input, "epoll", 0 },
	{ registrations_end_with_the_process, "end", 0 },
	{ subnet_management_agent, "sma", 1 },
};

int main(int argc, char **argv)
{
	int failed = 0;

	if (argc != 2)
		return 2;
	device = argv[1];
	if (umad_init() || umad_get_port(device, 1, &port)) {
		fprintf(stderr, "there is no %s\n", device);
		return 2;
	}
	is_infiniband = !strcmp(port.link_layer, "InfiniBand");
	for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
		int holds;

		if (checks[i].only_infiniband && !is_infiniband)
			continue;
		holds = checks[i].holds();
		end_check();
		printf("%s %s\n", holds ? "ok" : "not ok", checks[i].name);
		fflush(stdout);
		failed |= !holds;
	}
	umad_release_port(&port);
	return failed;
}
