/* Events from the network: forged packets, an interface that goes down and up. */
#include "wire.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static const struct options plain;

static int far_from(uint32_t psn, uint32_t expected)
{
	uint32_t distance = (psn - expected) & 0xffffff;

	return distance > 64 && distance < 0xffffff - 64;
}

/*
 * Packets that another user of the machine can send: well-formed, with every opcode, to existing QPs, but
 * without knowledge of their keys and PSNs.
 */
static void forged(void)
{
	struct end a, b;
	struct outsider outsider;
	uint8_t packet[600];
	char before[SIZE];
	int sent = 0;

	make_pair(&a, &b, &plain, &plain);
	MUST(post_receive(&b) == 0);
	for (int i = 0; i < SIZE; i++)
		b.memory[i] = i * 7;
	memcpy(before, b.memory, SIZE);

	open_outsider(&outsider, &a, NULL);
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
		sent += send_forged(&outsider, victim, qpn, packet, size);
		if (i % 50 == 0)
			usleep(1000); /* so that the receiving socket's buffer does not overflow */
	}
	short_wait();
	report("sent: %s", sent > 19000 ? "nearly all" : "TOO FEW");
	report("memory: %s", memcmp(before, b.memory, SIZE) ? "CHANGED" : "unchanged");
	report("queue pairs: %s, %s", state(&a), state(&b));
	report("completions: %s, events: %s", nothing(&a) && nothing(&b) ? "none" : "SOME",
	       no_event(&a) && no_event(&b) ? "none" : "SOME");
	MUST(post(&a, IBV_WR_SEND, NULL, 0, 64) == 0);
	report("traffic: %s, %s", status(&a), status(&b));
	close(outsider.fd);
	close_pair(&a, &b);
}

/* In a network namespace, the interface $LINK goes down and up, and an address is added and removed. */
static void link_down(void)
{
	struct options lenient = { .timeout = 16 };
	struct end a, b;
	struct ibv_port_attr port;

	make_pair(&a, &b, &lenient, &lenient);
	MUST(post(&a, IBV_WR_RDMA_WRITE, &b.self, 0, 64) == 0);
	report("up: %s", status(&a));
	sh("ip link set $LINK down");
	report("down: %s", event(&a));
	MUST(ibv_query_port(a.context, 1, &port) == 0);
	report("port: %s", ibv_port_state_str(port.state));
	MUST(post(&a, IBV_WR_RDMA_WRITE, &b.self, 0, 64) == 0);
	sh("ip link set $LINK up");
	const char *name;
	do
		name = event(&a);
	while (!strcmp(name, ibv_event_type_str(IBV_EVENT_GID_CHANGE)));
	report("up again: %s", name);
	MUST(ibv_query_port(a.context, 1, &port) == 0);
	report("port: %s", ibv_port_state_str(port.state));
	report("posted while down: %s", status(&a));
	short_wait();
	while (!no_event(&a))
		event(&a);
	sh("ip addr add 10.9.7.77/24 dev $LINK");
	report("address added: %s", event(&a));
	union ibv_gid gid;
	int found = -1;
	for (int i = 0; i < 16 && found < 0; i++)
		if (ibv_query_gid(a.context, 1, i, &gid) == 0 && gid.raw[12] == 10 && gid.raw[15] == 77)
			found = i;
	report("its GID: %s", found >= 0 ? "present" : "MISSING");
	sh("ip addr del 10.9.7.77/24 dev $LINK");
	report("address removed: %s", event(&a));
	report("its GID: %s", found >= 0 && ibv_query_gid(a.context, 1, found, &gid) == 0 && gid.raw[15] == 77
				      ? "STILL PRESENT"
				      : "gone");
	MUST(post(&a, IBV_WR_RDMA_WRITE, &b.self, 0, 64) == 0);
	report("traffic: %s", status(&a));
	close_pair(&a, &b);
}

const struct scene host_scenes[] = { { "forged", forged, true }, { "link", link_down }, { 0 } };
