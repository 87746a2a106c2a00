/*
 * load_all LIBRARY PROVIDER...: loads a libibverbs by path, then each provider with RTLD_NOW, and lists the
 * devices. The program itself is linked to no RDMA library, so that only LIBRARY can resolve the providers'
 * symbols. With CLOSE_PROVIDERS set, it closes each provider right away.
 */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Number of different libibverbs files mapped; 2 would mean that a provider loaded another one. */
static int libraries_mapped(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[4096], seen[4096] = "";
	int count = 0;

	while (maps && fgets(line, sizeof(line), maps)) {
		char *path = strchr(line, '/'), *base = path ? strrchr(path, '/') : NULL;

		if (!base || strncmp(base, "/libibverbs.so", 14) || !strcmp(path, seen))
			continue;
		strcpy(seen, path);
		count++;
	}
	if (maps)
		fclose(maps);
	return count;
}

static void *symbol(void *lib, const char *name)
{
	void *address = dlsym(lib, name);

	if (!address) {
		printf("no %s: %s\n", name, dlerror());
		exit(1);
	}
	return address;
}

int main(int argc, char **argv)
{
	struct ibv_device **(*get_list)(int *);
	void (*free_list)(struct ibv_device **);
	const char *(*get_name)(struct ibv_device *);
	__be64 (*get_guid)(struct ibv_device *);
	int (*get_index)(struct ibv_device *);
	const char *(*node_type)(enum ibv_node_type);
	struct ibv_device **list;
	int i, count = -1, status = 0;
	void *lib;

	if (argc < 2)
		return 2;
	lib = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
	if (!lib) {
		printf("%s\n", dlerror());
		return 1;
	}
	for (i = 2; i < argc; i++) {
		const char *base = strrchr(argv[i], '/');
		void *provider = dlopen(argv[i], RTLD_NOW);

		printf("%s: %s\n", base ? base + 1 : argv[i], provider ? "loaded" : dlerror());
		status |= !provider;
		if (provider && getenv("CLOSE_PROVIDERS"))
			dlclose(provider);
	}
	printf("%d libibverbs in the process\n", libraries_mapped());
	*(void **)&get_list = symbol(lib, "ibv_get_device_list");
	*(void **)&free_list = symbol(lib, "ibv_free_device_list");
	*(void **)&get_name = symbol(lib, "ibv_get_device_name");
	*(void **)&get_guid = symbol(lib, "ibv_get_device_guid");
	*(void **)&get_index = symbol(lib, "ibv_get_device_index");
	*(void **)&node_type = symbol(lib, "ibv_node_type_str");
	errno = 0;
	list = get_list(&count);
	printf("%d devices%s%s\n", count, list ? "" : ", ", list ? "" : strerror(errno));
	for (i = 0; list && list[i]; i++)
		printf("%s guid=%016llx index=%d type=%d %s transport=%d dev=%s path=%s ib=%s\n",
		       get_name(list[i]), (unsigned long long)be64toh(get_guid(list[i])), get_index(list[i]),
		       list[i]->node_type, node_type(list[i]->node_type), list[i]->transport_type,
		       list[i]->dev_name, list[i]->dev_path, list[i]->ibdev_path);
	if (list)
		free_list(list);
	return status;
}
