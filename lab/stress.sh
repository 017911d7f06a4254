#!/usr/bin/env bash
# How often each test fails: stress.sh N runs the default tests N times beside nothing, and N times beside two programs that
# compute. What is printed is written to target/stress.txt, too; any failure ends it with code 1.
set -euo pipefail

runs=${1:?how many runs}
FEATURES=${FEATURES:-} # such as `--features kernel-path`
failed=$(mktemp -d)
busy=()
trap 'kill "${busy[@]}" 2>/dev/null || true; rm -rf "$failed"' EXIT
mkdir -p target
cargo nextest run --locked --workspace $FEATURES --no-run

# Runs them, and notes what failed below the name of the surroundings.
round() {
    local began=$SECONDS
    cargo nextest run --locked --workspace $FEATURES >target/stress.log 2>&1 || true
    grep -q '^ *Summary' target/stress.log || { tail -20 target/stress.log; exit 2; }
    grep -oE '^ +(FAIL|TIMEOUT|ABORT|SIG[A-Z]+) .*' target/stress.log | sed -E 's/^ +[A-Z]+ \[[^]]*\] \([^)]*\) //' | sort -u >>"$failed/$1" || true
    cp target/stress.log "target/stress-$1-$2.log"
    echo "$1, run $2 of $runs: $((SECONDS - began)) s, $(grep -oE '^ *Summary.*' target/stress.log | sed 's/^ *//')"
}

for run in $(seq "$runs"); do round quiet "$run"; done
for _ in 1 2; do
    (while :; do :; done) &
    busy+=($!)
done
for run in $(seq "$runs"); do round busy "$run"; done

{
    echo "failures in $runs runs beside nothing, and in $runs beside two programs that compute:"
    sort -u "$failed/quiet" "$failed/busy" | while read -r test; do
        printf '  %d %d  %s\n' "$(grep -cFx "$test" "$failed/quiet")" "$(grep -cFx "$test" "$failed/busy")" "$test"
    done
    [ -s "$failed/quiet" ] || [ -s "$failed/busy" ] || echo "  none"
} | tee target/stress.txt
[ ! -s "$failed/quiet" ] && [ ! -s "$failed/busy" ]
