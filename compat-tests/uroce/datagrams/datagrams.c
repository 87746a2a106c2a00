/*
 * Preloaded by rows whose program sends datagrams by rsockets, and does not look at what it gets (udpong). It
 * fills each datagram behind the program's own header, checks the bytes at the other end, and prints a line
 * for each: `datagram of N bytes: right`, or `wrong at byte I`.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The program's header is shorter. The number of the datagram is in front of the bytes that follow from it.
 */
#define HEADER 64
#define NUMBER (HEADER - (int)sizeof(uint32_t))
#define LONGEST 65536

static uint8_t byte_of(uint32_t number, size_t at)
{
	return (uint8_t)((number + at) * 2654435761U >> 23);
}

static void *next(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

static const void *filled(const void *data, size_t len)
{
	static uint8_t copy[LONGEST];
	static uint32_t number;

	if (len <= HEADER || len > LONGEST)
		return data;
	memcpy(copy, data, len);
	number++;
	memcpy(copy + NUMBER, &number, sizeof(number));
	for (size_t i = HEADER; i < len; i++)
		copy[i] = byte_of(number, i);
	return copy;
}

static ssize_t checked(const uint8_t *data, ssize_t len)
{
	uint32_t number;

	if (len <= HEADER)
		return len;
	memcpy(&number, data + NUMBER, sizeof(number));
	for (ssize_t i = HEADER; i < len; i++)
		if (data[i] != byte_of(number, (size_t)i)) {
			dprintf(STDOUT_FILENO, "datagram of %zd bytes: wrong at byte %zd\n", len, i);
			return len;
		}
	dprintf(STDOUT_FILENO, "datagram of %zd bytes: right\n", len);
	return len;
}

ssize_t rsend(int socket, const void *data, size_t len, int flags)
{
	ssize_t (*rsend)(int, const void *, size_t, int) = next("rsend");

	return rsend(socket, filled(data, len), len, flags);
}

ssize_t rsendto(int socket, const void *data, size_t len, int flags, const struct sockaddr *to,
		socklen_t to_len)
{
	ssize_t (*rsendto)(int, const void *, size_t, int, const struct sockaddr *,
			   socklen_t) = next("rsendto");

	return rsendto(socket, filled(data, len), len, flags, to, to_len);
}

ssize_t rrecv(int socket, void *data, size_t len, int flags)
{
	ssize_t (*rrecv)(int, void *, size_t, int) = next("rrecv");

	return checked(data, rrecv(socket, data, len, flags));
}

ssize_t rrecvfrom(int socket, void *data, size_t len, int flags, struct sockaddr *from, socklen_t *from_len)
{
	ssize_t (*rrecvfrom)(int, void *, size_t, int, struct sockaddr *, socklen_t *) = next("rrecvfrom");

	return checked(data, rrecvfrom(socket, data, len, flags, from, from_len));
}
