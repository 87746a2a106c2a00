# shellcheck shell=bash
# Counts what passed and failed, for tests that check many things one after the other. Source it after common.sh; $work is the
# test's folder.

passed=0 failed=0

# result WHAT STATUS [FILE]: 0 is ok; else the end of the file is shown.
result() {
    if [ "$2" = 0 ]; then
        passed=$((passed + 1))
        say "ok      $1"
    else
        failed=$((failed + 1))
        say "FAILED  $1"
        [ -z "${3:-}" ] || tail -n 30 "$3" | sed 's/^/        /'
    fi
}

# same WHAT EXPECTED GOT: two texts
same() {
    local status=0
    # shellcheck disable=SC2154
    diff <(printf '%s\n' "$2") <(printf '%s\n' "$3") >"$work/diff" || status=1
    result "$1" "$status" "$work/diff"
}

# tally NAME: the last line; its status is the test's.
tally() {
    say
    say "$1: $passed passed, $failed failed"
    [ "$failed" = 0 ] && [ "$passed" != 0 ]
}
