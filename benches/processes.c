/*
 * processes ROUNDS EMPTY PROGRAM DEVICE LIBDIR...: runs `PROGRAM DEVICE`
 * with each LIBDIR in LD_LIBRARY_PATH, and the program EMPTY with the first, in
 * turn. Prints a line for each LIBDIR: the medians of wall time (us), CPU time
 * (us) and page faults, each less that of EMPTY.
 *
 * PRELOAD in the environment becomes LD_PRELOAD of these programs.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LIBS_MAX 8
#define WARM_UP 3

enum {
	WALL,
	CPU,
	FAULTS,
	FIGURES
};

extern char **environ;

static double micros(struct timeval time)
{
	return time.tv_sec * 1e6 + time.tv_usec;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, int count)
{
	qsort(values, count, sizeof(*values), compare);
	return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/* Runs a program to its end with standard output in /dev/null, and stores what it took. */
static void run(char **argv, const char *libdir, double *figures[FIGURES], int round)
{
	posix_spawn_file_actions_t actions;
	struct timespec start, end;
	struct rusage used;
	int status = -1;
	pid_t pid;

	setenv("LD_LIBRARY_PATH", libdir, 1);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	clock_gettime(CLOCK_MONOTONIC, &start);
	if (posix_spawn(&pid, argv[0], &actions, NULL, argv, environ) ||
	    wait4(pid, &status, 0, &used) != pid || status) {
		fprintf(stderr, "%s with %s: status %#x\n", argv[0], libdir, status);
		exit(1);
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	posix_spawn_file_actions_destroy(&actions);
	if (round < 0)
		return;
	figures[WALL][round] = (end.tv_sec - start.tv_sec) * 1e6 + (end.tv_nsec - start.tv_nsec) / 1e3;
	figures[CPU][round] = micros(used.ru_utime) + micros(used.ru_stime);
	figures[FAULTS][round] = used.ru_minflt;
}

int main(int argc, char **argv)
{
	double *figures[LIBS_MAX + 1][FIGURES];
	double empty[FIGURES];
	int libs = argc - 5, rounds = argc > 1 ? atoi(argv[1]) : 0;
	const char *preload = getenv("PRELOAD");
	int i, figure, round;

	if (libs < 1 || libs > LIBS_MAX || rounds < 1)
		return 2;
	if (preload)
		setenv("LD_PRELOAD", preload, 1);
	for (i = 0; i <= libs; i++)
		for (figure = 0; figure < FIGURES; figure++)
			figures[i][figure] = calloc(rounds, sizeof(double));
	for (round = -WARM_UP; round < rounds; round++) {
		run((char *[]){ argv[2], NULL }, argv[5], figures[libs], round);
		for (i = 0; i < libs; i++)
			run((char *[]){ argv[3], argv[4], NULL }, argv[5 + i], figures[i], round);
	}
	for (figure = 0; figure < FIGURES; figure++)
		empty[figure] = median(figures[libs][figure], rounds);
	for (i = 0; i < libs; i++) {
		for (figure = 0; figure < FIGURES; figure++)
			printf("%.1f ", median(figures[i][figure], rounds) - empty[figure]);
		printf("\n");
	}
	return 0;
}
