#!/bin/sh
# Runs the scripts here on tiny traces: they must work, and Forebay and libCacheSim must miss equally often. No time is looked at.
# Usage: check.sh FOREBAY
set -eu
forebay=$1
cd "$(dirname "$0")/.."
out=target/bench-check
mkdir -p "$out"

target/test-tools/bin/python bench/against_libcachesim.py "$forebay" --runs 1 --parts single,curves \
    --policies lru,mq:lifetime=10000,opt --pages 1000 --references 20000 --size 100 --out "$out/against.json" >"$out/against.md"
if command -v valgrind >/dev/null; then
    python3 bench/instructions.py "$forebay" --policies lru --pages 1000 --references 20000 --size 100 \
        --out "$out/instructions.json" >"$out/instructions.md"
else
    echo "bench/instructions.py is not checked: valgrind is missing" >&2
fi
