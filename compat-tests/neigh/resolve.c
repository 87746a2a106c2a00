/*
 * resolve: reads lines "SGID-INDEX DGID", calls ibv_resolve_eth_l2_from_gid on the device rxe0, and prints
 * one line for each: the return value, the MAC address (in a buffer of 7 bytes of 0xee, the last of which
 * must not change), the VLAN ID, and whether it took long. src/suites/neigh.rs runs it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static struct ibv_context *open_rxe0(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), "rxe0"))
			context = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	return context;
}

int main(void)
{
	struct ibv_context *context = open_rxe0();
	char line[256], text[128];
	int index;

	if (!context) {
		perror("rxe0");
		return 2;
	}
	while (fgets(line, sizeof(line), stdin)) {
		struct ibv_ah_attr attr = { .port_num = 1, .is_global = 1 };
		uint8_t mac[7];
		uint16_t vid = 0xeeee;
		double start = now(), took;
		int ret;

		if (sscanf(line, "%d %127s", &index, text) != 2 ||
		    inet_pton(AF_INET6, text, &attr.grh.dgid) != 1)
			continue;
		attr.grh.sgid_index = index;
		memset(mac, 0xee, sizeof(mac));
		errno = 0;
		ret = ibv_resolve_eth_l2_from_gid(context, &attr, mac, &vid);
		took = now() - start;
		printf("%d %-32s = %d", index, text, ret);
		if (ret && getenv("RESOLVE_ERRNO"))
			printf(" errno %d", errno);
		printf(" mac");
		for (int i = 0; i < 7; i++)
			printf(":%02x", mac[i]);
		printf(" vid %04x %s\n", vid,
		       took < 1     ? "at once"
		       : took < 2.9 ? "soon"
		       : took < 3.5 ? "in 3 s"
				    : "late");
		if (!ret && ibv_resolve_eth_l2_from_gid(context, &attr, mac, NULL))
			printf("differs when nobody asks for the VLAN\n");
		fflush(stdout);
	}
	ibv_close_device(context);
	return 0;
}
