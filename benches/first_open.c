/*
 * first_open DEVICE: prints the time in ns that a process's first ibv_get_device_list and the opening of
 * DEVICE take.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

int main(int argc, char **argv)
{
	struct timespec start, end;
	struct ibv_context *ctx = NULL;
	struct ibv_device **list;
	int i;

	clock_gettime(CLOCK_MONOTONIC, &start);
	list = ibv_get_device_list(NULL);
	for (i = 0; list && list[i] && !ctx; i++)
		if (argc > 1 && !strcmp(ibv_get_device_name(list[i]), argv[1]))
			ctx = ibv_open_device(list[i]);
	clock_gettime(CLOCK_MONOTONIC, &end);
	if (!ctx)
		return 1;
	printf("%lld\n", (long long)(end.tv_sec - start.tv_sec) * 1000000000 + end.tv_nsec - start.tv_nsec);
	ibv_close_device(ctx);
	ibv_free_device_list(list);
	return 0;
}
