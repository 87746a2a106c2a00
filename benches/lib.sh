# Sourced by the benches: sets up both libraries and the fake kernel, and counts results.
# shellcheck shell=bash
#
# fake_init [OUR_LIB]   sets work (scratch directory, removed at exit unless KEEP is set), ours and theirs
#                       (directories that contain a libibverbs.so.1 each) and shim (the fake kernel)
# OUR_LIB is the directory of the library under test, by default cargo's release directory.
# C_LIB is the C library's file (default: the distribution's).

repo_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
fake_dir=$repo_dir/compat-tests/fake-uverbs
passed=0
failed=0
skipped=0

fake_init() {
    local dir=${1:-${CARGO_TARGET_DIR:-$repo_dir/target}/release} file='' name original
    for name in libibverbs.so.1 libibverbs.so; do
        if [ -e "$dir/$name" ]; then
            file=$(realpath "$dir/$name")
            break
        fi
    done
    if [ -z "$file" ]; then
        echo "no libibverbs.so.1 or libibverbs.so in $dir (build it, or give the directory)" >&2
        exit 2
    fi
    original=$(realpath "${C_LIB:-/usr/lib/$(gcc -print-multiarch)/libibverbs.so.1}")
    work=$(mktemp -d "${TMPDIR:-/tmp}/ibv-fake.XXXXXX")
    # Readable for programs that run as another user.
    chmod 755 "$work"
    trap fake_exit EXIT
    ours=$work/ours
    theirs=$work/theirs
    mkdir -p "$ours" "$theirs" "$work/bin"
    cp -L "$file" "$ours/libibverbs.so.1"
    cp -L "$original" "$theirs/libibverbs.so.1"
    ln -s libibverbs.so.1 "$ours/libibverbs.so"
    ln -s libibverbs.so.1 "$theirs/libibverbs.so"
    shim=$work/shim.so
    gcc -std=gnu11 -O1 -g -Wall -Wextra -Werror -shared -fPIC -o "$shim" \
        "$fake_dir"/{shim,answers,ioctls,record,netlink}.c -ldl -pthread
    echo "library under test: $file"
    echo "C library:          $original"
}

fake_exit() {
    local status=$?
    if [ -n "${KEEP:-}" ]; then
        echo "kept: $work"
    else
        rm -rf "$work"
    fi
    return $status
}

# build SOURCE [FLAGS...]: compiles a test program into $work/bin, named like its source.
build() {
    local source=$1 name
    shift
    name=$(basename "$source" .c)
    gcc -std=gnu11 -O1 -g -Wall -Wextra -Werror -I"$fake_dir" -o "$work/bin/$name" "$source" "$@"
}

# fake_sysfs DIR DEVICE...: writes a sysfs tree with these devices, and prints the value of FAKE_NL_DEVICES.
fake_sysfs() { (cd "$repo_dir" && cargo run -q -p compat-tests -- --fake-sysfs "$@"); }

ok() {
    passed=$((passed + 1))
    [ -n "${QUIET:-}" ] || echo "ok      $1"
}

bad() {
    failed=$((failed + 1))
    echo "FAILED  $1"
}

skip() {
    skipped=$((skipped + 1))
    echo "skipped $1: $2"
}

summary() {
    [ "$skipped" -eq 0 ] || echo "$skipped skipped"
    echo "$passed passed, $failed failed"
    # A run that compared nothing fails.
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}
