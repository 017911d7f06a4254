#!/bin/sh
# Gets kubernetes-validate, which has the published schemas of Kubernetes with it, into a directory: kubernetes.sh DIRECTORY
set -eu

[ -x "$1/bin/kubernetes-validate" ] && exit 0
echo "taking kubernetes-validate out of PyPI"
python3 -m venv "$1"
"$1/bin/pip" --quiet install --require-hashes -r "$(dirname "$0")/kubernetes.txt"
