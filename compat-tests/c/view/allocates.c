// A program in which calls that do not concern the tree must not allocate memory, as they may come from
// signal handlers. Each is the first call of its thread: the library's thread-local variables have no memory
// yet.
//
// usage: view-allocates LIBRARY    (loads it by dlopen)
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "allocations.h"

static int dir, file;
static char text[512];
static struct stat st;
static struct statfs fs;
static struct statx stx;
static struct sigaction action;

// The calls, by numbers.
#define CALLS \
	CALL(0, open("/dev/null", O_RDONLY)) \
	CALL(1, openat(dir, "bin", O_RDONLY)) \
	CALL(2, stat("/dev/null", &st)) \
	CALL(3, lstat(".", &st)) \
	CALL(4, fstat(file, &st)) \
	CALL(5, fstatat(dir, "bin", &st, 0)) \
	CALL(6, statx(dir, "bin", 0, STATX_MODE, &stx)) \
	CALL(7, access("/dev/null", R_OK)) \
	CALL(8, faccessat(dir, "bin", R_OK, 0)) \
	CALL(9, readlink("/proc/self", text, sizeof(text)) < 0) \
	CALL(10, readlinkat(dir, "bin", text, sizeof(text)) < -1) \
	CALL(11, statfs("/tmp", &fs)) \
	CALL(12, fstatfs(file, &fs)) \
	CALL(13, getcwd(text, sizeof(text)) == NULL) \
	CALL(14, chdir("/tmp")) \
	CALL(15, fchdir(dir)) \
	CALL(16, dup(file)) \
	CALL(17, dup2(file, 200)) \
	CALL(18, dup3(file, 201, O_CLOEXEC)) \
	CALL(19, fcntl(file, F_GETFL)) \
	CALL(20, fcntl(file, F_DUPFD, 100)) \
	CALL(21, (int)write(file, "", 0)) \
	CALL(22, getxattr("/dev/null", "user.x", text, sizeof(text)) > 0) \
	CALL(23, sigaction(SIGUSR1, NULL, &action)) \
	CALL(24, signal(SIGUSR1, SIG_IGN) == SIG_ERR) \
	CALL(25, syscall(SYS_openat, AT_FDCWD, "/dev/null", 0) < 0) \
	CALL(26, (int)syscall(SYS_fchdir, dir)) \
	CALL(27, ioctl(file, FIONREAD, text) > 0)

#define CALL(number, call) \
	static int call_##number(void) \
	{ \
		return (call); \
	}
CALLS
#undef CALL

static const struct {
	int (*function)(void);
	const char *name;
} calls[] = {
#define CALL(number, call) { call_##number, #call },
	CALLS
#undef CALL
};

static void *one_call(void *of)
{
	size_t at = (size_t)of;
	int result;

	allocations = 0;
	inside = 1;
	result = calls[at].function();
	inside = 0;
	if (result < 0 || allocations)
		printf("%s: %d, %d allocations\n", calls[at].name, result, allocations);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc < 2 || !dlopen(argv[1], RTLD_NOW)) {
		printf("%s\n", argc < 2 ? "usage: view-allocates LIBRARY" : dlerror());
		return 1;
	}
	dir = open("/usr", O_RDONLY | O_DIRECTORY);
	file = open("/dev/null", O_RDWR);
	if (dir < 0 || file < 0 || chdir("/tmp"))
		return 1;
	for (size_t at = 0; at < sizeof(calls) / sizeof(calls[0]); at++) {
		pthread_create(&thread, NULL, one_call, (void *)at);
		pthread_join(thread, NULL);
	}
	puts("done");
	return 0;
}
