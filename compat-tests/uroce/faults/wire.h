/* The wire, without the library: builds and sends packets, and captures those on the wire. */
#ifndef WIRE_H
#define WIRE_H

#include "rig.h"

#include <netinet/in.h>

/* RC opcodes. */
enum {
	SEND_ONLY = 0x04,
	WRITE_ONLY = 0x0a,
	READ_REQUEST = 0x0c,
	READ_ONLY = 0x10,
	ACK = 0x11,
	FETCH_ADD = 0x14
};

/* A UDP socket that sends packets like a peer, without being one. */
struct outsider {
	int fd;
	struct in_addr from;
	uint16_t port;
};
/* Binds it to that address; NULL: the address of `end`. */
void open_outsider(struct outsider *outsider, const struct end *end, const char *address);

/* UDP port to which packets for a QP are sent, which its number encodes; and the first QP number of a port.
 */
uint16_t port_of(uint32_t qpn);
uint32_t first_qpn(uint16_t port);

#define HEADER 12 /* size of the BTH */
/* Writes a BTH; the caller writes the extension headers and the payload after it. */
void set_bth(uint8_t *packet, uint8_t opcode, uint32_t qpn, uint32_t psn);
void set_reth(uint8_t *packet, uint64_t addr, uint32_t rkey, uint32_t length);
/*
 * Appends the ICRC, for which the buffer must have room, and sends the packet. Returns false if the kernel's
 * buffer is full.
 */
bool send_forged(struct outsider *outsider, const struct end *to, uint32_t qpn, uint8_t *packet, size_t size);
uint32_t any(void);

/* A captured packet. `syndrome` is -1 if it has no AETH. */
struct captured {
	uint8_t opcode;
	uint32_t qpn, psn;
	int syndrome;
};
#define IS_RNR(seen) ((seen).opcode == ACK && (seen).syndrome >> 5 == 1)
/* Starts to capture the packets that the machine sends to itself, RoCE or not. */
int tap(void);
/* Waits up to `ms` ms for the next packet to one of two QPs; packets are returned in the order sent. */
bool next_captured(int tap, uint32_t qpn, uint32_t other, struct captured *seen, int ms);

#endif
