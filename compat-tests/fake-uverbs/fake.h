/* Interface between the files of the fake kernel; see README.md. */
#ifndef FAKE_H
#define FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum fd_kind {
	FD_OTHER,
	FD_CMD,     /* the command descriptor of a fake uverbs device */
	FD_NETLINK, /* a fake NETLINK_RDMA socket */
};

/* Number of the uverbs device that an FD_CMD belongs to. */
int fake_uverbs_of(int fd);
/* Whether the name of that device starts with prefix. */
bool fake_is_driver(int fd, const char *prefix);

/* answers.c: fills in the response of a legacy write command. */
struct write_cmd {
	uint32_t number; /* without the flags */
	bool extended;
	const uint8_t *in; /* the core's part of the request, after the response pointer */
	size_t in_len;
	uint8_t *out;
	size_t out_len;      /* the core's and the provider's part */
	size_t core_out_len; /* for extended commands */
};
void answer_write(int fd, const struct write_cmd *cmd);
/* Writes the provider's part of the GET_CONTEXT response; returns its length. */
size_t vendor_context(int fd, void *out, size_t room);
/* Name of a command in capitals, with EX_ in front if it is extended. */
const char *write_name(uint32_t number, bool extended);

/* ioctls.c: executes an RDMA_VERBS_IOCTL; returns 0 or an errno value. */
int answer_ioctl(int fd, void *header);

/* Type of an ioctl attribute. */
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

/* A new object handle; a new descriptor that can be read, whose other end the shim keeps. */
uint32_t fresh_handle(void);
int fresh_fd(void);

/* Numbers of completion and asynchronous events that a destroy command returns. */
void reported_events(uint32_t counts[2]);

/* The errno value that FAKE_FAIL sets for the call of that name; 0: none; -1: a short write. */
int chosen_failure(const char *name);
int errno_by_name(const char *name);

/* record.c: the log (FAKE_LOG). Without it, all of these do nothing. */
bool recording(void);
void record_write(int fd, const void *buf, size_t len);
void record_ioctl(int fd, unsigned long request, const void *header);
void record_result(int error);
void record_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* netlink.c */
bool netlink_faked(void);
int netlink_socket(int type);
void netlink_closed(int fd);
ssize_t netlink_send(int fd, const void *buf, size_t len);
ssize_t netlink_recv(int fd, void *buf, size_t len, int flags, int *msg_flags);

#endif
