/*
 * forktest SCENE [ROUNDS]: protects ranges of memory with ibv_dontfork_range, releases them with
 * ibv_dofork_range, and prints which pages are hidden from children of fork(). '#' is a hidden page, '.' a
 * visible one, ' ' one that is not mapped: first as /proc/self/smaps says (VmFlags dc), then as a child finds
 * when it reads the page. src/suites/fork runs it.
 */
#define _GNU_SOURCE
#include "pages.h"

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>

static void protect(const char *what, size_t first, size_t pages)
{
	errno = 0;
	show(what, ibv_dontfork_range(area + first * page, pages * page));
}

static void release(const char *what, size_t first, size_t pages)
{
	errno = 0;
	show(what, ibv_dofork_range(area + first * page, pages * page));
}

static void init(void)
{
	printf("init %d", ibv_fork_init());
	printf(" initialized %d\n", ibv_is_fork_initialized());
}

static void new_area(void)
{
	area = mmap(NULL, area_pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (area == MAP_FAILED)
		exit(2);
	memset(area, 1, area_pages * page);
}

static void overlaps(void)
{
	protect("one page", 3, 1);
	protect("around it", 2, 3);
	protect("its left half and beyond", 0, 4);
	release("around it released", 2, 3);
	protect("far away", 12, 2);
	protect("in between", 5, 7);
	release("one page released", 3, 1);
	release("left half released", 0, 4);
	protect("all", 0, 16);
	release("far away released", 12, 2);
	release("in between released", 5, 7);
	release("all released", 0, 16);
}

static void bytes(void)
{
	errno = 0;
	show("no byte", ibv_dontfork_range(area + page, 0));
	show("no address", ibv_dontfork_range(NULL, page));
	show("one byte", ibv_dontfork_range(area + 2 * page + 77, 1));
	show("two bytes in two pages", ibv_dontfork_range(area + 5 * page - 1, 2));
	show("a page, not aligned", ibv_dontfork_range(area + 8 * page + 1, page));
	show("a page less a byte", ibv_dontfork_range(area + 12 * page + 1, page - 1));
	show("another byte released", ibv_dofork_range(area + 2 * page, 1));
	show("wraps around", ibv_dontfork_range(area, (size_t)-1));
}

static void never_protected(void)
{
	release("never protected", 2, 4);
	protect("one of them", 3, 1);
	protect("and again", 3, 1);
	protect("all four pages", 2, 4);
	release("all four pages released", 2, 4);
	release("the one released", 3, 1);
	protect("adjacent pages", 6, 2);
}

static void unmapped_later(void)
{
	protect("six pages", 2, 6);
	munmap(area + 4 * page, page);
	release("released, third unmapped", 2, 6);
	protect("on both sides", 2, 2);
	protect("on both sides", 5, 3);
}

static void failure(void)
{
	munmap(area + 6 * page, page);
	protect("valid range", 1, 2);
	protect("across the hole", 2, 6);
	protect("the hole", 6, 1);
	protect("after the hole", 9, 2);
	protect("before the hole", 0, 4);
	release("after the hole released", 9, 2);
	release("before the hole released", 0, 4);
	release("valid range released", 1, 2);
}

static void too_late(void)
{
	protect("before init", 2, 2);
	init();
	protect("after init", 4, 2);
}

static void too_late_by_release(void)
{
	release("before init", 2, 2);
	init();
}

static void twice(void)
{
	init();
	protect("one page", 1, 1);
	init();
	protect("the same page again", 1, 1);
}

static void stack(void)
{
	char here[3 * 4096];
	char *start = (char *)(((unsigned long)here + page - 1) & -page);
	char kernel[3];

	here[0] = 1;
	printf("stack %d", ibv_dontfork_range(start, page));
	smaps(start, 2, kernel);
	printf(" |%s|", kernel);
	printf(" %d", ibv_dofork_range(start, page));
	smaps(start, 2, kernel);
	printf(" |%s|\n", kernel);
}

static void count_mapping(unsigned long from, unsigned long till, const char *flags, void *arg)
{
	long *counts = arg;

	counts[0]++;
	if (strstr(flags, " dc") && (unsigned long)area <= from &&
	    till <= (unsigned long)area + area_pages * page)
		counts[1] += (till - from) / page;
}

/* Separate regions, more than the process may have mappings. */
static void many(void)
{
	long limit = 0, regions, protected_count, excluded, counts[2] = { 0, 0 };
	FILE *file = fopen("/proc/sys/vm/max_map_count", "re");

	if (!file || fscanf(file, "%ld", &limit) != 1)
		exit(2);
	fclose(file);
	/* with a limit that an administrator raised, this would use up the machine's memory */
	if (limit > 300000) {
		printf("vm.max_map_count is too high for this scene\n");
		exit(2);
	}
	/* reads, for the log, what the first use of the library reads */
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (list)
		ibv_free_device_list(list);
	regions = limit;
	area_pages = 2 * regions;
	area = mmap(NULL, area_pages * page, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (area == MAP_FAILED)
		exit(2);
	errno = 0;
	for (protected_count = 0; protected_count < regions; protected_count++)
		if (ibv_dontfork_range(area + 2 * protected_count * page, page))
			break;
	printf("all protected: %s %s", protected_count == regions ? "yes" : "no",
	       protected_count == regions ? "" : strerrorname_np(errno));
	each_mapping(count_mapping, counts);
	excluded = counts[1];
	printf(" mapping limit reached: %s", counts[0] >= limit - 2 ? "yes" : "no");
	printf(" excluded: %s\n", excluded == protected_count   ? "all protected"
				  : excluded >= limit / 2 - 500 ? "up to the limit"
								: "few");
	/* Adjacent and already protected pages need no additional mapping. */
	printf("adjacent page %d", ibv_dontfork_range(area + page, page));
	printf(" already protected %d", ibv_dontfork_range(area, 3 * page));
	errno = 0;
	printf(" not mapped %d", ibv_dontfork_range(area + area_pages * page - page, 1l << 40));
	printf(" %s\n", errno ? strerrorname_np(errno) : "");
	ibv_dofork_range(area, 3 * page);
	for (long i = protected_count - 1; i >= 0; i--)
		ibv_dofork_range(area + 2 * i * page, page);
	/* protected last, as it may need two more mappings */
	ibv_dofork_range(area + page, page);
	counts[0] = counts[1] = 0;
	each_mapping(count_mapping, counts);
	printf("all released, excluded: %ld mappings: %s\n", counts[1], counts[0] < 200 ? "few" : "many");
}

static volatile bool stop;
enum {
	HELD = 12,
	FREE = 14
};

static bool nobody_else_counts(void)
{
	char seen[17];

	try_pages(area + HELD * page, 4, seen);
	return !memcmp(seen, "##..", 4);
}

static void *busy(void *seed)
{
	unsigned r = (unsigned)(unsigned long)seed;

	while (!stop) {
		size_t first = rand_r(&r) % 8, pages = 1 + rand_r(&r) % 4;

		if (ibv_dontfork_range(area + first * page, pages * page) ||
		    ibv_dofork_range(area + first * page, pages * page))
			abort();
	}
	return NULL;
}

/* A child: checks what it can read, protects and releases memory, and forks. */
static int in_child(int generation)
{
	char *own = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char shown[5];
	int status = 0;

	alarm(20);
	if (!nobody_else_counts())
		return 1;
	if (ibv_dontfork_range(own + page, page) || ibv_dontfork_range(own + page, 2 * page) ||
	    ibv_dofork_range(own + page, page))
		return 2;
	smaps(own, 4, shown);
	if (strcmp(shown, ".##."))
		return 3;
	if (generation > 0) {
		pid_t child = fork();

		if (!child)
			_exit(in_child(generation - 1));
		waitpid(child, &status, 0);
		if (status)
			return 4;
	}
	if (ibv_dofork_range(own + page, 2 * page))
		return 5;
	smaps(own, 4, shown);
	return strcmp(shown, "....") ? 6 : 0;
}

static _Atomic int hung, failed;
static int rounds = 100;

static void *forks(void *unused)
{
	(void)unused;
	for (int i = 0; i < rounds && !hung; i++) {
		pid_t child = fork();
		int status;

		if (!child)
			_exit(in_child(1));
		waitpid(child, &status, 0);
		hung += WIFSIGNALED(status);
		failed += WIFEXITED(status) && WEXITSTATUS(status);
	}
	return NULL;
}

/* Threads protect and release overlapping ranges while others fork; children do the same. */
static void threads(void)
{
	pthread_t thread[4], forking[3];

	if (ibv_dontfork_range(area + HELD * page, 2 * page))
		exit(2);
	for (unsigned long i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, busy, (void *)(i + 1));
	for (int i = 0; i < 3; i++)
		pthread_create(&forking[i], NULL, forks, NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(forking[i], NULL);
	stop = true;
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	printf("children hung: %s, failed: %d\n", hung ? "yes" : "no", failed);
	show("two pages protected", 0);
	protect("all pages too", 0, 16);
	release("all pages released", 0, 16);
	release("two pages released", HELD, 2);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
		int init;
	} scenes[] = {
		{ "overlaps", overlaps, 1 },
		{ "untracked", overlaps, 0 },
		{ "bytes", bytes, 1 },
		{ "never-protected", never_protected, 1 },
		{ "unmapped-later", unmapped_later, 1 },
		{ "too-late", too_late, 0 },
		{ "too-late-by-release", too_late_by_release, 0 },
		{ "twice", twice, 0 },
		{ "stack", stack, 1 },
		{ "failure", failure, 1 },
		{ "init", NULL, 1 },
		{ "many", many, 1 },
		{ "threads", threads, 1 },
	};

	new_area();
	for (unsigned i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
		if (argc < 2 || strcmp(argv[1], scenes[i].name))
			continue;
		printf("== %s\n", argv[1]);
		if (argc > 2)
			rounds = atoi(argv[2]);
		if (scenes[i].init)
			init();
		if (scenes[i].run)
			scenes[i].run();
		return 0;
	}
	fprintf(stderr, "forktest: no such scene\n");
	return 2;
}
