/* What the parts of the bench share. See README.md for what the bench is. */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum fd_kind {
	FD_OTHER,
	FD_CMD,     /* the command fd of a pretended uverbs device */
	FD_NETLINK, /* a socket that pretends to be NETLINK_RDMA */
};

/* Number of the uverbs device an FD_CMD was opened for. */
int bench_uverbs_of(int fd);
/* True if that device is one of the named driver (its ibdev name starts so). */
bool bench_is_driver(int fd, const char *prefix);

/* answers.c: fills the response of a legacy write command. */
struct write_cmd {
	uint32_t number; /* without the flags */
	bool extended;
	const uint8_t *in; /* core payload of the request, after the response pointer */
	size_t in_len;
	uint8_t *out;
	size_t out_len;      /* core and provider part */
	size_t core_out_len; /* for extended commands */
};
void answer_write(int fd, const struct write_cmd *cmd);
/* The vendor's part of the answer to "get context"; returns its length. */
size_t vendor_context(int fd, void *out, size_t room);
/* Name of a command in capitals, EX_ in front for extended ones. */
const char *write_name(uint32_t number, bool extended);

/* ioctls.c: answers an RDMA_VERBS_IOCTL; returns 0 or an errno value. */
int answer_ioctl(int fd, void *header);

/* How an attribute of an ioctl is to be read. */
enum attr_kind {
	A_UNKNOWN,
	A_IN,
	A_OUT,
	A_IDR,
	A_NEW,
	A_FD,
	A_NEWFD,
	A_IDRS,
	A_ENUM
};
enum attr_kind ioctl_attr_kind(unsigned object, unsigned method, unsigned attr);
const char *ioctl_object_name(unsigned object);
const char *ioctl_method_name(unsigned object, unsigned method);

/* A fresh object handle, and a fresh fd that can be read (its other end stays with the bench). */
uint32_t fresh_handle(void);
int fresh_fd(void);

/* The completion and asynchronous events that a destroy is to tell of. */
void reported_events(uint32_t counts[2]);

/* The chosen errno for a call named so in BENCH_FAIL, 0 for none. -1: a short write. */
int chosen_failure(const char *name);
int errno_by_name(const char *name);

/* record.c: the log (BENCH_LOG). All are no-ops without it. */
bool recording(void);
void record_write(int fd, const void *buf, size_t len);
void record_ioctl(int fd, unsigned long request, const void *header);
void record_result(int error);
void record_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* netlink.c */
bool netlink_pretended(void);
int netlink_socket(int type);
void netlink_closed(int fd);
ssize_t netlink_send(int fd, const void *buf, size_t len);
ssize_t netlink_recv(int fd, void *buf, size_t len, int flags, int *msg_flags);

#endif
