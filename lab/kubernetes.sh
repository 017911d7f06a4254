#!/bin/sh
# Gets kubernetes-validate, which has the published schemas of Kubernetes with it, into a directory: kubernetes.sh DIRECTORY
set -eu

# One that was moved here names the place from which it came, and does not begin.
"$1/bin/kubernetes-validate" --help >/dev/null 2>&1 && exit 0
echo "taking kubernetes-validate out of PyPI"
python3 -m venv --clear "$1"
"$1/bin/pip" --quiet install --require-hashes -r "$(dirname "$0")/kubernetes.txt"
