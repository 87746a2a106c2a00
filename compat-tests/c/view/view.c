// A program that looks at a software device in /dev/infiniband and /sys, by every libc function that takes a
// path. Run with IBV_UROCE=u=lo; with the argument "hidden" nothing of it may be there. The program does not
// use libibverbs itself: the library is preloaded.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_user_cm.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define CLASS "/sys/class/infiniband"
#define DEVICE CLASS "/u"
#define GUID DEVICE "/node_guid"
#define CHARACTER "/dev/infiniband/uverbs1024"
// The kernel's value for RDMA_PS_TCP of librdmacm.
#define PORT_SPACE_TCP 0x106

static int failures;

static void check(const char *name, bool ok)
{
	printf("%s %s\n", ok ? "ok" : "not ok", name);
	failures += !ok;
}

// Whether the call has failed with this errno.
static bool failed(int result, int expected)
{
	return result == -1 && errno == expected;
}

static bool is_guid(const char *text)
{
	return strlen(text) == 20 && text[4] == ':' && text[19] == '\n';
}

static bool reads_guid(int fd)
{
	char text[64] = "";
	ssize_t len = read(fd, text, sizeof(text) - 1);
	bool again = lseek(fd, 5, SEEK_SET) == 5 && read(fd, text + 30, 4) == 4;
	bool ok = fd >= 0 && len == 20 && is_guid(text) && again && !memcmp(text + 5, text + 30, 4);

	close(fd);
	return ok;
}

static void opening(void)
{
	check("open", reads_guid(open(GUID, O_RDONLY)));
	check("openat", reads_guid(openat(AT_FDCWD, GUID, O_RDONLY | O_CLOEXEC)));
	check("write-denied", failed(open(GUID, O_WRONLY), EACCES) && failed(open(GUID, O_RDWR), EACCES) &&
				      failed(open(GUID, O_RDONLY | O_TRUNC), EACCES));
	check("exclusive", failed(open(GUID, O_RDONLY | O_CREAT | O_EXCL, 0600), EEXIST));
	check("create-denied", failed(open(DEVICE "/new", O_RDWR | O_CREAT, 0600), EACCES) &&
				       failed(creat(DEVICE "/new", 0600), EACCES));
	check("no-directory", failed(open(GUID, O_RDONLY | O_DIRECTORY), ENOTDIR));
	check("link-not-followed", failed(open(DEVICE, O_RDONLY | O_NOFOLLOW), ELOOP));
	check("missing", failed(open(DEVICE "/none", O_RDONLY), ENOENT));

	FILE *file = fopen(GUID, "re");
	char text[64] = "";
	check("fopen", file && fgets(text, sizeof(text), file) && is_guid(text) && fgetc(file) == EOF);
	if (file)
		file = freopen(DEVICE "/node_type", "r", file);
	check("freopen", file && fgets(text, sizeof(text), file) && !strcmp(text, "1: CA\n"));
	if (file)
		fclose(file);
	check("fopen-write", !fopen(GUID, "w") && errno == EACCES);

	int fd = open(GUID, O_RDONLY);
	check("readonly", failed(write(fd, "x", 1), EBADF) && failed(ftruncate(fd, 0), EINVAL));
	close(fd);
	fd = open(DEVICE "/ports/1/gid_attrs/types/200", O_RDONLY);
	check("empty-gid", fd >= 0 && failed(read(fd, text, sizeof(text)), EINVAL));
	close(fd);
	fd = open(DEVICE "/ports/1/gid_attrs/types/1", O_RDONLY);
	memset(text, 0, sizeof(text));
	check("gid-type", fd >= 0 && read(fd, text, sizeof(text)) == 8 && !strcmp(text, "RoCE v2\n"));
	close(fd);
}

static void character_device(void)
{
	struct stat st;
	struct statx stx;
	int fd = open(CHARACTER, O_RDWR | O_CLOEXEC);

	check("device-open", fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	check("device-fstat", !fstat(fd, &st) && S_ISCHR(st.st_mode) && st.st_rdev == makedev(231, 1216));
	check("device-write", failed(write(fd, "command", 7), EINVAL));
	int copy = dup(fd), third = fcntl(fd, F_DUPFD_CLOEXEC, 100);
	check("device-dup",
	      !fstat(copy, &st) && S_ISCHR(st.st_mode) && !fstat(third, &st) && S_ISCHR(st.st_mode));
	close(copy);
	close(third);
	close(fd);
	int other = open("/dev/null", O_RDONLY);
	check("number-reused", other == fd && !fstat(other, &st) && st.st_rdev == makedev(1, 3));
	close(other);
	check("device-stat", !stat(CHARACTER, &st) && S_ISCHR(st.st_mode));
	check("device-access", !access(CHARACTER, R_OK | W_OK) && failed(access(CHARACTER, X_OK), EACCES));
	check("device-statx", !statx(AT_FDCWD, CHARACTER, 0, STATX_ALL, &stx) && S_ISCHR(stx.stx_mode) &&
				      stx.stx_rdev_major == 231);
	check("other-devices", !stat("/dev/null", &st) && st.st_rdev == makedev(1, 3));
}

static void connection_manager(void)
{
	struct stat st, path;
	char version[8] = "";
	int fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
	int file = open("/sys/class/misc/rdma_cm/abi_version", O_RDONLY);

	check("cm-open", fd >= 0 && !fstat(fd, &st) && S_ISCHR(st.st_mode));
	check("cm-stat", !stat("/dev/infiniband/rdma_cm", &path) && path.st_rdev == st.st_rdev);
	check("cm-write", failed(write(fd, "x", 1), EINVAL));
	check("cm-abi", read(file, version, 7) == 2 && !strcmp(version, "4\n"));
	close(file);
	close(fd);
}

// Commands of rdma_cm by write(2) and its variants, by descriptors that are copies.
static void connection_manager_commands(void)
{
	struct rdma_ucm_create_id_resp response = { .id = -1 };
	struct {
		struct rdma_ucm_cmd_hdr header;
		struct rdma_ucm_create_id create;
	} create = {
		.header = { RDMA_USER_CM_CMD_CREATE_ID, sizeof(create.create), sizeof(response) },
		.create = { .response = (uintptr_t)&response, .ps = PORT_SPACE_TCP },
	};
	struct rdma_ucm_event_resp event;
	struct {
		struct rdma_ucm_cmd_hdr header;
		struct rdma_ucm_get_event get;
	} get = {
		.header = { RDMA_USER_CM_CMD_GET_EVENT, sizeof(get.get), sizeof(event) },
		.get = { .response = (uintptr_t)&event },
	};
	struct iovec twice[3] = { { &create, sizeof(create) }, { NULL, 0 }, { &create, sizeof(create) } };
	struct iovec good_bad[2] = { { &create, sizeof(create) }, { "x", 1 } };
	int fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	// Values that the compiler does not know.
	volatile int negative = -1, too_many = 100000;
	volatile uintptr_t unmapped = 8;
	char byte;

	check("cm-command", write(fd, &create, sizeof(create)) == sizeof(create) && response.id != -1U);
	__u32 first = response.id;
	check("cm-writev", writev(fd, twice, 3) == 2 * sizeof(create) && response.id == first + 2);
	check("cm-writev-part", writev(fd, good_bad, 2) == sizeof(create) && response.id == first + 3 &&
					failed(writev(fd, good_bad + 1, 1), EINVAL));
	check("cm-writev-bad", failed(writev(fd, (struct iovec *)unmapped, 1), EFAULT) &&
				       failed(writev(fd, twice, negative), EINVAL) &&
				       failed(writev(fd, twice, too_many), EINVAL) && !writev(fd, twice, 0));
	check("cm-pwrite", failed(pwrite(fd, &create, sizeof(create), 0), ESPIPE) &&
				   failed(lseek(fd, 0, SEEK_SET), ESPIPE));
	check("cm-syscall", syscall(SYS_write, fd, &create, sizeof(create)) == sizeof(create) &&
				    syscall(SYS_writev, fd, twice, 1) == sizeof(create) &&
				    response.id == first + 5 &&
				    failed(syscall(SYS_write, fd, "x", 1), EINVAL));
	check("cm-syscall-event", failed(syscall(SYS_write, fd, &get, sizeof(get)), EAGAIN) &&
					  !syscall(SYS_ppoll, &wait, 1, &(struct timespec){ 0 }, NULL, 8));
	check("cm-syscall-read", failed(syscall(SYS_read, fd, &byte, 1), EINVAL));

	struct {
		struct rdma_ucm_cmd_hdr header;
		struct rdma_ucm_resolve_ip resolve;
	} resolve = {
		.header = { RDMA_USER_CM_CMD_RESOLVE_IP, sizeof(resolve.resolve), 0 },
		.resolve = { .id = first, .timeout_ms = 1000 },
	};
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	memcpy(&resolve.resolve.dst_addr, &to, sizeof(to));
	// The attempts of a command meanwhile do not show.
	errno = ENOTTY;
	check("cm-errno", write(fd, &resolve, sizeof(resolve)) == sizeof(resolve) && errno == ENOTTY);

	int copies[] = {
		dup(fd),
		fcntl(fd, F_DUPFD, 50),
		syscall(SYS_dup, fd),
		syscall(SYS_dup3, fd, 60, O_CLOEXEC),
		syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 70),
#ifdef SYS_dup2
		syscall(SYS_dup2, fd, 80),
#endif
	};
	bool ok = syscall(SYS_fcntl, fd, F_GETFL) & O_NONBLOCK;
	close(fd);
	for (size_t i = 0; i < sizeof(copies) / sizeof(*copies); i++) {
		response.id = -1;
		ok &= write(copies[i], &create, sizeof(create)) == sizeof(create) && response.id != -1U;
		close(copies[i]);
	}
	check("cm-copies", ok);
}

static void file_systems(void)
{
	struct statfs sys, fs;
	struct statvfs vfs;
	int fd = open(GUID, O_RDONLY), path = open(DEVICE, O_PATH);

	check("statfs", !statfs("/sys", &sys) && !statfs(GUID, &fs) && fs.f_type == sys.f_type &&
				failed(statfs(DEVICE "/none", &fs), ENOENT));
	check("fstatfs",
	      !fstatfs(fd, &fs) && fs.f_type == sys.f_type && !fstatfs(path, &fs) && fs.f_type == sys.f_type);
	check("statvfs", !statvfs(GUID, &vfs) && vfs.f_namemax == 255 && !fstatvfs(fd, &vfs) &&
				 vfs.f_bsize == (unsigned long)sys.f_bsize);
	check("syscall-statfs", !syscall(SYS_statfs, DEVICE, &fs) && fs.f_type == sys.f_type &&
					!syscall(SYS_fstatfs, fd, &fs) && fs.f_type == sys.f_type);
	close(fd);
	fd = open("/", O_PATH);
	check("fstatfs-other", !statfs("/", &sys) && !fstatfs(fd, &fs) && fs.f_type == sys.f_type);
	close(fd);
	close(path);
}

static void status(void)
{
	struct stat st, link;
	char target[PATH_MAX], *path;
	ssize_t len = readlink(DEVICE, target, sizeof(target) - 1);

	check("stat", !stat(DEVICE, &st) && S_ISDIR(st.st_mode) && !stat(GUID, &st) && S_ISREG(st.st_mode) &&
			      (st.st_mode & 07777) == 0444 && st.st_size == 4096);
	check("lstat", !lstat(DEVICE, &link) && S_ISLNK(link.st_mode) && !lstat(DEVICE "/", &link) &&
			       S_ISDIR(link.st_mode));
	check("fstatat", !fstatat(AT_FDCWD, DEVICE, &link, AT_SYMLINK_NOFOLLOW) && S_ISLNK(link.st_mode));
	check("access", !access(GUID, R_OK) && failed(access(GUID, W_OK), EACCES) &&
				!faccessat(AT_FDCWD, GUID, R_OK, AT_EACCESS) && !euidaccess(GUID, R_OK));
	check("xattr",
	      failed(getxattr(GUID, "user.x", target, 1), ENODATA) && listxattr(GUID, target, 1) == 0);
	target[len > 0 ? len : 0] = 0;
	check("readlink", !strcmp(target, "../../devices/virtual/uroce/u/infiniband/u"));
	check("readlink-cut", readlink(DEVICE, target, 3) == 3 && !memcmp(target, "../", 3));
	check("readlink-file", failed(readlink(GUID, target, sizeof(target)), EINVAL));
	path = realpath(DEVICE, NULL);
	check("realpath", path && !strcmp(path, "/sys/devices/virtual/uroce/u/infiniband/u"));
	free(path);
	check("realpath-up",
	      realpath(DEVICE "/../..", target) && !strcmp(target, "/sys/devices/virtual/uroce/u"));
	check("realpath-missing", !realpath(DEVICE "/none/x", target) && errno == ENOENT);
	path = canonicalize_file_name("/etc/../sys//class/./infiniband/u/ports");
	check("canonicalize", path && !strcmp(path, "/sys/devices/virtual/uroce/u/infiniband/u/ports"));
	free(path);
	check("net",
	      realpath(DEVICE "/device/net/lo", target) && !strcmp(target, "/sys/devices/virtual/net/lo"));
}

static bool lists(DIR *dir, const char *wanted)
{
	struct dirent *entry;
	bool found = false;

	while (dir && (entry = readdir(dir)))
		found |= !strcmp(entry->d_name, wanted);
	return found;
}

static int no_dots(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static int visited;

static int visit(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	visited += kind == FTW_F && S_ISREG(st->st_mode) && !strcmp(path + ftw->base, "node_guid");
	return 0;
}

/* With FTW_CHDIR, the name alone leads to a file. The start has no slash at its end. */
static int visit_by_name(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	struct stat by_name;

	if (ftw->level == 0 && strcmp(path + ftw->base, "ports"))
		return 1;
	if (kind == FTW_F)
		visited += !stat(path + ftw->base, &by_name) && by_name.st_ino == st->st_ino;
	return kind == FTW_F && strchr(path + ftw->base, '/');
}

static int walks_through_directories(const char *start)
{
	char before[PATH_MAX], after[PATH_MAX];
	int found, all;

	if (chdir(DEVICE) || !getcwd(before, sizeof(before)))
		return 0;
	visited = 0;
	found = nftw(start, visit_by_name, 10, FTW_CHDIR | FTW_PHYS | FTW_DEPTH);
	all = !found && visited > 0;
	found = nftw(start, visit_by_name, 10, FTW_CHDIR);
	return all && !found && getcwd(after, sizeof(after)) && !strcmp(before, after) && !chdir("/");
}

static struct {
	int level, answer, calls;
} action;

static int act(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)path;
	(void)st;
	(void)kind;
	action.calls++;
	return ftw->level == action.level ? action.answer : 0;
}

// With FTW_ACTIONRETVAL, glibc's nftw over a directory of the same shape makes as many calls, and returns the
// same.
static bool acts_as_libc(void)
{
	const char *ours = DEVICE "/ports/1/gid_attrs", *libcs = "/tmp/view-actions";
	const int answers[] = { FTW_CONTINUE, FTW_STOP, FTW_SKIP_SUBTREE, FTW_SKIP_SIBLINGS, 7 };
	const int flags[] = { 0, FTW_DEPTH, FTW_ACTIONRETVAL, FTW_ACTIONRETVAL | FTW_DEPTH };
	char path[64];
	bool ok = true;

	mkdir(libcs, 0700);
	for (int i = 0; i < 2 * 257; i++) {
		int file = i % 257, len = snprintf(path, sizeof(path), "%s/%s", libcs, i < 257 ? "a" : "b");

		if (file == 0)
			mkdir(path, 0700);
		snprintf(path + len, sizeof(path) - len, "/%d", file);
		if (file > 0)
			close(creat(path, 0600));
	}
	for (int i = 0; i < 3 * 5 * 4; i++) {
		action.level = i % 3;
		action.answer = answers[i / 3 % 5];
		action.calls = 0;
		int expected = nftw(libcs, act, 10, FTW_PHYS | flags[i / 15]), calls = action.calls;
		action.calls = 0;
		int result = nftw(ours, act, 10, FTW_PHYS | flags[i / 15]);
		ok &= expected == result && calls == action.calls && calls > 0;
	}
	return ok;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

// Walks over /etc/passwd and the device's ports in the order of names. Entries are numbered, and directories
// left with the number that they had.
static bool walks_with_fts(int options)
{
	char *const paths[] = { CLASS "/u/ports/", "/etc/passwd", NULL };
	FTS *walk = fts_open(paths, options, by_name);
	long number = 0, guids = 0, files = 0, left = 0;
	bool ok = walk && fts_children(walk, 0) && !strcmp(fts_children(walk, 0)->fts_name, paths[1]);
	FTSENT *entry;

	while (ok && (errno = 0, entry = fts_read(walk))) {
		if (entry->fts_info == FTS_DP) {
			left++;
			ok = entry->fts_number > 0;
			continue;
		}
		entry->fts_number = ++number;
		files += entry->fts_info == FTS_F && !strcmp(entry->fts_name, "state") &&
			 entry->fts_level == 2 && !strcmp(entry->fts_path, CLASS "/u/ports/1/state") &&
			 S_ISREG(entry->fts_statp->st_mode);
		if (!strcmp(entry->fts_name, "gids")) {
			FTSENT *child = fts_children(walk, 0);

			for (; child; child = child->fts_link)
				guids++;
		}
		if (!strcmp(entry->fts_name, "gid_attrs"))
			fts_set(walk, entry, FTS_SKIP);
		ok = entry->fts_level == 0 ? number == 1 ? !strcmp(entry->fts_name, "passwd") : number == 2
					   : entry->fts_parent->fts_number > 0;
	}
	ok = ok && !errno && files == 1 && guids == 256 && left > 3;
	return walk && !fts_close(walk) && ok;
}

// A link to a directory is followed on request, and not twice into the same directory.
static bool follows_links_with_fts(void)
{
	char *const paths[] = { DEVICE, NULL };
	FTS *walk = fts_open(paths, FTS_PHYSICAL, NULL);
	FTSENT *entry = walk ? fts_read(walk) : NULL;
	bool ok = entry && entry->fts_info == FTS_SL && !fts_set(walk, entry, FTS_FOLLOW) &&
		  fts_read(walk) == entry && entry->fts_info == FTS_D && fts_read(walk);
	int cycles = 0;

	if (walk)
		fts_close(walk);
	walk = fts_open(paths, FTS_LOGICAL | FTS_XDEV, NULL);
	while (walk && cycles == 0 && (entry = fts_read(walk)))
		cycles += entry->fts_info == FTS_DC && entry->fts_cycle->fts_ino == entry->fts_ino;
	if (walk)
		fts_close(walk);
	return ok && cycles;
}

static void directories(void)
{
	struct dirent **list = NULL;
	DIR *dir = opendir(CLASS);

	check("opendir", lists(dir, "u"));
	if (dir)
		rewinddir(dir);
	check("rewinddir", lists(dir, "u"));
	check("dirfd", dir && reads_guid(openat(dirfd(dir), "u/node_guid", O_RDONLY)));
	check("closedir", dir && !closedir(dir));
	check("merged", lists(dir = opendir("/sys/class"), "infiniband"));
	if (dir)
		rewinddir(dir);
	check("merged-kernel", lists(dir, "net"));
	closedir(dir);
	check("dev", lists(dir = opendir("/dev"), "infiniband"));
	closedir(dir);
	check("opendir-file", !opendir(GUID) && errno == ENOTDIR);
	dir = fdopendir(open(DEVICE "/ports", O_RDONLY | O_DIRECTORY));
	check("fdopendir", lists(dir, "1"));
	closedir(dir);

	int count = scandir(DEVICE "/ports/1/gids", &list, no_dots, versionsort);
	check("scandir", count == 256 && !strcmp(list[255]->d_name, "255"));
	while (count > 0)
		free(list[--count]);
	free(list);
	int fd = open(CLASS, O_RDONLY | O_DIRECTORY);
	count = scandirat(fd, "u/ports", &list, no_dots, alphasort);
	check("scandirat", count == 1 && !strcmp(list[0]->d_name, "1"));
	close(fd);
	visited = 0;
	check("nftw", !nftw(CLASS, visit, 10, 0) && visited > 0);
	visited = 0;
	check("nftw-physical", !nftw(CLASS, visit, 10, FTW_PHYS) && visited == 0);
	check("nftw-chdir",
	      walks_through_directories(CLASS "/u/ports/") && walks_through_directories("ports"));

	check("nftw-actions", acts_as_libc());
	check("fts", walks_with_fts(FTS_PHYSICAL) && walks_with_fts(FTS_LOGICAL | FTS_NOCHDIR));
	check("fts-links", follows_links_with_fts());
	char *const none[] = { CLASS, "", NULL }, *const other[] = { "/etc/passwd", NULL };
	FTS *walk = fts_open(other, FTS_PHYSICAL, NULL);
	check("fts-errors", !fts_open(none, FTS_PHYSICAL, NULL) && errno == ENOENT &&
				    !fts_open(none, 1 << 20, NULL) && errno == EINVAL);
	check("fts-other", walk && fts_read(walk) && !fts_read(walk) && !fts_close(walk));

	glob_t found;
	check("glob", !glob(CLASS "/*/ports/*/state", 0, NULL, &found) && found.gl_pathc == 1 &&
			      !strcmp(found.gl_pathv[0], DEVICE "/ports/1/state"));
	globfree(&found);
	check("glob-other", !glob("/et[c]", 0, NULL, &found) && found.gl_pathc == 1);
	globfree(&found);
}

static void walking(void)
{
	struct stat st;
	char path[PATH_MAX];
	int dir = open(DEVICE, O_RDONLY | O_DIRECTORY), anchor = open(CLASS, O_PATH);
	int before = open(".", O_RDONLY | O_DIRECTORY);

	check("relative", reads_guid(openat(dir, "node_guid", O_RDONLY)) &&
				  reads_guid(openat(dir, "./ports/../node_guid", O_RDONLY)));
	check("path-descriptor", reads_guid(openat(anchor, "u/node_guid", O_RDONLY)));
	int class = open("/sys/class", O_PATH | O_DIRECTORY), above = open("/sys/class/infiniband", O_RDONLY);
	check("path-descriptor-kernel", openat(class, "net", O_PATH | O_NOFOLLOW) >= 0 &&
						!fstatat(class, "infiniband/u", &st, 0) &&
						failed(openat(class, "none", O_PATH), ENOENT));
	check("relative-none", failed(openat(above, "none", O_RDONLY), ENOENT) &&
				       failed(fstatat(above, "none", &st, 0), ENOENT) &&
				       failed(faccessat(above, "none/x", R_OK, 0), ENOENT));
	close(class);
	close(above);
	check("relative-kernel", openat(dir, "../../../../../../../../etc/passwd", O_RDONLY) >= 0);
	check("empty-path", !fstatat(dir, "", &st, AT_EMPTY_PATH) && S_ISDIR(st.st_mode));
	check("from-root",
	      reads_guid(openat(open("/", O_PATH), "sys/class/infiniband/u/node_guid", O_RDONLY)));
	check("chdir", !chdir(DEVICE "/ports") && reads_guid(open("../node_guid", O_RDONLY)) &&
			       !access("1/state", R_OK));
	check("getcwd",
	      getcwd(path, sizeof(path)) && !strcmp(path, "/sys/devices/virtual/uroce/u/infiniband/u/ports"));
	check("chdir-kernel", !chdir("/sys/class") && reads_guid(open("infiniband/u/node_guid", O_RDONLY)));
	check("fchdir", !fchdir(dir) && reads_guid(open("node_guid", O_RDONLY)));
	check("back", !fchdir(before) && failed(open("node_guid", O_RDONLY), ENOENT));
	close(before);
	close(dir);
	close(anchor);
}

// By syscall(2), as libuv does.
static void system_calls(void)
{
	struct open_how how = { .flags = O_RDONLY }, no_links = { .resolve = RESOLVE_NO_SYMLINKS };
	struct statx stx;
	struct stat st;
	char target[PATH_MAX] = "";

	check("syscall-openat", reads_guid(syscall(SYS_openat, AT_FDCWD, GUID, O_RDONLY)));
	check("syscall-openat2",
	      reads_guid(syscall(SYS_openat2, AT_FDCWD, GUID, &how, sizeof(how))) &&
		      failed(syscall(SYS_openat2, AT_FDCWD, GUID, &no_links, sizeof(how)), ENOSYS));
	check("syscall-statx",
	      !syscall(SYS_statx, AT_FDCWD, DEVICE, 0, STATX_ALL, &stx) && S_ISDIR(stx.stx_mode) &&
		      !syscall(SYS_statx, AT_FDCWD, DEVICE, AT_SYMLINK_NOFOLLOW, STATX_ALL, &stx) &&
		      S_ISLNK(stx.stx_mode));
	check("syscall-fstatat", !syscall(SYS_newfstatat, AT_FDCWD, GUID, &st, 0) && S_ISREG(st.st_mode));
	check("syscall-readlinkat", syscall(SYS_readlinkat, AT_FDCWD, DEVICE, target, sizeof(target)) > 0 &&
					    strstr(target, "uroce"));
	check("syscall-faccessat", !syscall(SYS_faccessat, AT_FDCWD, GUID, R_OK) &&
					   failed(syscall(SYS_faccessat2, AT_FDCWD, GUID, W_OK, 0), EACCES));

	int fd = open(DEVICE, O_RDONLY | O_DIRECTORY);
	check("syscall-fstat", !syscall(SYS_fstat, fd, &st) && S_ISDIR(st.st_mode));
	check("syscall-getdents64", syscall(SYS_getdents64, fd, target, sizeof(target)) > 0);
	check("syscall-relative", reads_guid(syscall(SYS_openat, fd, "node_guid", O_RDONLY)));
	close(fd);
#ifdef SYS_open
	check("syscall-open", reads_guid(syscall(SYS_open, GUID, O_RDONLY)) &&
				      !syscall(SYS_stat, DEVICE, &st) && S_ISDIR(st.st_mode) &&
				      !syscall(SYS_lstat, DEVICE, &st) && S_ISLNK(st.st_mode) &&
				      !syscall(SYS_access, GUID, R_OK) &&
				      syscall(SYS_readlink, DEVICE, target, sizeof(target)) > 0);
#endif
	// Six arguments arrive.
	long page = syscall(SYS_mmap, NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check("syscall-other", page != -1 && *(char *)page == 0 && syscall(SYS_getpid) == getpid() &&
				       failed(syscall(SYS_openat, AT_FDCWD, "/none", O_RDONLY), ENOENT));
	syscall(SYS_munmap, page, 4096);
}

// By dlsym(3), as Java and Python's ctypes do.
static void looked_up(void)
{
	int (*opens)(const char *, int) = (int (*)(const char *, int))dlsym(RTLD_DEFAULT, "open64");
	check("dlsym", opens && reads_guid(opens(GUID, O_RDONLY)));
	void *libc = dlopen("libc.so.6", RTLD_NOW);
	opens = (int (*)(const char *, int))dlsym(libc, "open");
	check("dlsym-handle", opens && reads_guid(opens(GUID, O_RDONLY)));
	// A library that replaces a function calls the one behind it.
	opens = (int (*)(const char *, int))dlsym(RTLD_NEXT, "open");
	check("dlsym-next", opens && failed(opens(GUID, O_RDONLY), ENOENT));
	dlerror();
	check("dlsym-other", dlsym(libc, "qsort") && !dlsym(libc, "no such function") && dlerror());
	dlclose(libc);
}

static void descriptors(void)
{
	struct stat st;
	int saved = dup(0), fd;

	close(0);
	fd = open(GUID, O_RDONLY);
	check("stdin", fd == 0 && reads_guid(fd));
	dup2(saved, 0);
	close(saved);
	fd = open(GUID, O_RDONLY);
	check("close-range",
	      !close_range(fd, ~0U, 0) && failed(fstat(fd, &st), EBADF) && reads_guid(open(GUID, O_RDONLY)));
	errno = 77;
	close(open("/etc/passwd", O_RDONLY));
	check("errno-kept", errno == 77);
	fd = open("/tmp/view-mode", O_RDWR | O_CREAT | O_EXCL, 0640);
	check("mode-passed", fd >= 0 && !fstat(fd, &st) && (st.st_mode & 0777) == 0640);
	unlink("/tmp/view-mode");
	close(fd);
	// By values that the compiler does not know.
	check("bad-address", failed(open((const char *)(uintptr_t)(saved * 0 + 8), O_RDONLY), EFAULT));

	pid_t child = fork();
	if (!child)
		_exit(reads_guid(open(GUID, O_RDONLY)) ? 0 : 1);
	int how = 1;
	check("fork", waitpid(child, &how, 0) == child && how == 0);
	child = fork();
	if (!child) {
		mkdir("/tmp/view-root", 0700);
		if (chroot("/tmp/view-root"))
			_exit(2);
		_exit(failed(open(GUID, O_RDONLY), ENOENT) && failed(access(CHARACTER, R_OK), ENOENT) ? 0
												      : 1);
	}
	waitpid(child, &how, 0);
	check("chroot", how == 0 || WEXITSTATUS(how) == 2);
}

static void *reader(void *unused)
{
	bool ok = true;

	(void)unused;
	for (int i = 0; i < 200; i++) {
		DIR *dir = opendir(DEVICE);
		ok &= reads_guid(open(GUID, O_RDONLY)) && lists(dir, "ports");
		closedir(dir);
	}
	return ok ? "" : NULL;
}

static void threads(void)
{
	pthread_t threads[4];
	void *result;
	bool ok = true;

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, reader, NULL);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], &result);
		ok &= result != NULL;
	}
	check("threads", ok);
}

// A library that is loaded late sees the files too, in its constructor and by pointers to libc's functions.
static void loading(const char *library)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	int (*sees)(void) = handle ? (int (*)(void))dlsym(handle, "sees_guid") : NULL;

	check("dlopen", sees && sees());
	check("dlclose", handle && !dlclose(handle) && reads_guid(open(GUID, O_RDONLY)));
}

static void hidden(void)
{
	struct stat st;

	check("hidden-class", failed(open(GUID, O_RDONLY), ENOENT) && failed(stat(DEVICE, &st), ENOENT));
	check("hidden-device", failed(access(CHARACTER, R_OK), ENOENT));
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1 && !strcmp(argv[1], "hidden")) {
		hidden();
		return failures > 0;
	}
	opening();
	character_device();
	connection_manager();
	connection_manager_commands();
	file_systems();
	status();
	directories();
	walking();
	system_calls();
	looked_up();
	threads();
	if (argc > 1)
		loading(argv[1]);
	descriptors();
	return failures > 0;
}
