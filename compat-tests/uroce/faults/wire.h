/* The wire, without the library: packets that are made and sent by hand, and those that are seen on it. */
#ifndef WIRE_H
#define WIRE_H

#include "rig.h"

#include <netinet/in.h>

/* Opcodes of reliable connections. */
enum {
	SEND_ONLY = 0x04,
	WRITE_ONLY = 0x0a,
	READ_REQUEST = 0x0c,
	READ_ONLY = 0x10,
	ACK = 0x11,
	FETCH_ADD = 0x14
};

/* A UDP socket that sends packets as a peer would, without being one. */
struct stranger {
	int fd;
	struct in_addr from;
	uint16_t port;
};
/* At that address, 0 for that of `end`. */
void appear(struct stranger *stranger, const struct end *end, const char *address);

#define HEADER 12 /* the BTH */
/* Writes a BTH; the extension headers and the payload are to stand behind it. */
void set_bth(uint8_t *packet, uint8_t opcode, uint32_t qpn, uint32_t psn);
void set_reth(uint8_t *packet, uint64_t addr, uint32_t rkey, uint32_t length);
/* Sends `size` bytes with the ICRC, for which there must be room behind them; false if the kernel has no room
 * for it. */
bool cast(struct stranger *stranger, const struct end *to, uint32_t qpn, uint8_t *packet, size_t size);
uint32_t any(void);

/* A packet that was seen. `syndrome` is -1 where there is none. */
struct seen {
	uint8_t opcode;
	uint32_t qpn, psn;
	int syndrome;
};
#define IS_RNR(seen) ((seen).opcode == ACK && (seen).syndrome >> 5 == 1)
/* Sees from now on what goes from the machine to itself, RoCE or not. */
int tap(void);
/* The next packet to one of these queue pairs, if one comes within so many ms; the order is that of sending.
 */
bool see(int tap, uint32_t qpn, uint32_t other, struct seen *seen, int ms);

#endif
