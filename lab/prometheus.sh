#!/bin/sh
# Gets Prometheus with promtool, and the parser of its Python client, into a directory: prometheus.sh DIRECTORY
# Only these files are taken out of Debian's packages: to install `prometheus` would set up a server that starts at each boot.
set -eu

has_all() {
    [ -x "$1/usr/bin/prometheus" ] && [ -x "$1/usr/bin/promtool" ] && [ -d "$1/usr/lib/python3" ]
}

has_all "$1" && exit 0
if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
    echo "no apt-get here: Prometheus, promtool and the Python module prometheus_client are looked for where programs are" >&2
    exit 2
fi
mkdir -p "$1/packages"
cd "$1/packages"
packages="prometheus python3-prometheus-client python3-decorator"
echo "taking Prometheus out of Debian's packages: $packages"
apt-get -q download $packages 2>/dev/null || { apt-get update -q && apt-get -q download $packages; }
for package in *.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar --extract --directory .. --wildcards --no-anchored './usr/bin/prometheus' './usr/bin/promtool' './usr/lib/python3/*' 2>/dev/null || true
done
cd ..
rm -r packages
has_all .
