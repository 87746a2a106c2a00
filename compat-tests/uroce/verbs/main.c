/*
 * verbs [CHECK]: checks the verbs within one process, on the device $DEVICE. Prints each check that fails;
 * exits with 1 if any did. `verbs list` lists the checks. The cases uroce/verbs/... run it.
 */
#include "check.h"

int failures;

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*check)(void);
	} all[] = {
		{ "objects", check_objects },
		{ "memory", check_memory },
		{ "states", check_states },
		{ "posting", check_posting },
		{ "building", check_building },
		{ "queues", check_queues },
		{ "process", check_process },
		{ "windows", check_windows },
		{ "kernel", check_kernel },
		{ "gids", check_gid_order },
		{ "cancel", check_cancel },
		{ "errors", check_errors },
		{ "lifetime", check_lifetime },
		{ "order", check_order },
		{ "lost", check_lost },
		{ "odp", check_odp },
		{ "dm", check_dm },
		{ "dmabuf", check_dmabuf },
		{ "import", check_import },
		{ "xrcd", check_xrcd },
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
