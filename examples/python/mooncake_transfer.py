"""Mooncake's transfer engine: this process writes a buffer into another process's memory by RDMA. The other
process checks it.

usage: mooncake_transfer.py [DEVICE]    (the other process is a child of this one)

Without DEVICE, Mooncake discovers the devices of the host by itself.
"""
import ctypes
import subprocess
import sys

import libibverbs_rs

libibverbs_rs.enable()
from mooncake.engine import TransferEngine  # noqa: E402

is_target = sys.argv[1:2] == ["target"]
DEVICE = "".join(sys.argv[2:] if is_target else sys.argv[1:])
SIZE = 4 << 20
EXPECTED = bytes(i * 7 % 251 for i in range(SIZE))


def engine(buffer):
    made = TransferEngine()
    assert made.initialize("127.0.0.1", "P2PHANDSHAKE", "rdma", DEVICE) == 0, "initialize failed"
    assert made.register_memory(ctypes.addressof(buffer), SIZE) == 0, "register_memory failed"
    return made


def target():
    buffer = ctypes.create_string_buffer(SIZE)
    made = engine(buffer)
    print(made.get_rpc_port(), ctypes.addressof(buffer), flush=True)
    sys.stdin.readline()
    assert buffer.raw[:SIZE] == EXPECTED, "other data has arrived"
    print("data arrived", flush=True)


def initiator():
    command = [sys.executable, __file__, "target", DEVICE]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for line in child.stdout:
        words = line.split()
        if len(words) == 2 and all(word.isdigit() for word in words):
            break
    port, address = words
    buffer = ctypes.create_string_buffer(EXPECTED, SIZE)
    made = engine(buffer)
    result = made.transfer_sync_write("127.0.0.1:" + port, ctypes.addressof(buffer), int(address), SIZE)
    assert result == 0, "transfer_sync_write: {}".format(result)
    rest, _ = child.communicate("\n")
    assert "data arrived" in rest and child.returncode == 0, rest
    print("mooncake: {} bytes written and checked".format(SIZE))


target() if is_target else initiator()
