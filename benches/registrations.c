/*
 * registrations PATTERN REGIONS CYCLES KERNEL: what it costs to keep registered memory out of children of
 * fork(): holds REGIONS ranges, gives back and holds one of them at random CYCLES times, and gives all back.
 *
 *   adjacent     a page each, side by side
 *   scattered    every second page
 *   overlapping  one to eight pages each, anywhere in twice as many pages
 *
 * KERNEL: `real`; `none`, madvise() does nothing, so that what is measured is the library; `off`, fork safety
 * is not asked for. Prints nanoseconds of processor time per hold, per cycle of two calls and per give,
 * madvise calls per cycle, bytes of heap and mappings per region.
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

/* Of infiniband/driver.h, which is not for programs. */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

static const size_t page = 4096;
static unsigned long calls;
static int real;

/* In the place of libc's, for the library. */
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

/* Of this process, kernel included: others may run. */
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
