"""Checks of a program's output: an exit code of 0 alone does not show that it worked."""
import re


def option(argv, *names, default=None):
    """The value of an option, given as `-s 64` or `--size=64`."""
    value = default
    for i, word in enumerate(argv):
        if word in names and i + 1 < len(argv):
            value = argv[i + 1]
        elif "=" in word and word.split("=")[0] in names:
            value = word.split("=", 1)[1]
    return value


def pingpong(argv, out, _role):
    """Requires the requested numbers of bytes and exchanges."""
    if "xsrq" in argv[0]:
        if not re.search(r"^success$", out, re.M):
            yield "no success"
        return
    size = int(option(argv, "-s", default=1024 if "_ud_" in argv[0] else 4096))
    number = int(option(argv, "-n", default=1000))
    size *= number * 2
    if not re.search(rf"^{size} bytes in [\d.]+ seconds = [\d.]+ Mbit/sec$", out, re.M):
        yield f"no line '{size} bytes in'"
    if not re.search(rf"^{number} iters in [\d.]+ seconds = [\d.]+ usec/iter$", out, re.M):
        yield f"no line '{number} iters in'"
    if "invalid data" in out:
        yield "invalid data"


ROW = re.compile(r"^ *(\d+)[ \t]+(\d+)[ \t]+([\d.]+(?:[ \t]+[\d.]+)*)[ \t]*$", re.M)


def perftest(argv, out, role):
    """Requires a row of results for each size from the client; the server prints them for some tests only."""
    if role == "server":
        return
    default = 8 if "atomic" in argv[0] else 2 if "_lat" in argv[0] else 65536
    sizes = [int(option(argv, "-s", "--size", default=default))]
    if "-a" in argv:
        sizes = [1 << i for i in range(1, 24)]
        if option(argv, "-c") == "UD":
            mtu = re.search(r"Mtu\s*:\s*(\d+)", out)
            sizes = [size for size in sizes if mtu and size <= int(mtu[1])]
    rows = [(int(size), values.split()) for size, _, values in ROW.findall(out)]
    if [size for size, _ in rows] != sizes:
        yield f"results for the sizes {[size for size, _ in rows]}, not {sizes}"
    for size, values in rows:
        if "_lat" in argv[0] and not 0 < float(values[0]) <= float(values[1]):
            yield f"odd latencies for {size}: {' '.join(values)}"
        elif "_bw" in argv[0] and size * len(rows) > 4096 and not float(values[1]) > 0:
            yield f"no bandwidth for {size}: {' '.join(values)}"


def qperf(argv, out, role):
    """Requires a value other than 0 for each test."""
    if role == "server" or argv[-1] in ("quit", "conf"):
        return
    names = r"(?:bw|latency|msg_rate|send_bw|recv_bw|msgs\w*)"
    values = re.findall(rf"^\s+{names}\s+=\s+([\d.]+) (\S+)", out, re.M)
    if not values or not all(float(value) > 0 for value, _ in values):
        yield f"no result: {out.strip()!r}"


def devinfo(argv, out, _role):
    device = option(argv, "-d")
    if "-l" in argv:
        return
    if "state:\t\t\tPORT_ACTIVE (4)" not in out or "link_layer:\t\tEthernet" not in out:
        yield "no active Ethernet port"
    if device and f"hca_id:\t{device}\n" not in out:
        yield f"nothing about {device}"
    if "-v" in argv and not re.search(r"GID\[\s*\d+\]:.*, RoCE v2$", out, re.M):
        yield "no RoCEv2 GID"


def devices(_argv, out, _role):
    if not re.search(r"^\s+\S+\s+\t[0-9a-f]{16}$", out, re.M):
        yield "no device"


def written(argv, out, role):
    """Lists what is wrong with the output of a program that exited with 0."""
    program = argv[0].rsplit("/", 1)[-1]
    checks = {"ibv_devinfo": devinfo, "ibv_devices": devices, "qperf": qperf}
    if program.endswith("_pingpong"):
        check = pingpong
    elif re.match(r"ib_\w+_(bw|lat)$", program):
        check = perftest
    else:
        check = checks.get(program)
    return list(check(argv, out, role)) if check else []


def addresses(server, client):
    """Requires that each of two ping-pong programs reports the other's address."""

    def reported(out, whose):
        found = re.findall(rf"^ *{whose} address: *(.*)$", out, re.M)
        return sorted(re.sub(r"[:,] GID", " GID", line) for line in found)

    for one, other, who in ((server, client, "client"), (client, server, "server")):
        if not reported(one, "local") or reported(one, "local") != reported(other, "remote"):
            yield f"the {who}'s address is not the one that the other side reports"
