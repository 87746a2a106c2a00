/* Results of the programs: `ok NAME` or `not ok NAME`. */
#pragma once

#include <stdio.h>

static int failed;

static void report(const char *name, int holds)
{
	printf("%s %s\n", holds ? "ok" : "not ok", name);
	fflush(stdout);
	failed |= !holds;
}
