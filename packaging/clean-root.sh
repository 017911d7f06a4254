#!/bin/sh
# Makes the directory of a clean Debian: clean-root.sh SUITE DIRECTORY
# The smallest that there is, with a service manager, with what shows manual pages and completions, with what configures networks, and Ansible.
set -eu

suite=$1 directory=$2
mkdir -p "$(dirname "$directory")"
trap 'rm -rf "$directory.new"' EXIT
mmdebstrap --quiet --variant=minbase --include=systemd,man-db,bash-completion,zsh,fish,dbus,iproute2,ifupdown2,network-manager,netplan.io,ansible-core,python3-apt "$suite" "$directory.new"
mv "$directory.new" "$directory"
