#!/bin/sh
# Runs the scripts here on tiny traces: they must work, and Forebay and libCacheSim must miss equally often. No time is looked at. The scripts of the
# experiments on running systems, which take too long here, must show their kept runs.
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

shows() {
    script=$1
    shift
    /usr/bin/python3 "$script" --show "$@" >"$out/shown.md"
    grep -q '^|' "$out/shown.md" || { echo "$script shows no table of its kept runs" >&2; exit 1; }
}
if /usr/bin/python3 -c 'import nbd' 2>/dev/null; then
    shows papers/acfc/real/run.py papers/acfc/real/runs/*.json
    shows papers/clock-pro/real/run.py papers/clock-pro/real/runs/*.json
    shows papers/dulo/real/run.py papers/dulo/real/runs/*-dulo*.json
    shows papers/dulo/real/matrix.py papers/dulo/real/runs/*-matrix*.json
    shows papers/real/memory.py papers/real/runs/*-memory*.json
    shows papers/real/questions.py papers/real/runs/*-questions*.json
    shows papers/ubm/real/run.py papers/ubm/real/runs/*.json
else
    echo "papers/*/real are not checked: python3-libnbd is missing" >&2
fi
