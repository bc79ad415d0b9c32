#!/bin/sh
# Runs each member's tests in a pytest of its own, TEST_JOBS members at a time (default: two where there are two cores),
# all of them even if one fails, with the arguments given. A member's output comes when it has ended; with TEST_JOBS=1
# it comes as it is made. Exits 1 if any failed. A member in which the marker expression selects nothing (pytest's
# exit 5) is fine.
set -u
cd "$(dirname "$0")/.."
# Those that take longest come first, so that no one is left to run alone at the end.
members="packages/envs packages/audit packages/trainer packages/policy-server packages/optionlib tests proto"
cores=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
jobs=${TEST_JOBS:-$((cores > 1 ? 2 : 1))}
failures=$(mktemp)
export jobs failures
printf '%s\n' $members | xargs -P "$jobs" -I {} sh scripts/test_member.sh {} "$@"
failed=$(tr '\n' ' ' < "$failures")
rm -f "$failures"
if [ -n "$failed" ]; then
    echo "failed: $failed"
    exit 1
fi
echo "all members passed"
