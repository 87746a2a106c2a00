#!/usr/bin/python3
"""traffic.py DEVICE GID-INDEX: exercises pyverbs: queries the device, and transfers sends, writes, reads and
atomics between two QPs of this process, with plain and with extended work requests (ibv_wr_*). The output is
the same in every run.
"""

import sys

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ, CQEX, CqInitAttrEx, PollCqAttr
from pyverbs.device import Context, get_device_list
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPEx, QPInitAttr, QPInitAttrEx
from pyverbs.wr import SGE, RecvWR, SendWR

LENGTH = 64
name, index = sys.argv[1], int(sys.argv[2])
print("devices:", sorted(device.name.decode() for device in get_device_list()))
context = Context(name=name)
attr = context.query_device()
port = context.query_port(1)
print(
    "device:",
    attr.max_qp,
    attr.max_cqe,
    attr.phys_port_cnt,
    "port:",
    port.state,
    port.max_mtu,
    port.link_layer,
)
print("device, extended:", context.query_device_ex().completion_timestamp_mask)
gid = context.query_gid(1, index)
print("gid:", gid, "entries:", len(context.query_gid_table(16)))

pd = PD(context)
rights = (
    e.IBV_ACCESS_LOCAL_WRITE
    | e.IBV_ACCESS_REMOTE_WRITE
    | e.IBV_ACCESS_REMOTE_READ
    | e.IBV_ACCESS_REMOTE_ATOMIC
)
mine, yours = MR(pd, LENGTH, rights), MR(pd, LENGTH, rights)


def connect(left, right):
    for this, other in ((left, right), (right, left)):
        route = GlobalRoute(dgid=gid, sgid_index=index)
        attr = QPAttr(port_num=1)
        attr.dest_qp_num = other.qp_num
        attr.path_mtu = e.IBV_MTU_1024
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        attr.qp_access_flags = rights
        attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 14, 7, 7
        attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
        this.to_rts(attr)
        state, _ = this.query(e.IBV_QP_STATE)
        assert state.qp_state == e.IBV_QPS_RTS


def complete(cq, count):
    seen = []
    while len(seen) < count:
        _, wcs = cq.poll(count)
        seen += [
            (wc.wr_id, wc.status, wc.opcode, wc.byte_len if wc.opcode & e.IBV_WC_RECV else 0) for wc in wcs
        ]
    return sorted(seen)


cq = CQ(context, 16)
a, b = (
    QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(max_recv_wr=4, max_send_wr=4)))
    for _ in "ab"
)
connect(a, b)
here, there = SGE(mine.buf, LENGTH, mine.lkey), SGE(yours.buf, LENGTH, yours.lkey)
mine.write("a" * LENGTH, LENGTH)
b.post_recv(RecvWR(wr_id=1, sg=[there], num_sge=1))
a.post_send(SendWR(wr_id=2, sg=[here], num_sge=1, opcode=e.IBV_WR_SEND))
print("send:", complete(cq, 2), yours.read(LENGTH, 0) == mine.read(LENGTH, 0))
mine.write("w" * LENGTH, LENGTH)
for opcode in (e.IBV_WR_RDMA_WRITE, e.IBV_WR_RDMA_READ):
    request = SendWR(wr_id=3, sg=[here], num_sge=1, opcode=opcode)
    request.set_wr_rdma(yours.rkey, yours.buf)
    a.post_send(request)
    print("write or read:", complete(cq, 1), yours.read(LENGTH, 0))
request = SendWR(wr_id=4, sg=[SGE(mine.buf, 8, mine.lkey)], num_sge=1, opcode=e.IBV_WR_ATOMIC_FETCH_AND_ADD)
request.set_wr_atomic(yours.rkey, yours.buf, 1, 0)
a.post_send(request)
print("fetch and add:", complete(cq, 1), yours.read(8, 0))

# an extended CQ, and extended work requests where the library supports them for this provider
cqex = CQEX(context, CqInitAttrEx(cqe=16, wc_flags=e.IBV_WC_STANDARD_FLAGS))
plain = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(max_recv_wr=4, max_send_wr=4)))
stepped = QPEx(
    context,
    QPInitAttrEx(
        qp_type=e.IBV_QPT_RC,
        scq=cqex,
        rcq=cqex,
        cap=QPCap(max_recv_wr=4, max_send_wr=4),
        pd=pd,
        send_ops_flags=e.IBV_QP_EX_WITH_SEND,
        comp_mask=e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
    ),
)
connect(stepped, plain)
plain.post_recv(RecvWR(wr_id=5, sg=[there], num_sge=1))
mine.write("x" * LENGTH, LENGTH)
stepped.wr_start()
stepped.wr_id, stepped.wr_flags = 6, e.IBV_SEND_SIGNALED
stepped.wr_send()
stepped.wr_set_sge(here)
stepped.wr_complete()
print("extended, received:", complete(cq, 1), yours.read(LENGTH, 0) == mine.read(LENGTH, 0))
while cqex.start_poll(PollCqAttr()):
    pass
print("extended, sent:", cqex.wr_id, cqex.status, cqex.read_opcode())
cqex.end_poll()
