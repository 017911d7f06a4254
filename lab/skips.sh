#!/bin/sh
# Shows which tests failed or were skipped, and why: skips.sh LOG, where LOG is what `cargo test` printed.
# With TABANE_REQUIRE=all a skip that lab/skips.txt does not allow is a failure.
set -eu

allowed=$(dirname "$0")/skips.txt
awk -v require="${TABANE_REQUIRE:-}" -v allowed="$allowed" '
    BEGIN {
        while ((getline line < allowed) > 0) {
            if (line ~ /^[a-z]/) {
                name = line
                sub(/[ \t].*/, "", name)
                reason[name] = substr(line, length(name) + 1)
                sub(/^[ \t]+/, "", reason[name])
            }
        }
    }
    # What a failed test says stands below its name; the first lines tell it.
    /^(failures:|test result:)/ { told = 0 }
    told > 0 && /./ { failed = failed sprintf("          %s\n", substr($0, 1, 400)); told-- }
    /^---- .* ----$/ { failed = failed sprintf("  FAILED  %s\n", $2); told = 4 }
    /^test / && /\.\.\. ignored/ {
        name = $2
        why = "says no reason"
        if (match($0, /\[SKIPPED: .*\] +\.\.\. ignored/)) {
            why = substr($0, RSTART + 10, RLENGTH - 10)
            sub(/\] +\.\.\. ignored$/, "", why)
        } else if (match($0, /ignored, .*/)) {
            why = substr($0, RSTART + 9)
        }
        skipped++
        listed = name in reason
        if (!listed) unlisted++
        printf "  %-7s %s: %s%s\n", listed ? "listed" : "NEW", name, why, listed ? " (" reason[name] ")" : ""
    }
    END {
        printf "%s", failed
        printf "skipped: %d tests, %d of them not in lab/skips.txt\n", skipped, unlisted
        exit require == "all" && unlisted > 0
    }
' "$1"
