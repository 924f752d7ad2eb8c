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

root=$(cd "$(dirname "$0")/.." && pwd)
names="gzip gnuplot matvec sort"
packages="gcc gnuplot-nox gzip libc6-dev valgrind"
out=memory-traces
. "$root/samples/recording.sh"
options "$@"
if wanted gnuplot; then need awk gcc gzip sort valgrind gnuplot; else need awk gcc gzip sort valgrind; fi

# The same messages and the same collation everywhere.
export LC_ALL=C

work_in

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
    to_trace "$name" lackey
}

for name in $only; do
    case $name in
        gzip) record gzip gzip -c fewer-lines ;;
        gnuplot) record gnuplot gnuplot plot.gnuplot ;;
        matvec) record matvec ./matvec ;;
        sort) record sort sort lines ;;
    esac
done
