#!/bin/sh
# Builds the program of a commit before: before.sh DIRECTORY REVISION
#
#   DIRECTORY/COMMIT/source   its files; nothing is shared with this tree, whose lock, profiles and target stay its own
#   DIRECTORY/tabane          its program, which is always that of the last call
#
# What has been built stays; delete DIRECTORY to begin anew.
set -eu

directory=$1
revision=$2

fail() {
    echo "before: $1" >&2
    exit 2
}

commit=$(git rev-parse --verify --quiet --short=12 "$revision^{commit}") \
    || fail "no commit $revision here: name one as BEFORE=REVISION, or fetch the history (git fetch --unshallow)"
mkdir -p "$directory"
built=$(cd "$directory" && pwd)/$commit

if [ ! -e "$built/source" ]; then
    rm -rf "$built.part"
    mkdir -p "$built.part/source"
    git archive "$commit" | tar --extract --directory "$built.part/source"
    mv "$built.part" "$built"
fi
cd "$built/source"
# A commit from before `tabaned` was a program of its own has all in one.
daemon=
! grep -qs '^name = "tabaned"' daemon/Cargo.toml || daemon='-p tabaned'
CARGO_TARGET_DIR="$built/target" "${CARGO:-cargo}" build --locked -p tabane $daemon
ln -sfn "$built/target/debug/tabane" "$built/../tabane"
echo "the program before is that of $commit"
