#!/usr/bin/python3
"""run_programs.py OUT HOSTS [--rest] [--netem WORDS] --library DIR [PATTERN...]: runs the cases (see
cases.py) between two hosts, one after the other, and prints for each whether it passed. The programs' output
is kept in OUT/NAME/.

HOSTS   loopback   both at 127.0.0.1 on this machine
        container  both in a network namespace that has only a loopback interface
        veth       two network namespaces, connected by a veth pair
        rxe-uroce, uroce-rxe, uroce-uroce, rxe-rxe, rxe-self
                   server and client in the virtual machine: kernel rxe (on the C library) or uroce,
                   connected by a veth pair (rxe-rxe: two devices of one machine; rxe-self: one device)
--netem arguments of `tc qdisc ... netem` for the RoCE packets on the veth pair
--rest  also runs the cases marked `rest`, which take long
"""
import argparse
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from fnmatch import fnmatchcase

sys.dont_write_bytecode = True
import cases  # noqa: E402
import checks  # noqa: E402
import hosts  # noqa: E402


def status(code):
    """The exit code as a shell reports it."""
    return 128 - code if code < 0 else code


def read(path):
    with open(path, errors="replace") as file:
        return file.read()


class Pair:
    """A server and its clients, running."""

    def __init__(self, case, server, client, port, folder, tag=""):
        self.case, self.hosts, self.folder, self.port, self.tag = case, (server, client), folder, port, tag
        self.started = {}

    def start(self, role, host):
        argv = self.case.command(role.rstrip("0123456789"), host, self.hosts[0].address, self.port)
        path = f"{self.folder}/{role}{self.tag}"
        env = host.environment(LD_DEBUG="files", LD_DEBUG_OUTPUT=f"{path}.ld", **self.case.vars)
        with open(f"{path}.out", "w") as out, open(f"{path}.err", "w") as err:
            process = subprocess.Popen(
                host.command(argv), env=env, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out,
                stderr=err, start_new_session=True,
            )  # fmt: skip
        self.started[role] = (process, argv, host, path)
        return process

    def begin(self):
        server, client = self.hosts
        if self.case.server != "-":
            process = self.start("server", server)
            deadline = time.monotonic() + 20
            # if the server fails before it listens, the client fails too
            while time.monotonic() < deadline and process.poll() is None and not server.listens(self.port):
                time.sleep(0.01)
        for n in range(self.case.clients):
            self.start(f"client{n or ''}", client)

    def end(self):
        """Waits for the programs and returns their exit codes; kills those that exceed the time limit."""
        deadline = time.monotonic() + self.case.limit
        codes = {}
        for role in sorted(self.started):  # the clients come first
            process = self.started[role][0]
            if role == "server" and self.case.kill and process.poll() is None:
                process.terminate()
            try:
                codes[role] = status(process.wait(max(0.1, deadline - time.monotonic())))
            except subprocess.TimeoutExpired:
                codes[role] = "timeout"
            if role != "server" and codes[role] != 0:
                deadline = min(deadline, time.monotonic() + 5)  # its server may never end
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        clients = {str(code) for role, code in codes.items() if role != "server"}
        return f"{codes.get('server', '-')}/{'+'.join(sorted(clients))}"

    def trouble(self, got):
        """Lists what is wrong with the result."""
        if got != self.case.expect:
            yield f"exit codes {got}, not {self.case.expect}"
        outs = {}
        for role, (_, argv, host, path) in self.started.items():
            outs[role] = read(f"{path}.out")
            seen = set()
            for report in glob.glob(f"{path}.ld.*"):
                seen.update(re.findall(r"calling init: (\S*/libibverbs\.so\S*)", read(report)))
                os.remove(report)
            right = host.libdir or ("/lib/", "/usr/lib/")
            if got == self.case.expect and not all(lib.startswith(right) for lib in seen or [""]):
                yield f"{role} ran on the wrong library: {' '.join(seen) or 'none'}"
            if got == self.case.expect and got.endswith("/0"):
                wrong = checks.written(argv, outs[role], role.rstrip("0123456789"))
                yield from (f"{role}: {what}" for what in wrong)
        program = self.case.server
        if got == "0/0" and "_pingpong" in program and "xsrq" not in program:
            yield from checks.addresses(outs["server"], outs["client"])


    def last_words(self):
        for role, (_, _, _, path) in self.started.items():
            for stream in ("out", "err"):
                yield from (f"{role}.{stream}: {line}" for line in read(f"{path}.{stream}").splitlines()[-6:])


def run_case(case, server, client, port, folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    tags = [f"-{n}" if case.times > 1 else "" for n in range(case.times)]
    pairs = [Pair(case, server, client, port + n, folder, tag) for n, tag in enumerate(tags)]
    for pair in pairs:
        pair.begin()
    trouble, got = [], ""
    for pair in pairs:
        got = pair.end()
        why = list(pair.trouble(got))
        trouble += why + (list(pair.last_words()) if why else [])
    return got, trouble


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("hosts", choices=hosts.KINDS)
    parser.add_argument("--netem")
    parser.add_argument("--rest", action="store_true")
    parser.add_argument("--library", required=True)
    parser.add_argument("patterns", nargs="*")
    options = parser.parse_intermixed_args()

    todo = [
        case
        for case in cases.all_cases()
        if (options.rest or not case.rest or options.patterns)
        and (case.hosts in ("any", options.hosts))
        and any(fnmatchcase(case.name, pattern) for pattern in options.patterns or ["*"])
    ]
    if not todo:
        sys.exit(f"programs: no case matches: {' '.join(options.patterns)}")
    failures, begin, port = [], time.monotonic(), 20000
    with hosts.make(options.hosts, options.library, options.netem) as (server, client):
        for number, case in enumerate(todo, 1):
            start = time.monotonic()
            try:
                with server.with_mtu(case.mtu), client.with_mtu(case.mtu):
                    got, trouble = run_case(case, server, client, port, f"{options.out}/{case.name}")
            except LookupError as error:
                got, trouble = "-", [str(error)]
            port += case.times
            verdict = "ok" if not trouble else f"FAILED: {trouble[0]}"
            seconds = time.monotonic() - start
            print(f"[{number:3}/{len(todo)}] {case.name:32} {got:8} {seconds:5.1f} s  {verdict}", flush=True)
            if trouble:
                failures.append("\n    ".join([f"  {case.name}:", *trouble]))
        if options.netem:
            print(hosts.lost(server, client))
    if failures:
        print("", *failures, sep="\n")
    print(f"\nran for {time.monotonic() - begin:.0f} seconds")
    print(f"{options.hosts}: {len(todo) - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


sys.exit(main())
