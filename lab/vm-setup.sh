#!/bin/sh
# Fetches what the lab's guest is made of: vm-setup.sh DIRECTORY [KERNEL-PACKAGE [SUITE]]
#
#   DIRECTORY/kernel   Debian's kernel and its modules, unpacked, not installed (400 MB)
#   DIRECTORY/venv     virtme-ng, which puts the command line of QEMU together
#
# The kernel is of this machine's Debian, or of SUITE, of which this machine's own lists of packages know nothing afterwards.
# What is there already stays; delete DIRECTORY to begin anew.
set -eu

directory=$1
package=${2:-linux-image-amd64}
suite=${3:-}
lab=$(cd "$(dirname "$0")" && pwd)
PATH=$PATH:/usr/sbin:/sbin

fail() {
    echo "vm-setup: $1" >&2
    exit 2
}

[ "$(uname -m)" = x86_64 ] || fail "the guest's kernel is for x86_64, this machine is $(uname -m)"
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)

# The packages that `$1` depends on and whose names are as `$2`.
depends() {
    apt-cache depends --important "$1" | sed -n "s/^ *Depends: \($2\)/\1/p" | sort -u
}

# Has apt know the packages of `suite` in a directory of its own.
know_suite() {
    mkdir -p lists/partial cache/archives/partial
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >sources.list
    cat >apt.conf <<EOF
Dir::Etc::SourceList "$PWD/sources.list";
Dir::Etc::SourceParts "-";
Dir::State::Lists "$PWD/lists";
Dir::Cache "$PWD/cache";
EOF
    export APT_CONFIG="$PWD/apt.conf"
    apt-get update -q -o APT::Sandbox::User=root >/dev/null || fail "the packages of $suite cannot be fetched"
}

if [ ! -e "$directory/kernel/boot" ]; then
    command -v apt-get >/dev/null || fail "apt-get not found: the kernel comes as a Debian package"
    rm -rf "$directory/fetch"
    mkdir -p "$directory/fetch/kernel"
    cd "$directory/fetch"
    [ -z "$suite" ] || know_suite
    # A package without a version only depends on the one that holds the image, and that may depend on those of its parts.
    image=$(depends "$package" 'linux-image-[0-9].*')
    image=${image:-$package}
    echo "fetching $image"
    # shellcheck disable=SC2046 # a word for each package
    apt-get download -q -o APT::Sandbox::User=root "$image" $(depends "$image" 'linux-\(base\|binary\|modules\)-.*') \
        || fail "package $image cannot be fetched: try \`apt-get update\` as root"
    for part in *.deb; do dpkg-deb -x "$part" kernel; done
    # Later releases of Debian have all of it below usr/lib/modules.
    [ -e kernel/lib ] || ln -s usr/lib kernel/lib
    version=$(ls kernel/lib/modules)
    if [ ! -e kernel/boot ]; then
        mkdir kernel/boot
        mv "kernel/lib/modules/$version/vmlinuz" "kernel/boot/vmlinuz-$version"
    fi
    depmod -b kernel "$version"
    mv kernel "$directory/kernel"
    cd "$directory"
    rm -rf fetch
fi

# A virtual environment knows where it was made: moved elsewhere, it does not run.
if ! "$directory/venv/bin/virtme-run" --help >/dev/null 2>&1; then
    echo "fetching virtme-ng"
    python3 -m venv --clear "$directory/venv" || fail "python3 makes no virtual environment: install python3-venv"
    "$directory/venv/bin/pip" install -q --require-hashes -r "$lab/virtme-ng.txt" || fail "pip cannot fetch virtme-ng"
fi

echo "the guest is ready in $directory: Linux $(ls "$directory/kernel/lib/modules")"
