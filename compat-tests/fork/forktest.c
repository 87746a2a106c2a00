/* forktest SCENE: registers ranges of memory and shows which pages a child of fork() does not get.
 * A page is shown as '#' if it is left out, '.' if it is not, ' ' if it is not mapped, as
 * /proc/self/smaps says (VmFlags dc), and so is what a child really can read. */
#define _GNU_SOURCE
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of infiniband/driver.h, which is not for programs. */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

static size_t page = 4096;

/* The pages as smaps has them. */
static void smaps(const char *base, int pages, char *to)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	unsigned long start, end, from = 0, till = 0;
	char line[4096];

	memset(to, ' ', pages);
	to[pages] = 0;
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2) {
			from = start;
			till = end;
		} else if (!strncmp(line, "VmFlags:", 8)) {
			for (int i = 0; i < pages; i++) {
				unsigned long at = (unsigned long)base + i * page;

				if (from <= at && at < till)
					to[i] = strstr(line, " dc") ? '#' : '.';
			}
		}
	}
	if (file)
		fclose(file);
}

static sigjmp_buf fault;

static void on_fault(int sig)
{
	(void)sig;
	siglongjmp(fault, 1);
}

/* The pages that a child can read. */
static void child_reads(const char *base, int pages, char *to)
{
	int fd[2];

	to[0] = 0;
	if (pipe(fd))
		return;
	if (!fork()) {
		signal(SIGSEGV, on_fault);
		signal(SIGBUS, on_fault);
		for (int i = 0; i < pages; i++) {
			char is = '#';

			if (!sigsetjmp(fault, 1)) {
				(void)*(volatile const char *)(base + i * page);
				is = '.';
			}
			if (write(fd[1], &is, 1) != 1)
				_exit(1);
		}
		_exit(0);
	}
	close(fd[1]);
	for (int i = 0; i < pages && read(fd[0], to + i, 1) == 1; i++)
		to[i + 1] = 0;
	close(fd[0]);
	wait(NULL);
}

static char *area;
static int area_pages = 16;

static void show(const char *what, int ret)
{
	char kernel[129], child[129];
	int error = errno;

	smaps(area, area_pages, kernel);
	child_reads(area, area_pages, child);
	printf("%-28s %2d %-9s |%s| |%s|\n", what, ret, ret == -1 ? strerrorname_np(error) : "", kernel,
	       child);
	fflush(stdout);
}

static void hold(const char *what, size_t first, size_t pages)
{
	errno = 0;
	show(what, ibv_dontfork_range(area + first * page, pages * page));
}

static void give(const char *what, size_t first, size_t pages)
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
	hold("one page", 3, 1);
	hold("around it", 2, 3);
	hold("its left half and beyond", 0, 4);
	give("around it, again", 2, 3);
	hold("far away", 12, 2);
	hold("in between", 5, 7);
	give("one page, again", 3, 1);
	give("left half, again", 0, 4);
	hold("all", 0, 16);
	give("far away, again", 12, 2);
	give("in between, again", 5, 7);
	give("all, again", 0, 16);
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
	show("one other byte back", ibv_dofork_range(area + 2 * page, 1));
	show("wraps around", ibv_dontfork_range(area, (size_t)-1));
}

static void never_held(void)
{
	give("never held", 2, 4);
	hold("one of them", 3, 1);
	hold("and again", 3, 1);
	hold("all of them", 2, 4);
	give("all of them", 2, 4);
	give("the one", 3, 1);
	hold("a neighbour", 6, 2);
}

static void unmapped_later(void)
{
	hold("six pages", 2, 6);
	munmap(area + 4 * page, page);
	give("without the third", 2, 6);
	hold("on both sides", 2, 2);
	hold("on both sides", 5, 3);
}

static void failure(void)
{
	munmap(area + 6 * page, page);
	hold("a good one", 1, 2);
	hold("into the hole", 2, 6);
	hold("the hole", 6, 1);
	hold("after it", 9, 2);
	hold("before it", 0, 4);
	give("after it, again", 9, 2);
	give("before it, again", 0, 4);
	give("a good one, again", 1, 2);
}

static void too_late(void)
{
	hold("before init", 2, 2);
	init();
	hold("after init", 4, 2);
}

static void too_late_by_release(void)
{
	give("before init", 2, 2);
	init();
}

static void twice(void)
{
	init();
	hold("held", 1, 1);
	init();
	hold("held twice", 1, 1);
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

/* A huge page of 2 MiB between ordinary ones. */
static void huge(void)
{
	size_t size = 2ul << 20;
	char *base = mmap(NULL, 4 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *middle = (char *)(((unsigned long)base + 2 * size - 1) & -size);

	if (mmap(middle, size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_HUGETLB, -1, 0) == MAP_FAILED) {
		printf("no huge pages\n");
		return;
	}
	memset(base, 1, 4 * size);
	page = 4096 * 128; /* shown in quarters of a huge page */
	area = middle - size / 2;
	area_pages = 8;
	errno = 0;
	show("a byte of it", ibv_dontfork_range(middle + 5000, 1));
	show("and its neighbour", ibv_dontfork_range(middle + size, 1));
	show("from before into it", ibv_dontfork_range(middle - 4096, 8192));
	show("from it to beyond", ibv_dontfork_range(middle + size - 4096, 8192));
	show("a byte of it back", ibv_dofork_range(middle + 6000, 1));
	show("from it to beyond back", ibv_dofork_range(middle + size - 4096, 8192));
}

static volatile int stop;

static void *busy(void *seed)
{
	unsigned r = (unsigned)(unsigned long)seed;

	while (!stop) {
		size_t first = rand_r(&r) % 12, pages = 1 + rand_r(&r) % 4;

		if (ibv_dontfork_range(area + first * page, pages * page) ||
		    ibv_dofork_range(area + first * page, pages * page))
			abort();
	}
	return NULL;
}

/* Threads that hold and give while others fork; children do the same. */
static void threads(void)
{
	pthread_t thread[4];
	int hung = 0, failed = 0, status;

	for (unsigned long i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, busy, (void *)(i + 1));
	for (int i = 0; i < 300; i++) {
		pid_t child = fork();

		if (!child) {
			alarm(5);
			_exit(ibv_dontfork_range(area + 14 * page, page) ||
			      ibv_dofork_range(area + 14 * page, page));
		}
		waitpid(child, &status, 0);
		hung += WIFSIGNALED(status);
		failed += WIFEXITED(status) && WEXITSTATUS(status);
		if (hung)
			break;
	}
	stop = 1;
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	printf("children hung: %s, failed: %d\n", hung ? "yes" : "no", failed);
	show("nothing held", 0);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
		int init;
	} scenes[] = {
		{"overlaps", overlaps, 1},
		{"untracked", overlaps, 0},
		{"bytes", bytes, 1},
		{"never-held", never_held, 1},
		{"unmapped-later", unmapped_later, 1},
		{"too-late", too_late, 0},
		{"too-late-by-release", too_late_by_release, 0},
		{"twice", twice, 0},
		{"stack", stack, 1},
		{"huge", huge, 1},
		{"failure", failure, 1},
		{"threads", threads, 1},
	};

	new_area();
	for (unsigned i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
		if (argc < 2 || strcmp(argv[1], scenes[i].name))
			continue;
		printf("== %s\n", argv[1]);
		if (scenes[i].init)
			init();
		scenes[i].run();
		return 0;
	}
	fprintf(stderr, "forktest: no such scene\n");
	return 2;
}
