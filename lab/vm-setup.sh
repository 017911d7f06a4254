#!/bin/sh
# Fetches what the lab's guest is made of: vm-setup.sh DIRECTORY [KERNEL-PACKAGE]
#
#   DIRECTORY/kernel   Debian's kernel and its modules, unpacked, not installed (400 MB)
#   DIRECTORY/venv     virtme-ng, which puts the command line of QEMU together
#
# What is there already stays; delete DIRECTORY to begin anew.
set -eu

directory=$1
package=${2:-linux-image-amd64}
PATH=$PATH:/usr/sbin:/sbin

fail() {
    echo "vm-setup: $1" >&2
    exit 2
}

[ "$(uname -m)" = x86_64 ] || fail "the guest's kernel is for x86_64, this machine is $(uname -m)"
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)

if [ ! -e "$directory/kernel/boot" ]; then
    command -v apt-get >/dev/null || fail "apt-get not found: the kernel comes as a Debian package"
    # A package without a version only depends on the one that holds the image.
    image=$(apt-cache depends --important "$package" | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
    image=${image:-$package}
    echo "fetching $image"
    rm -rf "$directory/fetch"
    mkdir -p "$directory/fetch/kernel"
    cd "$directory/fetch"
    apt-get download -q -o APT::Sandbox::User=root "$image" || fail "package $image cannot be fetched: try \`apt-get update\` as root"
    dpkg-deb -x "$image"_*.deb kernel
    depmod -b kernel "$(ls kernel/lib/modules)"
    mv kernel "$directory/kernel"
    cd "$directory"
    rm -rf fetch
fi

# A virtual environment knows where it was made: moved elsewhere, it does not run.
if ! "$directory/venv/bin/virtme-run" --help >/dev/null 2>&1; then
    echo "fetching virtme-ng"
    python3 -m venv --clear "$directory/venv" || fail "python3 makes no virtual environment: install python3-venv"
    "$directory/venv/bin/pip" install -q virtme-ng==1.42 || fail "pip cannot fetch virtme-ng 1.42"
fi

echo "the guest is ready in $directory: Linux $(ls "$directory/kernel/lib/modules")"
