# shellcheck shell=bash
# Functions and variables that the project's scripts share. To be sourced.

REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
TARGET_DIR=${CARGO_TARGET_DIR:-$REPO/target}
# A relative CARGO_TARGET_DIR is relative to where cargo runs; make runs it in the top directory.
[[ $TARGET_DIR == /* ]] || TARGET_DIR=$REPO/$TARGET_DIR
# The directory of the library under test. Tests of the tests set another one.
# shellcheck disable=SC2034
OUR_LIBDIR=${OUR_LIBDIR:-$TARGET_DIR/release}

say() { printf '%s\n' "$*"; }
step() { printf '\n== %s\n' "$*"; }
warn() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() {
    warn "$@"
    exit 1
}

# Runs a command as root: directly, or through sudo.
quietly_as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "this needs root, and there is no sudo: $*"
    fi
}
# The same, and prints the sudo command.
as_root() {
    [ "$(id -u)" = 0 ] || say "sudo $*"
    quietly_as_root "$@"
}

# Time since $1, a value of $SECONDS, as minutes:seconds.
since() { printf '%d:%02d' $(((SECONDS - $1) / 60)) $(((SECONDS - $1) % 60)); }
