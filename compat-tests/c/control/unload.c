/*
 * unload LIBRARY: opens and closes a device with a library that it loads by dlopen, unloads the library, and
 * waits for a signal. The thread of the control socket must still find its code.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	void **(*list)(int *) = library ? (void **(*)(int *))dlsym(library, "ibv_get_device_list") : NULL;
	void *(*open)(void *) = library ? (void *(*)(void *))dlsym(library, "ibv_open_device") : NULL;
	int (*shut)(void *) = library ? (int (*)(void *))dlsym(library, "ibv_close_device") : NULL;
	void (*release)(void *) = library ? (void (*)(void *))dlsym(library, "ibv_free_device_list") : NULL;
	void **devices = list ? list(NULL) : NULL;
	void *context = devices && devices[0] && open ? open(devices[0]) : NULL;

	if (!context || !shut || shut(context) || !release) {
		printf("no device: %s\n", library ? "see IBV_UROCE" : dlerror());
		return 1;
	}
	release(devices);
	if (dlclose(library)) {
		printf("dlclose: %s\n", dlerror());
		return 1;
	}
	printf("unloaded\n");
	fflush(stdout);
	pause();
	return 0;
}
