/*
 * explain SCENE: misuses verbs in one way. The library, with IBV_EXPLAIN, says what is wrong; the test case
 * compares the names of the rules. Exits with 0 if the calls returned what the scene expects.
 */
#include "scenes.h"

int failures;

static const struct scene *const groups[] = { connection_scenes, memory_scenes, queue_scenes, lifetime_scenes,
					      kernel_scenes };

void await_either(struct rig *rig, enum ibv_wc_status status, enum ibv_wc_status rxe)
{
	struct ibv_wc wc;

	do
		wc = next_wc(rig->cq);
	while (wc.status != status && wc.status != rxe && !failures);
}

void await_status(struct rig *rig, enum ibv_wc_status status)
{
	await_either(rig, status, status);
}

int main(int argc, char **argv)
{
	struct rig rig;

	if (argc != 2)
		return 2;
	for (size_t g = 0; g < sizeof(groups) / sizeof(*groups); g++)
		for (const struct scene *scene = groups[g]; scene->name; scene++) {
			if (!strcmp(argv[1], "list"))
				puts(scene->name);
			if (strcmp(argv[1], scene->name))
				continue;
			set_up(&rig);
			scene->run(&rig);
			if (rig.context)
				tear_down(&rig);
		}
	if (!strcmp(argv[1], "no-device")) {
		struct ibv_device **list = ibv_get_device_list(NULL);

		CHECK(!list || !list[0]);
	}
	return failures != 0;
}
