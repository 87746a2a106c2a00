/*
 * registrations PATTERN REGIONS CYCLES KERNEL: measures the cost of hiding registered memory from children of
 * fork(). Protects REGIONS ranges, CYCLES times releases and protects a random one of them, and releases all.
 *
 *	adjacent     one page each, side by side
 *	scattered    every second page
 *	overlapping  one to eight pages each, at random in twice as many pages
 *
 * KERNEL is `real`; `none`: madvise() does nothing, which leaves the cost of the library; or `off`: fork
 * safety is not enabled. Prints CPU time in ns per protected range, per cycle and per released range, madvise
 * calls per cycle, and heap bytes and mappings per region.
 */
#define _GNU_SOURCE
#include <infiniband/verbs.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* From infiniband/driver.h. */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

static const size_t page = 4096;
static unsigned long calls;
static int real;

/* Replaces libc's function, for the library. */
int madvise(void *addr, size_t len, int advice)
{
	calls++;
	return real ? (int)syscall(SYS_madvise, addr, len, advice) : 0;
}

static char *base;
static char pattern;
static long regions;

static char *range(long i, size_t *len)
{
	uint64_t hash = (i + 1) * 0x9e3779b97f4a7c15ull;

	*len = page;
	if (pattern == 'a')
		return base + i * page;
	if (pattern == 's')
		return base + 2 * i * page;
	hash = (hash ^ hash >> 29) * 0xbf58476d1ce4e5b9ull;
	*len = page * (1 + (hash >> 40) % 8);
	return base + hash % (2 * regions) * page;
}

/* CPU time of this process, including the kernel's; wall time would include other processes. */
static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

static size_t heap(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

static long mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	long n = 0;
	int c;

	while (file && (c = getc(file)) != EOF)
		n += c == '\n';
	if (file)
		fclose(file);
	return n;
}

int main(int argc, char **argv)
{
	uint64_t random = 88172645463325252ull;
	double start, hold, cycle, give;
	unsigned long cycle_calls;
	long cycles, maps;
	size_t len, bytes;
	char *at;

	if (argc < 5)
		return 2;
	pattern = argv[1][0];
	regions = atol(argv[2]);
	cycles = atol(argv[3]);
	real = !strcmp(argv[4], "real");
	base = mmap(NULL, (2 * regions + 8) * page, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED || (strcmp(argv[4], "off") && ibv_fork_init()))
		return 2;
	maps = mappings();
	bytes = heap();

	start = now();
	for (long i = 0; i < regions; i++) {
		at = range(i, &len);
		if (ibv_dontfork_range(at, len)) {
			fprintf(stderr, "region %ld is refused: raise vm.max_map_count\n", i);
			return 2;
		}
	}
	hold = now() - start;
	maps = mappings() - maps;
	bytes = heap() - bytes;
	calls = 0;

	start = now();
	for (long i = 0; i < cycles; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		at = range(random % regions, &len);
		if (ibv_dofork_range(at, len) || ibv_dontfork_range(at, len))
			return 2;
	}
	cycle = now() - start;
	cycle_calls = calls;

	start = now();
	for (long i = 0; i < regions; i++) {
		at = range(i, &len);
		ibv_dofork_range(at, len);
	}
	give = now() - start;
	printf("%.1f %.1f %.1f %.2f %.1f %.2f\n", hold / regions, cycle / cycles, give / regions,
	       (double)cycle_calls / cycles, (double)bytes / regions, (double)maps / regions);
	return 0;
}
