/* For programs that call verbs and print the results, so that two libraries can be compared. */
#ifndef WALK_H
#define WALK_H

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Functions of the shim; NULL without it. */
static void (*walk_mark)(const char *);
static int (*walk_push)(int, const void *, size_t);
static void (*walk_reported)(uint32_t, uint32_t);

static inline void walk_init(void)
{
	*(void **)&walk_mark = dlsym(RTLD_DEFAULT, "fake_mark");
	*(void **)&walk_push = dlsym(RTLD_DEFAULT, "fake_push");
	*(void **)&walk_reported = dlsym(RTLD_DEFAULT, "fake_reported");
	setvbuf(stdout, NULL, _IOLBF, 0);
}

static inline void walk_step(const char *what)
{
	if (walk_mark)
		walk_mark(what);
	errno = 0;
}

/*
 * Calls a verb that returns a pointer, or one that returns a number, and prints the result; on failure with
 * errno.
 */
#define PTR(variable, call) \
	do { \
		walk_step(#call); \
		variable = call; \
		if (variable) \
			printf("%s: object\n", #call); \
		else \
			printf("%s: NULL, errno %d\n", #call, errno); \
	} while (0)

#define INT(call) \
	do { \
		long result_; \
		walk_step(#call); \
		result_ = (long)(call); \
		if (result_) \
			printf("%s: %ld, errno %d\n", #call, result_, errno); \
		else \
			printf("%s: 0\n", #call); \
	} while (0)

#define VOID(call) \
	do { \
		walk_step(#call); \
		call; \
		printf("%s\n", #call); \
	} while (0)

/* Destroys an object if it was created. */
#define DESTROY(call, object) \
	do { \
		if (object) \
			INT(call(object)); \
	} while (0)

/* Prints a whole struct with addresses masked. FILL it before the call to see which bytes are written. */
#define SHOW(object) walk_show(#object, &(object), sizeof(object))
#define FILL(object) memset(&(object), 0xa5, sizeof(object))

static inline void walk_show(const char *name, const void *object, size_t len)
{
	const uint8_t *bytes = object;
	size_t at = 0;

	printf("  %s:", name);
	while (at < len) {
		uint64_t wide = 0;
		uint32_t word = 0;
		size_t step = len - at < 4 ? len - at : 4;

		if (at % 8 == 0 && len - at >= 8) {
			memcpy(&wide, bytes + at, 8);
			if (wide >= 0x500000000000 && wide < 0x800000000000) {
				printf(" ptr");
				at += 8;
				continue;
			}
		}
		memcpy(&word, bytes + at, step);
		printf(" %x", word);
		at += step;
	}
	printf("\n");
}

#endif
