/*
 * newer [CHECK]: as verbs/main.c, for verbs that the distribution's library does not have. It is compiled
 * with this project's headers. The cases uroce/verbs/... run it.
 */
#include "newer.h"

int failures;

int main(int argc, char **argv)
{
	static const struct check all[] = {
		{ "counters", counters_parts },
		{ "port-speed", port_speed_parts },
	};

	return run_checks(all, sizeof(all) / sizeof(*all), argc > 1 ? argv[1] : NULL);
}
