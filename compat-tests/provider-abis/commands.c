/*
 * commands DEVICE: opens a device of provider.c, has the provider call the commands whose form differs
 * between the provider ABIs, and prints their results. It uses old verbs only, so that it also runs on the C
 * library of each ABI.
 */
#include "open.h"

int main(int argc, char **argv)
{
	int (*commands)(struct ibv_context *, char *, size_t);
	struct ibv_context *context;
	static char text[8192];

	if (argc != 2)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	context = open_named(argv[1]);
	commands = of_provider(context, "pabi_commands");
	commands(context, text, sizeof(text));
	fputs(text, stdout);
	return ibv_close_device(context);
}
