# Sourced by run: how one case is run.
# shellcheck shell=bash disable=SC2154,SC2034

rooted=
[ "$(id -u)" -eq 0 ] && unshare -m true 2> /dev/null && rooted=1
valgrind=
if [ "${LEAKS:-1}" != 0 ]; then
    if command -v valgrind > /dev/null; then valgrind=1; else echo "valgrind is missing: no leak checks"; fi
fi

# tree DEVICES...: a fresh sysfs tree in $sys.
tree() {
    rm -rf "$sys"
    "$bench_dir/mksys" "$sys" "$@"
    uv=$sys/class/infiniband_verbs/uverbs0
    ib=$sys/class/infiniband/$(cat "$uv/ibdev" 2> /dev/null)
}

# What a case may set before it calls `check`; `check` forgets them afterwards:
#   in_namespace   shell commands to run as root in a mount namespace of the case's own, before the program
#   as_nobody=1    then run it as an unprivileged user
#   limits         an argument for prlimit
#   extra_path     a directory that the program's libraries are searched in besides
#   undefined=1    the C original reads memory that it never wrote, so that ours only has to end well
#   after          shell command whose output counts too
#   leaks=0        no valgrind run (too slow, or it cannot work there)
#   slow=SECONDS   more than the usual time
#   otherwise      a sed script that turns the C original's output into ours, where we differ on purpose
forget() {
    in_namespace='' as_nobody='' limits='' leaks=1 slow=60 after='' extra_path='' undefined='' otherwise=''
}
forget

# launch LIB OUT COMMAND...: runs it in the case's circumstances.
launch() {
    local lib=$1 out=$2 full=()
    shift 2
    # The limit goes last, for what is started before must not suffer from it.
    [ -z "$limits" ] || full+=(prlimit "$limits")
    [ -z "$as_nobody" ] || full+=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    wrapper=()
    [ -z "$in_namespace" ] || wrapper=(unshare -m bash -c "$in_namespace"'
        exec "$@"' launch)
    with "$lib" "$out" "${full[@]}" timeout "$slow" "$@"
}

# leak_counts FILE: definitely lost bytes and blocks, and errors, of a valgrind log.
leak_counts() {
    awk '/definitely lost:/ { gsub(",", ""); bytes = $4; blocks = $7 }
         /indirectly lost:/ { gsub(",", ""); bytes += $4; blocks += $7 }
         /ERROR SUMMARY:/ { gsub(",", ""); errors = $4 }
         END { print bytes + 0, blocks + 0, errors + 0 }' "$1"
}

check_leaks() {
    local name=$1 lib counts_theirs counts_ours
    shift
    for lib in theirs ours; do
        VERBS_LOG_FILE=${VERBS_LOG_FILE:+$VERBS_LOG_FILE.valgrind} launch $lib "$work/$lib.vg.out" valgrind -q --leak-check=full \
            --errors-for-leak-kinds=none --show-leak-kinds=definite,indirect --verbose \
            --log-file="$work/$lib.vg" "$@" &
    done
    wait
    read -ra counts_theirs <<< "$(leak_counts "$work/theirs.vg")"
    read -ra counts_ours <<< "$(leak_counts "$work/ours.vg")"
    if ! grep -q 'ERROR SUMMARY' "$work/ours.vg" || ! grep -q 'ERROR SUMMARY' "$work/theirs.vg"; then
        bad "$name: leaks (no result of valgrind)"
        sed 's/^/        /' "$work/ours.vg.out" | head -n 5
    elif [ "${counts_ours[0]}" -gt "${counts_theirs[0]}" ] || [ "${counts_ours[2]}" -gt "${counts_theirs[2]}" ]; then
        bad "$name: leaks ${counts_ours[*]} (the C library: ${counts_theirs[*]}; bytes, blocks, errors)"
        grep -v 'Reading syms\|^--' "$work/ours.vg" | head -n 30 | sed 's/^/        /'
    else
        ok "$name: leaks"
    fi
}

# check NAME COMMAND...: compares the two libraries in one case.
check() {
    local name=$1 lib
    shift
    if [[ $name =~ ${ONLY:-.} ]]; then
        if { [ -n "$in_namespace" ] || [ -n "$as_nobody" ]; } && [ -z "$rooted" ]; then
            skip "$name" 'needs root and mount namespaces'
        else
            chmod 666 "$work"/*.out 2> /dev/null
            for lib in theirs ours; do
                launch $lib "$work/$lib.out" "$@"
                # What the case left in files, for instance its log.
                [ -z "$after" ] || bash -c "$after" >> "$work/$lib.out" 2>&1
            done
            [ -z "$otherwise" ] || sed -i "$otherwise" "$work/theirs.out"
            if [ -z "$undefined" ]; then
                same "$name" "$work/theirs.out" "$work/ours.out"
            elif grep -q '^exit code 0' "$work/ours.out"; then
                ok "$name: ends well"
            else
                bad "$name: ends well"
            fi
            [ -z "${SAVE:-}" ] || cp "$work/theirs.out" "$SAVE/${name//\//_}"
            if [ -n "$valgrind" ] && [ "$leaks" = 1 ]; then
                check_leaks "$name" "$@"
            fi
        fi
    fi
    forget
}
