/* forkunload: registers pages, deregisters them, unloads the library, and shows what a child has. */
#define _GNU_SOURCE
#include "pages.h"

#include <dlfcn.h>

static void *library;

static void *function(const char *name)
{
	void *found = dlsym(library, name);

	if (!found) {
		fprintf(stderr, "forkunload: %s\n", dlerror());
		exit(2);
	}
	return found;
}

int main(void)
{
	library = dlopen("libibverbs.so.1", RTLD_NOW);
	if (!library) {
		fprintf(stderr, "forkunload: %s\n", dlerror());
		return 2;
	}
	int (*init)(void) = (int (*)(void))function("ibv_fork_init");
	int (*hold)(void *, size_t) = (int (*)(void *, size_t))function("ibv_dontfork_range");
	int (*give)(void *, size_t) = (int (*)(void *, size_t))function("ibv_dofork_range");

	area = mmap(NULL, area_pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (area == MAP_FAILED)
		return 2;
	printf("init %d", init());
	printf(" hold %d", hold(area, 6 * page));
	printf(" give %d\n", give(area + page, 2 * page));
	dlclose(library);
	show(dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD) ? "still loaded" : "unloaded", 0);
	return 0;
}
