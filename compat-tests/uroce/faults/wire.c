#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

/* Ports that QP numbers encode, other than 4791. */
enum {
	FIRST_PORT = 61440,
	PORTS = 2047
};

uint32_t any(void)
{
	static uint64_t state;

	while (state == 0)
		MUST(getrandom(&state, sizeof state, 0) == sizeof state);
	/* xorshift: fast enough for a flood */
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state >> 32;
}

/* The CRC of Ethernet, one byte at a time; a table makes it fast enough for a flood. */
static uint32_t crc32(uint32_t crc, const uint8_t *data, size_t size)
{
	static uint32_t table[256];

	if (!table[1])
		for (uint32_t i = 0; i < 256; i++) {
			uint32_t value = i;

			for (int bit = 0; bit < 8; bit++)
				value = value >> 1 ^ (value & 1 ? 0xedb88320 : 0);
			table[i] = value;
		}
	for (size_t i = 0; i < size; i++)
		crc = crc >> 8 ^ table[(crc ^ data[i]) & 0xff];
	return crc;
}

/*
 * The ICRC: over 8 bytes of ones, the IP and UDP headers and the BTH with all variant fields set to ones, and
 * the rest.
 */
static uint32_t icrc(const uint8_t *ip_udp, const uint8_t *packet, size_t size)
{
	uint8_t head[8 + 28 + HEADER];

	memset(head, 0xff, 8);
	memcpy(head + 8, ip_udp, 28);
	memcpy(head + 36, packet, HEADER);
	head[8 + 1] = 0xff;                 /* type of service */
	head[8 + 8] = 0xff;                 /* time to live */
	head[8 + 10] = head[8 + 11] = 0xff; /* checksum */
	head[8 + 26] = head[8 + 27] = 0xff; /* UDP checksum */
	head[36 + 4] = 0xff;                /* reserved byte with the congestion bits */
	return ~crc32(crc32(0xffffffff, head, sizeof head), packet + HEADER, size - HEADER);
}

void open_outsider(struct outsider *outsider, const struct end *end, const char *address)
{
	struct sockaddr_in own = { .sin_family = AF_INET };
	socklen_t length = sizeof own;
	int discover = IP_PMTUDISC_DO; /* identification 0, don't fragment */

	MUST((outsider->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) >= 0);
	MUST(setsockopt(outsider->fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof discover) == 0);
	if (address)
		MUST(inet_pton(AF_INET, address, &own.sin_addr) == 1);
	else
		memcpy(&own.sin_addr, end->self.gid.raw + 12, 4);
	/* a port that can be encoded in a QP number */
	do
		own.sin_port = htons(FIRST_PORT + any() % PORTS);
	while (bind(outsider->fd, (void *)&own, sizeof own) != 0);
	MUST(getsockname(outsider->fd, (void *)&own, &length) == 0);
	outsider->from = own.sin_addr;
	outsider->port = ntohs(own.sin_port);
}

static void put24(uint8_t *at, uint32_t value)
{
	at[0] = value >> 16, at[1] = value >> 8, at[2] = value;
}

static uint32_t get24(const uint8_t *at)
{
	return at[0] << 16 | at[1] << 8 | at[2];
}

void set_bth(uint8_t *packet, uint8_t opcode, uint32_t qpn, uint32_t psn)
{
	memset(packet, 0, HEADER);
	packet[0] = opcode;
	packet[2] = packet[3] = 0xff; /* P_Key */
	put24(packet + 5, qpn);
	packet[8] = 0x80; /* AckReq */
	put24(packet + 9, psn);
}

void set_reth(uint8_t *packet, uint64_t addr, uint32_t rkey, uint32_t length)
{
	uint32_t words[4] = { htonl(addr >> 32), htonl(addr), htonl(rkey), htonl(length) };

	memcpy(packet + HEADER, words, sizeof words);
}

uint16_t port_of(uint32_t qpn)
{
	return qpn >= 1 << 23 && qpn < first_qpn(FIRST_PORT + PORTS) ? FIRST_PORT + (qpn - (1 << 23)) / 4096
								     : 4791;
}

uint32_t first_qpn(uint16_t port)
{
	return (1 << 23) + (port - FIRST_PORT) * 4096;
}

bool send_forged(struct outsider *outsider, const struct end *end, uint32_t qpn, uint8_t *packet, size_t size)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port_of(qpn)) };
	uint16_t total = 28 + size + 4, udp = 8 + size + 4, ports[2] = { htons(outsider->port), to.sin_port };
	uint8_t head[28] = {
		0x45, [2] = total >> 8, total, [6] = 0x40 /* don't fragment */, [9] = 17, [24] = udp >> 8, udp
	};
	uint32_t crc;

	memcpy(&to.sin_addr, end->self.gid.raw + 12, 4);
	memcpy(head + 12, &outsider->from, 4);
	memcpy(head + 16, &to.sin_addr, 4);
	memcpy(head + 20, ports, 4);
	crc = icrc(head, packet, size);
	memcpy(packet + size, &crc, 4);
	return sendto(outsider->fd, packet, size + 4, 0, (void *)&to, sizeof to) == (ssize_t)size + 4;
}

int tap(void)
{
	struct sockaddr_ll lo = { .sll_family = AF_PACKET,
				  .sll_protocol = htons(ETH_P_IP),
				  .sll_ifindex = if_nametoindex("lo") };
	int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	MUST(fd >= 0 && bind(fd, (void *)&lo, sizeof lo) == 0);
	return fd;
}

bool next_captured(int tap, uint32_t qpn, uint32_t other, struct captured *seen, int ms)
{
	struct pollfd ready = { .fd = tap, .events = POLLIN };
	uint8_t packet[65536], *bth;
	ssize_t size;

	while (poll(&ready, 1, ms) == 1) {
		if ((size = recv(tap, packet, sizeof packet, 0)) < 20 + 8 + HEADER + 4 ||
		    packet[9] != IPPROTO_UDP)
			continue;
		bth = packet + (packet[0] & 15) * 4 + 8;
		seen->opcode = bth[0];
		seen->qpn = get24(bth + 5);
		seen->psn = get24(bth + 9);
		seen->syndrome = seen->opcode == ACK ? bth[HEADER] : -1;
		if (seen->qpn == qpn || seen->qpn == other)
			return true;
	}
	return false;
}
