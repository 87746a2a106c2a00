/* More mistakes of a trial whose programs were written without knowing the rules. */
#include "pairs.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* Moves a queue pair in RTR to RTS, with more in the mask than that takes. */
static void to_rts_with(struct rig *rig, int more, struct ibv_qp_attr attr, bool wrong)
{
	struct link link = { .stays = IBV_QPS_RTR };
	struct ibv_qp *qp = link_qp(rig, &link);
	int mask = RTS_MASK;

	NEED(link_to(rig, qp, &link, qp->qp_num, rig->gid, true) == 0);
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = 100;
	attr.timeout = 14;
	CHECK(!ibv_modify_qp(qp, &attr, mask | more) == !wrong);
}

/* IBV_QP_CUR_STATE is in the mask, and cur_qp_state was not set. */
static void cur_state(struct rig *rig, bool wrong)
{
	to_rts_with(rig, IBV_QP_CUR_STATE,
		    (struct ibv_qp_attr){ .cur_qp_state = wrong ? IBV_QPS_RESET : IBV_QPS_RTR }, wrong);
}

/* An alternate path, as programs for InfiniBand have one. */
static void alt_path(struct rig *rig, bool wrong)
{
	to_rts_with(rig, wrong ? IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE : 0, (struct ibv_qp_attr){ 0 },
		    wrong);
}

/* The attributes are memory that was never set, except for some. */
static void access_unset(struct rig *rig, bool wrong)
{
	struct ibv_qp *qp = link_qp(rig, &(struct link){ 0 });
	struct ibv_qp_attr attr;

	memset(&attr, wrong ? 0xa5 : 0, sizeof(attr));
	attr.qp_state = IBV_QPS_INIT;
	attr.port_num = PORT;
	attr.pkey_index = 0;
	CHECK(ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
}

/* Links receives in a list, whose last one leads to the first if `ring` is true. */
static struct ibv_recv_wr *linked(struct rig *rig, bool ring)
{
	static struct ibv_recv_wr wr[4];
	static struct ibv_sge sge[4];

	for (int i = 0; i < 4; i++) {
		sge[i] = part(rig, 64 * i, 64);
		wr[i] = (struct ibv_recv_wr){ .wr_id = i,
					      .next = ring || i < 3 ? wr + (i + 1) % 4 : NULL,
					      .sg_list = sge + i,
					      .num_sge = 1 };
	}
	return wr;
}

static void receives_in_a_ring(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	struct ibv_recv_wr *bad;

	CHECK(!ibv_post_recv(ends.b, linked(rig, wrong), &bad) == !wrong);
}

static void srq_in_a_ring(struct rig *rig, bool wrong)
{
	struct ibv_srq *srq = new_srq(rig, 8);
	struct ibv_recv_wr *bad;

	CHECK(!ibv_post_srq_recv(srq, linked(rig, wrong), &bad) == !wrong);
}

/* Data of a READ is sent on before it has come. */
static void unfenced_read(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });

	NEED(send_wr(ends.a, rig, IBV_WR_RDMA_READ, 0, 0, 64) == 0);
	NEED(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, wrong ? 0 : IBV_SEND_FENCE, 32, 64) == 0);
	CHECK(poll_for(rig->cq, 2, 3) == 2);
	NEED(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 0, 64) == 0);
	CHECK(poll_for(rig->cq, 1, 3) == 1);
}

/* The old value of a counter is returned onto the counter. */
static void atomic_onto_itself(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });

	NEED(send_wr(ends.a, rig, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, wrong ? 4096 : 0, 8) == 0);
	CHECK(next_status(rig->cq) == IBV_WC_SUCCESS);
}

/* A datagram to a group has the number of a queue pair. */
static void group_number(struct rig *rig, bool wrong)
{
	union ibv_gid group = { .raw = { [10] = 0xff, 0xff, 239, 1, 2, 3 } };
	struct ends ends = link_up(rig, &(struct link){ .type = IBV_QPT_UD });
	struct ibv_ah *ah = new_ah(rig, group);

	NEED(ibv_attach_mcast(ends.b, &group, 0) == 0 && post_recv(ends.b, rig, 1, 4096, 256) == 0);
	NEED(datagram(ends.a, ah, wrong ? ends.b->qp_num : 0xffffff, part(rig, 0, 64)) == 0);
	CHECK(poll_for(rig->cq, 2, wrong ? 0.5 : 3) == (wrong ? 1 : 2));
	CHECK(ibv_detach_mcast(ends.b, &group, 0) == 0);
}

/* A request binds a window that is longer than its region. */
static void bind_outside(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	struct ibv_mr *mr = KEEP(
		ibv_reg_mr(rig->pd, rig->buf, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND));
	struct ibv_mw *mw = KEEP(ibv_alloc_mw(rig->pd, IBV_MW_TYPE_2));
	struct ibv_send_wr *bad, wr = { .wr_id = 5, .opcode = IBV_WR_BIND_MW };

	NEED(mr && mw);
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ mr, (uintptr_t)rig->buf, wrong ? 65 : 64,
							  IBV_ACCESS_REMOTE_WRITE };
	NEED(ibv_post_send(ends.a, &wr, &bad) == 0);
	CHECK((next_status(rig->cq) == IBV_WC_SUCCESS) == !wrong);
}

/* The receives of an SRQ are to be flushed with a queue pair. */
static void srq_not_flushed(struct rig *rig, bool wrong)
{
	struct link link = { .srq = new_srq(rig, 8) };
	struct ibv_qp *qp = link_qp(rig, &link);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_recv_wr *bad;

	NEED(link_to(rig, qp, &link, qp->qp_num, rig->gid, true) == 0);
	NEED(ibv_post_srq_recv(link.srq, linked(rig, false), &bad) == 0);
	NEED(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
	if (wrong)
		CHECK(poll_for(rig->cq, 1, LONG) == 0);
	else
		CHECK(next_async(rig) == IBV_EVENT_QP_LAST_WQE_REACHED);
}

/* The queue pair is destroyed before its flushed receives are polled. */
static void destroyed_before_flush(struct rig *rig, bool wrong)
{
	struct link link = { 0 };
	struct ibv_qp *qp = link_qp(rig, &link);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	NEED(link_to(rig, qp, &link, qp->qp_num, rig->gid, true) == 0);
	NEED(post_recv(qp, rig, 1, 4096, 64) == 0);
	if (wrong) {
		CHECK(end(qp) == 0);
		CHECK(poll_for(rig->cq, 1, LONG) == 0);
		return;
	}
	NEED(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
	CHECK(next_status(rig->cq) == IBV_WC_WR_FLUSH_ERR);
}

/* The event of SQD was not asked for. */
static void drains_unnoticed(struct rig *rig, bool wrong)
{
	struct link link = { 0 };
	struct ibv_qp *qp = link_qp(rig, &link);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };

	NEED(link_to(rig, qp, &link, qp->qp_num, rig->gid, true) == 0);
	NEED(ibv_modify_qp(qp, &attr, IBV_QP_STATE | (wrong ? 0 : IBV_QP_EN_SQD_ASYNC_NOTIFY)) == 0);
	CHECK((next_async(rig) == IBV_EVENT_SQ_DRAINED) == !wrong);
}

/* The server's queue pair is of type UC. */
static void far_type(struct rig *rig, int peer, bool server, bool wrong)
{
	struct link link = { .type = server && wrong ? IBV_QPT_UC : IBV_QPT_RC };
	struct ibv_qp *qp = link_qp(rig, &link);
	struct card other = swap(peer, (struct card){ qp->qp_num, 0, 0, rig->gid });

	NEED(link_to(rig, qp, &link, other.qpn, other.gid, server) == 0);
	if (server)
		NEED(post_recv(qp, rig, 1, 4096, 64) == 0);
	meet(peer);
	if (!server) {
		CHECK(works(rig, qp, IBV_WR_SEND, 64) == !wrong);
	}
	meet(peer);
	if (server)
		CHECK(poll_for(rig->cq, 1, wrong ? 0.2 : 3) == !wrong);
}

/* The server sends the address of one region, and the key of another. */
static void far_two_regions(struct rig *rig, int peer, bool server, bool wrong)
{
	char *memory = map_apart(server, 65536);
	struct ibv_mr *data = KEEP(ibv_reg_mr(rig->pd, memory, 4096, ALL_ACCESS));
	struct ibv_mr *control = KEEP(ibv_reg_mr(rig->pd, memory + 61440, 4096, ALL_ACCESS));

	NEED(data && control);
	struct card other, mine = { .rkey = (wrong ? control : data)->rkey, .addr = (uintptr_t)memory };
	struct ibv_qp *qp = connect_side(rig, peer, server, mine, &other);
	if (!server)
		CHECK(write_to(rig, qp, other.addr, other.rkey) == !wrong);
	meet(peer);
}

/* ibv_poll_cq while a poll of ibv_start_poll has not ended. */
static void poll_inside(struct rig *rig, bool wrong)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct ibv_cq_ex *cqx = KEEP(ibv_create_cq_ex(rig->context, &attr));
	struct link link = { .send_cq = ibv_cq_ex_to_cq(cqx) };
	struct ends ends = link_up(rig, &link);
	struct ibv_poll_cq_attr poll = { 0 };
	struct ibv_wc wc;

	for (int i = 0; i < 2; i++)
		NEED(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 0, 8) == 0);
	while (ibv_start_poll(cqx, &poll))
		;
	if (wrong)
		ibv_poll_cq(link.send_cq, 1, &wc);
	ibv_end_poll(cqx);
	if (!wrong)
		CHECK(next_status(link.send_cq) == IBV_WC_SUCCESS);
}

/* ibv_post_send while requests of ibv_wr_start are not complete. */
static void post_inside(struct rig *rig, bool wrong)
{
	struct link link = { 0 };
	struct ends ends = { make_qp(rig, IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE, NULL), link_qp(rig, &link) };

	join(rig, ends.a, ends.b);
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(ends.a);
	NEED(qpx);
	ibv_wr_start(qpx);
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qpx, rig->mr->rkey, (uintptr_t)rig->buf + 4096);
	ibv_wr_set_sge(qpx, rig->mr->lkey, (uintptr_t)rig->buf, 8);
	if (wrong)
		CHECK(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 0, 8) == 0);
	CHECK(ibv_wr_complete(qpx) == 0);
	if (!wrong)
		CHECK(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 0, 8) == 0);
	CHECK(poll_for(rig->cq, 2, 3) == 2);
}

/* A process closes what it has not opened, but for files. */
static void close_others(void)
{
	struct stat of;

	for (int fd = 3; fd < 256; fd++)
		if (fstat(fd, &of) == 0 && !(S_ISREG(of.st_mode) && of.st_nlink > 0))
			close(fd);
}

static void descriptors_closed(struct rig *rig, bool wrong)
{
	struct link link = { 0 };

	if (wrong)
		close_others();
	struct ibv_qp *qp = link_qp(rig, &link);
	/* Connected with itself. */
	NEED(link_to(rig, qp, &link, qp->qp_num, rig->gid, true) == 0);
	NEED(send_wr(qp, rig, IBV_WR_RDMA_WRITE, 0, 0, 8) == 0);
	CHECK(poll_for(rig->cq, 1, 30) == 1);
	/* There is no device any more that could be closed. */
	if (wrong)
		_exit(failures != 0);
}

/* Memory is made read-only after it was registered. */
static void made_read_only(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = KEEP(ibv_reg_mr(rig->pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE));

	NEED(mr);
	struct ibv_sge sge = { (uintptr_t)memory, 64, mr->lkey };
	if (wrong)
		NEED(mprotect(memory, 4096, PROT_READ) == 0);
	NEED(recv_one(ends.b, sge) == 0 && send_wr(ends.a, rig, IBV_WR_SEND, 0, 0, 64) == 0);
	CHECK((next_status(rig->cq) == IBV_WC_SUCCESS) == !wrong);
	next_status(rig->cq);
}

/* The Q_Key has the highest bit, for which the sender's own is sent. */
static void own_qkey(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ .type = IBV_QPT_UD });
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };

	NEED(post_recv(ends.b, rig, 1, 4096, 256) == 0);
	wr.wr.ud.ah = new_ah(rig, rig->gid);
	wr.wr.ud.remote_qpn = ends.b->qp_num;
	/* The second stands for the sender's, which is the right one. */
	wr.wr.ud.remote_qkey = wrong ? 0x8badcafe : 0x80000000;
	NEED(post_one(ends.a, part(rig, 0, 64), wr) == 0);
	CHECK(poll_for(rig->cq, 2, 3) == 2);
}

/* The program reads a member of a CQ that is NULL. The process ends by SIGSEGV. */
static void member_of_null(struct rig *rig, bool wrong)
{
	pid_t child = wrong ? fork() : 0;
	int status;

	if (wrong && child == 0) {
		struct ibv_cq *volatile none = NULL;

		_exit(none->cqe);
	}
	if (wrong)
		CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
	CHECK(poll_for(rig->cq, 1, 0) == 0);
}

const struct mistake more_trial_mistakes[] = {
	{ "poll-inside", poll_inside, "argument", "begun to poll the CQ with ibv_start_poll" },
	{ "post-inside", post_inside, "argument", "this thread has called ibv_wr_start, and since then" },
	{ "descriptors-closed", descriptors_closed, "argument", "of the device is closed, and the program" },
	{ "made-read-only", made_read_only, "argument", "is mapped r--p" },
	{ "own-qkey", own_qkey, "argument", "remote_qkey of the datagram" },
	{ "member-of-null", member_of_null, "crash-inline", "its own code has read a NULL pointer" },
	{ "cur-state", cur_state, "argument", "cur_qp_state is RESET, and the queue pair is in RTR" },
	{ "alt-path", alt_path, "argument", "the device has no automatic path migration" },
	{ "access-unset", access_unset, "unknown-bits", "qp_access_flags is 0xa5a5a5a5" },
	{ "receives-in-a-ring", receives_in_a_ring, "chain-loop", "behind 4 requests or receives" },
	{ "srq-in-a-ring", srq_in_a_ring, "chain-loop", "behind 4 requests or receives" },
	{ "unfenced-read", unfenced_read, "unfenced-read", "to which the RDMA READ (wr_id 77)" },
	{ "atomic-onto-itself", atomic_onto_itself, "argument", "which is a part of the 8 bytes" },
	{ "group-number", group_number, "argument", "goes to the multicast group" },
	{ "bind-outside", bind_outside, "argument", "the window of 65 bytes" },
	{ "srq-not-flushed", srq_not_flushed, "no-completion", "are not flushed, but stay" },
	{ "destroyed-before-flush", destroyed_before_flush, "no-completion",
	  "with 0 signaled requests and 1 receives outstanding" },
	{ "drains-unnoticed", drains_unnoticed, "no-async-event", "without asking for IBV_EVENT_SQ_DRAINED" },
	{ "far-type", NULL, "retry-exceeded", "is of type UC, and this one of type RC", far_type },
	{ "far-two-regions", NULL, "key-range", "address and key may be of two regions", far_two_regions },
	{ 0 },
};
