#!/usr/bin/python3
"""run_pyverbs.py OUT LIBRARY-DIR [PATTERN...]: runs rdma-core's pyverbs tests on uroce0 on the loopback
interface. Each test must pass, or have the outcome that `pyverbs.lst` gives. The output is kept in
OUT/NAME/uroce/.
"""
import os
import re
import subprocess
import sys
from fnmatch import fnmatchcase

sys.dont_write_bytecode = True
import cases  # noqa: E402
import hosts  # noqa: E402

TESTS = "/usr/share/doc/rdma-core/tests"


def unpack(folder):
    """Copies the package's tests, uncompressed."""
    os.makedirs(folder)
    for name in os.listdir(TESTS):
        with open(f"{folder}/{name.removesuffix('.gz')}", "wb") as file:
            subprocess.run(["zcat", "-f", f"{TESTS}/{name}"], stdout=file, check=True)


def main():
    out, libdir, *patterns = sys.argv[1:]
    host = hosts.Host("uroce0", "127.0.0.1", "uroce0=lo", libdir)
    if not os.path.isdir(TESTS):
        sys.exit(f"pyverbs: {TESTS} is missing: run scripts/install-deps suites")
    tests = f"{out}/in/tests"
    unpack(tests)
    listed = host.run("/usr/bin/python3", f"{tests}/run_tests.py", "--list-tests")
    names = [name for name in re.findall(r"^tests\.(\S+)$", listed, re.M)]
    names = [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns or ["*"])]
    if not names:
        sys.exit(f"pyverbs: no test matches:\n{listed}")
    exceptions = list(cases.table("pyverbs.lst", 4))
    unused = [e[0] for e in exceptions if not patterns and not any(fnmatchcase(name, e[0]) for name in names)]

    with open(f"{out}/in/flaky", "w"), open(f"{out}/in/names", "w") as file:
        file.writelines(f"pyverbs:{name}\n" for name in names)
    for name in names:
        os.makedirs(f"{out}/results/pyverbs:{name}/uroce")
    env = host.environment(OUT=out, PYVERBS_ARGS="--dev uroce0", PYVERBS_REPORT="-", PYVERBS_LIMIT="30")
    subprocess.run(
        ["/usr/bin/python3", f"{cases.HERE}/../suites/pyverbs_runner.py", "uroce", f"{out}/in/names"],
        env=env,
        cwd=tests,
    )

    failures, counts = [f"  pyverbs.lst: no test matches {name}" for name in unused], {}
    skipped = []
    for name in names:
        folder, want, why = f"{out}/results/pyverbs:{name}/uroce", "pass", ""
        for pattern, outcome, _, reason in exceptions:
            if fnmatchcase(name, pattern):
                want, why = outcome, reason
        got, reason = (read(f"{folder}/{what}").strip() for what in ("exit", "reason"))
        counts[got] = counts.get(got, 0) + 1
        if got == "skip" and "no huge pages" in reason:
            skipped.append(f"  {name}: skipped: {reason}; reserve some in /proc/sys/vm/nr_hugepages")
        elif got != want:
            failures.append(f"  {name}: {got or 'nothing'} ({reason}), not {want}{why and f' ({why})'}")
        # (tests that never call the library are linked to it as well)
        elif got in ("pass", "skip"):
            loaded = read(f"{folder}/test.lib")
            if {libdir} != set(map(os.path.dirname, loaded.split())):
                failures.append(f"  {name}: ran on the wrong library: {loaded or 'none'}")
    for lines in failures, skipped:
        if lines:
            print("", *lines, sep="\n")
    print(f"\npyverbs: {', '.join(f'{number} {outcome}' for outcome, number in sorted(counts.items()))}")
    passed = len(names) - len(failures) - len(skipped)
    print(f"pyverbs: {passed} passed, {len(failures)} failed" + (f", {len(skipped)} skipped" if skipped else ""))
    return 1 if failures else 0


def read(path):
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


sys.exit(main())
