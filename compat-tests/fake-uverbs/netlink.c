/*
 * A fake NETLINK_RDMA: no such socket (the default, as on a kernel without RDMA), a kernel that reports
 * devices, or one that sends malformed messages. The descriptor is a real socket of another netlink family,
 * so that bind(), options and addresses work; only the messages are intercepted.
 */
#define _GNU_SOURCE
#include "fake.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#define MAX_ANSWERS 4096
#define MAX_SOCKETS 16

/* A queued datagram. */
struct answer {
	size_t len;
	uint8_t bytes[512];
};

static struct nl_socket {
	bool used;
	int fd;
	size_t first, count;
	struct answer *answers;
} sockets[MAX_SOCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const char *mode(void)
{
	return getenv("FAKE_NL") ?: "EPROTONOSUPPORT";
}

static bool mode_is(const char *name)
{
	return !strcmp(mode(), name);
}

/* FAKE_NL=host leaves netlink to the real kernel. */
bool netlink_faked(void)
{
	return !mode_is("host");
}

static struct nl_socket *find(int fd)
{
	for (size_t i = 0; i < MAX_SOCKETS; i++)
		if (sockets[i].used && sockets[i].fd == fd)
			return &sockets[i];
	return NULL;
}

int netlink_socket(int type)
{
	size_t i;
	int fd;

	/* An errno name: socket() fails with it. */
	if (mode()[0] == 'E') {
		errno = errno_by_name(mode());
		return -1;
	}
	fd = (int)syscall(SYS_socket, AF_NETLINK, type, NETLINK_ROUTE);
	if (fd < 0)
		return -1;
	pthread_mutex_lock(&lock);
	for (i = 0; i < MAX_SOCKETS && sockets[i].used; i++)
		;
	if (i < MAX_SOCKETS)
		sockets[i] = (struct nl_socket){
			.used = true,
			.fd = fd,
			.answers = calloc(MAX_ANSWERS, sizeof(struct answer)),
		};
	pthread_mutex_unlock(&lock);
	return fd;
}

void netlink_closed(int fd)
{
	struct nl_socket *s;

	pthread_mutex_lock(&lock);
	s = find(fd);
	if (s) {
		free(s->answers);
		*s = (struct nl_socket){ 0 };
	}
	pthread_mutex_unlock(&lock);
}

/* Building datagrams. */

static struct answer *start(struct nl_socket *s, const struct nlmsghdr *request, uint16_t type,
			    uint16_t flags)
{
	struct answer *a;
	struct nlmsghdr head = { .nlmsg_len = NLMSG_HDRLEN,
				 .nlmsg_type = type,
				 .nlmsg_flags = flags,
				 .nlmsg_seq = request->nlmsg_seq,
				 .nlmsg_pid = request->nlmsg_pid };

	if (!s->answers || s->count == MAX_ANSWERS)
		return NULL;
	a = &s->answers[s->count++];
	memcpy(a->bytes, &head, sizeof(head));
	a->len = NLMSG_HDRLEN;
	return a;
}

static void finish(struct answer *a)
{
	uint32_t len = (uint32_t)a->len;

	memcpy(a->bytes, &len, sizeof(len));
}

static void bytes(struct answer *a, const void *data, size_t len)
{
	if (a && a->len + len <= sizeof(a->bytes)) {
		memcpy(a->bytes + a->len, data, len);
		a->len += len;
	}
}

static void attr(struct answer *a, uint16_t type, const void *data, size_t len)
{
	struct nlattr head = { .nla_len = (uint16_t)(NLA_HDRLEN + len), .nla_type = type };
	static const uint8_t zeros[4];

	bytes(a, &head, sizeof(head));
	bytes(a, data, len);
	bytes(a, zeros, (4 - len % 4) % 4);
}

static void attr32(struct answer *a, uint16_t type, uint32_t value)
{
	attr(a, type, &value, sizeof(value));
}

static void attr64(struct answer *a, uint16_t type, uint64_t value)
{
	attr(a, type, &value, sizeof(value));
}

/* A datagram with an error or the end of a dump. */
static void control(struct nl_socket *s, const struct nlmsghdr *request, uint16_t type, int error)
{
	struct answer *a = start(s, request, type, type == NLMSG_DONE ? NLM_F_MULTI : 0);

	if (!a)
		return;
	bytes(a, &error, sizeof(error));
	if (type == NLMSG_ERROR)
		bytes(a, request, sizeof(*request));
	finish(a);
}

/*
 * FAKE_NL_DEVICES lists the devices, separated by commas:
 * INDEX:NAME:NODE_TYPE:UVERBS:ABI:DRIVER_ID:MAJOR:MINOR. A DRIVER_ID of - omits the attribute; with a UVERBS
 * of - GET_CHARDEV fails with ENOENT.
 */
struct device {
	unsigned index, type, abi, major, minor;
	char name[65], uverbs[65], driver[16];
};

static bool next_device(const char **at, struct device *dev)
{
	const char *end;

	if (!*at || !**at)
		return false;
	memset(dev, 0, sizeof(*dev));
	sscanf(*at, "%u:%64[^:]:%u:%64[^:]:%u:%15[^:]:%u:%u", &dev->index, dev->name, &dev->type, dev->uverbs,
	       &dev->abi, dev->driver, &dev->major, &dev->minor);
	end = strchr(*at, ',');
	*at = end ? end + 1 : NULL;
	return true;
}

static void report_device(struct nl_socket *s, const struct nlmsghdr *req, const struct device *dev)
{
	struct answer *a = start(s, req, req->nlmsg_type, NLM_F_MULTI);
	uint8_t type = (uint8_t)dev->type;
	size_t before;
	uint16_t bad_len;

	if (!a)
		return;
	before = a->len;
	if (!mode_is("no-index"))
		attr32(a, RDMA_NLDEV_ATTR_DEV_INDEX, dev->index);
	if (mode_is("short-index"))
		a->len = before, attr(a, RDMA_NLDEV_ATTR_DEV_INDEX, "x", 1);
	if (mode_is("unterminated-name"))
		attr(a, RDMA_NLDEV_ATTR_DEV_NAME, "abcdefgh", 8);
	else if (mode_is("long-name"))
		attr(a, RDMA_NLDEV_ATTR_DEV_NAME,
		     "a-name-of-more-than-sixty-three-bytes-which-no-kernel-would-ever-make-up-0", 75);
	else if (mode_is("empty-name"))
		attr(a, RDMA_NLDEV_ATTR_DEV_NAME, "", 1);
	else if (!mode_is("no-name"))
		attr(a, RDMA_NLDEV_ATTR_DEV_NAME, dev->name, strlen(dev->name) + 1);
	attr32(a, RDMA_NLDEV_ATTR_PORT_INDEX, 1);
	attr64(a, RDMA_NLDEV_ATTR_NODE_GUID, 0x020000fffe000901);
	before = a->len;
	attr(a, RDMA_NLDEV_ATTR_DEV_NODE_TYPE, &type, 1);
	/* An attribute longer than the rest of the message, or shorter than its own header. */
	bad_len = mode_is("attr-too-long") ? 60000 : mode_is("attr-too-short") ? 2 : 0;
	if (bad_len)
		memcpy(a->bytes + before, &bad_len, sizeof(bad_len));
	if (mode_is("unknown-attrs"))
		attr32(a, 0x3ff0, 7);
	finish(a);
	if (mode_is("cut"))
		a->len -= 13;
	if (mode_is("half-header"))
		a->len = 9;
	if (mode_is("wrong-seq"))
		a->bytes[8] ^= 0x55;
	if (mode_is("wrong-pid"))
		a->bytes[12] ^= 0x55;
	if (mode_is("other-type"))
		a->bytes[4] ^= 0x0f;
	if (mode_is("len-too-big"))
		a->bytes[2] = 1;
}

static void report_devices(struct nl_socket *s, const struct nlmsghdr *req)
{
	const char *at = getenv("FAKE_NL_DEVICES");
	struct device dev;

	if (mode_is("garbage")) {
		struct answer *a = start(s, req, 0, 0);

		for (int i = 0; a && i < 200; i++)
			a->bytes[i] = (uint8_t)(i * 37 + 11);
		if (a)
			a->len = 200;
		return;
	}
	if (!strncmp(mode(), "error=", 6)) {
		control(s, req, NLMSG_ERROR, -errno_by_name(mode() + 6));
		return;
	}
	if (mode_is("short-error")) {
		struct answer *a = start(s, req, NLMSG_ERROR, 0);

		if (a)
			finish(a);
		return;
	}
	if (mode_is("overrun"))
		control(s, req, NLMSG_OVERRUN, 0);
	if (mode_is("noop"))
		control(s, req, NLMSG_NOOP, 0);
	while (next_device(&at, &dev))
		for (int i = 0; i < (mode_is("many") ? 300 : 1); i++, dev.index++) {
			if (mode_is("many"))
				snprintf(dev.name, sizeof(dev.name), "many%d", i);
			report_device(s, req, &dev);
		}
	if (mode_is("interrupted") && s->count) {
		uint16_t flags = NLM_F_MULTI | NLM_F_DUMP_INTR;

		memcpy(s->answers[s->count - 1].bytes + 6, &flags, sizeof(flags));
	}
	if (!mode_is("no-done"))
		control(s, req, NLMSG_DONE, mode_is("done-error") ? -EINVAL : 0);
}

/* The device index in a GET_CHARDEV request. */
static uint32_t requested_index(const uint8_t *msg, size_t len)
{
	size_t at = NLMSG_HDRLEN;
	struct nlattr head;
	uint32_t index = ~0u;

	while (at + sizeof(head) <= len) {
		memcpy(&head, msg + at, sizeof(head));
		if (head.nla_type == RDMA_NLDEV_ATTR_DEV_INDEX && at + 8 <= len)
			memcpy(&index, msg + at + 4, 4);
		at += head.nla_len < 4 ? 4 : (head.nla_len + 3u) & ~3u;
	}
	return index;
}

static void report_chardev(struct nl_socket *s, const struct nlmsghdr *req, uint32_t index)
{
	const char *at = getenv("FAKE_NL_DEVICES");
	struct device dev;
	struct answer *a;

	while (next_device(&at, &dev)) {
		if (dev.index != index)
			continue;
		if (!strcmp(dev.uverbs, "-") || mode_is("no-chardev")) {
			control(s, req, NLMSG_ERROR, -ENOENT);
			return;
		}
		a = start(s, req, req->nlmsg_type, 0);
		if (!a)
			return;
		attr(a, RDMA_NLDEV_ATTR_CHARDEV_NAME, dev.uverbs, strlen(dev.uverbs) + 1);
		if (mode_is("long-chardev"))
			attr(a, RDMA_NLDEV_ATTR_CHARDEV_NAME,
			     "uverbs-of-more-than-sixty-three-bytes-which-no-kernel-would-ever-make-up-0",
			     75);
		if (!mode_is("no-chardev-abi"))
			attr64(a, RDMA_NLDEV_ATTR_CHARDEV_ABI, dev.abi);
		attr64(a, RDMA_NLDEV_ATTR_CHARDEV,
		       (dev.minor & 0xff) | dev.major << 8 | (uint64_t)(dev.minor & ~0xffu) << 12);
		if (strcmp(dev.driver, "-"))
			attr32(a, RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, (uint32_t)atoi(dev.driver));
		finish(a);
		if (mode_is("cut-chardev"))
			a->len -= 9;
		return;
	}
	control(s, req, NLMSG_ERROR, -ENODEV);
}

static void report_system(struct nl_socket *s, const struct nlmsghdr *req)
{
	const char *cof = getenv("FAKE_NL_COF");
	struct answer *a = start(s, req, req->nlmsg_type, 0);
	uint8_t one = cof ? (uint8_t)atoi(cof) : 0;

	if (!a)
		return;
	if (cof)
		attr(a, RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, &one, 1);
	finish(a);
}

ssize_t netlink_send(int fd, const void *buf, size_t len)
{
	struct nlmsghdr req;
	struct nl_socket *s;

	if (len < sizeof(req)) {
		errno = EINVAL;
		return -1;
	}
	if (!strncmp(mode(), "send=", 5)) {
		errno = errno_by_name(mode() + 5);
		return -1;
	}
	memcpy(&req, buf, sizeof(req));
	pthread_mutex_lock(&lock);
	s = find(fd);
	if (s) {
		s->first = s->count = 0;
		switch (req.nlmsg_type & 0x3ff) {
		case RDMA_NLDEV_CMD_GET:
			report_devices(s, &req);
			break;
		case RDMA_NLDEV_CMD_GET_CHARDEV:
			report_chardev(s, &req, requested_index(buf, len));
			break;
		case RDMA_NLDEV_CMD_SYS_GET:
			report_system(s, &req);
			break;
		default:
			control(s, &req, NLMSG_ERROR, -EOPNOTSUPP);
		}
	}
	pthread_mutex_unlock(&lock);
	return (ssize_t)len;
}

ssize_t netlink_recv(int fd, void *buf, size_t len, int flags, int *msg_flags)
{
	struct nl_socket *s;
	ssize_t ret = -1;

	*msg_flags = 0;
	if (!strncmp(mode(), "recv=", 5)) {
		errno = errno_by_name(mode() + 5);
		return -1;
	}
	if (mode_is("eof"))
		return 0;
	pthread_mutex_lock(&lock);
	s = find(fd);
	if (s && s->first < s->count) {
		struct answer *a = &s->answers[s->first];

		ret = (ssize_t)(a->len < len ? a->len : len);
		memcpy(buf, a->bytes, (size_t)ret);
		if (a->len > len) {
			*msg_flags |= MSG_TRUNC;
			if (flags & MSG_TRUNC)
				ret = (ssize_t)a->len;
		}
		if (!(flags & MSG_PEEK))
			s->first++;
	} else {
		/* A real kernel would block the program. */
		errno = ETIMEDOUT;
	}
	pthread_mutex_unlock(&lock);
	return ret;
}
