/* What comes from the network: forged packets, an interface that goes down and up. */
#include "wire.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static const struct how plain;

static int far_from(uint32_t psn, uint32_t expected)
{
	uint32_t distance = (psn - expected) & 0xffffff;

	return distance > 64 && distance < 0xffffff - 64;
}

/* Packets that another user of the machine may send: well-formed, with every opcode, to queue pairs that are
 * there, but without knowing their keys and sequence numbers. */
static void forged(void)
{
	struct end a, b;
	struct stranger stranger;
	uint8_t packet[600];
	char before[SIZE];
	int sent = 0;

	make_pair(&a, &b, &plain, &plain);
	MUST(post_receive(&b) == 0);
	for (int i = 0; i < SIZE; i++)
		b.memory[i] = i * 7;
	memcpy(before, b.memory, SIZE);

	appear(&stranger, &a, NULL);
	for (int i = 0; i < 20000; i++) {
		struct end *victim = i & 1 ? &a : &b;
		uint32_t qpn = i % 7 == 0 ? any() & 0xffffff : victim->self.qpn, psn;
		size_t size = 12 + any() % 200 * 4;

		if (size > sizeof packet - 4)
			size = sizeof packet - 4;
		do
			psn = any() & 0xffffff;
		while (!far_from(psn, a.self.psn) || !far_from(psn, b.self.psn));
		MUST(getrandom(packet, size, 0) == (ssize_t)size);
		uint8_t second = i % 3 ? packet[1] & 0x80 : packet[1]; /* version 0, no padding */
		set_bth(packet, i / 64, qpn, psn);                     /* every opcode, many times */
		packet[1] = second;
		sent += cast(&stranger, victim, qpn, packet, size);
		if (i % 50 == 0)
			usleep(1000); /* for the receiver's socket to hold them all */
	}
	settle();
	tell("sent: %s", sent > 19000 ? "nearly all" : "TOO FEW");
	tell("memory: %s", memcmp(before, b.memory, SIZE) ? "CHANGED" : "unchanged");
	tell("queue pairs: %s, %s", state(&a), state(&b));
	tell("completions: %s, events: %s", nothing(&a) && nothing(&b) ? "none" : "SOME",
	     no_event(&a) && no_event(&b) ? "none" : "SOME");
	MUST(post(&a, IBV_WR_SEND, NULL, 0, 64) == 0);
	tell("traffic: %s, %s", status(&a), status(&b));
	close(stranger.fd);
	close_end(&a);
	close_end(&b);
}

/* The interface (LINK in the environment) goes down and up, and gets another address: in a network namespace.
 */
static void link_down(void)
{
	struct how patient = { .timeout = 16 };
	struct end a, b;
	struct ibv_port_attr port;

	make_pair(&a, &b, &patient, &patient);
	MUST(post(&a, IBV_WR_RDMA_WRITE, &b.self, 0, 64) == 0);
	tell("up: %s", status(&a));
	sh("ip link set $LINK down");
	tell("down: %s", event(&a));
	MUST(ibv_query_port(a.context, 1, &port) == 0);
	tell("port: %s", ibv_port_state_str(port.state));
	MUST(post(&a, IBV_WR_RDMA_WRITE, &b.self, 0, 64) == 0);
	sh("ip link set $LINK up");
	const char *name;
	do
		name = event(&a);
	while (!strcmp(name, ibv_event_type_str(IBV_EVENT_GID_CHANGE)));
	tell("up again: %s", name);
	MUST(ibv_query_port(a.context, 1, &port) == 0);
	tell("port: %s", ibv_port_state_str(port.state));
	tell("what was posted in between: %s", status(&a));
	settle();
	while (!no_event(&a))
		event(&a);
	sh("ip addr add 10.9.7.77/24 dev $LINK");
	tell("an address more: %s", event(&a));
	union ibv_gid gid;
	int found = -1;
	for (int i = 0; i < 16 && found < 0; i++)
		if (ibv_query_gid(a.context, 1, i, &gid) == 0 && gid.raw[12] == 10 && gid.raw[15] == 77)
			found = i;
	tell("its GID: %s", found >= 0 ? "there" : "MISSING");
	sh("ip addr del 10.9.7.77/24 dev $LINK");
	tell("an address less: %s", event(&a));
	tell("its GID: %s", found >= 0 && ibv_query_gid(a.context, 1, found, &gid) == 0 && gid.raw[15] == 77
				    ? "STILL THERE"
				    : "gone");
	MUST(post(&a, IBV_WR_RDMA_WRITE, &b.self, 0, 64) == 0);
	tell("traffic: %s", status(&a));
	close_end(&a);
	close_end(&b);
}

const struct scene host_scenes[] = { { "forged", forged, true }, { "link", link_down }, { 0 } };
