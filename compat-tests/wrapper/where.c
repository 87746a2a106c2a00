/* Prints which file's libibverbs this program gets, and whether it answers. As it is: the one that it is
 * linked with; with -DNAMED, the one of a name given to dlopen. With WHERE_ONLY_LOADS in the environment it
 * is not called. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ibv_device **ibv_get_device_list(int *count);

/* (not in main: Python calls it in a library) */
int where(void *list)
{
	char line[4096], *path, last[4096] = "";
	FILE *maps = fopen("/proc/self/maps", "r");
	Dl_info info;
	int count = 0;

	if (!list || !dladdr(list, &info))
		return puts("no ibv_get_device_list"), 1;
	if (!getenv("WHERE_ONLY_LOADS"))
		((struct ibv_device * *(*)(int *)) list)(&count);
	printf("called: %s\n", info.dli_fname);
	while (maps && fgets(line, sizeof(line), maps)) {
		path = strchr(line, '/');
		if (path && strstr(path, "libibverbs") && strcmp(path, last))
			printf("mapped: %s", strcpy(last, path));
	}
	if (maps)
		fclose(maps);
	return fflush(stdout);
}

#ifdef NAMED
int main(int argc, char **argv)
{
	void *handle = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;

	if (!handle)
		return puts(dlerror()), 1;
	return where(dlsym(handle, "ibv_get_device_list"));
}
#else
int answer(void)
{
	return where((void *)ibv_get_device_list);
}
int main(void)
{
	return answer();
}
#endif
