/*
 * Lists the devices; with the argument "open" also opens them. Run with the set-user-ID bit, it shows which
 * environment variables the library uses. The paths of the libibverbs that it runs on are written to file
 * descriptor 3, since the dynamic linker's own trace is disabled for such programs.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void report_library(void)
{
	char line[4096], last[4096] = "";
	FILE *maps = fopen("/proc/self/maps", "r");

	while (maps && fgets(line, sizeof(line), maps)) {
		const char *path = strchr(line, '/');

		if (path && strstr(path, "/libibverbs.so") && strcmp(path, last)) {
			strcpy(last, path);
			dprintf(3, "%s", path);
		}
	}
	if (maps)
		fclose(maps);
}

int main(int argc, char **argv)
{
	int i, n = 0;
	struct ibv_device **list;

	printf("setuid: %s\n", getuid() != geteuid() ? "yes" : "no");
	list = ibv_get_device_list(&n);
	printf("list: %d devices, %s\n", n, list ? "no error" : strerror(errno));
	for (i = 0; i < n; i++) {
		printf("%s %s\n", ibv_get_device_name(list[i]), list[i]->dev_path);
		if (argc > 1 && !strcmp(argv[1], "open")) {
			struct ibv_context *context = ibv_open_device(list[i]);

			printf("open: %s\n", context ? "no error" : strerror(errno));
			if (context)
				ibv_close_device(context);
		}
	}
	if (list)
		ibv_free_device_list(list);
	report_library();
	return 0;
}
