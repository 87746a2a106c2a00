/* How programs of the tests report failures. */
#pragma once

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern int failures;

/* Reports a failure and continues. */
#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			printf("%s:%d: not so: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno); \
			failures++; \
		} \
	} while (0)

/* Reports a failure and exits: the rest depends on it. */
#define NEED(condition) \
	do { \
		if (!(condition)) { \
			printf("%s:%d: needed: %s (errno %d: %s)\n", __FILE__, __LINE__, #condition, errno, \
			       strerror(errno)); \
			exit(1); \
		} \
	} while (0)

static inline void leave(int signal)
{
	(void)signal;
	_exit(0);
}

/* Ends the program after some seconds: the call that follows does not return. */
static inline void leave_after(unsigned seconds)
{
	fflush(NULL);
	signal(SIGALRM, leave);
	alarm(seconds);
}

static inline void ignore(int signal)
{
	(void)signal;
}

/* Interrupts the call that follows after some seconds, if it waits. */
static inline void interrupt_after(unsigned seconds)
{
	struct sigaction action = { .sa_handler = ignore };

	sigaction(SIGALRM, &action, NULL);
	alarm(seconds);
}
