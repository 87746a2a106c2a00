// Counts the allocations of a program while `inside` is not 0, by functions in place of malloc(3) and its
// kin. Included once, by a program that is linked with -rdynamic.
#ifndef ALLOCATIONS_H
#define ALLOCATIONS_H

#include <stdlib.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static __thread int inside;
static int allocations;

void *malloc(size_t size)
{
	allocations += inside;
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	allocations += inside;
	return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
	allocations += inside;
	return __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	allocations += inside;
	return __libc_memalign(alignment, size);
}

#endif
