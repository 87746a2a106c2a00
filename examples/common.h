/*
 * What the examples share. Each example is one program that is started twice: without a host name it is the
 * server, with one it is the client.
 *
 * common.c has the options, the error messages and the TCP connection. connect.c opens the device and
 * connects queue pairs; read it first.
 *
 * Errors. Verbs report errors in two ways. Those that return a pointer return NULL and set errno. Those that
 * return an int return 0 or a positive errno value, and need not set errno. (ibv_poll_cq and ibv_get_cq_event
 * return a negative number.) An example that fails prints what failed and why, and exits: the kernel then
 * frees its objects.
 */
#ifndef EXAMPLES_COMMON_H
#define EXAMPLES_COMMON_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct options {
	const char *device; /* NULL: the first one */
	uint8_t ib_port;    /* ports of a device are numbered from 1 */
	int gid_index;      /* -1: choose_gid() chooses */
	bool lid;           /* address the peer by LID, without a GRH */
	const char *tcp_port;
	const char *host; /* NULL: this is the server */
};

/* The local side: an open device, and how its port is addressed. */
struct device {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_port_attr port_attr;
	uint8_t ib_port;
	bool grh; /* packets carry a global route header: always on RoCE */
	uint8_t gid_index;
	union ibv_gid gid;
};

/* The address of a queue pair: what the other side needs to send to it. */
struct endpoint {
	uint16_t lid;      /* address within an InfiniBand subnet; 0 on RoCE */
	union ibv_gid gid; /* address across subnets; on RoCE, the IP address */
	uint32_t qpn;      /* queue pair number, 24 bits */
	uint32_t psn;      /* number of the first packet that it sends, 24 bits */
	enum ibv_mtu mtu;  /* largest packet that its port can send and receive */
};

/* common.c */

/* Prints "PROGRAM: MESSAGE: strerror(err)" and exits with status 1. If err is 0, only the message. */
void fail(int err, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));
/* Reads the command line. The text describes the program in the usage message. */
struct options parse_options(int argc, char **argv, const char *description);
/* Connects to the server's TCP port; as the server, waits for one client. Returns the socket. */
int tcp_open(const struct options *options);
/* Sends and receives one line of text. The received one has no newline at its end. */
void send_line(int sock, const char *format, ...) __attribute__((format(printf, 2, 3)));
void receive_line(int sock, char *line, size_t size);
/* Returns when both sides have called it. */
void barrier(int sock);
/* A queue pair's first packet number: random, so that late packets of an older connection do not fit. */
uint32_t random_psn(void);
/* Waits until one work request of this completion queue has completed with success, and returns its
 * completion. Exits if it completed with an error, or if there is none within ten seconds. */
struct ibv_wc wait_completion(struct ibv_cq *cq, const char *what);
/* Exits if the work request has failed. */
void check_completion(const struct ibv_wc *wc, const char *what);

/* connect.c */

struct device open_device(const struct options *options, int sock);
void close_device(struct device *device);
/* Sends our endpoint to the peer, and returns the peer's. */
struct endpoint exchange(const struct device *device, int sock, uint32_t qpn, uint32_t psn);
/* The address vector: the path from this port to the peer's. */
struct ibv_ah_attr path_to(const struct device *device, uint16_t lid, const union ibv_gid *gid);
/* ibv_modify_qp with IBV_QP_STATE and the attributes in the mask. Exits if it fails. */
void modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, const char *state);
/* The three state transitions of a connected queue pair (RC, XRC). */
void modify_to_init(const struct device *device, struct ibv_qp *qp, unsigned int remote_access);
void modify_to_rtr(const struct device *device, struct ibv_qp *qp, const struct endpoint *peer);
void modify_to_rts(struct ibv_qp *qp, uint32_t psn);

#endif
