#!/bin/sh
# Tests the Python package as it is built from this tree: tests/python_package.sh DIR [pytest's arguments]
# DIR is the folder of a debug build (target/debug): the command in it is the one that the package is compared with.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { echo "usage: tests/python_package.sh target/debug [pytest's arguments]" >&2; exit 2; }
build=$(cd "$1" && pwd)
shift
python=$PWD/target/test-tools/bin/python
[ -x "$python" ] || { echo "tests/python_package.sh: $python is missing: run tests/install-tools.sh" >&2; exit 1; }
[ -x "$build/forebay" ] || { echo "tests/python_package.sh: $build/forebay is missing: run cargo build -p forebay" >&2; exit 1; }

# The library alone, but with the features that `cargo test --workspace` gives its dependencies, those of an example's and test's among them:
# by itself (-p forebay-python) it would have all of them compiled a second time.
cargo build --locked --workspace --lib --example gallery --features forebay-python/extension-module --target-dir "$(dirname "$build")"
package=$(dirname "$build")/python-package
rm -rf "$package"
mkdir -p "$package"
cp -r crates/python/python/forebay "$package/forebay"
cp "$build/lib_forebay.so" "$package/forebay/_forebay.abi3.so"

cd crates/python
export PYTHONPATH="$package" PYTHONDONTWRITEBYTECODE=1 PATH="$build:$PATH" MPLBACKEND=agg
# Types are checked against the package as it is installed.
"$python" -m mypy --cache-dir "$package/.mypy_cache" --config-file pyproject.toml
exec "$python" -m pytest -p no:cacheprovider "$@"
