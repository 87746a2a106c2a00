# Sourced by the runners: the two libraries side by side, the shim, and counting.
# shellcheck shell=bash
#
# bench_init [OUR_LIB]   sets work (scratch directory, removed at exit unless KEEP is set), ours and
#                        theirs (directories holding a libibverbs.so.1 each) and shim
# OUR_LIB is the directory of the library under test, by default cargo's release directory.
# C_LIB is the C original (default: the distribution's).

bench_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo_dir=$(cd "$bench_dir/../.." && pwd)
passed=0
failed=0
skipped=0

bench_init() {
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
    work=$(mktemp -d "${TMPDIR:-/tmp}/ibv-bench.XXXXXX")
    # Programs run as another user must be able to read it.
    chmod 755 "$work"
    trap bench_exit EXIT
    ours=$work/ours
    theirs=$work/theirs
    mkdir -p "$ours" "$theirs" "$work/bin"
    cp -L "$file" "$ours/libibverbs.so.1"
    cp -L "$original" "$theirs/libibverbs.so.1"
    ln -s libibverbs.so.1 "$ours/libibverbs.so"
    ln -s libibverbs.so.1 "$theirs/libibverbs.so"
    shim=$work/shim.so
    gcc -std=gnu11 -O1 -g -Wall -Wextra -Werror -shared -fPIC -o "$shim" \
        "$bench_dir"/{shim,answers,ioctls,record,netlink}.c -ldl -pthread
    echo "library under test: $file"
    echo "C original:         $original"
}

bench_exit() {
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
    gcc -std=gnu11 -O1 -g -Wall -Wextra -Werror -I"$bench_dir" -o "$work/bin/$name" "$source" "$@"
}

# with ours|theirs FILE COMMAND...: runs it on that library in the pretended world; what it prints goes
# to FILE, and its exit code. The library's own path is the only thing that is masked. The array
# `wrapper` goes before all that, outside of the pretended world; extra_path after the library's own.
wrapper=()
extra_path=
with() {
    local lib=${!1} out=$2 status
    shift 2
    {
        (exec ${wrapper[@]+"${wrapper[@]}"} env LD_LIBRARY_PATH="$lib${extra_path:+:$extra_path}" LD_PRELOAD="$shim" "$@" < /dev/null > "$out" 2>&1)
        status=$?
    } 2> /dev/null
    echo "exit code $status" >> "$out"
    sed -i "s|$lib/|LIBDIR/|g" "$out"
}

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

# same NAME FILE_THEIRS FILE_OURS: passes if the files are equal, else shows how they differ.
same() {
    if cmp -s "$2" "$3"; then
        ok "$1"
    else
        bad "$1"
        diff -U2 --label 'C original' --label 'ours' "$2" "$3" | head -n "${DIFF_LINES:-40}" | sed 's/^/        /'
    fi
}

summary() {
    [ "$skipped" -eq 0 ] || echo "$skipped skipped"
    echo "$passed passed, $failed failed"
    # A run in which nothing was compared is no success.
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}
