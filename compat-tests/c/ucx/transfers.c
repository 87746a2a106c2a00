// Two processes exchange messages by each interface of UCP, in both directions: tag, stream, active messages,
// put, get and atomics. Every byte is checked, and those behind the end of a message.
//
//     transfers - PORT SIZE...          the server
//     transfers ADDRESS PORT SIZE...    the client
//
// UCP's addresses and keys, and the steps between transfers, go by TCP. Prints "N transfers, B bad".
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#define GUARD 64
#define POISON 0xa5
#define AM_ID 7
#define ADDITIONS 100

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h ep;
static ucp_rkey_h rkey;
static ucp_mem_h memory;
static int peer, is_client;
static size_t max_size;
/* The bytes that are sent, those that are received, and those that the peer reads and writes. */
static unsigned char *out, *in, *window;
static uint64_t remote;
static unsigned transfers, bad;

static void fail(const char *what, int status)
{
	printf("%s: %s\n", what, status < 0 ? ucs_status_string((ucs_status_t)status) : strerror(errno));
	exit(1);
}

static void ok(const char *what, ucs_status_t status)
{
	if (status != UCS_OK)
		fail(what, status);
}

static void progress(void)
{
	if (!ucp_worker_progress(worker))
		sched_yield();
}

static void finish(const char *what, void *request)
{
	ucs_status_t status;

	if (!request)
		return;
	if (UCS_PTR_IS_ERR(request))
		fail(what, UCS_PTR_STATUS(request));
	while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
		progress();
	ucp_request_free(request);
	ok(what, status);
}

static void tell(const void *bytes, size_t len)
{
	if (send(peer, bytes, len, MSG_NOSIGNAL) != (ssize_t)len)
		fail("send", 0);
}

/* The peer may need this process's progress for what it does first. */
static void hear(void *bytes, size_t len)
{
	for (size_t got = 0; got < len;) {
		ssize_t some = recv(peer, (char *)bytes + got, len - got, MSG_DONTWAIT);

		if (some == 0 || (some < 0 && errno != EAGAIN && errno != EINTR))
			fail("recv", 0);
		if (some > 0)
			got += some;
		else
			progress();
	}
}

static void barrier(void)
{
	char byte = 0;

	tell(&byte, 1);
	hear(&byte, 1);
}

static uint64_t word(uint64_t seed, size_t at)
{
	return (seed * 0x9e3779b97f4a7c15 + at) * 0xd1342543de82ef95 + seed;
}

static void fill(unsigned char *bytes, size_t len, uint64_t seed)
{
	for (size_t at = 0; at < len; at += 8) {
		uint64_t value = word(seed, at);

		memcpy(bytes + at, &value, len - at < 8 ? len - at : 8);
	}
}

static void poison(unsigned char *bytes, size_t len)
{
	memset(bytes, POISON, len + GUARD);
}

static void check(const char *what, const unsigned char *bytes, size_t len, uint64_t seed)
{
	for (size_t at = 0; at < len; at += 8) {
		uint64_t value = word(seed, at);

		if (memcmp(bytes + at, &value, len - at < 8 ? len - at : 8)) {
			printf("%s of %zu bytes: wrong data at byte %zu\n", what, len, at);
			bad++;
			return;
		}
	}
	for (size_t at = len; at < len + GUARD; at++)
		if (bytes[at] != POISON) {
			printf("%s of %zu bytes: byte %zu is written\n", what, len, at);
			bad++;
			return;
		}
}

static void by_tag(int sends, size_t len, uint64_t seed)
{
	ucp_request_param_t param = { 0 };

	if (sends) {
		finish("ucp_tag_send", ucp_tag_send_nbx(ep, out, len, seed, &param));
	} else {
		finish("ucp_tag_recv", ucp_tag_recv_nbx(worker, in, len, seed, UINT64_MAX, &param));
		check("tag", in, len, seed);
	}
}

static void by_stream(int sends, size_t len, uint64_t seed)
{
	ucp_request_param_t param = { 0 };
	size_t got;

	if (sends) {
		finish("ucp_stream_send", ucp_stream_send_nbx(ep, out, len, &param));
	} else {
		param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
		param.flags = UCP_STREAM_RECV_FLAG_WAITALL;
		finish("ucp_stream_recv", ucp_stream_recv_nbx(ep, in, len, &got, &param));
		check("stream", in, len, seed);
	}
}

/* An active message that has come: its length, and its descriptor if the data has to be fetched. */
static size_t am_len;
static void *am_descriptor;
static int am_came;

static ucs_status_t on_am(void *arg, const void *header, size_t header_len, void *data, size_t len,
			  const ucp_am_recv_param_t *param)
{
	(void)arg;
	am_came++;
	am_len = len;
	if (header_len != sizeof(uint64_t) || *(const uint64_t *)header != len || len > max_size) {
		printf("am: a header of %zu bytes, data of %zu\n", header_len, len);
		bad++;
		return UCS_OK;
	}
	if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
		am_descriptor = data;
		return UCS_INPROGRESS;
	}
	memcpy(in, data, len);
	return UCS_OK;
}

static void by_am(int sends, size_t len, uint64_t seed)
{
	ucp_request_param_t param = { 0 };
	uint64_t header = len;

	if (sends) {
		finish("ucp_am_send", ucp_am_send_nbx(ep, AM_ID, &header, sizeof(header), out, len, &param));
		return;
	}
	while (!am_came)
		progress();
	if (am_descriptor)
		finish("ucp_am_recv_data", ucp_am_recv_data_nbx(worker, am_descriptor, in, len, &param));
	if (am_came != 1 || am_len != len) {
		printf("am: %d of %zu bytes, not 1 of %zu\n", am_came, am_len, len);
		bad++;
	}
	check("am", in, len, seed);
	am_descriptor = NULL;
	am_came = 0;
}

static void flush(void)
{
	ucp_request_param_t param = { 0 };

	finish("ucp_ep_flush", ucp_ep_flush_nbx(ep, &param));
}

static void by_put(int sends, size_t len, uint64_t seed)
{
	ucp_request_param_t param = { 0 };

	if (!sends)
		poison(window, len);
	barrier();
	if (sends) {
		finish("ucp_put", ucp_put_nbx(ep, out, len, remote, rkey, &param));
		flush();
	}
	barrier();
	if (!sends)
		check("put", window, len, seed);
}

static void by_get(int sends, size_t len, uint64_t seed)
{
	ucp_request_param_t param = { 0 };

	if (sends)
		fill(window, len, seed);
	barrier();
	if (!sends) {
		finish("ucp_get", ucp_get_nbx(ep, in, len, remote, rkey, &param));
		check("get", in, len, seed);
	}
}

/* An atomic operation at the start of the peer's window. Returns what was there. */
static uint64_t atomic(ucp_atomic_op_t operation, size_t size, uint64_t operand, uint64_t swap, int fetches)
{
	ucp_request_param_t param = { 0 };
	uint64_t reply = swap;

	param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
	param.datatype = ucp_dt_make_contig(size);
	if (fetches) {
		param.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
		param.reply_buffer = &reply;
	}
	finish("ucp_atomic_op", ucp_atomic_op_nbx(ep, operation, &operand, 1, remote, rkey, &param));
	if (!fetches)
		flush();
	return size == 4 ? (uint32_t)reply : reply;
}

static void expect(const char *what, size_t size, uint64_t got, uint64_t wanted)
{
	wanted = size == 4 ? (uint32_t)wanted : wanted;
	transfers++;
	if (got == wanted)
		return;
	printf("%s of %zu bytes: %#llx, not %#llx\n", what, size, (unsigned long long)got,
	       (unsigned long long)wanted);
	bad++;
}

/* Each side works on the window of the other at the same time. */
static void atomics(size_t size)
{
	const uint64_t start = 0x1234567887654321, mask = 0x00ff00ff00ff00ff, swapped = 0xfeedfacecafebeef;
	uint64_t now = start;

	poison(window, 8);
	memcpy(window, &start, 8);
	barrier();
	atomic(UCP_ATOMIC_OP_ADD, size, 3, 0, 0);
	now += 3;
	expect("fetch and add", size, atomic(UCP_ATOMIC_OP_ADD, size, 5, 0, 1), now);
	now += 5;
	atomic(UCP_ATOMIC_OP_AND, size, mask, 0, 0);
	now &= mask;
	expect("fetch and or", size, atomic(UCP_ATOMIC_OP_OR, size, start, 0, 1), now);
	now |= start;
	atomic(UCP_ATOMIC_OP_XOR, size, mask, 0, 0);
	now ^= mask;
	expect("swap", size, atomic(UCP_ATOMIC_OP_SWAP, size, swapped, 0, 1), now);
	now = swapped;
	expect("compare and swap, unequal", size, atomic(UCP_ATOMIC_OP_CSWAP, size, start, mask, 1), now);
	expect("compare and swap, equal", size, atomic(UCP_ATOMIC_OP_CSWAP, size, swapped, start, 1), now);
	now = start;
	for (int i = 0; i < ADDITIONS; i++, now++)
		expect("one of many additions", size, atomic(UCP_ATOMIC_OP_ADD, size, 1, 0, 1), now);
	barrier();
	expect("the target", size, size == 4 ? *(uint32_t *)window : *(uint64_t *)window, now);
	if (size == 4)
		expect("bytes behind the target", size, *(uint32_t *)(window + 4), start >> 32);
	barrier();
}

static void all_of_size(size_t len)
{
	static void (*const ways[])(int, size_t, uint64_t) = { by_tag, by_stream, by_am, by_put, by_get };
	static uint64_t seed;

	for (size_t way = 0; way < sizeof(ways) / sizeof(*ways); way++)
		for (int direction = 0; direction < 2; direction++) {
			int sends = direction == is_client;

			seed++;
			transfers++;
			poison(in, len);
			fill(out, len, seed);
			barrier();
			ways[way](sends, len, seed);
			barrier();
		}
}

static void meet(const char *address, int port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
	int one = 1, socket_fd = socket(AF_INET, SOCK_STREAM, 0);

	is_client = strcmp(address, "-") != 0;
	if (is_client) {
		if (inet_pton(AF_INET, address, &to.sin_addr) != 1 ||
		    connect(socket_fd, (struct sockaddr *)&to, sizeof(to)))
			fail("connect", 0);
		peer = socket_fd;
		return;
	}
	setsockopt(socket_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(socket_fd, (struct sockaddr *)&to, sizeof(to)) || listen(socket_fd, 1))
		fail("listen", 0);
	peer = accept(socket_fd, NULL, NULL);
	if (peer < 0)
		fail("accept", 0);
	close(socket_fd);
}

/* Sends bytes with their length, and returns those of the peer. */
static void *swap_bytes(const void *bytes, size_t len)
{
	uint64_t own = len, other;
	void *got;

	tell(&own, sizeof(own));
	tell(bytes, len);
	hear(&other, sizeof(other));
	got = malloc(other);
	hear(got, other);
	return got;
}

static void start_worker(void)
{
	ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES,
				.features = UCP_FEATURE_TAG | UCP_FEATURE_STREAM | UCP_FEATURE_AM |
					    UCP_FEATURE_RMA | UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64 };
	ucp_worker_params_t of_worker = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
					  .thread_mode = UCS_THREAD_MODE_SINGLE };
	ucp_am_handler_param_t handler = { .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
							 UCP_AM_HANDLER_PARAM_FIELD_CB,
					   .id = AM_ID,
					   .cb = on_am };

	ok("ucp_init", ucp_init(&params, NULL, &context));
	ok("ucp_worker_create", ucp_worker_create(context, &of_worker, &worker));
	ok("ucp_worker_set_am_recv_handler", ucp_worker_set_am_recv_handler(worker, &handler));
}

static void connect_worker(void)
{
	ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS };
	ucp_mem_map_params_t map = { .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
						   UCP_MEM_MAP_PARAM_FIELD_LENGTH,
				     .address = window,
				     .length = max_size + GUARD };
	ucp_address_t *address;
	uint64_t own_window = (uintptr_t)window, *of_peer;
	void *packed, *key, *at;
	size_t len;

	ok("ucp_worker_get_address", ucp_worker_get_address(worker, &address, &len));
	at = swap_bytes(address, len);
	ucp_worker_release_address(worker, address);
	params.address = at;
	ok("ucp_ep_create", ucp_ep_create(worker, &params, &ep));
	ok("ucp_mem_map", ucp_mem_map(context, &map, &memory));
	ok("ucp_rkey_pack", ucp_rkey_pack(context, memory, &packed, &len));
	key = swap_bytes(packed, len);
	ucp_rkey_buffer_release(packed);
	ok("ucp_ep_rkey_unpack", ucp_ep_rkey_unpack(ep, key, &rkey));
	of_peer = swap_bytes(&own_window, sizeof(own_window));
	remote = *of_peer;
	free(of_peer);
	free(key);
	free(at);
}

static void stop(void)
{
	ucp_request_param_t param = { 0 };

	barrier();
	ucp_rkey_destroy(rkey);
	finish("ucp_ep_close", ucp_ep_close_nbx(ep, &param));
	barrier();
	ok("ucp_mem_unmap", ucp_mem_unmap(context, memory));
	ucp_worker_destroy(worker);
	ucp_cleanup(context);
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	for (int i = 3; i < argc; i++)
		if (strtoul(argv[i], NULL, 10) > max_size)
			max_size = strtoul(argv[i], NULL, 10);
	if (max_size < 8)
		max_size = 8;
	out = malloc(max_size + GUARD);
	in = malloc(max_size + GUARD);
	window = aligned_alloc(4096, (max_size + GUARD + 4095) / 4096 * 4096);
	start_worker();
	meet(argv[1], atoi(argv[2]));
	connect_worker();
	for (int i = 3; i < argc; i++)
		all_of_size(strtoul(argv[i], NULL, 10));
	atomics(4);
	atomics(8);
	stop();
	printf("%u transfers, %u bad\n", transfers, bad);
	return bad != 0;
}
