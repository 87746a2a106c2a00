/*
 * verbs [CHECK]: checks the verbs within one process, on the device $DEVICE. Prints each check that fails;
 * exits with 1 if any did. `verbs list` lists the checks. The cases uroce/verbs/... run it.
 */
#include "check.h"

int failures;

int main(int argc, char **argv)
{
	static const struct check all[] = {
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
	};

	return run_checks(all, sizeof(all) / sizeof(*all), argc > 1 ? argv[1] : NULL);
}
