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

/* Polls until a completion with this status comes. Others may come before. */
void await_status(struct rig *rig, enum ibv_wc_status status);
/* The same, or with the status that kernel rxe has instead. */
void await_either(struct rig *rig, enum ibv_wc_status status, enum ibv_wc_status rxe);
