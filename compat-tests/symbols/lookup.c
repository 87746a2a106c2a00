/*
 * lookup LIBRARY LIST: looks up every symbol of the list with the dynamic linker, as programs do: by name and
 * version, and default versions also by name alone. Two versions of a function must have different addresses;
 * an object has one.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	char line[256], type[8], section[8], version[64], name[128];
	int checked = 0, wrong = 0;
	void *lib;
	FILE *list;

	if (argc != 3 || !(lib = dlopen(argv[1], RTLD_NOW)) || !(list = fopen(argv[2], "r"))) {
		fprintf(stderr, "lookup: %s\n", argc == 3 ? dlerror() : "LIBRARY LIST");
		return 2;
	}
	while (fgets(line, sizeof line, list)) {
		char *bare = version;
		void *versioned, *plain;
		int is_default;

		if (sscanf(line, "%7s %7s %63s %127s", type, section, version, name) != 4)
			return 2;
		if (!strcmp(section, "ABS"))
			continue; /* absolute symbols that mark version nodes */
		is_default = version[0] != '(';
		if (!is_default) {
			bare = version + 1;
			bare[strcspn(bare, ")")] = 0;
		}
		versioned = dlvsym(lib, name, bare);
		plain = dlsym(lib, name);
		checked++;
		if (!versioned) {
			printf("%s@%s is not found\n", name, bare);
			wrong++;
		} else if (is_default && plain != versioned) {
			printf("%s is not %s@@%s\n", name, name, bare);
			wrong++;
		} else if (!is_default && !strchr(type, 'O') && plain == versioned) {
			printf("%s@%s is the default version's address\n", name, bare);
			wrong++;
		} else if (strchr(type, 'O') && plain != versioned) {
			printf("%s@%s is another object than the default version's\n", name, bare);
			wrong++;
		}
	}
	printf("      %d looked up, %d wrong\n", checked, wrong);
	return wrong || !checked;
}
