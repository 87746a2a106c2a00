/*
 * faults DEVICE SCENE...: causes faults on a device and prints the effects, the same lines in every run.
 * Without a scene, lists the scenes. The cases uroce/faults/... compare the lines with `expected`.
 */
#include "rig.h"

#include <string.h>

const char *device_name;
bool on_uroce;

int main(int argc, char **argv)
{
	static const struct scene *const all[] = { remote_scenes, retry_scenes, local_scenes,
						   host_scenes,   flood_scenes, stopped_scenes };
	int done = 0;

	device_name = argc > 1 ? argv[1] : "";
	on_uroce = !strncmp(device_name, "uroce", 5);
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
		for (const struct scene *scene = all[i]; scene->name; scene++) {
			if (argc < 3 && (on_uroce || !scene->uroce_only))
				report("%s", scene->name);
			for (int k = 2; k < argc; k++)
				if (!strcmp(argv[k], scene->name)) {
					scene->run();
					done++;
				}
		}
	if (argc >= 3 && done != argc - 2) {
		fprintf(stderr, "faults: unknown scene\n");
		return 2;
	}
	return 0;
}
