#!/usr/bin/env bash
# Makes one target after another and says at the end what became of each: steps.sh TARGET...
# One that fails does not keep the next from its turn. With RESUME=1 what was well at the same commit, with the same changes in
# the working tree, is not made again.
set -euo pipefail

stamps=target/steps
mkdir -p "$stamps"
state=$( (git rev-parse HEAD && git diff HEAD) 2>/dev/null | sha256sum | cut -c 1-16)
code=0
report=
for step in "$@"; do
    if [ "${RESUME:-}" = 1 ] && [ "$(cat "$stamps/$step" 2>/dev/null)" = "$state" ]; then
        report+=$(printf '\n  %-16s as before' "$step")
        continue
    fi
    began=$SECONDS
    rm -f "$stamps/$step"
    if make --no-print-directory "$step"; then
        result=well
        echo "$state" >"$stamps/$step"
    else
        result=FAILED
        code=1
    fi
    report+=$(printf '\n  %-16s %-6s %5d s' "$step" $result $((SECONDS - began)))
done
echo "steps, $SECONDS s:$report"
exit $code
