#!/usr/bin/python3
"""figures.py LIBRARY-DIR HOSTS...: runs perftest on our library in LIBRARY-DIR, and prints latencies and
bandwidths of each kind of hosts (see hosts.py) side by side. It asserts no times."""
import os
import re
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import hosts  # noqa: E402

SLOW = bool(os.environ.get("SLOW"))  # an emulated machine: fewer tests and messages
N, BIG = (300, 30) if SLOW else (5000, 300)
# A row of results: bytes, iterations, and the figures.
ROW = re.compile(r"^ *(\d+)[ \t]+(\d+)[ \t]+([\d.]+(?:[ \t]+[\d.]+)*)[ \t]*$", re.M)
# The column of the result in the client's last row, and the unit.
LATENCY, BANDWIDTH = (2, "us (typical)"), (1, "MiB/s (mean)")
TESTS = [
    *((f"ib_{op}_lat -s {size} -n {N}", LATENCY) for op in ("send", "write", "read") for size in (8, 4096)),
    (f"ib_send_lat -e -s 8 -n {N}", LATENCY),
    (f"ib_atomic_lat -n {N}", LATENCY),
    (f"ib_send_lat -c UD -s 8 -n {N}", LATENCY),
    *(
        (f"ib_{op}_bw -s {size} -n {BIG * n}", BANDWIDTH)
        for op in ("send", "write", "read")
        for size, n in ((8, 10), (4096, 10), (65536, 3), (1 << 20, 1))
    ),
    (f"ib_write_bw -b -s 65536 -n {BIG * 3}", BANDWIDTH),
    (f"ib_send_bw -c UD -s 4096 -n {BIG * 10}", BANDWIDTH),
]  # fmt: skip

if SLOW:
    TESTS = [test for test in TESTS if "_lat -s 8" in test[0] or "_bw -s 65536" in test[0]]


def measure(test, column, server, client, port):
    """Returns the measured value, or "hangs" or "fails"."""
    running = []
    for host in (server, client):
        argv = [*test.split(), "-F", "-d", host.device, "-x", str(host.gid_index(1)), "-p", str(port)]
        argv += [] if host is server and not running else [server.address]
        running.append(
            subprocess.Popen(
                host.command(argv), env=host.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
        )
        deadline = time.monotonic() + 20
        while len(running) == 1 and time.monotonic() < deadline and not server.listens(port):
            time.sleep(0.02)
    try:
        out = running[1].communicate(timeout=120)[0]
        running[0].communicate(timeout=10)
    except subprocess.TimeoutExpired:
        return "hangs"
    finally:
        for process in running:
            process.kill()
            process.wait()
    rows = ROW.findall(out)
    return rows[-1][2].split()[column] if rows else "fails"


def main():
    libdir, *kinds = sys.argv[1:]
    print(f"{'':36}{'':14}" + "".join(f"{kind:>14}" for kind in kinds))
    values = []
    for kind in kinds:
        with hosts.make(kind, libdir) as (server, client):
            values.append([])
            for i, (test, unit) in enumerate(TESTS):
                values[-1].append(measure(test, unit[0], server, client, 21000 + i))
                print(f"{kind}: {test}: {values[-1][-1]}", file=sys.stderr, flush=True)
    for i, (test, (_, unit)) in enumerate(TESTS):
        print(f"{test:36}{unit:14}" + "".join(f"{column[i]:>14}" for column in values), flush=True)


main()
