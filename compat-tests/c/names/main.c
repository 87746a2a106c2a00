/*
 * names FIFO: names objects, and prints a line when there is something to see. It waits for a line in FIFO
 * after each step.
 *
 * names alone: what the functions return in a process without a device; so it runs on the C library, too.
 */
#include "../../uroce/verbs/check.h"

#include <libibverbs-rs/names.h>
#include <pthread.h>

int failures;

#define THREADS 4
#define ROUNDS 2000

/* Objects that another thread makes at the same addresses do not confuse names. */
static void *churn(void *of)
{
	struct rig *rig = of;
	static char buf[THREADS][64];
	static int next;
	int own = __sync_fetch_and_add(&next, 1);

	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_mr *mr = ibv_reg_mr(rig->pd, buf[own], 64, 0);

		NEED(mr);
		CHECK(ibverbs_rs_name_mr(mr, "churned") == 0);
		if (i % 2)
			CHECK(ibverbs_rs_name_mr(mr, NULL) == 0);
		CHECK(ibv_dereg_mr(mr) == 0);
	}
	return NULL;
}

static void step(FILE *commands, const char *says)
{
	char line[64];

	printf("%s\n", says);
	NEED(fgets(line, sizeof(line), commands));
}

static void run(FILE *commands)
{
	pthread_t threads[THREADS];
	struct ibv_srq *srq;
	struct ibv_qp *qp, *extended;
	struct ibv_mw *mw;
	struct ibv_ah *ah;
	struct rig rig;

	set_up(&rig);
	qp = make_qp(&rig, IBV_QPT_RC, 0, NULL);
	extended = make_qp(&rig, IBV_QPT_RC, IBV_QP_EX_WITH_SEND, NULL);
	srq = new_srq(&rig, 4);
	ah = new_ah(&rig, rig.gid);
	NEED(mw = KEEP(ibv_alloc_mw(rig.pd, IBV_MW_TYPE_2)));
	CHECK(ibverbs_rs_name_context(rig.context, "first port") == 0);
	CHECK(ibverbs_rs_name_pd(rig.pd, "pool") == 0 && ibverbs_rs_name_mr(rig.mr, "heap") == 0);
	CHECK(ibverbs_rs_name_mw(mw, "window") == 0 && ibverbs_rs_name_ah(ah, "route") == 0);
	CHECK(ibverbs_rs_name_cq(rig.cq, "all done") == 0 && ibverbs_rs_name_srq(srq, "shared") == 0);
	CHECK(ibverbs_rs_name_qp(qp, "old") == 0 && ibverbs_rs_name_qp(qp, "cli\nent \"3\"") == 0);
	CHECK(ibverbs_rs_name_qp(&ibv_qp_to_qp_ex(extended)->qp_base,
				 "0123456789012345678901234567890123456789012345678901234567890123") == 0);
	step(commands, "named");
	/* An object that cannot be destroyed keeps its name. */
	CHECK(ibv_dealloc_pd(rig.pd) == EBUSY && ibv_destroy_cq(rig.cq) == EBUSY);
	for (int i = 0; i < THREADS; i++)
		NEED(pthread_create(&threads[i], NULL, churn, &rig) == 0);
	for (int i = 0; i < THREADS; i++)
		NEED(pthread_join(threads[i], NULL) == 0);
	CHECK(end(ah) == 0 && end(mw) == 0 && end(srq) == 0);
	CHECK(end(extended) == 0 && ibverbs_rs_name_context(rig.context, "") == 0);
	step(commands, "fewer");
	tear_down(&rig);
	set_up(&rig);
	step(commands, "none");
	tear_down(&rig);
}

/* There is nothing to name, and a library that is not this one has no names. */
static void alone(void)
{
	struct ibv_qp *none = NULL;

	printf("qp %d\n", ibverbs_rs_name_qp(none, "x"));
	printf("object %d\n", ibverbs_rs_name_object((enum ibverbs_rs_object)99, &none, "x"));
}

int main(int argc, char **argv)
{
	FILE *commands;

	setvbuf(stdout, NULL, _IOLBF, 0);
	NEED(argc == 2);
	if (strcmp(argv[1], "alone") == 0) {
		alone();
		return 0;
	}
	/* For writing, too: so there is no end of file between two writers. */
	NEED(commands = fopen(argv[1], "r+"));
	run(commands);
	return failures != 0;
}
