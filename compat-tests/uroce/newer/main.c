/*
 * newer [CHECK]: as verbs/main.c, for verbs that the distribution's library does not have. It is compiled
 * with this project's headers. The cases uroce/verbs/... run it.
 */
#include "newer.h"

int failures;

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*check)(void);
	} all[] = {
		{ "counters", check_counters },
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		int before = failures;

		if (argc > 1 && !strcmp(argv[1], "list"))
			puts(all[i].name);
		if (argc > 1 && strcmp(argv[1], all[i].name))
			continue;
		all[i].check();
		printf("%s: %s\n", all[i].name, failures == before ? "ok" : "FAILED");
	}
	return failures != 0;
}
