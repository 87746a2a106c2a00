/* Prints which pages a process and its children have, so that two libraries can be compared. */
#ifndef PAGES_H
#define PAGES_H

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* From infiniband/driver.h. */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

/* Distance between the pages that are shown. */
static size_t page;

__attribute__((constructor)) static void set_page(void)
{
	page = sysconf(_SC_PAGESIZE);
}

/* Calls a function for each mapping in /proc/self/smaps. */
static void each_mapping(void (*call)(unsigned long from, unsigned long till, const char *flags, void *arg),
			 void *arg)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	unsigned long start, end, from = 0, till = 0;
	char line[4096];

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2) {
			from = start;
			till = end;
		} else if (!strncmp(line, "VmFlags:", 8)) {
			call(from, till, line + 8, arg);
		}
	}
	if (file)
		fclose(file);
}

struct shown {
	unsigned long base;
	int pages;
	char *to;
};

static void show_mapping(unsigned long from, unsigned long till, const char *flags, void *arg)
{
	struct shown *shown = arg;
	long first = from > shown->base ? (from - shown->base + page - 1) / page : 0;

	for (long i = first; i < shown->pages && shown->base + i * page < till; i++)
		shown->to[i] = strstr(flags, " dc") ? '#' : '.';
}

/*
 * The state of the pages in smaps; with FORK_FIRST in the environment, after a fork, since released pages may
 * be returned only then.
 */
static void smaps(const char *base, int pages, char *to)
{
	struct shown shown = { (unsigned long)base, pages, to };

	if (getenv("FORK_FIRST")) {
		pid_t child = fork();

		if (!child)
			_exit(0);
		waitpid(child, NULL, 0);
	}
	memset(to, ' ', pages);
	to[pages] = 0;
	each_mapping(show_mapping, &shown);
}

static __thread sigjmp_buf fault;

static void on_fault(int sig)
{
	(void)sig;
	siglongjmp(fault, 1);
}

/* The pages that this process can read. */
static void try_pages(const char *base, int pages, char *to)
{
	signal(SIGSEGV, on_fault);
	signal(SIGBUS, on_fault);
	for (int i = 0; i < pages; i++) {
		to[i] = '#';
		if (!sigsetjmp(fault, 1)) {
			(void)*(volatile const char *)(base + i * page);
			to[i] = '.';
		}
	}
}

/* The pages that a child can read. */
static void child_reads(const char *base, int pages, char *to)
{
	int fd[2];

	to[0] = 0;
	if (pipe(fd))
		return;
	pid_t child = fork();

	if (!child) {
		try_pages(base, pages, to);
		_exit(write(fd[1], to, pages) != pages);
	}
	close(fd[1]);
	for (ssize_t n, at = 0; at < pages && (n = read(fd[0], to + at, pages - at)) > 0; at += n)
		to[at + n] = 0;
	close(fd[0]);
	waitpid(child, NULL, 0);
}

static char *area;
static int area_pages = 16;

__attribute__((unused)) static void show(const char *what, int ret)
{
	char kernel[129], child[129];
	int error = errno;

	smaps(area, area_pages, kernel);
	child_reads(area, area_pages, child);
	printf("%-28s %2d %-9s |%s| |%s|\n", what, ret, ret == -1 ? strerrorname_np(error) : "", kernel,
	       child);
	fflush(stdout);
}

#endif
