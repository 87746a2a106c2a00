/*
 * To be preloaded: lets a provider open a device that does not exist. /dev/infiniband/uverbsN is /dev/null,
 * and every command written to it succeeds with an empty response. RDMA netlink is hidden, so that the
 * library finds the device in the test's sysfs tree, not the kernel's own.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static const char *real_path(const char *path)
{
	static const char uverbs[] = "/dev/infiniband/uverbs";

	return path && !strncmp(path, uverbs, sizeof(uverbs) - 1) ? "/dev/null" : path;
}

#define DEFINE_OPEN(name) \
	int name(const char *path, int flags, ...) \
	{ \
		va_list list; \
\
		va_start(list, flags); \
		mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0; \
		va_end(list); \
		return NEXT(name)(real_path(path), flags, mode); \
	}
DEFINE_OPEN(open)
DEFINE_OPEN(open64)

int stat(const char *path, struct stat *st)
{
	return NEXT(stat)(real_path(path), st);
}

int stat64(const char *path, struct stat64 *st)
{
	return NEXT(stat64)(real_path(path), st);
}

int socket(int domain, int type, int protocol)
{
	if (domain == AF_NETLINK && protocol == NETLINK_RDMA) {
		errno = EPROTONOSUPPORT;
		return -1;
	}
	return NEXT(socket)(domain, type, protocol);
}

/* struct ib_uverbs_cmd_hdr, and the address of the response after it. */
struct command {
	uint32_t number;
	uint16_t in_words;
	uint16_t out_words;
	uint64_t response;
};

ssize_t write(int fd, const void *buf, size_t len)
{
	const struct command *command = buf;
	struct stat st;

	if (len >= sizeof(*command) && !fstat(fd, &st) && S_ISCHR(st.st_mode) &&
	    st.st_rdev == makedev(1, 3) && command->response)
		memset((void *)(uintptr_t)command->response, 0, 4ul * command->out_words);
	return NEXT(write)(fd, buf, len);
}
