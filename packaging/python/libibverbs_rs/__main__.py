"""python -m libibverbs_rs run PROGRAM [ARG...]: runs a program on libibverbs-rs."""

import os
import sys

import libibverbs_rs

USAGE = """\
usage: python -m libibverbs_rs run PROGRAM [ARG...]    run PROGRAM on libibverbs-rs
       python -m libibverbs_rs check PROGRAM [ARG...]  report which libibverbs it would load, and why
       python -m libibverbs_rs directory               print the directory of the library
IBV_UROCE=1 in the environment makes a software device (IBV_UROCE=uroce0=lo: on loopback).
"""


def execute(arguments):
    program = libibverbs_rs.wrapper()
    os.execve(program, [program, *arguments], libibverbs_rs.environment())


def with_ibverbs_rs():
    """The command with-ibverbs-rs of the wheel."""
    execute(sys.argv[1:])


def main():
    command, arguments = sys.argv[1:2], sys.argv[2:]
    if command == ["run"] and arguments:
        execute(["--", *arguments])
    elif command == ["check"] and arguments:
        execute(["--check", "--", *arguments])
    elif command == ["directory"] and not arguments:
        print(libibverbs_rs.directory())
    elif command in (["-h"], ["--help"]):
        print(USAGE, end="")
    else:
        print(USAGE, end="", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
