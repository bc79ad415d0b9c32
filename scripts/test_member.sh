#!/bin/sh
# One member's tests, for scripts/test.sh: MEMBER, then pytest's arguments. Names the member in the file $failures.
set -u
member=$1
shift
run() { python -m pytest "$member" -q -o cache_dir=".pytest_cache/$member" "$@"; }
if [ "${jobs:-1}" -gt 1 ]; then
    log=$(mktemp)
    run "$@" > "$log" 2>&1
    code=$?
    echo "== $member"
    cat "$log"
    rm -f "$log"
else
    echo "== $member"
    run "$@"
    code=$?
fi
if [ $code -ne 0 ] && [ $code -ne 5 ]; then echo "$member" >> "$failures"; fi
exit 0
