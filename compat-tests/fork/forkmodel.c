/*
 * forkmodel SEED STEPS [WORD...]: protects and releases random ranges with ibv_dontfork_range and
 * ibv_dofork_range, and compares each page with a model that counts per page: in /proc/self/smaps, and at
 * intervals in a child that tries to read it. Words: `huge`: a part of the area consists of huge pages (set
 * RDMAV_HUGEPAGES_SAFE); `across`: ranges may have one end in them; `holes`: some pages are not mapped; a
 * range that contains one must fail and change nothing.
 */
#define _GNU_SOURCE
#include "pages.h"

#include <infiniband/verbs.h>
#include <stdbool.h>

enum {
	PAGES = 4096,
	HUGE = 512,
	FIRST_HUGE = 1024,
	END_HUGE = 3072,
	MOST = 300
};

static char *base;
static int counts[PAGES];
static bool hole[PAGES];
static bool huge, across, holes;
static unsigned long state;

static unsigned pick(unsigned below)
{
	state = state * 6364136223846793005ul + 1442695040888963407ul;
	return (state >> 33) % below;
}

static bool in_huge(int at)
{
	return huge && at >= FIRST_HUGE && at < END_HUGE;
}

/* The expected state of a page: a huge page is hidden if any part of it is protected. */
static char expected(int at)
{
	if (hole[at])
		return ' ';
	if (!in_huge(at))
		return counts[at] > 0 ? '#' : '.';
	for (int i = at / HUGE * HUGE; i < at / HUGE * HUGE + HUGE; i++)
		if (counts[i] > 0)
			return '#';
	return '.';
}

static int compare(bool in_child)
{
	static char seen[PAGES + 1];
	int wrong = 0;
	char want = 0;

	if (in_child)
		child_reads(base, PAGES, seen);
	else
		smaps(base, PAGES, seen);
	for (int i = 0; i < PAGES; i++) {
		if (!in_huge(i) || i % HUGE == 0 || !want)
			want = expected(i);
		wrong += seen[i] != (in_child && want == ' ' ? '#' : want);
	}
	return wrong;
}

int main(int argc, char **argv)
{
	static struct {
		long from, till;
	} live_ranges[MOST];
	int live = 0, wrong = 0, failed = 0, steps = argc > 2 ? atoi(argv[2]) : 1000;

	state = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
	for (int i = 3; i < argc; i++) {
		huge |= !strcmp(argv[i], "huge");
		across |= !strcmp(argv[i], "across");
		holes |= !strcmp(argv[i], "holes");
	}
	base = mmap(NULL, (PAGES + HUGE) * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (base == MAP_FAILED)
		return 2;
	base = (char *)(((unsigned long)base + HUGE * page - 1) & -(HUGE * page));
	madvise(base, PAGES * page, MADV_NOHUGEPAGE);
	if (huge && mmap(base + FIRST_HUGE * page, (END_HUGE - FIRST_HUGE) * page, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_HUGETLB, -1, 0) == MAP_FAILED) {
		printf("no huge pages\n");
		return 2;
	}
	memset(base, 1, PAGES * page);
	for (int i = 0; holes && i < 12; i++) {
		int at = pick(PAGES);

		if (!in_huge(at)) {
			munmap(base + at * page, page);
			hole[at] = true;
		}
	}
	if (ibv_fork_init())
		return 2;

	for (int step = 0; step < steps; step++) {
		bool protect = live < MOST && (live == 0 || pick(MOST) > (unsigned)live);
		long from, till;
		int n = 0;

		if (protect) {
			int at = pick(PAGES * page / 16);

			from = (long)at * 16 + pick(16);
			till = from + 1 + pick(pick(4) ? 6 * page : 900 * page);
			if (till > PAGES * (long)page)
				till = PAGES * (long)page;
			if (huge && !across && in_huge(from / page) != in_huge((till - 1) / page))
				till = from + 1;
		} else {
			n = pick(live);
			from = live_ranges[n].from;
			till = live_ranges[n].till;
		}
		if (protect) {
			bool fails = false;

			for (long i = from / page; i <= (till - 1) / (long)page; i++)
				fails |= hole[i] && counts[i] == 0;
			errno = 0;
			if (ibv_dontfork_range(base + from, till - from)) {
				wrong += !fails || errno != ENOMEM;
				failed++;
				goto look;
			}
			wrong += fails;
			live_ranges[live].from = from;
			live_ranges[live++].till = till;
		} else {
			wrong += ibv_dofork_range(base + from, till - from) != 0;
			live_ranges[n] = live_ranges[--live];
		}
		for (long i = from / page; i <= (till - 1) / (long)page; i++)
			counts[i] += protect ? 1 : -1;
look:
		if (step % 16 == 0)
			wrong += compare(false);
		if (step % 256 == 0)
			wrong += compare(true);
	}
	while (live--) {
		ibv_dofork_range(base + live_ranges[live].from,
				 live_ranges[live].till - live_ranges[live].from);
		for (long i = live_ranges[live].from / page; i <= (live_ranges[live].till - 1) / (long)page;
		     i++)
			counts[i]--;
	}
	wrong += compare(false) + compare(true);
	printf("model%s%s%s, seed %s: %d wrong, ranges that failed: %s\n", huge ? " huge" : "",
	       across ? " across" : "", holes ? " holes" : "", argc > 1 ? argv[1] : "1", wrong,
	       failed ? "some" : "none");
	return 0;
}
