# shellcheck shell=bash
# Counts passed and failed checks of a test. To be sourced after common.sh; $work is the test's directory.

passed=0 failed=0

# result WHAT STATUS [FILE]: counts a check; a STATUS other than 0 is a failure, and prints the end of FILE.
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

# same WHAT EXPECTED GOT: compares two texts
same() {
    local status=0
    # shellcheck disable=SC2154
    diff <(printf '%s\n' "$2") <(printf '%s\n' "$3") >"$work/diff" || status=1
    result "$1" "$status" "$work/diff"
}

# tally NAME: prints the totals; succeeds if no check failed and at least one passed.
tally() {
    say
    say "$1: $passed passed, $failed failed"
    [ "$failed" = 0 ] && [ "$passed" != 0 ]
}
