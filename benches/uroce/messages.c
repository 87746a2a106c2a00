/*
 * messages DEVICE send|write|read SIZE NUMBER: transfers NUMBER messages between two QPs of this process, one
 * after the other, busy-polling. Both ends are counted. benches/uroce/run runs it under callgrind and strace.
 */
#include "../../compat-tests/uroce/faults/rig.h"

#include <stdlib.h>
#include <string.h>

const char *device_name;
bool on_uroce;

int main(int argc, char **argv)
{
	static const struct options plain;
	struct end a, b;

	if (argc != 5)
		return 2;
	device_name = argv[1];
	enum ibv_wr_opcode opcode = argv[2][0] == 's'   ? IBV_WR_SEND
				    : argv[2][0] == 'w' ? IBV_WR_RDMA_WRITE
							: IBV_WR_RDMA_READ;
	uint32_t size = atoi(argv[3]);
	make_pair(&a, &b, &plain, &plain);
	for (int i = atoi(argv[4]); i > 0; i--) {
		if (opcode == IBV_WR_SEND)
			MUST(post_receive(&b) == 0);
		MUST(post(&a, opcode, &b.self, 0, size) == 0);
		MUST(next(&a).status == IBV_WC_SUCCESS);
		if (opcode == IBV_WR_SEND)
			MUST(next(&b).status == IBV_WC_SUCCESS);
	}
	close_end(&a);
	close_end(&b);
	return 0;
}
