# Sourced by run: functions that run one case on both libraries and compare.
# shellcheck shell=bash disable=SC2154,SC2034

rooted=
[ "$(id -u)" -eq 0 ] && unshare -m true 2> /dev/null && rooted=1
valgrind='' eligible=0
LEAKS=${LEAKS:-1}
if [ "$LEAKS" != 0 ]; then
    if command -v valgrind > /dev/null; then valgrind=1; else echo "valgrind is missing: no leak checks"; fi
fi

# tree DEVICES...: creates a new sysfs tree in $sys.
tree() {
    rm -rf "$sys"
    "$fake_dir/mksys" "$sys" "$@"
    uv=$sys/class/infiniband_verbs/uverbs0
    ib=$sys/class/infiniband/$(cat "$uv/ibdev" 2> /dev/null)
}

# Variables that a case may set before it calls `check`, which resets them afterwards:
#   in_namespace   shell commands to run before the program, as root in a new mount namespace
#   as_nobody=1    run the program as an unprivileged user
#   limits         an argument for prlimit
#   extra_path     an additional directory in LD_LIBRARY_PATH
#   undefined=1    the C library reads uninitialized memory: do not compare, ours only has to exit with 0
#   after          a shell command whose output is compared as well
#   leaks=0        do not run under valgrind (too slow, or impossible)
#   slow=SECONDS   time limit, if not 60 s
#   otherwise      a sed script that makes the C library's output equal to ours, for an intended difference
forget() {
    in_namespace='' as_nobody='' limits='' leaks=1 slow=60 after='' extra_path='' undefined='' otherwise=''
}
forget

# launch LIB OUT COMMAND...: runs COMMAND as these variables say.
launch() {
    local lib=$1 out=$2 full=()
    shift 2
    # The limit must not apply to the commands before it.
    [ -z "$limits" ] || full+=(prlimit "$limits")
    [ -z "$as_nobody" ] || full+=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    wrapper=()
    [ -z "$in_namespace" ] || wrapper=(unshare -m bash -c "$in_namespace"'
        exec "$@"' launch)
    with "$lib" "$out" "${full[@]}" timeout "$slow" "$@"
}

# leak_counts FILE: prints the definitely and indirectly lost bytes and blocks, and the errors, in a valgrind
# log.
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
        VERBS_LOG_FILE=${VERBS_LOG_FILE:+$VERBS_LOG_FILE.valgrind} launch $lib "$work/$lib.vg.out" \
            valgrind -q --leak-check=full --errors-for-leak-kinds=none --show-leak-kinds=definite,indirect \
            --verbose --log-file="$work/$lib.vg" "$@" &
    done
    wait
    read -ra counts_theirs <<< "$(leak_counts "$work/theirs.vg")"
    read -ra counts_ours <<< "$(leak_counts "$work/ours.vg")"
    if ! grep -q 'ERROR SUMMARY' "$work/ours.vg" || ! grep -q 'ERROR SUMMARY' "$work/theirs.vg"; then
        bad "$name: leaks (valgrind reported no result)"
        sed 's/^/        /' "$work/ours.vg.out" | head -n 5
    elif [ "${counts_ours[0]}" -gt "${counts_theirs[0]}" ] ||
        [ "${counts_ours[2]}" -gt "${counts_theirs[2]}" ]; then
        bad "$name: leaks ${counts_ours[*]} (C library: ${counts_theirs[*]}; bytes, blocks, errors)"
        grep -v 'Reading syms\|^--' "$work/ours.vg" | head -n 30 | sed 's/^/        /'
    else
        ok "$name: leaks"
    fi
}

# check NAME COMMAND...: runs one case on both libraries and compares.
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
                # Files that the case wrote, for example the log.
                [ -z "$after" ] || bash -c "$after" >> "$work/$lib.out" 2>&1
            done
            [ -z "$otherwise" ] || sed -i "$otherwise" "$work/theirs.out"
            if [ -z "$undefined" ]; then
                same "$name" "$work/theirs.out" "$work/ours.out"
            elif grep -q '^exit code 0' "$work/ours.out"; then
                ok "$name: exits with 0"
            else
                bad "$name: exits with 0"
            fi
            [ -z "${SAVE:-}" ] || cp "$work/theirs.out" "$SAVE/${name//\//_}"
            if [ -n "$valgrind" ] && [ "$leaks" = 1 ]; then
                eligible=$((eligible + 1))
                [ $((eligible % LEAKS)) -ne 0 ] || check_leaks "$name" "$@"
            fi
        fi
    fi
    forget
}
