"""nixl over UCX: this process writes a buffer into another process's memory by RDMA, and checks it there.

usage: nixl_transfer.py      (the other process is a child of this one)
"""
import base64
import ctypes
import os
import subprocess
import sys
import time

import libibverbs_rs

# self: the agent tries a transfer to itself when it starts.
os.environ["UCX_TLS"] = "ib,self"
libibverbs_rs.enable()
from nixl_cu12._api import nixl_agent, nixl_agent_config  # noqa: E402

SIZE = 4 << 20
EXPECTED = bytes(i * 7 % 251 for i in range(SIZE))


def agent(name, buffer):
    made = nixl_agent(name, nixl_agent_config(backends=["UCX"]))
    assert made.register_memory([(ctypes.addressof(buffer), SIZE, 0, "")], "DRAM"), "register_memory failed"
    return made


def target():
    buffer = ctypes.create_string_buffer(SIZE)
    made = agent("target", buffer)
    metadata = base64.b64encode(made.get_agent_metadata()).decode()
    print("metadata", metadata, ctypes.addressof(buffer), flush=True)
    sys.stdin.readline()
    assert buffer.raw[:SIZE] == EXPECTED, "other data has arrived"
    print("data arrived", flush=True)


def initiator():
    command = [sys.executable, __file__, "target"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for line in child.stdout:
        words = line.split()
        if words[:1] == ["metadata"]:
            break
    buffer = ctypes.create_string_buffer(EXPECTED, SIZE)
    made = agent("initiator", buffer)
    made.add_remote_agent(base64.b64decode(words[1]))
    local = made.get_xfer_descs([(ctypes.addressof(buffer), SIZE, 0)], "DRAM")
    remote = made.get_xfer_descs([(int(words[2]), SIZE, 0)], "DRAM")
    transfer = made.initialize_xfer("WRITE", local, remote, "target")
    state = made.transfer(transfer)
    end = time.monotonic() + 60
    while state == "PROC" and time.monotonic() < end:
        state = made.check_xfer_state(transfer)
    assert state == "DONE", "the transfer's state is {}".format(state)
    rest, _ = child.communicate("\n")
    assert "data arrived" in rest and child.returncode == 0, rest
    print("nixl: {} bytes written and checked".format(SIZE))


target() if sys.argv[1:] == ["target"] else initiator()
