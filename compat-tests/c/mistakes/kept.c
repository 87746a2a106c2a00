/* Objects that the program has created: they are destroyed when the mistake has run. */
#include "mistakes.h"

static struct kept {
	void *object;
	enum kept_kind kind;
} kept[64];
static size_t count;

void *keep(void *object, enum kept_kind kind)
{
	NEED(count < sizeof(kept) / sizeof(*kept));
	if (object)
		kept[count++] = (struct kept){ object, kind };
	return object;
}

static int destroy(struct kept of)
{
	switch (of.kind) {
	case KEPT_QP:
		return ibv_destroy_qp(of.object);
	case KEPT_CQ:
		return ibv_destroy_cq(of.object);
	case KEPT_CHANNEL:
		return ibv_destroy_comp_channel(of.object);
	case KEPT_SRQ:
		return ibv_destroy_srq(of.object);
	case KEPT_XRCD:
		return ibv_close_xrcd(of.object);
	case KEPT_AH:
		return ibv_destroy_ah(of.object);
	case KEPT_MW:
		return ibv_dealloc_mw(of.object);
	case KEPT_MR:
		return ibv_dereg_mr(of.object);
	case KEPT_DM:
		return ibv_free_dm(of.object);
	case KEPT_PD:
		return ibv_dealloc_pd(of.object);
	case KEPT_TD:
		return ibv_dealloc_td(of.object);
	case KEPT_CONTEXT:
		return ibv_close_device(of.object);
	case KEPT_MEMORY:
		free(of.object);
		return 0;
	}
	return -1;
}

int end(void *object)
{
	size_t i = count;

	do
		NEED(i-- > 0);
	while (kept[i].object != object);
	int error = destroy(kept[i]);
	if (!error)
		kept[i].object = NULL;
	return error;
}

void end_all(void)
{
	for (size_t i = 0; i < count; i++)
		if (kept[i].object && kept[i].kind == KEPT_QP)
			CHECK(end(kept[i].object) == 0);
	for (; count > 0; count--)
		if (kept[count - 1].object)
			CHECK(end(kept[count - 1].object) == 0);
}
