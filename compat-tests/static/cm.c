/* Uses librdmacm.a: opens its character device (rdmanl_*, open_cdev) and binds an address to a device. */
#define RDMA_STATIC_PROVIDERS rxe
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(7471) };
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	int count;

	/* links the provider, through verbs.h */
	ibv_free_device_list(ibv_get_device_list(&count));
	inet_aton(argc > 1 ? argv[1] : "127.0.0.1", &address.sin_addr);
	channel = rdma_create_event_channel();
	printf("channel: %s\n", channel ? "made" : strerror(errno));
	if (!channel)
		return 0;
	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(id, (struct sockaddr *)&address) || rdma_listen(id, 1)) {
		printf("refused: %s\n", strerror(errno));
		return 1;
	}
	printf("listening on %s port %d of %d device(s)\n",
	       id->verbs ? ibv_get_device_name(id->verbs->device) : "all", id->port_num, count);
	rdma_destroy_id(id);
	rdma_destroy_event_channel(channel);
	return 0;
}
