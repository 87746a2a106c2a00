/*
 * Registered memory that the program has unmapped, protected, or whose file was cut short: each access of
 * the device ends as an error of the request, at the end that has lost it. Signals that the library has not
 * caused are the program's, and end it as they would without the library.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "check.h"

#define HALF 65536

enum loss {
	UNMAPPED,
	NO_ACCESS,
	READ_ONLY,
	TRUNCATED,
	LOSSES
};
static const char *const names[] = { "unmapped", "no access", "read-only", "truncated" };

/* Two halves of HALF bytes; the second is lost. */
struct lossy {
	uint8_t *at;
	struct ibv_mr *mr;
	int fd;
};

enum place {
	GATHER,
	SCATTER,
	RECV,
	TARGET
};

/* One access. The remote address of requests that have one is at the border, too, for TARGET. */
struct access {
	const char *name;
	enum ibv_wr_opcode op;
	enum place place;
	/* The access only reads what is lost. */
	bool reads;
};

static const struct access accesses[] = {
	{ "SEND", IBV_WR_SEND, GATHER, true },
	{ "WRITE", IBV_WR_RDMA_WRITE, GATHER, true },
	{ "WRITE with immediate", IBV_WR_RDMA_WRITE_WITH_IMM, GATHER, true },
	{ "READ", IBV_WR_RDMA_READ, SCATTER, false },
	{ "FETCH AND ADD", IBV_WR_ATOMIC_FETCH_AND_ADD, SCATTER, false },
	{ "receive", IBV_WR_SEND, RECV, false },
	{ "WRITE at the target", IBV_WR_RDMA_WRITE, TARGET, false },
	{ "WRITE with immediate at the target", IBV_WR_RDMA_WRITE_WITH_IMM, TARGET, false },
	{ "READ at the target", IBV_WR_RDMA_READ, TARGET, true },
	{ "FETCH AND ADD at the target", IBV_WR_ATOMIC_FETCH_AND_ADD, TARGET, false },
	{ "COMPARE AND SWAP at the target", IBV_WR_ATOMIC_CMP_AND_SWP, TARGET, false },
};

static bool is_atomic(enum ibv_wr_opcode op)
{
	return op == IBV_WR_ATOMIC_FETCH_AND_ADD || op == IBV_WR_ATOMIC_CMP_AND_SWP;
}

static struct lossy make(struct rig *rig, enum loss loss)
{
	int flags = loss == TRUNCATED ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
	struct lossy made = { .fd = -1 };

	if (loss == TRUNCATED) {
		made.fd = memfd_create("lossy", 0);
		NEED(made.fd >= 0 && ftruncate(made.fd, 2 * HALF) == 0);
	}
	made.at = mmap(NULL, 2 * HALF, PROT_READ | PROT_WRITE, flags, made.fd, 0);
	NEED(made.at != MAP_FAILED);
	NEED(made.mr = ibv_reg_mr(rig->pd, made.at, 2 * HALF, ALL_ACCESS));
	return made;
}

static void lose(struct lossy *lossy, enum loss loss)
{
	void *half = lossy->at + HALF;

	if (loss == UNMAPPED)
		NEED(munmap(half, HALF) == 0);
	else if (loss == TRUNCATED)
		NEED(ftruncate(lossy->fd, HALF) == 0);
	else
		NEED(mprotect(half, HALF, loss == READ_ONLY ? PROT_READ : PROT_NONE) == 0);
}

static void discard(struct lossy *lossy, enum loss loss)
{
	CHECK(ibv_dereg_mr(lossy->mr) == 0);
	munmap(lossy->at, loss == UNMAPPED ? HALF : 2 * HALF);
	if (lossy->fd >= 0)
		close(lossy->fd);
}

/* Ends a queue pair's requests: what is not in the queue was not expected. */
static void drain(struct rig *rig, struct ibv_qp *a, struct ibv_qp *b)
{
	CHECK(end(a) == 0 && end(b) == 0);
	for (struct ibv_wc wc; ibv_poll_cq(rig->cq, 1, &wc) > 0;)
		;
}

/* Makes the access with a buffer across the border, or with a second buffer behind it. Returns the status of
 * the request, and that of the receive, or -1. */
static enum ibv_wc_status make_access(struct rig *rig, const struct access *access, struct lossy *lossy,
				      int len, bool two_buffers, int *received)
{
	struct ibv_qp *a = make_qp(rig, IBV_QPT_RC, 0, NULL), *b = make_qp(rig, IBV_QPT_RC, 0, NULL);
	uint8_t *lost = lossy->at + HALF - (is_atomic(access->op) ? 0 : len / 2);
	struct lossy whole = make(rig, NO_ACCESS);
	struct ibv_sge good = { (uintptr_t)whole.at, len, whole.mr->lkey };
	struct ibv_sge bad = { (uintptr_t)lost, len, lossy->mr->lkey };
	struct ibv_sge parts[] = { { (uintptr_t)whole.at, 16, whole.mr->lkey },
				   { (uintptr_t)lossy->at + HALF, len - 16, lossy->mr->lkey } };
	bool is_here = access->place == GATHER || access->place == SCATTER;
	struct ibv_sge *here = is_here ? two_buffers ? parts : &bad : &good;
	struct ibv_sge *there = access->place != RECV ? &good : two_buffers ? parts : &bad;
	struct ibv_recv_wr *bad_recv,
		recv = { .wr_id = 1, .sg_list = there, .num_sge = there == parts ? 2 : 1 };
	struct ibv_send_wr *bad_wr,
		wr = { .wr_id = 2, .sg_list = here, .num_sge = here == parts ? 2 : 1, .opcode = access->op };
	uint64_t remote = (uintptr_t)(access->place == TARGET ? lost : whole.at);
	uint32_t rkey = access->place == TARGET ? lossy->mr->rkey : whole.mr->rkey;
	bool needs_recv = access->op == IBV_WR_SEND || access->op == IBV_WR_RDMA_WRITE_WITH_IMM;
	enum ibv_wc_status status = IBV_WC_GENERAL_ERR;

	wr.wr.rdma.remote_addr = remote;
	wr.wr.rdma.rkey = rkey;
	if (is_atomic(access->op)) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = rkey;
	}
	join(rig, a, b);
	*received = -1;
	if (needs_recv)
		NEED(ibv_post_recv(b, &recv, &bad_recv) == 0);
	NEED(ibv_post_send(a, &wr, &bad_wr) == 0);
	for (bool sent = false; !sent || (access->place == RECV && *received < 0);) {
		struct ibv_wc wc = next_wc(rig->cq);

		if (wc.wr_id == 1)
			*received = wc.status;
		else
			status = wc.status;
		sent |= wc.wr_id == 2;
		if (wc.status == IBV_WC_GENERAL_ERR)
			break;
	}
	drain(rig, a, b);
	discard(&whole, NO_ACCESS);
	return status;
}

static void expect(struct rig *rig, const struct access *access, enum loss loss, int len, bool two_buffers)
{
	struct lossy lossy = make(rig, loss);
	enum ibv_wc_status expected = IBV_WC_SUCCESS, status;
	int expected_recv = access->place == RECV ? IBV_WC_LOC_PROT_ERR : -1, received, before = failures;

	if (access->place == TARGET)
		expected = IBV_WC_REM_ACCESS_ERR;
	else
		expected = access->place == RECV ? IBV_WC_REM_OP_ERR : IBV_WC_LOC_PROT_ERR;
	if (access->reads && loss == READ_ONLY)
		expected = IBV_WC_SUCCESS;
	lose(&lossy, loss);
	status = make_access(rig, access, &lossy, len, two_buffers, &received);
	CHECK(status == expected);
	CHECK(access->place != RECV || received == expected_recv);
	if (failures != before)
		printf("%s, %s, %d bytes, %d buffers: %d (%s), receive %d\n", access->name, names[loss], len,
		       1 + two_buffers, status, ibv_wc_status_str(status), received);
	discard(&lossy, loss);
}

static void reliable(struct rig *rig)
{
	static const int lengths[] = { 32, 500, 3000, HALF };

	for (size_t i = 0; i < sizeof(accesses) / sizeof(*accesses); i++) {
		const struct access *access = &accesses[i];
		bool may_split = access->place != TARGET && !is_atomic(access->op);

		for (int loss = 0; loss < LOSSES; loss++)
			for (size_t l = 0; l < sizeof(lengths) / sizeof(*lengths); l++) {
				int len = is_atomic(access->op) ? 8 : lengths[l];

				expect(rig, access, loss, len, false);
				if (may_split)
					expect(rig, access, loss, len, true);
				if (is_atomic(access->op))
					break;
			}
	}
}

/* A datagram that cannot be gathered ends as an error. A receive that cannot be written to, too. */
static void datagrams(struct rig *rig)
{
	struct ibv_ah *ah = new_ah(rig, rig->gid);

	for (int i = 0; i < 2 * LOSSES; i++) {
		enum loss loss = i / 2;
		bool receives = i % 2;
		struct ibv_qp *a = make_qp(rig, IBV_QPT_UD, 0, NULL), *b = make_qp(rig, IBV_QPT_UD, 0, NULL);
		struct lossy lossy = make(rig, loss);
		struct ibv_sge good = { (uintptr_t)rig->buf, 100, rig->mr->lkey };
		struct ibv_sge bad = { (uintptr_t)lossy.at + HALF - 50, 100, lossy.mr->lkey };
		struct ibv_sge room = { receives ? (uintptr_t)lossy.at + HALF - 90
						 : (uintptr_t)rig->buf + 200,
					140, receives ? lossy.mr->lkey : rig->mr->lkey };
		struct ibv_recv_wr *bad_recv, recv = { .wr_id = 1, .sg_list = &room, .num_sge = 1 };
		struct ibv_send_wr *bad_wr, wr = {
			.wr_id = 2, .sg_list = receives ? &good : &bad, .num_sge = 1, .opcode = IBV_WR_SEND
		};
		struct ibv_wc wc;

		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = b->qp_num;
		wr.wr.ud.remote_qkey = QKEY;
		join(rig, a, b);
		lose(&lossy, loss);
		NEED(ibv_post_recv(b, &recv, &bad_recv) == 0 && ibv_post_send(a, &wr, &bad_wr) == 0);
		do
			wc = next_wc(rig->cq);
		while (wc.wr_id != (receives ? 1 : 2) && wc.status != IBV_WC_GENERAL_ERR);
		CHECK(wc.status == (receives || loss != READ_ONLY ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS));
		drain(rig, a, b);
		discard(&lossy, loss);
	}
}

/* A handler as another type, which it is called as. */
#define AS(type, function) ((type)(void (*)(void))(function))

typedef void (*information_handler)(int, siginfo_t *, void *);

static sigjmp_buf escape;
static volatile sig_atomic_t calls, calls_of_other;

static void on_signal(int signal)
{
	calls++;
	siglongjmp(escape, signal);
}

static void on_information(int signal, siginfo_t *info, void *context)
{
	calls_of_other += context != NULL && info->si_signo == signal;
	siglongjmp(escape, signal);
}

/* A fault of the program's own. */
static void fault(void)
{
	*(volatile int *)64 = 1;
}

/* Faults of the library are its own, faults of the program are the handler's. */
static void both_kinds(struct rig *rig, volatile sig_atomic_t *count)
{
	int before = *count;

	for (size_t i = 0; i < sizeof(accesses) / sizeof(*accesses); i++)
		for (int loss = 0; loss < LOSSES; loss += TRUNCATED)
			expect(rig, &accesses[i], loss, is_atomic(accesses[i].op) ? 8 : 300, false);
	CHECK(*count == before);
	if (!sigsetjmp(escape, 1))
		fault();
	CHECK(*count == before + 1);
	if (!sigsetjmp(escape, 1))
		raise(SIGBUS);
	CHECK(*count == before + 2);
}

/* Installs the program's handlers before the first region; called before the device is opened. */
static void install_first(void)
{
	NEED(signal(SIGSEGV, on_signal) == SIG_DFL && signal(SIGBUS, on_signal) == SIG_DFL);
}

static void handlers(struct rig *rig)
{
	struct sigaction own = { .sa_sigaction = on_information, .sa_flags = SA_SIGINFO | SA_NODEFER };
	struct sigaction once = { .sa_handler = on_signal, .sa_flags = SA_RESETHAND };
	struct sigaction old;

	both_kinds(rig, &calls);
	sigaddset(&own.sa_mask, SIGUSR1);
	/* The program sees what it has installed, and not what the library has. */
	CHECK(sigaction(SIGSEGV, NULL, &old) == 0 && old.sa_handler == on_signal);
	CHECK(old.sa_flags & SA_RESTART && !(old.sa_flags & SA_SIGINFO));
	CHECK(sigaction(SIGSEGV, &own, &old) == 0 && old.sa_handler == on_signal);
	CHECK(sigaction(SIGBUS, &own, NULL) == 0);
	CHECK(sigaction(SIGSEGV, NULL, &old) == 0 && old.sa_sigaction == on_information);
	CHECK(old.sa_flags & SA_NODEFER && sigismember(&old.sa_mask, SIGUSR1));
	both_kinds(rig, &calls_of_other);
	/* Once, then no more. */
	CHECK(sigaction(SIGSEGV, &once, NULL) == 0);
	if (!sigsetjmp(escape, 1))
		fault();
	CHECK(sigaction(SIGSEGV, NULL, &old) == 0 && old.sa_handler == SIG_DFL);
	CHECK(signal(SIGSEGV, SIG_IGN) == SIG_DFL && signal(SIGSEGV, on_signal) == SIG_IGN);
	CHECK(signal(SIGBUS, on_signal) == AS(sighandler_t, on_information));
	both_kinds(rig, &calls);
	CHECK(signal(SIGSEGV, SIG_DFL) == on_signal && signal(SIGBUS, SIG_DFL) == on_signal);
}

/* As the kernel has it. */
struct action {
	information_handler handler;
	unsigned long flags;
	void *restorer;
	uint64_t mask;
};

static struct action below;
static volatile sig_atomic_t passed_on;

static void pass_on(int signal, siginfo_t *info, void *context)
{
	passed_on++;
	below.handler(signal, info, context);
}

static struct action raw_action(int signal, const struct action *new)
{
	struct action old = {};

	NEED(syscall(SYS_rt_sigaction, signal, new, &old, sizeof(old.mask)) == 0);
	return old;
}

/* A runtime that installs its handlers by the system call, and passes on what it does not know. */
static void other_runtimes(struct rig *rig)
{
	const struct access *access = &accesses[0];
	struct action own;
	struct lossy lossy;

	CHECK(signal(SIGSEGV, on_signal) == SIG_DFL);
	own = below = raw_action(SIGSEGV, NULL);
	CHECK(below.handler != AS(information_handler, on_signal));
	own.handler = pass_on;
	for (int i = 0; i < 8; i++) {
		int before = passed_on, before_calls = calls;

		raw_action(SIGSEGV, &own);
		/* The library looks once in a tick of the kernel's clock. */
		usleep(20000);
		lossy = make(rig, UNMAPPED);
		discard(&lossy, NO_ACCESS);
		/* Since this registration the library's handler is above. */
		expect(rig, access, UNMAPPED, 300, false);
		CHECK(passed_on == before);
		if (!sigsetjmp(escape, 1))
			fault();
		CHECK(passed_on == before + 1 && calls == before_calls + 1);
	}
	CHECK(signal(SIGSEGV, SIG_DFL) == AS(sighandler_t, pass_on));
}

/* A child of vfork has the memory of its parent, but handlers of its own. */
static void children_of_vfork(void)
{
	int status = -1;
	pid_t pid;

	CHECK(signal(SIGSEGV, on_signal) == SIG_DFL);
	pid = vfork();
	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL);
		fault();
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	if (!sigsetjmp(escape, 1))
		fault();
	CHECK(signal(SIGSEGV, SIG_DFL) == on_signal);
}

/* The program sleeps, so the background thread makes the accesses. */
static void in_background(struct rig *rig)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(rig->context);
	struct ibv_cq *cq = rig->cq;

	NEED(channel && (rig->cq = ibv_create_cq(rig->context, 16, NULL, channel, 0)));
	for (int i = 0; i < 2 * LOSSES; i++) {
		enum loss loss = i / 2;
		enum ibv_wr_opcode op = i % 2 ? IBV_WR_RDMA_READ : IBV_WR_SEND;
		struct ibv_qp *a = make_qp(rig, IBV_QPT_RC, 0, NULL), *b = make_qp(rig, IBV_QPT_RC, 0, NULL);
		struct lossy lossy = make(rig, loss);
		struct ibv_sge bad = { (uintptr_t)lossy.at + HALF - 50, 100, lossy.mr->lkey };
		struct ibv_recv_wr *bad_recv, recv = { .wr_id = 1, .sg_list = &bad, .num_sge = 1 };
		struct pollfd fd = { .fd = channel->fd, .events = POLLIN };
		struct ibv_cq *with_event;
		struct ibv_wc wc = {};
		void *context;

		join(rig, a, b);
		lose(&lossy, loss);
		NEED(ibv_req_notify_cq(rig->cq, 0) == 0);
		if (op == IBV_WR_SEND) {
			NEED(ibv_post_recv(b, &recv, &bad_recv) == 0);
			NEED(post(a, rig, op, 0, 100, 0, 0) == 0);
		} else {
			struct ibv_sge good = { (uintptr_t)rig->buf, 100, rig->mr->lkey };
			struct ibv_send_wr *bad_wr, wr = { .sg_list = &good, .num_sge = 1, .opcode = op };

			wr.wr.rdma.remote_addr = bad.addr;
			wr.wr.rdma.rkey = lossy.mr->rkey;
			NEED(ibv_post_send(a, &wr, &bad_wr) == 0);
		}
		NEED(poll(&fd, 1, WAIT_SECONDS * 1000) == 1 &&
		     ibv_get_cq_event(channel, &with_event, &context) == 0);
		ibv_ack_cq_events(with_event, 1);
		NEED(ibv_poll_cq(rig->cq, 1, &wc) == 1);
		if (op == IBV_WR_SEND)
			CHECK(wc.wr_id == 1 ? wc.status == IBV_WC_LOC_PROT_ERR
					    : wc.status == IBV_WC_REM_OP_ERR);
		else
			CHECK(wc.status == (loss == READ_ONLY ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR));
		drain(rig, a, b);
		discard(&lossy, loss);
	}
	CHECK(ibv_destroy_cq(rig->cq) == 0 && ibv_destroy_comp_channel(channel) == 0);
	rig->cq = cq;
}

/* Overflows the stack: the depth is not known to the compiler. */
static int overflow(volatile int *depth)
{
	volatile char page[4096];

	page[0] = (char)*depth;
	return *depth ? overflow(depth) + page[0] : 0;
}

static void die(int how)
{
	volatile int depth = 1;
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memfd_create("empty", 0), 0);

	switch (how) {
	case 0:
		fault();
		break;
	case 1:
		page[0] = 1;
		break;
	case 2:
		raise(SIGSEGV);
		break;
	case 3:
		kill(getpid(), SIGBUS);
		break;
	case 4:
		overflow(&depth);
		break;
	case 5:
		signal(SIGSEGV, SIG_IGN);
		raise(SIGSEGV);
		fault();
		break;
	case 6:
		/* Without an address. */
		*(volatile int *)0x8000000000000000 = 1;
		break;
	}
}

#define WAYS 7

/* The status of a child that dies, with or without the library's handlers. */
static int death(int how, bool with_region)
{
	pid_t pid = start_child();
	int status = 0;

	if (pid == 0) {
		struct rlimit no_core = { 0, 0 };
		struct rig rig;

		/* Where the kernel passes core dumps to a program, the status says so all the same. */
		setrlimit(RLIMIT_CORE, &no_core);
		if (with_region)
			set_up(&rig);
		alarm(10);
		die(how);
		_exit(0);
	}
	NEED(waitpid(pid, &status, 0) == pid);
	return status;
}

static void deaths(void)
{
	for (int how = 0; how < WAYS; how++) {
		int expected = death(how, false), status = death(how, true);

		CHECK(WIFSIGNALED(expected) && status == expected);
		if (status != expected)
			printf("way %d: status %#x, not %#x\n", how, status, expected);
	}
}

void check_lost(void)
{
	struct rig rig;

	deaths();
	install_first();
	set_up(&rig);
	handlers(&rig);
	reliable(&rig);
	datagrams(&rig);
	in_background(&rig);
	other_runtimes(&rig);
	children_of_vfork();
	tear_down(&rig);
	deaths();
}
