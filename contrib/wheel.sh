#!/bin/sh
# Makes the wheel for a machine, with the static program in it: contrib/wheel.sh x86_64|aarch64 FOLDER
# `make wheel` runs it, with maturin, cargo-zigbuild and zig on the path.
set -eu
cd "$(dirname "$0")/.."
[ $# = 2 ] || { echo "usage: contrib/wheel.sh x86_64|aarch64 FOLDER" >&2; exit 2; }
machine=$1 folder=$2 data=crates/python/forebay._forebay.data

rustup target add "$machine-unknown-linux-musl" "$machine-unknown-linux-gnu"
cargo zigbuild --locked --profile dist -p forebay --target "$machine-unknown-linux-musl"
trap 'rm -rf "$data"' EXIT
rm -rf "$data"
mkdir -p "$data/scripts"
cp "${CARGO_TARGET_DIR:-target}/$machine-unknown-linux-musl/dist/forebay" "$data/scripts/forebay"
maturin build --profile dist --locked --zig --target "$machine-unknown-linux-gnu" --compatibility manylinux2014 \
    --manifest-path crates/python/Cargo.toml --out "$folder"
