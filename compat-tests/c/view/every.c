// Calls every function that the view redirects: by name, by an address in data, and by dlsym(3) where there
// is a dynamic linker. Each call is made in a child, so that the one that crashes or never ends is known.
//
//	every LINK  LINK is a symbolic link to a directory with a file "node_guid", of the tree or of the
//	            kernel.
//
// every-list.h is generated: FUNCTIONS(X) with the names of the table of redirected functions. every-calls.h
// has a call of each. OWN_LIBRARY: the program contains the library, which it starts.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#ifdef OWN_LIBRARY
#include <infiniband/verbs.h>
#endif

#include "every-list.h"

typedef void (*handler)(int);
typedef int (*filter)(const struct dirent *);
typedef int (*compare)(const struct dirent **, const struct dirent **);
typedef int (*fts_order)(const FTSENT **, const FTSENT **);

// The names and buffers that the calls refer to.
static char *dir, file[PATH_MAX], none[PATH_MAX], pattern[PATH_MAX], text[PATH_MAX];
static char *roots[2];
static struct stat st;
static struct statx stx;
static struct statfs fs;
static struct statvfs vfs;
static struct dirent entry, *result, **list;
static struct iovec part = { "x", 1 };
static glob_t found;
static DIR *stream;
static FTS *walk;
static long position;
static volatile sig_atomic_t handled;

static void handle(int number)
{
	handled = number;
}

static const struct sigaction handler_action = { .sa_handler = handle };

static bool is_guid(int fd)
{
	char read_text[32] = "";

	return read(fd, read_text, sizeof(read_text)) == 20 && read_text[4] == ':' && read_text[19] == '\n';
}

static bool is_guid_stream(FILE *from)
{
	char line[32] = "";

	return from && fgets(line, sizeof(line), from) && strlen(line) == 20 && line[4] == ':';
}

static bool is_guid_entry_name(const char *name)
{
	return !strcmp(name, "node_guid");
}

static int is_guid_entry(const struct dirent *it)
{
	return is_guid_entry_name(it->d_name);
}

static bool has_guid(struct dirent *(*next)(DIR *), DIR *from)
{
	struct dirent *it;

	while (from && (it = next(from)))
		if (is_guid_entry(it))
			return true;
	return false;
}

// The link's target ends with the directory's name.
static bool is_target(ssize_t length)
{
	return length > 2 && !memcmp(text + length - 2, "/u", 2);
}

static int opened(void)
{
	return open(file, O_RDONLY);
}

static const char umad_file[] = "/dev/infiniband/umad32";

static int umad(void)
{
	return open(umad_file, O_RDWR);
}

static int null(void)
{
	return open("/dev/null", O_WRONLY);
}

static int visit(const char *path, const struct stat *status, int kind)
{
	return kind == FTW_F && S_ISREG(status->st_mode) && !strcmp(path, file) ? 7 : 0;
}

static int visit_more(const char *path, const struct stat *status, int kind, struct FTW *more)
{
	(void)more;
	return visit(path, status, kind);
}

// By other names than the functions', which headers declare with types and attributes of their own. `called`
// is a constant, so the compiler makes a call by name of it.
#define CALL(name, type, arguments, holds) \
	extern type called_##name arguments __asm__(#name); \
	__attribute__((unused)) static bool by_name_##name(void) \
	{ \
		type(*const F) arguments = called_##name; \
		return holds; \
	} \
	__attribute__((unused)) static bool by_address_##name(void *address) \
	{ \
		type(*F) arguments = (type(*) arguments)address; \
		return holds; \
	}
#include "every-calls.h"

#define ROW(name) { #name, by_name_##name, by_address_##name, (void *)called_##name },
static const struct {
	const char *name;
	bool (*by_name)(void);
	bool (*by_address)(void *);
	void *address;
} functions[] = { FUNCTIONS(ROW) };

#ifndef STATIC
static bool looked_up(bool (*by_address)(void *), const char *name)
{
	void *address = dlsym(RTLD_DEFAULT, name);

	return address && by_address(address);
}
#endif

static int failures;

static void report(const char *name, const char *way, pid_t child)
{
	int status = -1;

	waitpid(child, &status, 0);
	printf("%s %s-%s\n", status ? "not ok" : "ok", name, way);
	if (status)
		printf("# status %#x\n", status);
	failures += status != 0;
}

// Forks; a child has 10 seconds.
static pid_t child(void)
{
	fflush(stdout);
	pid_t id = fork();

	if (id == 0)
		alarm(10);
	return id;
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	dir = roots[0] = argv[1];
	snprintf(file, sizeof(file), "%s/node_guid", dir);
	snprintf(none, sizeof(none), "%s/none/file", dir);
	snprintf(pattern, sizeof(pattern), "%s/node_gui[d]", dir);
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
#ifdef OWN_LIBRARY
	int count = 0;
	struct ibv_device **devices = ibv_get_device_list(&count);

	printf("%s the library has its device\n", devices && count == 1 ? "ok" : "not ok");
#endif
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		pid_t id = child();
		if (id == 0)
			exit(!functions[i].by_name());
		report(functions[i].name, "by-name", id);
		id = child();
		if (id == 0)
			exit(!functions[i].by_address(functions[i].address));
		report(functions[i].name, "by-address", id);
#ifndef STATIC
		id = child();
		if (id == 0)
			exit(!looked_up(functions[i].by_address, functions[i].name));
		report(functions[i].name, "by-dlsym", id);
#endif
	}
	return failures > 0;
}
