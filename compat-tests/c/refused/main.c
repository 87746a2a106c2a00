/* refused: opens the first device and registers a megabyte, which the fake kernel refuses. */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

#define SIZE (1 << 20)

int main(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	void *memory = malloc(SIZE);

	if (!pd || !memory) {
		perror("set-up");
		return 2;
	}
	if (ibv_reg_mr(pd, memory, SIZE, IBV_ACCESS_LOCAL_WRITE)) {
		puts("registered");
		return 1;
	}
	return ibv_dealloc_pd(pd) || ibv_close_device(context);
}
