/*
 * Functions that rustc's ThreadSanitizer instrumentation calls and gcc's runtime in Debian 12 does not have
 * yet. They call the plain functions, which the runtime intercepts.
 */
#include <string.h>

void *__tsan_memcpy(void *to, const void *from, size_t n);
void *__tsan_memmove(void *to, const void *from, size_t n);
void *__tsan_memset(void *to, int byte, size_t n);

void *__tsan_memcpy(void *to, const void *from, size_t n)
{
	return memcpy(to, from, n);
}

void *__tsan_memmove(void *to, const void *from, size_t n)
{
	return memmove(to, from, n);
}

void *__tsan_memset(void *to, int byte, size_t n)
{
	return memset(to, byte, n);
}
