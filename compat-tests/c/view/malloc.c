// A program whose malloc must not be called while dl_iterate_phdr has the dynamic linker's lock. tcmalloc
// takes that lock with its own one held, so both threads would block.
//
// usage: view-malloc LIBRARY LATER    (loads both by dlopen)
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>

#include "allocations.h"

typedef int callback(struct dl_phdr_info *info, size_t size, void *data);
struct visit {
	callback *callback;
	void *data;
};

static int visits;

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
	struct visit *visit = data;
	int result;

	visits++;
	inside = 1;
	result = visit->callback(info, size, visit->data);
	inside = 0;
	return result;
}

int dl_iterate_phdr(callback *callback, void *data)
{
	static int (*real)(int (*)(struct dl_phdr_info *, size_t, void *), void *);
	struct visit visited = { callback, data };

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "dl_iterate_phdr");
	return real(visit, &visited);
}

int main(int argc, char **argv)
{
	FILE *file;

	for (int i = 1; i < argc; i++) {
		if (!dlopen(argv[i], RTLD_NOW)) {
			printf("%s\n", dlerror());
			return 1;
		}
	}
	file = fopen("/sys/class/infiniband/u/node_guid", "r");
	printf("%s, %s, %d allocations\n", file ? "device" : "no device", visits ? "visits" : "no visits",
	       allocations);
	return 0;
}
