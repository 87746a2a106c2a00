/*
 * forkunload: protects pages, releases some, unloads the library, and prints what a child gets.
 * src/suites/fork runs it.
 */
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
	int (*protect)(void *, size_t) = (int (*)(void *, size_t))function("ibv_dontfork_range");
	int (*release)(void *, size_t) = (int (*)(void *, size_t))function("ibv_dofork_range");

	area = mmap(NULL, area_pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (area == MAP_FAILED)
		return 2;
	printf("init %d", init());
	printf(" dontfork %d", protect(area, 6 * page));
	printf(" dofork %d\n", release(area + page, 2 * page));
	dlclose(library);
	show(dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD) ? "still loaded" : "unloaded", 0);
	return 0;
}
