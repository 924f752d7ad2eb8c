#!/bin/sh
# Installs a wheel of the Python package in a fresh environment, and does there what README.md shows: tests/python_wheel.sh WHEEL
# `make wheel` makes one for each machine; the one for this machine is the one that can be tested here.
set -eu
[ $# = 1 ] && [ -f "$1" ] || { echo "usage: tests/python_wheel.sh target/wheels/forebay-….whl" >&2; exit 2; }
wheel=$(realpath "$1")
readme=$(realpath "$(dirname "$0")/../README.md")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

python3 -m venv environment
environment/bin/python -m pip install --quiet --disable-pip-version-check "$wheel"
# What README's lines show, besides the package's own needs.
environment/bin/python -m pip install --quiet --disable-pip-version-check pandas
environment/bin/forebay --version
# The command finds the package of its own environment, whatever is on the path; Dask is not installed there.
if environment/bin/forebay compare sample --dask tcp://127.0.0.1:1 2>said; then
    echo "--dask without Dask did not fail" >&2
    exit 1
fi
grep -q "pip install 'forebay\[dask\]'" said
# The lines under "In Python".
sed -n '/^## In Python/,/^## /s/^    //p' "$readme" >lines.py
grep -q forebay.compare lines.py
echo 'print(answer.to_pandas())' >>lines.py
environment/bin/python -W error lines.py
echo "the wheel is installed, and README's Python lines run: ok"
