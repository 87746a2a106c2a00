/*
 * forkhuge SCENE: as forktest, with huge pages of 2 MiB. Each is shown as four characters, by the first base
 * page of each quarter. The label ends with the total of KiB that are hidden from children. src/suites/fork
 * runs it.
 */
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

static void see_protect(const char *what, long from, long till)
{
	see(what, ibv_dontfork_range(middle + from, till - from));
}

static void see_release(const char *what, long from, long till)
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

/* The layout of all scenes: a huge page between base pages. */
static void one_huge_page(void)
{
	base = mmap(NULL, 5 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (base == MAP_FAILED)
		exit(2);
	base = (char *)(((unsigned long)base + SIZE - 1) & -SIZE);
	middle = base + SIZE;
	/* transparent huge pages would change the result */
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
	see_protect("a byte", 5000, 5001);
	see_protect("the next page", SIZE, SIZE + 1);
	see_protect("from before", -4096, 4096);
	see_protect("another byte", SIZE - 1, SIZE);
	see_release("a byte released", 5000, 5001);
	see_release("from before released", -4096, 4096);
	see_release("another released", SIZE - 1, SIZE);
	see_protect("the whole", 0, SIZE);
	see_protect("a byte of it", 77, 78);
	see_release("the whole released", 0, SIZE);
	see_release("a byte of it released", 77, 78);
	see_release("the next page released", SIZE, SIZE + 1);
}

static void into_it(void)
{
	see_protect("into it", -4096, 4096);
	see_protect("into it more", -8192, 8192);
	see_release("into it released", -4096, 4096);
	see_release("more released", -8192, 8192);
	see_protect("across all of it", -4096, SIZE + 4096);
	see_release("across all of it released", -4096, SIZE + 4096);
}

static void out_of_it(void)
{
	see_protect("out of it", SIZE - 4096, SIZE + 4096);
	see_release("out of it released", SIZE - 4096, SIZE + 4096);
}

static void two_huge_pages(void)
{
	put_huge(middle, 2);
	see_protect("across", SIZE - 1, SIZE + 1);
	see_protect("in the first", 1, 2);
	see_release("across released", SIZE - 1, SIZE + 1);
	see_protect("both", 0, 2 * SIZE);
	see_release("the first released", 1, 2);
	see_protect("a part of both", 4096, SIZE + 8192);
	see_release("both released", 0, 2 * SIZE);
	see_release("a part released", 4096, SIZE + 8192);
}

/* Another page size at the same address. */
static void remapped(void)
{
	see_protect("a byte", 5000, 5001);
	see_release("a byte released", 5000, 5001);
	munmap(middle, SIZE);
	put_small(middle);
	see_protect("small, a byte", 5000, 5001);
	see_release("small, released", 5000, 5001);
	munmap(middle, SIZE);
	put_huge(middle, 1);
	see_protect("huge, a byte", 5000, 5001);
	see_release("huge, released", 5000, 5001);
	/* the same while the old page is still registered */
	see_protect("huge, a byte", 5000, 5001);
	munmap(middle, SIZE);
	put_small(middle);
	see("remapped small", 0);
	see_protect("small, elsewhere", SIZE / 2, SIZE / 2 + 1);
	see_release("elsewhere released", SIZE / 2, SIZE / 2 + 1);
	see_release("a byte released", 5000, 5001);
	see_protect("small, a byte", 5000, 5001);
	see_release("small, released", 5000, 5001);
}

/* The program itself calls madvise on the huge page. */
static void advised(void)
{
	see("advised", madvise(middle, SIZE, MADV_DONTFORK));
	see_protect("a byte", 5000, 5001);
	see_release("a byte released", 5000, 5001);
}

static void unmapped(void)
{
	munmap(middle + SIZE, SIZE);
	see_protect("beyond", 4096, SIZE + 1);
	see_protect("a byte", 5000, 5001);
	munmap(middle, SIZE);
	see_release("released, not mapped", 5000, 5001);
	put_huge(middle, 1);
	see_protect("remapped huge", 5000, 5001);
	see_release("released", 5000, 5001);
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
		printf("== huge %s%s\n", argv[1],
		       getenv("RDMAV_HUGEPAGES_SAFE") ? "" : ", RDMAV_HUGEPAGES_SAFE unset");
		one_huge_page();
		printf("init %d\n", ibv_fork_init());
		scenes[i].run();
		return 0;
	}
	fprintf(stderr, "forkhuge: no such scene\n");
	return 2;
}
