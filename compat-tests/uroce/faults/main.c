/* faults DEVICE SCENE...: shows what becomes of faults, a line for each, the same in every run. Without a
 * scene it lists them. */
#include "rig.h"

#include <string.h>

const char *device_name;
bool on_uroce;

int main(int argc, char **argv)
{
	static const struct scene *const all[] = { remote_scenes, tries_scenes, local_scenes, host_scenes,
						   flood_scenes };
	int done = 0;

	device_name = argc > 1 ? argv[1] : "";
	on_uroce = !strncmp(device_name, "uroce", 5);
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
		for (const struct scene *scene = all[i]; scene->name; scene++) {
			if (argc < 3 && (on_uroce || !scene->uroce_only))
				tell("%s", scene->name);
			for (int k = 2; k < argc; k++)
				if (!strcmp(argv[k], scene->name)) {
					scene->run();
					done++;
				}
		}
	if (argc >= 3 && done != argc - 2) {
		fprintf(stderr, "faults: there is no such scene\n");
		return 2;
	}
	return 0;
}
