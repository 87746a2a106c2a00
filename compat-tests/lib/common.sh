# shellcheck shell=bash
# Helpers that the project's scripts share. Source it, do not run it.

REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
TARGET_DIR=${CARGO_TARGET_DIR:-$REPO/target}
# cargo takes a relative CARGO_TARGET_DIR from where it runs, and make runs it at the top.
[[ $TARGET_DIR == /* ]] || TARGET_DIR=$REPO/$TARGET_DIR
# The folder of the library under test. The tests of the tests put another one here.
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
# The same, with a word about sudo.
as_root() {
    [ "$(id -u)" = 0 ] || say "sudo $*"
    quietly_as_root "$@"
}

# Whole seconds since $1, a value of $SECONDS.
since() { printf '%d:%02d' $(((SECONDS - $1) / 60)) $(((SECONDS - $1) % 60)); }
