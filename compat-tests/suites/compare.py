#!/usr/bin/python3
"""compare.py OUT: compares the results of both libraries in OUT/results, test by test, for the cases in
OUT/cases. Prints a table per suite, the differences, and as last line "N passed, M failed". Exits with 1 if a
result differs or is missing.

It needs no virtual machine, and can be run again on the results of an earlier run.
"""
import difflib
import os
import re
import sys

GUEST_LIB = "/run/suites/lib/libibverbs.so.1"
VARIANTS = ("c", "ours")
OUTCOMES = ("pass", "refused", "skip", "fail")

# What may differ between two runs of the same program. Everything else must be equal.
MASKS = [
    (r"0x[0-9a-fA-F]+", "#"),  # addresses, keys, queue pair and packet sequence numbers
    (r"= +[\d.,]+ +[A-Za-z/%]+", "= #"),  # qperf's values with their units
    (r"Correlation coefficient r\^2: .*\n", ""),  # perftest's warning about the clock
    (r"-?(?<![\d.])\d+\.\d+(e[+-]?\d+)?(?![\d.])", "#"),  # bandwidths, times
    (r"\[\d\d/[A-Z][a-z][a-z]/.*?\]", "[#]"),  # dates
    (r"-?\b(inf|nan)\b", "#"),
    (r"[ \t]+", " "),
    (r" \n", "\n"),
]


def mask(text):
    for pattern, by in MASKS:
        text = re.sub(pattern, by, text)
    return text


def read(path):
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return None


class Run:
    """The results of one case with one library."""

    def __init__(self, folder, expect):
        self.folder = folder
        self.exit = (read(f"{folder}/exit") or "").strip()
        self.tries = int(read(f"{folder}/tries") or 1)
        self.reason = mask(read(f"{folder}/reason") or "").strip()
        if expect is None:  # a test that tells its outcome itself
            self.outcome = self.exit if self.exit in ("pass", "skip") else "fail"
        elif self.exit == expect:
            self.outcome = "pass" if expect.endswith("/0") else "refused"
        else:
            self.outcome = "fail"

    def library_trouble(self, variant):
        """Yields the programs that did not load exactly the variant's library."""
        names = sorted(os.listdir(self.folder))
        roles = [name[:-4] for name in names if name.endswith((".out", ".lib"))]
        for role in dict.fromkeys(roles):
            if role == "server" and self.exit.startswith("-/"):
                continue  # there was none
            lib = (read(f"{self.folder}/{role}.lib") or "").split()
            right = [GUEST_LIB] if variant == "ours" else [p for p in lib[:1] if not p.startswith("/run/")]
            if not lib or lib != right:
                yield f"{variant}: {role} ran on the wrong library: {' '.join(lib) or 'none seen'}"


def outputs(case, run):
    """The output of the programs, by the name of the stream."""
    # rping: several threads write, and whether one reports the disconnection before the program ends varies
    chance = re.compile(r"DISCONNECT|rdma_get_cm_event: Bad file|wait for RDMA_READ_ADV state 10")
    names = ("server.out", "server.err", "client.out", "client.err")
    texts = {name: mask(read(f"{run.folder}/{name}") or "").splitlines() for name in names}
    if case.startswith("qperf:"):
        # each side reports its errors to the other, and the first error ends the test
        lines = (line.removeprefix("server: ") for text in texts.values() for line in text)
        return {"output": sorted(set(lines))}
    if case.startswith("rdmacm:rping"):
        key = re.compile(r"\b(l?addr|[lr]key) [0-9a-f]+")
        return {
            name: sorted(key.sub(r"\1 #", line) for line in text if not chance.search(line))
            for name, text in texts.items()
        }
    return texts


def differences(case, c, ours):
    if ours.exit != c.exit:
        yield f"ours ended with {ours.exit or 'nothing'}, the C library with {c.exit or 'nothing'}"
    if ours.reason != c.reason:
        yield f"the reason differs: {ours.reason!r}, the C library's is {c.reason!r}"
    theirs = outputs(case, c)
    for name, text in outputs(case, ours).items():
        if text != theirs[name]:
            diff = difflib.unified_diff(theirs[name], text, f"c/{name}", f"ours/{name}", lineterm="")
            yield "\n    ".join([f"{name} differs"] + list(diff)[:40])


def main():
    out = sys.argv[1]
    counts, failures, repeated, passed = {}, [], [], 0
    for line in read(f"{out}/cases").splitlines():
        fields = [field.strip() for field in line.split("|")]
        name, expect = fields[0], fields[1] if len(fields) > 1 else None
        runs = [Run(f"{out}/results/{name}/{variant}", expect) for variant in VARIANTS]
        why = []
        for variant, run in zip(VARIANTS, runs):
            if not run.exit:
                why.append(f"{variant}: no result")
            elif expect not in (None, run.exit):
                why.append(f"{variant}: ended with {run.exit}, not {expect}")
            if run.tries > 1:
                repeated.append(f"{name} ({variant}: {run.tries} tries)")
            if run.exit and run.exit not in ("crash", "timeout") and not run.exit.startswith("signal"):
                why += run.library_trouble(variant)
        # a test that does not end with either library is no comparison
        if expect is None and runs[0].exit and runs[0].exit not in ("pass", "skip", "fail", "error"):
            why.append(f"c: {runs[0].exit}")
        why += differences(name, *runs)
        suite = name.split(":")[0]
        count = counts.setdefault(suite, {variant: dict.fromkeys(OUTCOMES, 0) for variant in VARIANTS})
        for variant, run in zip(VARIANTS, runs):
            count[variant][run.outcome] += 1
        count["differing"] = count.get("differing", 0) + bool(why)
        if why:
            failures.append("\n  ".join([f"{name}:"] + why))
        else:
            passed += 1

    head = "".join(f"{f'{variant} {outcome}':>14}" for variant in VARIANTS for outcome in OUTCOMES)
    print(f"{'suite':<12}{head}{'differing':>14}")
    for suite, count in counts.items():
        cells = "".join(f"{count[variant][outcome]:>14}" for variant in VARIANTS for outcome in OUTCOMES)
        print(f"{suite:<12}{cells}{count['differing']:>14}")
    if repeated:
        print("\nrepeated, see flaky:", *repeated, sep="\n  ")
    if failures:
        print()
        print("\n".join(failures))
    print(f"\n{passed} passed, {len(failures)} failed")
    return 1 if failures or not passed else 0


sys.exit(main())
