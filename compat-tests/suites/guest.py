#!/usr/bin/python3
"""guest.py: run by `run` in the virtual machine. Executes the runs listed in $OUT/todo (lines
"number|variant|case line") one after the other. Writes to $OUT/results/NAME/VARIANT/, which the host has
created: the programs' output, the libibverbs that they loaded, and last `exit`, their exit codes.
`compare.py` evaluates them on the host.

A case is one pyverbs test (run by pyverbs_runner.py, which imports the tests once for all), or a server and a
client.
"""

import glob
import os
import re
import shlex
import signal
import subprocess
import time
from fnmatch import fnmatchcase as fnmatch

OUT = os.environ["OUT"]
WORK = "/run/suites"
LIMIT = 120  # time limit of a program in seconds
TRIES = 6  # maximum number of tries of a case in `flaky`


def report(name, variant, result, seconds):
    """Prints a result on the console: the host prints only lines that start with @@."""
    with open("/dev/console", "w") as console:
        print("@@", name, variant, result, int(seconds * 1000), file=console)


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def environment(variant, **more):
    env = dict(os.environ, **more)
    libraries = [f"{WORK}/lib"] if variant == "ours" else []
    # programs that were built for this run, each variant with its own library
    built = f"{WORK}/built/{variant}"
    if os.path.isdir(built):
        env["PATH"] = f"{built}/bin:{env['PATH']}"
        libraries.append(f"{built}/lib")
        if os.path.isdir(f"{built}/python"):
            env["PYTHONPATH"] = f"{built}/python"
    if libraries:
        env["LD_LIBRARY_PATH"] = ":".join(libraries)
    return env


def tcp_listens(port):
    """Whether a TCP server listens on the port."""
    entry = re.compile(rf":{port:04X} [0-9A-F]+:0000 0A ")
    return any(entry.search(open(f"/proc/net/tcp{v}").read()) for v in ("", "6"))


def cm_listens(port):
    """Whether a server listens on the port through the RDMA connection manager."""
    shown = subprocess.run(["rdma", "resource", "show", "cm_id"], capture_output=True, text=True).stdout
    return any("LISTEN" in line and re.search(rf":{port}\b", line) for line in shown.splitlines())


def make_veth():
    """Creates two devices connected by a veth pair, rxv1 on 10.9.8.1 and rxv2 on 10.9.8.2: rxe0 does not
    receive its own multicast messages."""
    run = "ip link add ve1 mtu 4200 type veth peer name ve2 mtu 4200\n"
    for n in (1, 2):
        # do not drop packets from the machine's own addresses
        run += f"echo 1 >/proc/sys/net/ipv4/conf/ve{n}/accept_local\n"
        run += f"ip addr add 10.9.8.{n}/24 dev ve{n}; ip link set ve{n} up\n"
        run += f"rdma link add rxv{n} type rxe netdev ve{n}\n"
    subprocess.run(["sh", "-ec", run], check=True)
    # rxe fills its GID table a little later
    for n in (1, 2):
        deadline = time.monotonic() + 10
        path = f"/sys/class/infiniband/rxv{n}/ports/1/gids"
        while time.monotonic() < deadline and not any(
            ":ffff:0a09:" in open(gid).read() for gid in glob.glob(f"{path}/[0-3]")
        ):
            time.sleep(0.1)


def drop_veth():
    subprocess.run(
        ["sh", "-c", "rdma link delete rxv1; rdma link delete rxv2; ip link delete ve1"], check=True
    )


def status(code):
    """The exit code as a shell reports it."""
    return 128 - code if code < 0 else code


class Case:
    """A line of `cases`; `number` selects a port that only this case uses."""

    def __init__(self, number, line):
        fields = [field.strip() for field in line.split("|")]
        self.name, self.expect, words, server, client = fields
        self.port = 18000 + number
        self.ready, self.kill, self.veth, self.limit, self.vars = tcp_listens, False, False, LIMIT, {}
        self.files = f"{WORK}/files"
        for word in words.split():
            if word == "cm":
                self.ready = cm_listens
            elif word == "kill":
                self.kill = True
            elif word == "rsocket":
                self.vars["LD_PRELOAD"] = glob.glob("/usr/lib/*/rsocket/librspreload.so")[0]
            elif word == "veth":
                self.veth = True
            elif word.startswith("limit="):
                self.limit = int(word[6:])
            elif word.startswith("port="):
                self.port = int(word[5:])
            elif word.startswith("wait="):
                seconds = float(word[5:])
                self.ready = lambda _port: time.sleep(seconds) or True
            elif "=" in word:
                key, value = word.split("=", 1)
                self.vars[key] = value
            else:
                raise ValueError(f"unknown word {word} in {self.name}")
        self.server = self.command(server)
        self.client = self.server + self.command(client[1:]) if client[:1] == "+" else self.command(client)

    def command(self, text):
        return shlex.split(text.replace("%p", str(self.port)).replace("%f", self.files))

    def start(self, role, command, variant, folder):
        """Starts a program with its output in ROLE.out and ROLE.err."""
        env = environment(variant, LD_DEBUG="files", LD_DEBUG_OUTPUT=f"{WORK}/ld/{role}", **self.vars)
        with open(f"{folder}/{role}.out", "w") as out, open(f"{folder}/{role}.err", "w") as err:
            return subprocess.Popen(
                command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
            )

    def end(self, process, seconds):
        """Waits for the program; kills it and its children if it exceeds the time limit."""
        try:
            code = status(process.wait(seconds))
        except subprocess.TimeoutExpired:
            code = "timeout"
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        return code

    def attempt(self, variant, folder):
        subprocess.run(["rm", "-rf", self.files])
        os.mkdir(self.files)
        if self.veth:
            make_veth()
        # the listener of the previous run may still exist, and would be mistaken for this one's
        deadline = time.monotonic() + 5
        if self.ready in (tcp_listens, cm_listens):
            while time.monotonic() < deadline and self.ready(self.port):
                time.sleep(0.05)
        server = self.start("server", self.server, variant, folder) if self.server != ["-"] else None
        deadline = time.monotonic() + 20
        # if the server fails before it listens, the client fails too
        while server and time.monotonic() < deadline and server.poll() is None and not self.ready(self.port):
            time.sleep(0.05)
        client = self.end(self.start("client", self.client, variant, folder), self.limit)
        if self.kill and server and server.poll() is None:
            server.terminate()
        # a server whose client has failed may never end
        server = self.end(server, min(20, self.limit) if client == 0 else 5) if server else "-"
        if self.veth:
            drop_veth()
        self.libraries(folder)
        return f"{server}/{client}"

    def libraries(self, folder):
        """Writes the libibverbs that each program loaded, as reported by the dynamic linker."""
        for role in ("server", "client"):
            seen = set()
            for report in glob.glob(f"{WORK}/ld/{role}.*"):
                with open(report, errors="replace") as file:
                    seen.update(re.findall(r"calling init: (\S*/libibverbs\.so\S*)", file.read()))
                os.remove(report)
            write(f"{folder}/{role}.lib", "".join(f"{path}\n" for path in sorted(seen)))


def show_net_interface():
    """Adds the device's network interface to sysfs where the tests search for it; only hardware has it
    there."""
    device = "/sys/devices/virtual/infiniband/rxe0"
    os.makedirs(f"{WORK}/sysfs/device/net/rd0", exist_ok=True)
    lower = f"lowerdir={WORK}/sysfs:{device}"
    subprocess.run(["mount", "-t", "overlay", "-o", lower, "overlay", device], check=True)
    return device


def run_pyverbs(variant, names):
    """Runs pyverbs tests, each in a process forked from one Python."""
    device = show_net_interface()
    write(f"{WORK}/names", "".join(f"{name}\n" for name in names))
    subprocess.run(
        ["/usr/bin/python3", f"{OUT}/in/pyverbs_runner.py", variant, f"{WORK}/names"],
        env=environment(variant),
        cwd=f"{WORK}/pyverbs/tests",
    )
    subprocess.run(["umount", device], check=True)


def main():
    with open(f"{OUT}/in/flaky") as file:
        flaky = file.read().split()
    pyverbs, cases = {}, []
    with open(f"{OUT}/todo") as file:
        for line in file:
            number, variant, case = line.rstrip("\n").split("|", 2)
            if case.startswith("pyverbs:"):
                pyverbs.setdefault(variant, []).append(case)
            else:
                cases.append((variant, Case(int(number), case)))
    for variant, names in pyverbs.items():
        run_pyverbs(variant, names)
    for variant, case in cases:
        folder = f"{OUT}/results/{case.name}/{variant}"
        write(f"{OUT}/running", f"{case.name} {variant}\n")
        start = time.monotonic()
        for attempt in range(1, (TRIES if any(fnmatch(case.name, f) for f in flaky) else 1) + 1):
            got = case.attempt(variant, folder)
            write(f"{folder}/tries", f"{attempt}\n")
            if case.expect in ("any", got):
                break
        write(f"{folder}/exit", f"{got}\n")
        report(case.name, variant, got, time.monotonic() - start)
    if os.path.exists(f"{OUT}/running"):
        os.remove(f"{OUT}/running")


main()
