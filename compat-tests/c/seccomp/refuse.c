/*
 * Runs a program with a filter that refuses system calls: no-ptrace PROGRAM [ARGUMENT...] refuses those that
 * reach into other processes, as filters of containers do; no-rseq (compiled with NO_RSEQ) rseq(2); no-memfd
 * (NO_MEMFD) memfd_create(2).
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REFUSE(number) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

/* One that would fail with another error. */
#ifdef NO_RSEQ
#define REFUSED SYS_rseq
#elif defined NO_MEMFD
#define REFUSED SYS_memfd_create
#else
#define REFUSED SYS_process_vm_readv
#endif

int main(int argc, char **argv)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
#ifdef NO_RSEQ
		REFUSE(SYS_rseq),
#elif defined NO_MEMFD
		REFUSE(SYS_memfd_create),
#else
		REFUSE(SYS_ptrace),
		REFUSE(SYS_process_vm_readv),
		REFUSE(SYS_process_vm_writev),
		REFUSE(SYS_pidfd_getfd),
		REFUSE(SYS_kcmp),
#endif
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(*filter), filter };

	if (argc < 2)
		return 2;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		perror("seccomp");
		return 2;
	}
	if (syscall(REFUSED, 0, 0, 0, 0, 0, 0) != -1 || errno != EPERM) {
		fprintf(stderr, "the filter does not work\n");
		return 2;
	}
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 2;
}
