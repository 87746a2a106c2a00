/*
 * Preloaded into a program, makes /dev/infiniband/uverbsN appear to exist, so that real providers open
 * devices and work without hardware, kernel module or root. This file intercepts libc; answers.c, ioctls.c
 * and netlink.c produce the responses. README.md lists the environment variables.
 */
#define _GNU_SOURCE
#include "fake.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <linux/netlink.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_TOGGLE_COLLECT \
	do { \
	} while (0)
#endif

#define MAX_FD 65536
#define DEV_DIR "/dev/infiniband/uverbs"
#define MAJOR 231
#define FIRST_MINOR 192

static _Atomic uint8_t kinds[MAX_FD];
static _Atomic uint16_t units[MAX_FD];

/*
 * Test programs (dlsym) set it while callgrind counts instructions, so that those of the shim are not
 * counted.
 */
__attribute__((visibility("default"))) int fake_collecting;
static __thread int depth;

static void resume_count(int *unused)
{
	(void)unused;
	if (fake_collecting && --depth == 0)
		CALLGRIND_TOGGLE_COLLECT;
}

static void pause_count(void)
{
	if (fake_collecting && depth++ == 0)
		CALLGRIND_TOGGLE_COLLECT;
}

/* The first statement of each function that replaces one of libc. */
#define UNCOUNTED __attribute__((cleanup(resume_count), unused)) int uncounted_ = (pause_count(), 0)

/* The next definition of a function; looked up once. */
#define NEXT(ret, name, ...) \
	static ret (*_Atomic next_##name)(__VA_ARGS__); \
	if (!next_##name) \
	next_##name = (ret(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

static enum fd_kind kind_of(int fd)
{
	return fd >= 0 && fd < MAX_FD ? (enum fd_kind)kinds[fd] : FD_OTHER;
}

static void mark(int fd, enum fd_kind kind, int unit)
{
	if (fd >= 0 && fd < MAX_FD) {
		units[fd] = (uint16_t)unit;
		kinds[fd] = (uint8_t)kind;
	}
}

static void copy_mark(int from, int to)
{
	if (to >= 0 && from != to)
		mark(to, kind_of(from), from >= 0 && from < MAX_FD ? units[from] : 0);
}

int fake_uverbs_of(int fd)
{
	return kind_of(fd) == FD_CMD ? units[fd] : -1;
}

bool fake_is_driver(int fd, const char *prefix)
{
	const char *root = getenv("SYSFS_PATH");
	char path[512], name[65] = "";
	int file;

	snprintf(path, sizeof(path), "%s/class/infiniband_verbs/uverbs%d/ibdev", root ? root : "/sys",
		 fake_uverbs_of(fd));
	file = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return false;
	if (read(file, name, sizeof(name) - 1) < 0)
		name[0] = 0;
	close(file);
	return !strncmp(name, prefix, strlen(prefix));
}

/* FAKE_NODES=real: the test has created the device nodes; only operations on them are faked. */
static bool real_nodes(void)
{
	const char *mode = getenv("FAKE_NODES");

	return mode && !strcmp(mode, "real");
}

/* Number of the uverbs device with this path; -1 if it is another file. */
static int unit_of_path(const char *path)
{
	unsigned int a, b;

	if (!path)
		return -1;
	if (!strncmp(path, DEV_DIR, strlen(DEV_DIR)))
		return atoi(path + strlen(DEV_DIR));
	if (real_nodes() && sscanf(path, "/dev/char/%u:%u", &a, &b) == 2)
		return 0;
	return -1;
}

/* The errno value that FAKE_NODES sets for opening or stat'ing a node; 0: none. */
static int node_error(bool opening)
{
	const char *mode = getenv("FAKE_NODES");

	if (!mode || real_nodes() || !strcmp(mode, "wrong"))
		return 0;
	if (!strcmp(mode, "absent"))
		return ENOENT;
	if (!strncmp(mode, "open=", 5))
		return opening ? errno_by_name(mode + 5) : 0;
	return errno_by_name(mode);
}

/* FAKE_NODES=wrong: the node has another device number. */
static void fake_rdev(int unit, dev_t *rdev)
{
	const char *mode = getenv("FAKE_NODES");

	if (real_nodes())
		return;
	*rdev = makedev(MAJOR, FIRST_MINOR + unit + (mode && !strcmp(mode, "wrong") ? 1000 : 0));
}

static int open_node(int unit, const char *path, int flags)
{
	NEXT(int, open, const char *, int, ...);
	int error = node_error(true);
	int fd;

	if (error) {
		errno = error;
		return -1;
	}
	fd = next_open(real_nodes() ? path : "/dev/null", flags & ~(O_CREAT | O_TRUNC));
	if (fd >= 0) {
		mark(fd, FD_CMD, unit);
		record_line("open uverbs%d flags=%s%s\n", unit,
			    (flags & O_ACCMODE) == O_RDWR ? "rdwr" : "other",
			    flags & O_CLOEXEC ? "|cloexec" : "");
	}
	return fd;
}

#define OPEN(name) \
	int name(const char *path, int flags, ...) \
	{ \
		UNCOUNTED; \
		int unit = unit_of_path(path); \
		va_list args; \
		mode_t mode; \
		va_start(args, flags); \
		mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0; \
		va_end(args); \
		if (unit >= 0) \
			return open_node(unit, path, flags); \
		NEXT(int, name, const char *, int, ...); \
		return next_##name(path, flags, mode); \
	}
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
	int name(int dir, const char *path, int flags, ...) \
	{ \
		UNCOUNTED; \
		int unit = unit_of_path(path); \
		va_list args; \
		mode_t mode; \
		va_start(args, flags); \
		mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0; \
		va_end(args); \
		if (unit >= 0) \
			return open_node(unit, path, flags); \
		NEXT(int, name, int, const char *, int, ...); \
		return next_##name(dir, path, flags, mode); \
	}
OPENAT(openat)
OPENAT(openat64)

/* Called by programs compiled with _FORTIFY_SOURCE. */
int __open_2(const char *path, int flags);
int __open_2(const char *path, int flags)
{
	return open(path, flags);
}

int __open64_2(const char *path, int flags);
int __open64_2(const char *path, int flags)
{
	return open64(path, flags);
}

#define STAT(name, type) \
	int name(const char *restrict path, struct type *restrict st) \
	{ \
		UNCOUNTED; \
		int unit = unit_of_path(path), error, ret; \
		NEXT(int, name, const char *, struct type *); \
		if (unit < 0 || real_nodes()) \
			return next_##name(path, st); \
		error = node_error(false); \
		if (error) { \
			errno = error; \
			return -1; \
		} \
		ret = next_##name("/dev/null", st); \
		fake_rdev(unit, &st->st_rdev); \
		return ret; \
	}
STAT(stat, stat)
STAT(stat64, stat64)

#define FSTAT(name, type) \
	int name(int fd, struct type *st) \
	{ \
		UNCOUNTED; \
		NEXT(int, name, int, struct type *); \
		int ret = next_##name(fd, st); \
		if (!ret && kind_of(fd) == FD_CMD) \
			fake_rdev(units[fd], &st->st_rdev); \
		return ret; \
	}
FSTAT(fstat, stat)
FSTAT(fstat64, stat64)

int close(int fd)
{
	UNCOUNTED;
	NEXT(int, close, int);
	if (kind_of(fd) == FD_CMD)
		record_line("close uverbs%d\n", units[fd]);
	else if (kind_of(fd) == FD_NETLINK)
		netlink_closed(fd);
	mark(fd, FD_OTHER, 0);
	return next_close(fd);
}

int dup(int fd)
{
	UNCOUNTED;
	NEXT(int, dup, int);
	int copy = next_dup(fd);

	copy_mark(fd, copy);
	return copy;
}

int dup2(int fd, int to)
{
	UNCOUNTED;
	NEXT(int, dup2, int, int);
	int copy = next_dup2(fd, to);

	copy_mark(fd, copy);
	return copy;
}

int dup3(int fd, int to, int flags)
{
	UNCOUNTED;
	NEXT(int, dup3, int, int, int);
	int copy = next_dup3(fd, to, flags);

	copy_mark(fd, copy);
	return copy;
}

#define FCNTL(name) \
	int name(int fd, int cmd, ...) \
	{ \
		UNCOUNTED; \
		va_list args; \
		void *arg; \
		int ret; \
		va_start(args, cmd); \
		arg = va_arg(args, void *); \
		va_end(args); \
		NEXT(int, name, int, int, ...); \
		ret = next_##name(fd, cmd, arg); \
		if (cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC) \
			copy_mark(fd, ret); \
		return ret; \
	}
FCNTL(fcntl)
FCNTL(fcntl64)

/*
 * Queues and doorbell pages of the device are anonymous memory. The first two words are for rxe, whose queues
 * start with the element size and the index mask.
 */
static void *map_device(void *addr, size_t len, int prot, int flags, int fd, off_t offset,
			void *(*next)(void *, size_t, int, int, int, off_t))
{
	uint32_t *page;

	record_line("mmap uverbs%d len=%zu prot=%d flags=%d offset=0x%llx\n", units[fd], len, prot,
		    flags & ~MAP_FIXED, (unsigned long long)offset);
	page = next(addr, len ? len : 65536, prot | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | (flags & MAP_FIXED), -1, 0);
	if (page != MAP_FAILED && fake_is_driver(fd, "rxe")) {
		page[0] = 7;
		page[1] = 63;
	}
	return page;
}

#define MMAP(name) \
	void *name(void *addr, size_t len, int prot, int flags, int fd, off_t offset) \
	{ \
		UNCOUNTED; \
		NEXT(void *, name, void *, size_t, int, int, int, off_t); \
		if (kind_of(fd) == FD_CMD) \
			return map_device(addr, len, prot, flags, fd, offset, next_##name); \
		return next_##name(addr, len, prot, flags, fd, offset); \
	}
MMAP(mmap)
MMAP(mmap64)

/* Parses a legacy command. Returns false if it is too short to be one. */
static bool parse_write(const uint8_t *buf, size_t len, struct write_cmd *cmd, size_t *wanted_in)
{
	uint32_t command;
	uint16_t in_words, out_words, provider_in = 0, provider_out = 0;
	size_t unit = 4, header = 8;
	uint64_t response = 0;

	if (len < 8)
		return false;
	memcpy(&command, buf, 4);
	memcpy(&in_words, buf + 4, 2);
	memcpy(&out_words, buf + 6, 2);
	memset(cmd, 0, sizeof(*cmd));
	cmd->number = command & 0xff;
	cmd->extended = command & 0x80000000u;
	if (cmd->extended) {
		if (len < 24)
			return false;
		unit = 8;
		header = 24;
		memcpy(&response, buf + 8, 8);
		memcpy(&provider_in, buf + 16, 2);
		memcpy(&provider_out, buf + 18, 2);
	} else if (out_words && len >= 16) {
		memcpy(&response, buf + 8, 8);
		header = 16;
	}
	*wanted_in = in_words * unit + provider_in * unit + (cmd->extended ? 24 : 0);
	cmd->in = buf + header;
	cmd->in_len = len - header;
	cmd->core_out_len = out_words * unit;
	cmd->out_len = cmd->core_out_len + provider_out * unit;
	cmd->out = (uint8_t *)(uintptr_t)response;
	if (!cmd->out)
		cmd->out_len = cmd->core_out_len = 0;
	return true;
}

ssize_t write(int fd, const void *buf, size_t len)
{
	UNCOUNTED;
	struct write_cmd cmd;
	size_t wanted;
	int error;

	NEXT(ssize_t, write, int, const void *, size_t);
	if (kind_of(fd) != FD_CMD)
		return next_write(fd, buf, len);
	record_write(fd, buf, len);
	if (!parse_write(buf, len, &cmd, &wanted) || wanted != len) {
		record_result(EINVAL);
		errno = EINVAL;
		return -1;
	}
	error = chosen_failure(write_name(cmd.number, cmd.extended));
	if (error > 0) {
		record_result(error);
		errno = error;
		return -1;
	}
	answer_write(fd, &cmd);
	record_result(0);
	return (ssize_t)len - (error < 0);
}

int ioctl(int fd, unsigned long request, ...)
{
	UNCOUNTED;
	va_list args;
	void *arg;
	int error;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	NEXT(int, ioctl, int, unsigned long, ...);
	if (kind_of(fd) != FD_CMD)
		return next_ioctl(fd, request, arg);
	record_ioctl(fd, request, arg);
	error = request == RDMA_VERBS_IOCTL ? answer_ioctl(fd, arg) : ENOTTY;
	record_result(error);
	if (error) {
		errno = error;
		return -1;
	}
	return 0;
}

/* Netlink. */

int socket(int domain, int type, int protocol)
{
	UNCOUNTED;
	NEXT(int, socket, int, int, int);
	int fd;

	if (domain != AF_NETLINK || protocol != NETLINK_RDMA || !netlink_faked())
		return next_socket(domain, type, protocol);
	fd = netlink_socket(type);
	if (fd >= 0)
		mark(fd, FD_NETLINK, 0);
	return fd;
}

/* Copies all parts of a message into one buffer. */
static ssize_t send_parts(int fd, const struct msghdr *msg)
{
	uint8_t all[4096];
	size_t len = 0, i;

	for (i = 0; i < msg->msg_iovlen; i++) {
		size_t part = msg->msg_iov[i].iov_len;

		if (part > sizeof(all) - len)
			part = sizeof(all) - len;
		memcpy(all + len, msg->msg_iov[i].iov_base, part);
		len += part;
	}
	return netlink_send(fd, all, len);
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	UNCOUNTED;
	NEXT(ssize_t, sendmsg, int, const struct msghdr *, int);
	return kind_of(fd) == FD_NETLINK ? send_parts(fd, msg) : next_sendmsg(fd, msg, flags);
}

ssize_t sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to, socklen_t to_len)
{
	UNCOUNTED;
	NEXT(ssize_t, sendto, int, const void *, size_t, int, const struct sockaddr *, socklen_t);
	return kind_of(fd) == FD_NETLINK ? netlink_send(fd, buf, len)
					 : next_sendto(fd, buf, len, flags, to, to_len);
}

ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	UNCOUNTED;
	NEXT(ssize_t, send, int, const void *, size_t, int);
	return kind_of(fd) == FD_NETLINK ? netlink_send(fd, buf, len) : next_send(fd, buf, len, flags);
}

static const struct sockaddr_nl kernel_addr = { .nl_family = AF_NETLINK };

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	UNCOUNTED;
	ssize_t len;

	NEXT(ssize_t, recvmsg, int, struct msghdr *, int);
	if (kind_of(fd) != FD_NETLINK || !msg->msg_iovlen)
		return next_recvmsg(fd, msg, flags);
	len = netlink_recv(fd, msg->msg_iov[0].iov_base, msg->msg_iov[0].iov_len, flags, &msg->msg_flags);
	if (len >= 0) {
		msg->msg_controllen = 0;
		if (msg->msg_name && msg->msg_namelen >= sizeof(kernel_addr)) {
			memcpy(msg->msg_name, &kernel_addr, sizeof(kernel_addr));
			msg->msg_namelen = sizeof(kernel_addr);
		}
	}
	return len;
}

ssize_t recvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *restrict from,
		 socklen_t *restrict from_len)
{
	UNCOUNTED;
	int ignored;

	NEXT(ssize_t, recvfrom, int, void *, size_t, int, struct sockaddr *, socklen_t *);
	if (kind_of(fd) != FD_NETLINK)
		return next_recvfrom(fd, buf, len, flags, from, from_len);
	if (from && from_len && *from_len >= sizeof(kernel_addr)) {
		memcpy(from, &kernel_addr, sizeof(kernel_addr));
		*from_len = sizeof(kernel_addr);
	}
	return netlink_recv(fd, buf, len, flags, &ignored);
}

ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	UNCOUNTED;
	int ignored;

	NEXT(ssize_t, recv, int, void *, size_t, int);
	return kind_of(fd) == FD_NETLINK ? netlink_recv(fd, buf, len, flags, &ignored)
					 : next_recv(fd, buf, len, flags);
}
