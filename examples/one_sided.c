/*
 * one_sided: WRITE, READ and atomics. The client accesses the server's memory; the server's program does
 * nothing meanwhile.
 *
 * The server registers a buffer with the rights that it grants (IBV_ACCESS_REMOTE_*), and sends its address
 * and R_Key over TCP. The client has access because it knows both, and because its queue pair is connected to
 * one in the protection domain of the region.
 *
 * The server's program does not notice a WRITE unless it reads the memory. So the client's last WRITE
 * carries immediate data: that consumes a receive request of the server, whose completion shows that this
 * WRITE and all earlier ones have arrived.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

#define TEXT "written by the client"
#define ADDED 5
#define SWAPPED 1000
#define IMMEDIATE 0x600d

/* The memory that the server lets the client access. Atomics need a multiple of 8 as address. */
struct shared {
	uint64_t counter;
	char text[64];
	char copy[64];
};

struct connection {
	struct device device;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct shared
		shared; /* the server's is accessed; the client's is where its data come from and go to */
	uint64_t remote_addr;
	uint32_t rkey;
};

static void create(struct connection *c)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_device_attr limits;
	int err = ibv_query_device(c->device.context, &limits);

	if (err)
		fail(err, "ibv_query_device");
	if (limits.atomic_cap == IBV_ATOMIC_NONE)
		fail(0, "this device has no atomics (ibv_query_device: atomic_cap)");
	/* Remote writes and atomics need local write access, too. */
	c->mr = ibv_reg_mr(c->device.pd, &c->shared, sizeof(c->shared),
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC);
	if (!c->mr)
		fail(errno, "ibv_reg_mr of %zu bytes", sizeof(c->shared));
	c->cq = ibv_create_cq(c->device.context, 5, NULL, NULL, 0);
	if (!c->cq)
		fail(errno, "ibv_create_cq");
	attr.send_cq = attr.recv_cq = c->cq;
	c->qp = ibv_create_qp(c->device.pd, &attr);
	if (!c->qp)
		fail(errno, "ibv_create_qp, RC");
}

/*
 * Posts one request on the server's memory at remote_offset. The local data are at local.
 *
 * Without IBV_SEND_SIGNALED a request that succeeds has no completion: the completion of a later request
 * shows that it has completed, too. At least the last one of a full send queue has to be signaled.
 */
static void post(struct connection *c, struct ibv_send_wr *wr, void *local, uint32_t length,
		 size_t remote_offset)
{
	struct ibv_sge sge = { (uintptr_t)local, length, c->mr->lkey };
	uint64_t remote_addr = c->remote_addr + remote_offset;
	struct ibv_send_wr *bad;
	int err;

	wr->sg_list = &sge;
	wr->num_sge = 1;
	if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr->wr.atomic.remote_addr = remote_addr;
		wr->wr.atomic.rkey = c->rkey;
	} else {
		wr->wr.rdma.remote_addr = remote_addr;
		wr->wr.rdma.rkey = c->rkey;
	}
	err = ibv_post_send(c->qp, wr, &bad);
	if (err)
		fail(err, "ibv_post_send, opcode %d", wr->opcode);
}

/* WRITE, then READ of the same memory. Requests of a queue pair take effect in order, so one completion will
 * do. */
static void write_and_read(struct connection *c)
{
	struct ibv_send_wr write = { .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE };
	struct ibv_send_wr read = { .wr_id = 2, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED };

	strcpy(c->shared.text, TEXT);
	post(c, &write, c->shared.text, sizeof(TEXT), offsetof(struct shared, text));
	post(c, &read, c->shared.copy, sizeof(TEXT), offsetof(struct shared, text));
	wait_completion(c->cq, "WRITE and READ");
	if (strcmp(c->shared.copy, TEXT) != 0)
		fail(0, "READ returned \"%.64s\" after a WRITE of \"%s\"", c->shared.copy, TEXT);
	printf("wrote and read back \"%s\"\n", c->shared.copy);
}

/* An atomic on the server's counter. Returns the value that it had before. */
static uint64_t atomic(struct connection *c, enum ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap)
{
	struct ibv_send_wr wr = { .wr_id = 3, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED };

	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = swap;
	post(c, &wr, &c->shared.counter, sizeof(c->shared.counter), offsetof(struct shared, counter));
	wait_completion(c->cq, "atomic");
	return c->shared.counter; /* in the byte order of this host */
}

static void run_client(struct connection *c)
{
	struct ibv_send_wr last = { .wr_id = 4,
				    .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				    .send_flags = IBV_SEND_SIGNALED };
	uint64_t before = atomic(c, IBV_WR_ATOMIC_FETCH_AND_ADD, ADDED, 0);

	printf("counter: %" PRIu64 ", add %d\n", before, ADDED);
	before = atomic(c, IBV_WR_ATOMIC_CMP_AND_SWP, before + ADDED, SWAPPED);
	printf("counter: %" PRIu64 ", swap for %d\n", before, SWAPPED);
	/* The counter is not 0 any more, so this changes nothing, and the returned value says so. */
	before = atomic(c, IBV_WR_ATOMIC_CMP_AND_SWP, 0, 1);
	if (before != SWAPPED)
		fail(0, "the counter is %" PRIu64 ", not %d: did somebody else change it?", before, SWAPPED);
	write_and_read(c);
	last.imm_data = htonl(IMMEDIATE); /* sent as it is: both sides have to agree on a byte order */
	post(c, &last, c->shared.text, sizeof(TEXT), offsetof(struct shared, copy));
	wait_completion(c->cq, "WRITE with immediate data");
}

static void post_receive(struct connection *c)
{
	/* Immediate data need a receive request without a buffer: the data of a WRITE go to its address. */
	struct ibv_recv_wr wr = { .wr_id = 5 }, *bad;
	int err = ibv_post_recv(c->qp, &wr, &bad);

	if (err)
		fail(err, "ibv_post_recv");
}

static void run_server(struct connection *c)
{
	struct ibv_wc wc = wait_completion(c->cq, "receive of immediate data");

	if (wc.opcode != IBV_WC_RECV_RDMA_WITH_IMM || !(wc.wc_flags & IBV_WC_WITH_IMM) ||
	    ntohl(wc.imm_data) != IMMEDIATE)
		fail(0, "the completion is not one of a WRITE with immediate data 0x%x", IMMEDIATE);
	if (strcmp(c->shared.text, TEXT) != 0 || strcmp(c->shared.copy, TEXT) != 0)
		fail(0, "the text is \"%.64s\" and \"%.64s\"", c->shared.text, c->shared.copy);
	if (c->shared.counter != SWAPPED)
		fail(0, "the counter is %" PRIu64, c->shared.counter);
	printf("the client has set the counter to %" PRIu64 " and the text to \"%s\"\n", c->shared.counter,
	       c->shared.text);
}

/* Sends the address and the R_Key of the server's memory to the client. */
static void exchange_keys(struct connection *c, const struct options *options, int sock)
{
	char line[64];

	if (!options->host) {
		send_line(sock, "%" PRIu64 " %" PRIu32, (uint64_t)(uintptr_t)&c->shared, c->mr->rkey);
		return;
	}
	receive_line(sock, line, sizeof(line));
	if (sscanf(line, "%" SCNu64 " %" SCNu32, &c->remote_addr, &c->rkey) != 2)
		fail(0, "the peer has sent \"%s\": is it the same example?", line);
}

int main(int argc, char **argv)
{
	struct options options = parse_options(argc, argv, "WRITE, READ and atomics on the server's memory.");
	static struct connection c;
	struct endpoint peer;
	uint32_t psn = random_psn();
	int sock = tcp_open(&options), err;

	c.device = open_device(&options, sock);
	create(&c);
	/* The rights that the queue pair grants. An access needs them here and on the memory region. */
	modify_to_init(&c.device, c.qp,
		       options.host
			       ? 0
			       : IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	if (!options.host)
		post_receive(&c);
	peer = exchange(&c.device, sock, c.qp->qp_num, psn);
	exchange_keys(&c, &options, sock);
	modify_to_rtr(&c.device, c.qp, &peer);
	modify_to_rts(c.qp, psn);
	barrier(sock); /* both are ready to receive */
	if (options.host)
		run_client(&c);
	else
		run_server(&c);
	barrier(sock); /* the client needs the server's memory no more */
	close(sock);
	if ((err = ibv_destroy_qp(c.qp)))
		fail(err, "ibv_destroy_qp");
	if ((err = ibv_destroy_cq(c.cq)))
		fail(err, "ibv_destroy_cq");
	if ((err = ibv_dereg_mr(c.mr)))
		fail(err, "ibv_dereg_mr");
	close_device(&c.device);
	printf("done\n");
	return 0;
}
