#!/usr/bin/python3
"""compare.py WHAT THEIRS OURS EXPECTED [NEWER]: compares two lists of facts (see facts.py) in both
directions.

EXPECTED lists the known differences with reasons; the lines for WHAT apply. NEWER is the list of a newer
release
of rdma-core: OURS may have facts from it that THEIRS lacks or that have changed. The last line is a summary;
the exit code is 1 if there is a difference without explanation.
"""

import re
import sys

what, theirs_file, ours_file, expected_file = sys.argv[1:5]


def facts(path):
    with open(path) as file:
        return set(file.read().splitlines())


theirs, ours = facts(theirs_file), facts(ours_file)
newer = facts(sys.argv[5]) if len(sys.argv) > 5 else set()
rules = []
with open(expected_file) as file:
    for number, line in enumerate(file, 1):
        if re.match(r" *(#|$)", line):
            continue
        head, pattern, reason = (part.strip() for part in line.split(" | "))
        if head.split()[0] == what:
            rules.append([head.split()[1], re.compile(pattern), number, reason, 0])


def subject(fact):
    """The subject of a fact."""
    return re.match(r"(function inline|\w+) [\w.]+", fact).group()


known = {subject(fact) for fact in newer}
wrong = 0
changed = 0
for side, only in (("theirs", theirs - ours), ("ours", ours - theirs)):
    for fact in sorted(only):
        # where a newer release differs, ours must be as in that release
        if (fact in newer) if side == "ours" else (subject(fact) in known and fact not in newer):
            changed += 1
            continue
        rule = next((r for r in rules if r[0] == side and r[1].fullmatch(fact)), None)
        if rule:
            rule[4] += 1
        else:
            wrong += 1
            print(f"  only {side}: {fact}")
for side, _, number, reason, used in rules:
    if used:
        print(f"  {used:4} only {side}, as expected: {reason}")
    else:
        wrong += 1
        print(f"  {expected_file}:{number}: this difference no longer exists")
print(
    f"{what}: {len(theirs & ours)} facts equal" + (f", {changed} newer" if newer else "") + f", {wrong} wrong"
)
sys.exit(wrong != 0 or not theirs & ours)
