// CALL(function, result, (arguments), what must hold) for each function that the view redirects. F is the
// function, called in one of several ways. `file` is a file with the text GUID in `dir`, a symbolic link to a
// directory; `none` leads to nothing.
#ifdef __x86_64__
#define STAT_VERSION 1
#else
#define STAT_VERSION 0
#endif

#define OPEN(name) CALL(name, int, (const char *, int, ...), is_guid(F(file, O_RDONLY)))
#define OPEN_2(name) CALL(name, int, (const char *, int), is_guid(F(file, O_RDONLY)))
#define OPENAT(name) CALL(name, int, (int, const char *, int, ...), is_guid(F(AT_FDCWD, file, O_RDONLY)))
#define OPENAT_2(name) CALL(name, int, (int, const char *, int), is_guid(F(AT_FDCWD, file, O_RDONLY)))
// Nobody creates a file in sysfs.
#define CREAT(name) \
	CALL(name, int, (const char *, mode_t), F(none, 0600) == -1 && (errno == ENOENT || errno == EACCES))
#define FOPEN(name) CALL(name, FILE *, (const char *, const char *), is_guid_stream(F(file, "r")))
#define FREOPEN(name) \
	CALL(name, FILE *, (const char *, const char *, FILE *), is_guid_stream(F(file, "r", stdin)))
OPEN(__open)
OPEN(__open64)
OPEN(open)
OPEN(open64)
OPEN_2(__open_2)
OPEN_2(__open64_2)
OPENAT(openat)
OPENAT(openat64)
OPENAT_2(__openat_2)
OPENAT_2(__openat64_2)
CREAT(creat)
CREAT(creat64)
FOPEN(fopen)
FOPEN(fopen64)
FREOPEN(freopen)
FREOPEN(freopen64)

#define STAT(name) CALL(name, int, (const char *, struct stat *), !F(file, &st) && S_ISREG(st.st_mode))
#define LSTAT(name) CALL(name, int, (const char *, struct stat *), !F(dir, &st) && S_ISLNK(st.st_mode))
#define FSTAT(name) CALL(name, int, (int, struct stat *), !F(opened(), &st) && S_ISREG(st.st_mode))
#define FSTATAT(name) \
	CALL(name, int, (int, const char *, struct stat *, int), \
	     !F(AT_FDCWD, dir, &st, AT_SYMLINK_NOFOLLOW) && S_ISLNK(st.st_mode))
#define XSTAT(name) \
	CALL(name, int, (int, const char *, struct stat *), \
	     !F(STAT_VERSION, file, &st) && S_ISREG(st.st_mode))
#define LXSTAT(name) \
	CALL(name, int, (int, const char *, struct stat *), !F(STAT_VERSION, dir, &st) && S_ISLNK(st.st_mode))
#define FXSTAT(name) \
	CALL(name, int, (int, int, struct stat *), !F(STAT_VERSION, opened(), &st) && S_ISREG(st.st_mode))
#define FXSTATAT(name) \
	CALL(name, int, (int, int, const char *, struct stat *, int), \
	     !F(STAT_VERSION, AT_FDCWD, dir, &st, AT_SYMLINK_NOFOLLOW) && S_ISLNK(st.st_mode))
STAT(stat)
STAT(stat64)
LSTAT(lstat)
LSTAT(lstat64)
FSTAT(fstat)
FSTAT(fstat64)
FSTATAT(fstatat)
FSTATAT(fstatat64)
XSTAT(__xstat)
XSTAT(__xstat64)
LXSTAT(__lxstat)
LXSTAT(__lxstat64)
FXSTAT(__fxstat)
FXSTAT(__fxstat64)
FXSTATAT(__fxstatat)
FXSTATAT(__fxstatat64)
CALL(statx, int, (int, const char *, int, unsigned, struct statx *),
     !F(AT_FDCWD, file, 0, STATX_MODE, &stx) && S_ISREG(stx.stx_mode))

#define STATFS(name) CALL(name, int, (const char *, struct statfs *), !F(file, &fs) && fs.f_bsize > 0)
#define FSTATFS(name) CALL(name, int, (int, struct statfs *), !F(opened(), &fs) && fs.f_bsize > 0)
#define STATVFS(name) \
	CALL(name, int, (const char *, struct statvfs *), !F(file, &vfs) && vfs.f_namemax == 255)
#define FSTATVFS(name) CALL(name, int, (int, struct statvfs *), !F(opened(), &vfs) && vfs.f_namemax == 255)
STATFS(__statfs)
STATFS(statfs)
STATFS(statfs64)
FSTATFS(fstatfs)
FSTATFS(fstatfs64)
STATVFS(statvfs)
STATVFS(statvfs64)
FSTATVFS(fstatvfs)
FSTATVFS(fstatvfs64)

#define ACCESS(name) \
	CALL(name, int, (const char *, int), !F(file, R_OK) && F(none, R_OK) == -1 && errno == ENOENT)
ACCESS(access)
ACCESS(eaccess)
ACCESS(euidaccess)
CALL(faccessat, int, (int, const char *, int, int), !F(AT_FDCWD, file, R_OK, 0))

CALL(readlink, ssize_t, (const char *, char *, size_t), is_target(F(dir, text, sizeof(text))))
CALL(readlinkat, ssize_t, (int, const char *, char *, size_t),
     is_target(F(AT_FDCWD, dir, text, sizeof(text))))
CALL(__readlink_chk, ssize_t, (const char *, char *, size_t, size_t),
     is_target(F(dir, text, sizeof(text), sizeof(text))))
CALL(__readlinkat_chk, ssize_t, (int, const char *, char *, size_t, size_t),
     is_target(F(AT_FDCWD, dir, text, sizeof(text), sizeof(text))))
CALL(realpath, char *, (const char *, char *), F(dir, text) == text && is_target(strlen(text)))
CALL(__realpath_chk, char *, (const char *, char *, size_t),
     F(dir, text, sizeof(text)) == text && is_target(strlen(text)))
CALL(canonicalize_file_name, char *, (const char *), strcpy(text, F(dir)) && is_target(strlen(text)))

#define GETXATTR(name) \
	CALL(name, ssize_t, (const char *, const char *, void *, size_t), \
	     F(file, "user.x", text, 1) == -1 && (errno == ENODATA || errno == EOPNOTSUPP))
#define LISTXATTR(name) \
	CALL(name, ssize_t, (const char *, char *, size_t), \
	     F(file, text, sizeof(text)) >= 0 && F(none, text, 1) == -1 && errno == ENOENT)
GETXATTR(getxattr)
GETXATTR(lgetxattr)
LISTXATTR(listxattr)
LISTXATTR(llistxattr)

#define READDIR(name) CALL(name, struct dirent *, (DIR *), has_guid(F, opendir(dir)))
#define READDIR_R(name) \
	CALL(name, int, (DIR *, struct dirent *, struct dirent **), \
	     !F(opendir(dir), &entry, &result) && result)
CALL(opendir, DIR *, (const char *), has_guid(readdir, F(dir)))
CALL(fdopendir, DIR *, (int), has_guid(readdir, F(open(dir, O_RDONLY | O_DIRECTORY))))
READDIR(readdir)
READDIR(readdir64)
READDIR_R(readdir_r)
READDIR_R(readdir64_r)
CALL(closedir, int, (DIR *), !F(opendir(dir)))
CALL(rewinddir, void, (DIR *),
     (stream = opendir(dir)) && has_guid(readdir, stream) && (F(stream), has_guid(readdir, stream)))
CALL(telldir, long, (DIR *), (stream = opendir(dir)) && readdir(stream) && F(stream) != -1)
CALL(seekdir, void, (DIR *, long),
     (stream = opendir(dir)) && (position = telldir(stream)) != -1 && has_guid(readdir, stream) &&
	     (F(stream, position), has_guid(readdir, stream)))
CALL(dirfd, int, (DIR *), is_guid(openat(F(opendir(dir)), "node_guid", O_RDONLY)))
CALL(getdents64, ssize_t, (int, void *, size_t), F(open(dir, O_RDONLY | O_DIRECTORY), text, sizeof(text)) > 0)

#define SCANDIR(name) \
	CALL(name, int, (const char *, struct dirent ***, filter, compare), \
	     F(dir, &list, is_guid_entry, alphasort) == 1)
#define SCANDIRAT(name) \
	CALL(name, int, (int, const char *, struct dirent ***, filter, compare), \
	     F(AT_FDCWD, dir, &list, is_guid_entry, alphasort) == 1)
#define GLOB(name) \
	CALL(name, int, (const char *, int, int (*)(const char *, int), glob_t *), \
	     !F(pattern, 0, NULL, &found) && found.gl_pathc == 1 && !strcmp(found.gl_pathv[0], file))
#define FTW_(name) CALL(name, int, (const char *, __ftw_func_t, int), F(dir, visit, 10) == 7)
#define NFTW(name) CALL(name, int, (const char *, __nftw_func_t, int, int), F(dir, visit_more, 10, 0) == 7)
SCANDIR(scandir)
SCANDIR(scandir64)
SCANDIRAT(scandirat)
SCANDIRAT(scandirat64)
GLOB(glob)
GLOB(glob64)
FTW_(ftw)
FTW_(ftw64)
NFTW(nftw)
NFTW(nftw64)

#define FTS_OPEN(name) \
	CALL(name, FTS *, (char *const *, int, fts_order), fts_read(F(roots, FTS_LOGICAL, NULL)))
#define FTS_READ(name) CALL(name, FTSENT *, (FTS *), F(fts_open(roots, FTS_LOGICAL, NULL)))
#define FTS_CHILDREN(name) \
	CALL(name, FTSENT *, (FTS *, int), \
	     (walk = fts_open(roots, FTS_LOGICAL, NULL)) && fts_read(walk) && F(walk, 0))
#define FTS_CLOSE(name) CALL(name, int, (FTS *), !F(fts_open(roots, FTS_LOGICAL, NULL)))
FTS_OPEN(fts_open)
FTS_OPEN(fts64_open)
FTS_READ(fts_read)
FTS_READ(fts64_read)
FTS_CHILDREN(fts_children)
FTS_CHILDREN(fts64_children)
FTS_CLOSE(fts_close)
FTS_CLOSE(fts64_close)

CALL(chdir, int, (const char *), !F(dir) && is_guid(open("node_guid", O_RDONLY)))
CALL(fchdir, int, (int), !F(open(dir, O_RDONLY | O_DIRECTORY)) && is_guid(open("node_guid", O_RDONLY)))
CALL(chroot, int, (const char *), F(none) == -1 && (errno == ENOENT || errno == EPERM))
CALL(getcwd, char *, (char *, size_t), !chdir(dir) && F(text, sizeof(text)) && is_target(strlen(text)))
CALL(__getcwd_chk, char *, (char *, size_t, size_t),
     !chdir(dir) && F(text, sizeof(text), sizeof(text)) && is_target(strlen(text)))
CALL(get_current_dir_name, char *, (void), !chdir(dir) && strcpy(text, F()) && is_target(strlen(text)))

#define DUP2(name) CALL(name, int, (int, int), is_guid(F(opened(), 77)))
#define FCNTL(name) CALL(name, int, (int, int, ...), is_guid(F(opened(), F_DUPFD, 77)))
CALL(dup, int, (int), is_guid(F(opened())))
DUP2(__dup2)
DUP2(dup2)
CALL(dup3, int, (int, int, int), is_guid(F(opened(), 77, O_CLOEXEC)))
FCNTL(__fcntl)
FCNTL(fcntl)
FCNTL(fcntl64)

#define WRITE(name) \
	CALL(name, ssize_t, (int, const void *, size_t), \
	     F(opened(), "x", 1) == -1 && errno == EBADF && F(null(), "x", 1) == 1)
WRITE(__write)
WRITE(write)
CALL(writev, ssize_t, (int, const struct iovec *, int),
     F(opened(), &part, 1) == -1 && F(null(), &part, 1) == 1)
CALL(syscall, long, (long, ...), is_guid(F(SYS_openat, AT_FDCWD, file, O_RDONLY)))

// ENABLE_PKEY, which succeeds where the file exists, and fails elsewhere with EBADF or ENOTTY.
CALL(ioctl, int, (int, unsigned long, ...),
     F(umad(), 0x1b03) == (access(umad_file, F_OK) ? -1 : 0) && F(null(), 0x1b03) == -1 && errno == ENOTTY)

#define SIGACTION(name) \
	CALL(name, int, (int, const struct sigaction *, struct sigaction *), \
	     !F(SIGUSR1, &handler_action, NULL) && !raise(SIGUSR1) && handled)
#define SIGNAL(name) CALL(name, handler, (int, handler), !F(SIGUSR1, handle) && !raise(SIGUSR1) && handled)
#define EXIT(name) CALL(name, void, (int), (F(0), false))
SIGACTION(__sigaction)
SIGACTION(sigaction)
SIGNAL(__sysv_signal)
SIGNAL(bsd_signal)
SIGNAL(signal)
SIGNAL(ssignal)
SIGNAL(sysv_signal)
EXIT(_Exit)
EXIT(_exit)

CALL(dlopen, void *, (const char *, int), F("libc.so.6", RTLD_NOW))
CALL(dlsym, void *, (void *, const char *),
     is_guid(((int (*)(const char *, int))F(RTLD_DEFAULT, "open64"))(file, O_RDONLY)))
