/*
 * Opens a device with the library named by argv[1], and unloads the library without closing the device: its
 * background thread must still find its code. The case uroce/verbs/unload runs it.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool mapped(const char *name)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	bool found = false;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps))
		found |= strstr(line, name) != NULL;
	if (maps)
		fclose(maps);
	return found;
}

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	void **(*list)(int *) = library ? (void **(*)(int *))dlsym(library, "ibv_get_device_list") : NULL;
	void *(*open)(void *) = library ? (void *(*)(void *))dlsym(library, "ibv_open_device") : NULL;
	void **devices = list ? list(NULL) : NULL;

	if (!devices || !devices[0] || !open || !open(devices[0])) {
		printf("no device: %s\n", library ? "see IBV_UROCE" : dlerror());
		return 1;
	}
	if (dlclose(library)) {
		printf("dlclose: %s\n", dlerror());
		return 1;
	}
	if (!mapped("libibverbs")) {
		printf("the library is gone, the thread is not\n");
		return 1;
	}
	printf("unload: ok\n");
	return 0;
}
