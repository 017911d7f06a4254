#!/bin/sh
# Makes the directory of a clean Debian: clean-root.sh SUITE DIRECTORY
# The smallest that there is, with a service manager and with what shows manual pages and completions.
set -eu

suite=$1 directory=$2
mkdir -p "$(dirname "$directory")"
trap 'rm -rf "$directory.new"' EXIT
mmdebstrap --quiet --variant=minbase --include=systemd,man-db,bash-completion,zsh,fish "$suite" "$directory.new"
mv "$directory.new" "$directory"
