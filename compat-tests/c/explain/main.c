/*
 * explain SCENE: misuses verbs in one way. The library, with IBV_EXPLAIN, says what is wrong; the test case
 * compares the names of the rules. Exits with 0 if the calls returned what the scene expects.
 */
#include "scenes.h"

int failures;

static const struct scene *const groups[] = { connection_scenes, memory_scenes, queue_scenes, lifetime_scenes,
					      kernel_scenes };

struct ibv_qp_attr rtr_attr(struct rig *rig, uint32_t dest)
{
	return (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest,
		.rq_psn = 7,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.ah_attr = { .is_global = 1,
			     .port_num = PORT,
			     .grh = { .dgid = rig->gid, .sgid_index = rig->gid_index, .hop_limit = 1 } },
	};
}

void connected(struct rig *rig, struct ibv_qp **a, struct ibv_qp **b)
{
	*a = KEEP(make_qp(rig, IBV_QPT_RC, 0, NULL));
	*b = KEEP(make_qp(rig, IBV_QPT_RC, 0, NULL));
	join(rig, *a, *b);
}

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
