#!/bin/sh
# Runs trials that have to run here: trials.sh NAME..., where each NAME is a part of their names.
# A trial that fails, or that is skipped for whatever reason, makes this fail, and so does a NAME without a trial.
set -eu

mkdir -p target
for name in "$@"; do
    log=target/trials-$name.log
    { "${CARGO:-cargo}" test --locked -p tabane-lab --test traffic "$name" && echo all passed; } 2>&1 | tee "$log"
    if ! tail -n 1 "$log" | grep -qx 'all passed' \
        || ! grep -Eq '^test result: ok\. [1-9][0-9]* passed; 0 failed; 0 ignored' "$log"; then
        "$(dirname "$0")/skips.sh" "$log" || true
        echo "trials $name: one failed, was skipped, or there is none" >&2
        exit 1
    fi
done
