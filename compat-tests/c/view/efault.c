// Addresses that are not mapped, in all calls that the view redirects and the kernel answers with EFAULT:
// paths, and places for results. Run with IBV_UROCE=u=lo; with the argument "hidden" there is no view.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define CLASS "/sys/class/infiniband"
#define DEVICE CLASS "/u"
#define GUID DEVICE "/node_guid"
#define SIZE (1 << 20)

static int failures;

static void check(const char *name, bool ok)
{
	printf("%s %s\n", ok ? "ok" : "not ok", name);
	failures += !ok;
}

static bool failed(long result, int expected)
{
	return result == -1 && errno == expected;
}

// A text that ends where no memory is mapped, with `len` bytes of `text`.
static char *at_the_end(const char *text, size_t len)
{
	static char *end;

	if (!end) {
		char *start = mmap(NULL, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
				   0);

		munmap(start + SIZE, SIZE);
		end = start + SIZE;
	}
	return memcpy(end - len, text, len);
}

static void bad_path(const char *name, const char *path)
{
	struct stat st;
	struct statx stx;
	struct statfs fs;
	struct statvfs vfs;
	struct open_how how = { .flags = O_RDONLY };
	char buf[16], check_name[64];
	bool ok = failed(open(path, O_RDONLY), EFAULT) &&
		  failed(open(path, O_RDWR | O_CREAT, 0600), EFAULT) &&
		  failed(open(path, O_WRONLY | O_TRUNC), EFAULT) && failed(creat(path, 0600), EFAULT) &&
		  failed(openat(AT_FDCWD, path, O_RDONLY), EFAULT) &&
		  failed(openat(-1, path, O_RDONLY), EFAULT);

	snprintf(check_name, sizeof(check_name), "open-%s", name);
	check(check_name,
	      ok && !fopen(path, "r") && errno == EFAULT && !fopen(path, "a+") && errno == EFAULT);
	ok = failed(stat(path, &st), EFAULT) && failed(lstat(path, &st), EFAULT) &&
	     failed(fstatat(AT_FDCWD, path, &st, 0), EFAULT) && failed(statfs(path, &fs), EFAULT) &&
	     failed(statvfs(path, &vfs), EFAULT) && failed(access(path, R_OK), EFAULT) &&
	     failed(euidaccess(path, R_OK), EFAULT) && failed(faccessat(AT_FDCWD, path, R_OK, 0), EFAULT);
	// Newer kernels take NULL for an empty path.
	ok = ok && (!path || failed(statx(AT_FDCWD, path, 0, STATX_ALL, &stx), EFAULT));
	snprintf(check_name, sizeof(check_name), "status-%s", name);
	check(check_name, ok && failed(readlink(path, buf, sizeof(buf)), EFAULT) &&
				  failed(readlinkat(AT_FDCWD, path, buf, sizeof(buf)), EFAULT) &&
				  failed(getxattr(path, "user.x", buf, 1), EFAULT) &&
				  failed(lgetxattr(path, "user.x", buf, 1), EFAULT) &&
				  failed(listxattr(path, buf, 1), EFAULT) &&
				  failed(llistxattr(path, buf, 1), EFAULT));
	snprintf(check_name, sizeof(check_name), "change-%s", name);
	check(check_name, failed(chdir(path), EFAULT) && failed(chroot(path), EFAULT));
	ok = failed(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY), EFAULT) &&
	     failed(syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT, 0600), EFAULT) &&
	     failed(syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how)), EFAULT) &&
	     failed(syscall(SYS_readlinkat, AT_FDCWD, path, buf, sizeof(buf)), EFAULT) &&
	     failed(syscall(SYS_faccessat, AT_FDCWD, path, R_OK), EFAULT) &&
	     failed(syscall(SYS_statfs, path, &fs), EFAULT);
#ifdef SYS_open
	ok = ok && failed(syscall(SYS_open, path, O_RDONLY), EFAULT) &&
	     failed(syscall(SYS_stat, path, &st), EFAULT) && failed(syscall(SYS_lstat, path, &st), EFAULT) &&
	     failed(syscall(SYS_access, path, R_OK), EFAULT) &&
	     failed(syscall(SYS_readlink, path, buf, sizeof(buf)), EFAULT);
#endif
	snprintf(check_name, sizeof(check_name), "syscall-%s", name);
	check(check_name, ok);
}

static void paths(void)
{
	char longest[PATH_MAX];
	struct stat st;

	memset(longest, 'x', sizeof(longest));
	bad_path("unmapped", at_the_end("", 0));
	bad_path("endless", at_the_end("/tmp", 4));
	bad_path("endless-relative", at_the_end("tmp", 3));
	bad_path("first-page", (const char *)(uintptr_t)1);
	bad_path("null", NULL);
	bad_path("not-canonical", (const char *)(uintptr_t)0xdead000000000000);
	check("too-long",
	      failed(open(at_the_end(longest, sizeof(longest)), O_RDONLY), ENAMETOOLONG) &&
		      failed(open(at_the_end(longest, sizeof(longest)), O_CREAT, 0600), ENAMETOOLONG) &&
		      failed(stat(at_the_end(longest, sizeof(longest)), &st), ENAMETOOLONG));
	// The last byte that is mapped is the NUL.
	check("last-byte", !stat(at_the_end("/tmp", 5), &st) && S_ISDIR(st.st_mode) &&
				   failed(stat(at_the_end("", 1), &st), ENOENT) &&
				   failed(open(at_the_end("", 1), O_RDWR | O_CREAT, 0600), ENOENT) &&
				   !chdir(at_the_end("/", 2)));
}

// The directory's descriptor may be one of the view.
static void relative(int dir)
{
	struct stat st;
	const char *endless = at_the_end("x", 1);

	check("relative", failed(openat(dir, endless, O_RDONLY), EFAULT) &&
				  failed(fstatat(dir, endless, &st, AT_EMPTY_PATH), EFAULT) &&
				  failed(syscall(SYS_openat, dir, endless, O_RDONLY), EFAULT));
}

static void results(void)
{
	void *bad = at_the_end("", 0);
	int dir = open(DEVICE, O_RDONLY | O_DIRECTORY), file = open(GUID, O_RDONLY);
	char buf[4096];

	check("result-stat", failed(stat(GUID, bad), EFAULT) && failed(lstat(DEVICE, bad), EFAULT) &&
				     failed(fstat(file, bad), EFAULT) &&
				     failed(fstatat(dir, "node_guid", bad, 0), EFAULT) &&
				     failed(fstatat(dir, "", bad, AT_EMPTY_PATH), EFAULT) &&
				     failed(statx(AT_FDCWD, GUID, 0, STATX_ALL, bad), EFAULT) &&
				     failed(syscall(SYS_fstat, file, bad), EFAULT) &&
				     failed(syscall(SYS_newfstatat, AT_FDCWD, GUID, bad, 0), EFAULT));
	check("result-statfs", failed(statfs(GUID, bad), EFAULT) && failed(fstatfs(file, bad), EFAULT));
	check("result-readlink", failed(readlink(DEVICE, bad, 10), EFAULT) &&
					 failed(readlinkat(AT_FDCWD, DEVICE, bad, 10), EFAULT) &&
					 failed(syscall(SYS_readlinkat, AT_FDCWD, DEVICE, bad, 10), EFAULT));
	// The entries are still there behind the failure.
	check("result-getdents", failed(syscall(SYS_getdents64, dir, bad, 4096), EFAULT) &&
					 syscall(SYS_getdents64, dir, buf, sizeof(buf)) > 0);
	check("result-read", failed(read(file, bad, 8), EFAULT) && read(file, buf, sizeof(buf)) == 20);
	check("result-openat2", failed(syscall(SYS_openat2, AT_FDCWD, GUID, bad, 24), EFAULT));
	check("result-getcwd", !chdir(DEVICE) && !getcwd(bad, 4096) && errno == EFAULT && !chdir("/"));
	check("result-writev", failed(writev(file, bad, 1), EBADF));
	relative(dir);
	close(dir);
	close(file);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	paths();
	if (argc < 2 || strcmp(argv[1], "hidden"))
		results();
	return failures > 0;
}
