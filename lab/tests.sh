#!/usr/bin/env bash
# Runs tests, and says at the end which failed, what repeats each alone, and which could not run here and why:
# tests.sh PROFILE [ARGUMENT...], where PROFILE is one of .config/nextest.toml, and the arguments are those of `cargo nextest run`.
# With TABANE_REQUIRE=all a test that could not run, and that lab/skips.txt does not allow to be left out, is a failure; with
# TABANE_REQUIRE=each any that could not run is one.
set -euo pipefail

profile=$1
shift
FEATURES=${FEATURES:-} # such as `--features kernel-path`
allowed=$(dirname "$0")/skips.txt
log=target/test.log
mkdir -p target

code=0
cargo nextest run --locked --workspace $FEATURES --profile "$profile" "$@" 2>&1 | tee "$log" || code=$?
[ $code = 0 ] || [ $code = 100 ] || exit $code # 100: tests failed; anything else: they could not be built, or there are none

sed -nE 's/^ +(FAIL|TIMEOUT|ABORT|SIG[A-Z]+) \[[^]]*\] \([^)]*\) [^ ]+ //p' "$log" | sort -u |
    while read -r test; do
        echo "  FAILED   $test"
        echo "           again: make test ONLY='=$test'"
    done

cargo nextest list --locked --workspace $FEATURES --profile "$profile" --run-ignored only --message-format oneline "$@" 2>/dev/null |
    awk -v require="${TABANE_REQUIRE:-}" -v allowed="$allowed" '
        BEGIN {
            while ((getline line < allowed) > 0) {
                if (line ~ /^[a-z0-9]/) {
                    name = line
                    sub(/[ \t].*/, "", name)
                    reason[name] = substr(line, length(name) + 1)
                    sub(/^[ \t]+/, "", reason[name])
                }
            }
        }
        NF > 1 {
            name = $2
            why = match($0, /\[SKIPPED: .*\]/) ? substr($0, RSTART + 10, RLENGTH - 11) : "says no reason"
            listed = name in reason
            skipped++
            unlisted += !listed
            printf "  SKIPPED  %s: %s%s\n", name, why, listed ? " (listed: " reason[name] ")" : ""
        }
        END {
            printf "skipped: %d tests, %d of them not in lab/skips.txt\n", skipped, unlisted
            exit require == "each" && skipped > 0 || require == "all" && unlisted > 0
        }
    ' || code=1
exit $code
