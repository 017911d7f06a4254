#!/bin/sh
# Makes the directory of a clean Debian: clean-root.sh SUITE DIRECTORY
# The smallest that there is, with a service manager, with what shows manual pages and completions, with what configures networks, and Ansible.
set -eu

suite=$1 directory=$2
mkdir -p "$(dirname "$directory")"
new=$(realpath -m "$directory.new")

mounts() {
    findmnt --list --noheadings --output TARGET | grep --fixed-strings "$new/"
}

# mmdebstrap mounts directories of this machine below the new one. Interrupted, it may leave them there, and they must not be
# removed with it.
remove() {
    mounts | tac | while read -r mount; do umount "$mount" || true; done
    if mounts >&2; then
        echo "$new stays: these are mounted in it" >&2
        return 1
    fi
    rm -rf --one-file-system "$new"
}

remove
trap remove EXIT
mmdebstrap --quiet --variant=minbase --include=systemd,man-db,bash-completion,zsh,fish,dbus,iproute2,ifupdown2,network-manager,netplan.io,ansible-core,python3-apt "$suite" "$new"
mv "$new" "$directory"
