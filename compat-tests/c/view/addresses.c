// The addresses of all functions that the view redirects (view.c is the rest of the program). In a program
// that is not position-independent, an entry of its procedure linkage table is then such a function's address
// in the whole process. Compiled with -fno-builtin, as the types are not those of libc.
#define FUNCTIONS(X) \
	X(_Exit) \
	X(__dup2) \
	X(__fcntl) \
	X(__fxstat) \
	X(__fxstat64) \
	X(__fxstatat) \
	X(__fxstatat64) \
	X(__getcwd_chk) \
	X(__lxstat) \
	X(__lxstat64) \
	X(__open) \
	X(__open64) \
	X(__open64_2) \
	X(__open_2) \
	X(__openat64_2) \
	X(__openat_2) \
	X(__readlink_chk) \
	X(__readlinkat_chk) \
	X(__realpath_chk) \
	X(__statfs) \
	X(__write) \
	X(__xstat) \
	X(__xstat64) \
	X(_exit) \
	X(access) \
	X(canonicalize_file_name) \
	X(chdir) \
	X(chroot) \
	X(closedir) \
	X(creat) \
	X(creat64) \
	X(dirfd) \
	X(dlopen) \
	X(dlsym) \
	X(dup) \
	X(dup2) \
	X(dup3) \
	X(eaccess) \
	X(euidaccess) \
	X(faccessat) \
	X(fchdir) \
	X(fcntl) \
	X(fcntl64) \
	X(fdopendir) \
	X(fopen) \
	X(fopen64) \
	X(freopen) \
	X(freopen64) \
	X(fstat) \
	X(fstat64) \
	X(fstatat) \
	X(fstatat64) \
	X(fstatfs) \
	X(fstatfs64) \
	X(fstatvfs) \
	X(fstatvfs64) \
	X(fts64_children) \
	X(fts64_close) \
	X(fts64_open) \
	X(fts64_read) \
	X(fts_children) \
	X(fts_close) \
	X(fts_open) \
	X(fts_read) \
	X(ftw) \
	X(ftw64) \
	X(get_current_dir_name) \
	X(getcwd) \
	X(getdents64) \
	X(getxattr) \
	X(glob) \
	X(glob64) \
	X(lgetxattr) \
	X(listxattr) \
	X(llistxattr) \
	X(lstat) \
	X(lstat64) \
	X(nftw) \
	X(nftw64) \
	X(open) \
	X(open64) \
	X(openat) \
	X(openat64) \
	X(opendir) \
	X(readdir) \
	X(readdir64) \
	X(readdir64_r) \
	X(readdir_r) \
	X(readlink) \
	X(readlinkat) \
	X(realpath) \
	X(rewinddir) \
	X(scandir) \
	X(scandir64) \
	X(scandirat) \
	X(scandirat64) \
	X(seekdir) \
	X(stat) \
	X(stat64) \
	X(statfs) \
	X(statfs64) \
	X(statvfs) \
	X(statvfs64) \
	X(statx) \
	X(syscall) \
	X(telldir) \
	X(write) \
	X(writev)

#define DECLARE(name) void name(void);
FUNCTIONS(DECLARE)

#define ADDRESS(name) name,
void (*const view_addresses[])(void) = { FUNCTIONS(ADDRESS) };
