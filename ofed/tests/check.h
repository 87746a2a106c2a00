/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Assertions for the programs of this directory, which compile as C and as C++. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int checks;

#define CHECK(condition) \
	do { \
		checks++; \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: not so: %s (errno: %s)\n", __FILE__, __LINE__, #condition, \
				strerror(errno)); \
			exit(1); \
		} \
	} while (0)

#define CHECK_IS(expression, expected) \
	do { \
		long long is_ = (long long)(expression), expected_ = (long long)(expected); \
		checks++; \
		if (is_ != expected_) { \
			fprintf(stderr, "%s:%d: %s is %lld, not %lld (errno: %s)\n", __FILE__, __LINE__, \
				#expression, is_, expected_, strerror(errno)); \
			exit(1); \
		} \
	} while (0)

/* NULL with errno */
#define CHECK_NULL(expression, error) \
	do { \
		errno = 0; \
		CHECK((expression) == NULL); \
		CHECK_IS(errno, error); \
	} while (0)

#endif
