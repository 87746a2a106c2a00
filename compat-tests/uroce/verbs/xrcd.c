/* The XRC domain of a file belongs to one process: another one that did not want to create it is refused,
 * until that closes it or ends, and one that did gets its own. (A kernel's device lets them share it.) */
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "check.h"

/* Opens the domain in a process of its own, which closes it when it gets a byte. */
static pid_t owner(int fd, int pipe_end)
{
	struct ibv_xrcd *xrcd;
	struct rig rig;
	char byte = 0;
	pid_t pid = start_child();

	if (pid)
		return pid;
	set_up(&rig);
	NEED(xrcd = open_domain(&rig, fd, O_CREAT));
	NEED(write(pipe_end, &byte, 1) == 1 && read(pipe_end, &byte, 1) == 1);
	CHECK(ibv_close_xrcd(xrcd) == 0);
	NEED(write(pipe_end, &byte, 1) == 1 && read(pipe_end, &byte, 1) == 1);
	tear_down(&rig);
	_exit(failures != 0);
}

void check_xrcd(void)
{
	FILE *files[2] = { tmpfile(), tmpfile() };
	struct ibv_xrcd *xrcd, *second;
	int fds[2], pair[2], status;
	struct rig rig;
	char byte = 0;
	pid_t pid;

	NEED(files[0] && files[1]);
	fds[0] = fileno(files[0]);
	fds[1] = fileno(files[1]);
	NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	pid = owner(fds[0], pair[1]);
	NEED(read(pair[0], &byte, 1) == 1);
	set_up(&rig);
	CHECK(!open_domain(&rig, fds[0], 0) && errno == EOPNOTSUPP);
	CHECK(!open_domain(&rig, fds[0], O_CREAT | O_EXCL) && errno == EINVAL);
	NEED(xrcd = open_domain(&rig, fds[0], O_CREAT));
	CHECK(ibv_close_xrcd(xrcd) == 0);
	CHECK(!open_domain(&rig, fds[0], 0) && errno == EOPNOTSUPP);
	NEED(xrcd = open_domain(&rig, fds[1], O_CREAT));
	CHECK(ibv_close_xrcd(xrcd) == 0);
	NEED(write(pair[0], &byte, 1) == 1 && read(pair[0], &byte, 1) == 1);
	/* Closed there: it does not exist any more. */
	CHECK(!open_domain(&rig, fds[0], 0) && errno == EAGAIN);
	NEED(xrcd = open_domain(&rig, fds[0], O_CREAT | O_EXCL));
	NEED(second = open_domain(&rig, fds[0], 0));
	CHECK(ibv_close_xrcd(xrcd) == 0 && ibv_close_xrcd(second) == 0);
	NEED(write(pair[0], &byte, 1) == 1);
	await_child(pid);
	/* A process that is killed has nothing left. */
	pid = owner(fds[0], pair[1]);
	NEED(read(pair[0], &byte, 1) == 1);
	CHECK(!open_domain(&rig, fds[0], 0) && errno == EOPNOTSUPP);
	NEED(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid);
	NEED(xrcd = open_domain(&rig, fds[0], O_CREAT));
	CHECK(ibv_close_xrcd(xrcd) == 0);
	tear_down(&rig);
	for (int i = 0; i < 2; i++)
		NEED(fclose(files[i]) == 0 && close(pair[i]) == 0);
}
