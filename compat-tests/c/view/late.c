// A library that a program loads when it runs; see view.c.
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

// In data, so that the dynamic linker stores the function's address there.
static int (*volatile const opens[])(const char *, int, ...) = { open };

int sees_guid(void)
{
	const char *path = "/sys/class/infiniband/u/node_guid";
	FILE *file = fopen(path, "r");
	int fd = opens[0](path, O_RDONLY);
	int seen = file && fd >= 0;

	if (file)
		fclose(file);
	close(fd);
	return seen;
}
