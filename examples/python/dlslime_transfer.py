"""dlslime: one endpoint writes a buffer into the memory of another by RDMA, and this process checks it there.

usage: dlslime_transfer.py
"""
import ctypes

import libibverbs_rs

libibverbs_rs.enable()
import dlslime  # noqa: E402

SIZE = 4 << 20
EXPECTED = bytes(i * 7 % 251 for i in range(SIZE))


def endpoint(buffer):
    made = dlslime.RDMAEndpoint(dlslime.available_nic()[0], 1, "RoCE", 1)
    return made, made.register_memory_region("buffer", ctypes.addressof(buffer), 0, SIZE)


source, target = ctypes.create_string_buffer(EXPECTED, SIZE), ctypes.create_string_buffer(SIZE)
initiator, source_region = endpoint(source)
responder, _ = endpoint(target)
initiator.connect(responder.endpoint_info())
responder.connect(initiator.endpoint_info())
target_region = initiator.register_remote_memory_region("buffer", responder.mr_info()["buffer"])
initiator.write([(source_region, target_region, 0, 0, SIZE)], None).wait()
assert target.raw == EXPECTED, "other data has arrived"
print("dlslime: {} bytes written and checked".format(SIZE))
