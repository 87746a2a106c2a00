/*
 * nodes LIBRARY LIST: for each function of the version node of a newer provider ABI, checks that it is the
 * function of the ABI before, or another one if its form has changed since. The exported functions are jumps,
 * so their targets are compared. LIST is symbols/exports.lst.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The ABIs that changed the arguments or the structures of a function. */
static const struct {
	const char *name;
	int abis[8]; /* 0 after the last one */
	int layout; /* depends on the layout: the compiler decides whether ABIs with equal ones share the code
		     */
} changed[] = {
	{ "_verbs_init_and_alloc_context", { 59, 64 }, 1 },
	{ "verbs_uninit_context", { 59, 64 }, 1 },
	{ "verbs_set_ops", { 59, 64, 65 }, 1 },
	{ "ibv_cmd_get_context", { 57, 59, 64 }, 1 },
	{ "ibv_cmd_reg_dmabuf_mr", { 57 }, 0 },
	{ "ibv_cmd_query_port", { 57 }, 0 },
	{ "ibv_cmd_create_cq_ex", { 59 }, 0 },
	{ "ibv_cmd_create_cq_ex2", { 59 }, 0 },
	{ "ibv_cmd_create_qp_ex2", { 64 }, 0 },
};

/* Whether a function must be another one than that of the ABI before: 1, 0, or -1 for both. */
static int must_differ(const char *name, int abi)
{
	size_t i, at;

	for (i = 0; i < sizeof(changed) / sizeof(changed[0]); i++) {
		if (strcmp(changed[i].name, name))
			continue;
		for (at = 0; at < sizeof(changed[i].abis) / sizeof(changed[i].abis[0]); at++)
			if (changed[i].abis[at] == abi)
				return 1;
		return changed[i].layout ? -1 : 0;
	}
	return 0;
}

/* Where the jump at `code` leads; NULL if there is no jump. */
static const void *target(const unsigned char *code)
{
	int32_t offset;

#if defined(__x86_64__)
	if (*code != 0xe9)
		return NULL;
	memcpy(&offset, code + 1, 4);
	return code + 5 + offset;
#elif defined(__aarch64__)
	uint32_t word;

	memcpy(&word, code, 4);
	if (word >> 26 != 5)
		return NULL;
	offset = (int32_t)(word << 6) >> 6;
	return code + (intptr_t)offset * 4;
#else
	(void)offset;
	return code;
#endif
}

static int before(int abi)
{
	return abi == 65 ? 64 : abi == 64 ? 59 : abi == 59 ? 57 : 34;
}

int main(int argc, char **argv)
{
	char line[256], type[8], section[8], version[64], name[128], node[64], older[64];
	int checked = 0, wrong = 0, abi;
	void *lib;
	FILE *list;

	if (argc != 3 || !(lib = dlopen(argv[1], RTLD_NOW)) || !(list = fopen(argv[2], "r"))) {
		fprintf(stderr, "nodes: %s\n", argc == 3 ? dlerror() : "LIBRARY LIST");
		return 2;
	}
	while (fgets(line, sizeof line, list)) {
		char *number;
		const void *now, *then;

		if (sscanf(line, "%7s %7s %63s %127s", type, section, version, name) != 4)
			return 2;
		number = strstr(version, "PRIVATE_");
		if (!number || sscanf(number, "PRIVATE_%d", &abi) != 1 || abi == 34 || strcmp(type, "DF"))
			continue;
		snprintf(node, sizeof(node), "IBVERBS_PRIVATE_%d", abi);
		snprintf(older, sizeof(older), "IBVERBS_PRIVATE_%d", before(abi));
		now = dlvsym(lib, name, node);
		then = dlvsym(lib, name, older);
		if (!then)
			continue; /* new in this ABI */
		checked++;
		if (!now || !target(now) || !target(then)) {
			printf("%s@%s is no jump\n", name, node);
			wrong++;
		} else if (must_differ(name, abi) == (target(now) == target(then))) {
			printf("%s@%s is %s that of %s\n", name, node,
			       target(now) == target(then) ? "still" : "not", older);
			wrong++;
		}
	}
	printf("%d compared, %d wrong\n", checked, wrong);
	return wrong || checked < 280;
}
