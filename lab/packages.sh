#!/bin/sh
# Sees to it that commands, or files named by their whole path, are there: packages.sh COMMAND=PACKAGE...
# Installs the missing Debian packages when run as root with apt, else names them and fails.
set -eu

PATH=$PATH:/usr/sbin:/sbin
is_there() {
    case $1 in
    /*) [ -f "$1" ] ;;
    *) command -v "$1" >/dev/null ;;
    esac
}

missing=""
for pair in "$@"; do
    is_there "${pair%%=*}" || missing="$missing ${pair#*=}"
done
[ -n "$missing" ] || exit 0

missing=$(printf '%s\n' $missing | sort -u | tr '\n' ' ')
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "missing Debian packages: $missing(as root: apt-get install $missing)" >&2
    exit 2
fi
echo "installing Debian packages: $missing"
# The lab starts what it needs in its own namespaces: no package is to start a server on this machine.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -q -y --no-install-recommends $missing
