// Calls of libc that the view redirects, in the function `calls`, whose instructions callgrind counts.
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

__attribute__((noinline)) int calls(void)
{
	struct stat st;
	char link[64];
	int fd = open("/dev/null", O_RDWR), failed = fd < 0;

	failed += write(fd, "x", 1) != 1;
	failed += fstat(fd, &st) != 0;
	failed += close(fd) != 0;
	failed += stat("/dev/null", &st) != 0;
	failed += lstat("/dev/null", &st) != 0;
	failed += access("/dev/null", R_OK) != 0;
	failed += readlink("/proc/self", link, sizeof(link)) <= 0;
	return failed;
}

int main(void)
{
	int failed = calls();

	puts(failed ? "a call has failed" : "all calls have succeeded");
	return failed;
}
