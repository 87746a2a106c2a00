/* Opens a device of provider.c, and finds its provider's symbols. */
#ifndef OPEN_H
#define OPEN_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

static inline struct ibv_device *find(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			return list[i];
	printf("not ok the device %s exists\n", name);
	exit(1);
}

/* The provider's own symbol, in the file that contains the context's op. */
static inline void *of_provider(struct ibv_context *of, const char *name)
{
	void *file, *found;
	Dl_info info;

	if (!dladdr((void *)of->ops.poll_cq, &info) ||
	    !(file = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD)) || !(found = dlsym(file, name))) {
		printf("not ok %s of the provider\n", name);
		exit(1);
	}
	return found;
}

static inline struct ibv_context *open_named(const char *name)
{
	struct ibv_context *opened;

	opened = ibv_open_device(find(name));
	if (!opened) {
		printf("not ok open %s: errno %d\n", name, errno);
		exit(1);
	}
	printf("ok open %s\n", name);
	return opened;
}

#endif
