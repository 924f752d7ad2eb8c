#!/bin/sh
# Records which pages of memory real programs reference, with valgrind's lackey, as traces for
# `forebay compare` and for `forebay mix`, which puts them into one memory with others.
#
#   samples/record_memory.sh [--install] [--only NAME]... [--forebay PROGRAM] [DIRECTORY]
#
#   --only NAME          record only the programs named: gzip, gnuplot, matvec, sort
#   --install            install the missing Debian packages first (needs root)
#   --forebay PROGRAM    the forebay to write the traces with: default `cargo run --release`
#   DIRECTORY            where the traces go: default memory-traces in the working directory
#
# gzip.parquet     compresses a file
# gnuplot.parquet  plots two curves of 3,000 points as PostScript, three times over (some minutes)
# matvec.parquet   multiplies a sparse matrix by a vector, again and again (C, compiled here)
# sort.parquet     sorts lines
#
# Pages are of 4 KiB (`--page-size 4KiB`). Accesses to either of the two pages that were accessed last are left out: they are
# nearly all, and hit in any memory of more than a few pages.
set -eu

fail() {
    echo "record_memory.sh: $*" >&2
    exit 1
}

install=no
only=
forebay=
out=
while [ $# -gt 0 ]; do
    case $1 in
        --install) install=yes ;;
        --only)
            case ${2-} in
                gzip | gnuplot | matvec | sort) only="$only $2" ;;
                *) fail "--only needs one of gzip, gnuplot, matvec, sort" ;;
            esac
            shift
            ;;
        --forebay)
            [ $# -gt 1 ] || fail "--forebay needs a program"
            case $2 in
                /*) forebay=$2 ;;
                *) forebay=$PWD/$2 ;;
            esac
            [ -x "$forebay" ] || fail "--forebay $2: there is no such program"
            shift
            ;;
        -h | --help)
            sed -n '2,18s/^# \{0,1\}//p' "$0"
            exit 0
            ;;
        -*) fail "unknown option $1; --help lists the right ones" ;;
        *)
            [ -z "$out" ] || fail "give one directory, not both $out and $1"
            out=$1
            ;;
    esac
    shift
done
root=$(cd "$(dirname "$0")/.." && pwd)
out=${out:-memory-traces}
only=${only:-gzip gnuplot matvec sort}

if [ $install = yes ]; then
    [ "$(id -u)" = 0 ] || fail "--install needs root; run it with sudo or leave the flag out"
    apt-get update -q
    apt-get install -qy --no-install-recommends gcc gnuplot-nox gzip libc6-dev valgrind
fi
missing=
for program in awk gcc gzip sort valgrind $only; do
    [ $program != matvec ] || continue # compiled here
    command -v "$program" >/dev/null || missing="$missing $program"
done
[ -z "$missing" ] || fail "missing:$missing; --install gets them"

# The same messages and the same collation everywhere.
export LC_ALL=C

mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
cd "$work"

# ---- Data -------------------------------------------------------------------

# Lines in no order, without a random number: the same everywhere.
awk 'BEGIN { for (x = i = 1; i <= 3000; i++) { x = x * 16807 % 2147483647; print x, "line", i } }' >lines
head -n 1000 lines >fewer-lines

cat >matvec.c <<'END'
/* y = A x, four times, for a sparse matrix of 10,000 rows with 8 elements each, in compressed rows. */
#include <stdlib.h>

enum { ROWS = 10000, PER_ROW = 8, ROUNDS = 4 };

int main(void) {
    double *value = malloc(sizeof *value * ROWS * PER_ROW);
    int *column = malloc(sizeof *column * ROWS * PER_ROW);
    double *x = malloc(sizeof *x * ROWS), *y = malloc(sizeof *y * ROWS);
    unsigned long long seed = 1;
    for (int i = 0; i < ROWS * PER_ROW; i++) {
        seed = seed * 16807 % 2147483647;
        column[i] = seed % ROWS;
        value[i] = 1.0 / (1 + i % 7);
    }
    for (int i = 0; i < ROWS; i++) x[i] = 1;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < ROWS; i++) {
            double sum = 0;
            for (int j = i * PER_ROW; j < (i + 1) * PER_ROW; j++) sum += value[j] * x[column[j]];
            y[i] = sum;
        }
        double *swapped = x;
        x = y;
        y = swapped;
    }
    return x[0] < 0;
}
END
gcc -O2 -o matvec matvec.c

awk '{ print NR, $1 % 1000, $1 % 77 }' lines >points
cat >plot.gnuplot <<'END'
set terminal postscript
set output "plot.ps"
plot "points" using 1:2 with lines, "points" using 1:3 with lines
replot
replot
END

# ---- The recording ----------------------------------------------------------

# Leaves out accesses to either of the two pages that were accessed last.
page_changes() {
    awk '
    /^(I | [LSM]) / {
        page = substr($2, 1, index($2, ",") - 4)
        if (page == last) next
        before = other
        other = last
        last = page
        if (page == before) next
    }
    { print }'
}

record() {
    name=$1
    shift
    rm -f accesses
    mkfifo accesses
    page_changes <accesses >"$name.lackey" &
    valgrind --tool=lackey --trace-mem=yes --basic-counts=no --log-file=accesses "$@" >/dev/null 2>"$name.messages" ||
        { kill $! 2>/dev/null || :; cat "$name.messages" >&2; fail "$name failed under valgrind"; }
    wait
    rm -f "$out/$name.parquet"
    if [ -n "$forebay" ]; then
        "$forebay" convert "$name.lackey" "$out/$name.parquet"
    else
        (cd "$root" && cargo run --release --quiet -- convert "$work/$name.lackey" "$out/$name.parquet")
    fi
    rm -f "$name.lackey"
    ls -l "$out/$name.parquet"
}

for name in $only; do
    case $name in
        gzip) record gzip gzip -c fewer-lines ;;
        gnuplot) record gnuplot gnuplot plot.gnuplot ;;
        matvec) record matvec ./matvec ;;
        sort) record sort sort lines ;;
    esac
done
