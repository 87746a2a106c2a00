/* Scenes that misuse verbs, one each, within one process. */
#pragma once

#include "../../uroce/verbs/check.h"

struct scene {
	const char *name;
	void (*run)(struct rig *rig);
	/* The rules that must apply, each once, and a part of the first explanation: the case reads them
	 * here. A scene without them runs elsewhere. */
	const char *rules, *says;
};
extern const struct scene connection_scenes[], memory_scenes[], queue_scenes[], lifetime_scenes[],
	kernel_scenes[];

/* Attributes of the transition to RTR of an RC queue pair to `dest` on the rig's own address. */
struct ibv_qp_attr rtr_attr(struct rig *rig, uint32_t dest);
#define RTR_MASK \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
/* Two connected RC queue pairs. */
void connected(struct rig *rig, struct ibv_qp **a, struct ibv_qp **b);
/* Polls until a completion with this status comes. Others may come before. */
void await_status(struct rig *rig, enum ibv_wc_status status);
/* The same, or with the status that kernel rxe has instead. */
void await_either(struct rig *rig, enum ibv_wc_status status, enum ibv_wc_status rxe);
