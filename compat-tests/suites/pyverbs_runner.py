#!/usr/bin/python3
"""pyverbs_runner.py VARIANT NAMES: runs the pyverbs tests in the file NAMES (`pyverbs:MODULE.CLASS.TEST`),
each in a separate process with a time limit. Must be run in the directory of the tests, in the virtual
machine or, for ../uroce, on the host.

Environment on the host: PYVERBS_ARGS has arguments for the tests, PYVERBS_LIMIT is the time limit of a test
in seconds, PYVERBS_REPORT (a file, or - for standard output) replaces the console.

The tests are imported once, and each process is forked before anything has called libibverbs: in the virtual
machine, starting Python and importing them takes 14 seconds.

Writes to $OUT/results/NAME/VARIANT/: `exit` (pass, skip, fail, error, timeout or signal-N), `reason` (of the
skip, or the last line of the traceback), `test.lib` (the libibverbs in the process) and `test.err`.
"""

import gc
import os
import signal
import sys
import time
import unittest

sys.path.insert(0, os.getcwd())
VARIANT, NAMES = sys.argv[1:]
sys.argv = [
    "run_tests.py",
    *os.environ.get("PYVERBS_ARGS", "").split(),
]  # the tests look at the arguments themselves
sys.dont_write_bytecode = True
from args_parser import parser  # noqa: E402

parser.parse_args()
# as run_tests.py does it
from importlib.machinery import SourceFileLoader  # noqa: E402

SourceFileLoader("tests", os.path.join(os.getcwd(), "__init__.py")).load_module()

LIMIT = int(os.environ.get("PYVERBS_LIMIT", 120))  # seconds
TRIES = 6
OUT = os.environ["OUT"]
TELL = os.environ.get("PYVERBS_REPORT", "/dev/console")


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def libraries():
    with open("/proc/self/maps") as maps:
        paths = {line.split()[-1] for line in maps if "/libibverbs.so" in line}
    return "".join(f"{path}\n" for path in sorted(paths))


def child(test, folder):
    """Runs one test and writes its outcome before the process exits, so that a crash at exit is noticed."""
    os.setsid()
    err = os.open(f"{folder}/test.err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(err, 1)
    os.dup2(err, 2)
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromName(test).run(result)
    if result.errors:
        outcome, reason = "error", result.errors[0][1]
    elif result.failures:
        outcome, reason = "fail", result.failures[0][1]
    elif result.skipped:
        outcome, reason = "skip", result.skipped[0][1]
    elif result.testsRun == 1:
        outcome, reason = "pass", ""
    else:
        outcome, reason = "none", ""
    if outcome in ("error", "fail"):
        sys.stderr.write(reason)
        reason = reason.rstrip().rsplit("\n", 1)[-1]
    gc.collect()  # what the test left open is closed here
    sys.stderr.flush()
    write(f"{folder}/reason", reason + "\n")
    write(f"{folder}/test.lib", libraries())
    write(f"{folder}/outcome", outcome)
    os._exit(0)


def attempt(test, folder):
    for name in ("outcome", "reason"):
        if os.path.exists(f"{folder}/{name}"):
            os.remove(f"{folder}/{name}")
    pid = os.fork()
    if pid == 0:
        try:
            child(test, folder)
        finally:
            os._exit(70)
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        time.sleep(0.01)
    else:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return "timeout"
    try:
        os.killpg(pid, signal.SIGKILL)  # what it may have left running
    except ProcessLookupError:
        pass
    if os.WIFSIGNALED(status):
        return f"signal-{os.WTERMSIG(status)}"
    if os.WEXITSTATUS(status):
        return f"exit-{os.WEXITSTATUS(status)}"
    with open(f"{folder}/outcome") as file:
        return file.read()


def main():
    with open(f"{OUT}/in/flaky") as file:
        flaky = set(file.read().split())
    with open(NAMES) as file:
        tests = file.read().split()
    for name in tests:
        folder = f"{OUT}/results/{name}/{VARIANT}"
        write(f"{OUT}/running", f"{name} {VARIANT}\n")
        start = time.monotonic()
        for tries in range(1, (TRIES if name in flaky else 1) + 1):
            outcome = attempt("tests." + name.removeprefix("pyverbs:"), folder)
            if outcome in ("pass", "skip"):
                break
        write(f"{folder}/tries", f"{tries}\n")
        write(f"{folder}/exit", outcome + "\n")
        with os.fdopen(os.dup(1), "w") if TELL == "-" else open(TELL, "w") as console:
            print("@@", name, VARIANT, outcome, int((time.monotonic() - start) * 1000), file=console)


main()
