/*
 * verbs [CHECK]: checks the verbs within one process, on the device $DEVICE. Prints each check that fails;
 * exits with 1 if any did. `verbs list` lists the checks. The cases uroce/verbs/... run it.
 */
#include "check.h"

int failures;

int main(int argc, char **argv)
{
	static const struct check all[] = {
		{ "objects", objects_parts },
		{ "memory", memory_parts },
		{ "states", states_parts },
		{ "posting", posting_parts },
		{ "building", building_parts },
		{ "queues", queues_parts },
		{ "process", process_parts },
		{ "windows", windows_parts },
		{ "kernel", kernel_parts },
		{ "gids", gids_parts },
		{ "cancel", cancel_parts },
		{ "errors", errors_parts },
		{ "lifetime", lifetime_parts },
		{ "order", order_parts },
		{ "lost", .run = check_lost },
		{ "odp", odp_parts },
		{ "dm", dm_parts },
		{ "dmabuf", dmabuf_parts },
		{ "import", import_parts },
		{ "xrcd", .run = check_xrcd },
	};

	return run_checks(all, sizeof(all) / sizeof(*all), argc > 1 ? argv[1] : NULL);
}
