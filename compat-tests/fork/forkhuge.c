/* forkhuge SCENE: as forktest, with huge pages of 2 MiB. They are shown in quarters, by the first base
 * page of each, and at the end of a line is how many KiB are left out of children in all. */
#define _GNU_SOURCE
#include "pages.h"

#include <infiniband/verbs.h>

#define SIZE (2ul << 20)

static char *base, *middle;

static void sum_mapping(unsigned long from, unsigned long till, const char *flags, void *arg)
{
	unsigned long *sum = arg;

	if (strstr(flags, " dc") && (unsigned long)base <= from && till <= (unsigned long)base + 4 * SIZE)
		*sum += (till - from) / 1024;
}

static void see(const char *what, int ret)
{
	unsigned long sum = 0;
	char text[64];

	each_mapping(sum_mapping, &sum);
	snprintf(text, sizeof(text), "%s, %lu KiB", what, sum);
	show(text, ret);
	errno = 0;
}

static void see_hold(const char *what, long from, long till)
{
	see(what, ibv_dontfork_range(middle + from, till - from));
}

static void see_give(const char *what, long from, long till)
{
	see(what, ibv_dofork_range(middle + from, till - from));
}

static void put_huge(char *at, int count)
{
	if (mmap(at, count * SIZE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_HUGETLB, -1, 0) == MAP_FAILED) {
		printf("no huge pages\n");
		exit(2);
	}
	memset(at, 1, count * SIZE);
}

static void put_small(char *at)
{
	if (mmap(at, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
	    MAP_FAILED)
		exit(2);
	memset(at, 1, SIZE);
}

/* The start of all scenes: a huge page between ordinary ones. */
static void one_huge_page(void)
{
	base = mmap(NULL, 5 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (base == MAP_FAILED)
		exit(2);
	base = (char *)(((unsigned long)base + SIZE - 1) & -SIZE);
	middle = base + SIZE;
	/* no transparent huge pages: they are of no interest here */
	madvise(base, 4 * SIZE, MADV_NOHUGEPAGE);
	put_small(base);
	put_huge(middle, 1);
	put_small(middle + SIZE);
	put_small(middle + 2 * SIZE);
	page = SIZE / 4;
	area = middle - SIZE / 2;
	area_pages = 12;
}

static void parts(void)
{
	see_hold("a byte", 5000, 5001);
	see_hold("its neighbour", SIZE, SIZE + 1);
	see_hold("from before", -4096, 4096);
	see_hold("another byte", SIZE - 1, SIZE);
	see_give("a byte back", 5000, 5001);
	see_give("from before back", -4096, 4096);
	see_give("another back", SIZE - 1, SIZE);
	see_hold("the whole", 0, SIZE);
	see_hold("a byte of it", 77, 78);
	see_give("the whole back", 0, SIZE);
	see_give("a byte of it back", 77, 78);
	see_give("its neighbour back", SIZE, SIZE + 1);
}

static void into_it(void)
{
	see_hold("into it", -4096, 4096);
	see_hold("into it more", -8192, 8192);
	see_give("into it back", -4096, 4096);
	see_give("more back", -8192, 8192);
	see_hold("all through it", -4096, SIZE + 4096);
	see_give("all through it back", -4096, SIZE + 4096);
}

static void out_of_it(void)
{
	see_hold("out of it", SIZE - 4096, SIZE + 4096);
	see_give("out of it back", SIZE - 4096, SIZE + 4096);
}

static void two_huge_pages(void)
{
	put_huge(middle, 2);
	see_hold("across", SIZE - 1, SIZE + 1);
	see_hold("in the first", 1, 2);
	see_give("across back", SIZE - 1, SIZE + 1);
	see_hold("both", 0, 2 * SIZE);
	see_give("the first back", 1, 2);
	see_hold("a part of both", 4096, SIZE + 8192);
	see_give("both back", 0, 2 * SIZE);
	see_give("a part back", 4096, SIZE + 8192);
}

/* Another page size at the same place. */
static void remapped(void)
{
	see_hold("a byte", 5000, 5001);
	see_give("a byte back", 5000, 5001);
	munmap(middle, SIZE);
	put_small(middle);
	see_hold("small, a byte", 5000, 5001);
	see_give("small, back", 5000, 5001);
	munmap(middle, SIZE);
	put_huge(middle, 1);
	see_hold("huge, a byte", 5000, 5001);
	see_give("huge, back", 5000, 5001);
	/* and without a word, while it is registered */
	see_hold("huge, a byte", 5000, 5001);
	munmap(middle, SIZE);
	put_small(middle);
	see("now small", 0);
	see_hold("small, elsewhere", SIZE / 2, SIZE / 2 + 1);
	see_give("elsewhere back", SIZE / 2, SIZE / 2 + 1);
	see_give("a byte back", 5000, 5001);
	see_hold("small, a byte", 5000, 5001);
	see_give("small, back", 5000, 5001);
}

/* A program's own advice on the huge page. */
static void advised(void)
{
	see("advised", madvise(middle, SIZE, MADV_DONTFORK));
	see_hold("a byte", 5000, 5001);
	see_give("a byte back", 5000, 5001);
}

static void unmapped(void)
{
	munmap(middle + SIZE, SIZE);
	see_hold("beyond", 4096, SIZE + 1);
	see_hold("a byte", 5000, 5001);
	munmap(middle, SIZE);
	see_give("nothing there", 5000, 5001);
	put_huge(middle, 1);
	see_hold("huge again", 5000, 5001);
	see_give("back", 5000, 5001);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} scenes[] = {
		{ "parts", parts },        { "into", into_it },      { "out-of", out_of_it },
		{ "two", two_huge_pages }, { "remapped", remapped }, { "advised", advised },
		{ "unmapped", unmapped },
	};

	for (unsigned i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
		if (argc < 2 || strcmp(argv[1], scenes[i].name))
			continue;
		printf("== huge %s%s\n", argv[1], getenv("RDMAV_HUGEPAGES_SAFE") ? "" : ", not told");
		one_huge_page();
		printf("init %d\n", ibv_fork_init());
		scenes[i].run();
		return 0;
	}
	fprintf(stderr, "forkhuge: no such scene\n");
	return 2;
}
