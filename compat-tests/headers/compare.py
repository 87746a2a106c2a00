#!/usr/bin/python3
"""compare.py WHAT THEIRS OURS EXPECTED [NEWER]: compares two lists of facts, in both directions.

EXPECTED has the differences that are known, with reasons (lines of WHAT). NEWER is the list of a newer release of
theirs: what we have beyond THEIRS may be from there, and what THEIRS has may have changed until then. Ends with a
line for the summary; the exit code is 1 for a difference that nothing explains.
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
    """What a fact is about."""
    return re.match(r"(function inline|\w+) [\w.]+", fact).group()


known = {subject(fact) for fact in newer}
wrong = 0
changed = 0
for side, only in (("theirs", theirs - ours), ("ours", ours - theirs)):
    for fact in sorted(only):
        # what a newer release has otherwise, we have as that has it
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
        print(f"  {expected_file}:{number}: nothing differs like this any more")
print(f"{what}: {len(theirs & ours)} facts equal" + (f", {changed} newer" if newer else "") + f", {wrong} wrong")
sys.exit(wrong != 0 or not theirs & ours)
