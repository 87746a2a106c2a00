/*
 * variadic LIBRARY [DEVICE]: calls the two functions of the library that take a variable number of
 * arguments, with integers, doubles, and more of both than registers have room for. Their entries are written
 * in assembly for each architecture. DEVICE is one of the kernel; without it, only __verbs_log is called.
 * VERBS_LOG_FILE names the log, VERBS_LOG_LEVEL is at least 1.
 *
 * Prints `ok NAME` or `not ok NAME` for each check.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/driver.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODE "IBVERBS_PRIVATE_34"

static void *symbol(void *library, const char *name, const char *version)
{
	void *found = dlvsym(library, name, version);

	if (!found) {
		printf("%s\n", dlerror());
		exit(1);
	}
	return found;
}

static void result(const char *name, const char *expected, const char *got)
{
	if (strcmp(expected, got)) {
		printf("expected: %s\ngot:      %s\nnot ok %s\n", expected, got, name);
		exit(1);
	}
	printf("ok %s\n", name);
}

/* The last line of the log. */
static const char *last_line(char *line, int size)
{
	FILE *file;

	fflush(NULL); /* the library does not flush its log */
	file = fopen(getenv("VERBS_LOG_FILE"), "r");
	*line = '\0';
	while (file && fgets(line, size, file))
		;
	if (file)
		fclose(file);
	return line;
}

#define FORMAT "%d %f %s %ld %g %c %u %g %lld %g %x %g %s %g %d %g %d %g %d %g %d %g %d %.3f %d\n"
#define ARGUMENTS \
	-1, 1.5, "two", 3L << 40, 4.25, '5', 6u, 7e100, -(8LL << 50), 9.125, 0xabcu, 11.5, "twelve", 13.5, \
		14, 15.5, 16, 17.5, 18, 19.5, 20, 21.5, 22, 23.0625, 24

static void log_line(void *library)
{
	void (*log)(struct verbs_context *, uint32_t, const char *, ...) = symbol(library, "__verbs_log",
										  NODE);
	char expected[512], line[512];

	snprintf(expected, sizeof(expected), FORMAT, ARGUMENTS);
	log(NULL, 1, FORMAT, ARGUMENTS);
	result("many-arguments", expected, last_line(line, sizeof(line)));
	log(NULL, 1, "no arguments\n");
	result("no-arguments", "no arguments\n", last_line(line, sizeof(line)));
	log(NULL, 1, "%g %g\n", 0.5, -0.25);
	result("doubles-only", "0.5 -0.25\n", last_line(line, sizeof(line)));
}

/* Seven integer arguments after the four named ones: more than the registers of any ABI. */
static void sysfs_file(void *library, struct ibv_device **list, const char *name)
{
	int (*read_file)(char *, size_t, struct verbs_sysfs_dev *, const char *,
			 ...) = symbol(library, "ibv_read_ibdev_sysfs_file", NODE);
	char text[128];
	int i;

	for (i = 0; list[i] && strcmp(list[i]->name, name); i++)
		;
	if (!list[i]) {
		printf("no device %s\nnot ok sysfs-file\n", name);
		exit(1);
	}
	i = read_file(text, sizeof(text), ((struct verbs_device *)list[i])->sysfs, "%c%s%c%s/%d/%s%c%s", 'p',
		      "o", 'r', "ts", 1, "link", '_', "layer");
	result("sysfs-file", "Ethernet", i > 0 ? text : "an error");
}

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	struct ibv_device **(*get_list)(int *);

	if (!library || !getenv("VERBS_LOG_FILE")) {
		fprintf(stderr, "usage: VERBS_LOG_FILE=FILE variadic LIBRARY [DEVICE]: %s\n", dlerror());
		return 2;
	}
	get_list = symbol(library, "ibv_get_device_list", "IBVERBS_1.1");
	struct ibv_device **list = get_list(NULL);

	log_line(library);
	if (argc > 2)
		sysfs_file(library, list, argv[2]);
	return 0;
}
