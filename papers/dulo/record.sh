#!/bin/sh
# Records the programs of table-2.toml and table-3.toml, in the manner of the paper's: diff, PostMark and a text search.
#
#   papers/dulo/record.sh [--install] [--only NAME]... [--forebay PROGRAM] [DIRECTORY]
#
#   --only NAME          record only the programs named: diff, files, search
#   --install            install the missing Debian packages first (needs root)
#   --forebay PROGRAM    the forebay to write the traces with: default `cargo run --release`
#   DIRECTORY            where the traces go: default dulo-traces in the working directory
#
# diff.parquet      compares two trees of C sources, twice (strace)
# files.parquet     creates 1,500 files of 512 bytes to 128 KiB, then reads and writes whole ones, 4 to 1 (strace)
# search.parquet    searches for words in directories of three trees, and looks each up in one file of all their lines (strace)
#
# Needs cargo, gcc, diff, grep, strace, and the network for the sources: the crate aws-lc-sys in two versions.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
names="diff files search"
packages="gcc libc6-dev diffutils grep strace"
out=dulo-traces
. "$root/samples/recording.sh"
options "$@"
need cargo gcc diff grep strace
export LC_ALL=C
work_in /tmp/forebay-dulo

# ---- Data -------------------------------------------------------------------

# Published versions never change on crates.io: everyone gets the same sources.
fetch() {
    mkdir -p get/src
    : >get/src/lib.rs
    printf '[package]\nname = "get"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\naws-lc-sys = "=%s"\n' "$1" >get/Cargo.toml
    (cd get && cargo vendor --quiet vendored >/dev/null)
    mv get/vendored/aws-lc-sys "$2"
    rm -rf get
    find "$2" -type f ! -name '*.[ch]' -delete
}
fetch 0.30.0 new
fetch 0.28.0 old
cp -r new third

cat >files.c <<'END'
/* As PostMark: files of random sizes, then transactions on whole files, 80 % reads. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { FILES = 1500, MOST = 128 * 1024, TRANSACTIONS = 20000 };

static char bytes[MOST];

static unsigned random_below(unsigned end) {
    static unsigned long long seed = 1;
    seed = seed * 6364136223846793005 + 1442695040888963407;
    return (seed >> 33) % end;
}

int main(void) {
    static int size[FILES];
    for (int i = 0; i < FILES + TRANSACTIONS; i++) {
        int create = i < FILES, file = create ? i : (int)random_below(FILES), writes = create || random_below(5) == 0;
        if (create) size[file] = 512 + random_below(MOST - 512);
        char name[32];
        snprintf(name, sizeof name, "pool/%d", file);
        int fd = open(name, writes ? O_WRONLY | O_CREAT : O_RDONLY, 0600);
        if (fd < 0) return 1;
        for (int at = 0; at < size[file]; at += 4096) {
            int length = size[file] - at < 4096 ? size[file] - at : 4096;
            if ((writes ? write(fd, bytes, length) : read(fd, bytes, length)) != length) return 1;
        }
        close(fd);
    }
}
END
gcc -O2 -o files files.c
mkdir pool

# What the search looks words up in, and directories to search in.
find new old third -type f -print | sort | xargs cat >lines
find new old third -type d -path '*/crypto/*' | sort >directories
cat >search.sh <<'END'
i=0
while [ $i -lt 200 ]; do
    i=$((i + 1))
    word=$(awk -v n=$((i * 37 % 50)) 'NR == n + 1' words)
    directory=$(awk -v n=$((i * i * 7 % $1)) 'NR == n + 1' directories)
    grep -rlF "$word" "$directory"
    [ $((i % 10)) -ne 0 ] || grep -m 1 -cF "$word" lines
done
END
grep -ohE '\b[a-zA-Z_]{6,}\b' -r new/aws-lc/crypto/fipsmodule | sort | uniq -c | sort -rn | awk 'NR % 40 == 1 { print $2 }' | head -n 50 >words
sync

# ---- The recording ----------------------------------------------------------

record() {
    name=$1
    shift
    wanted "$name" || return 0
    strace -f -ttt -y -s 0 -o "$name.strace" -e "trace=$calls" "$@" >/dev/null
    to_trace "$name" strace --page-size 4KiB --files "$work/*"
}
record diff sh -c 'for i in 1 2; do diff -r old new; done; true'
record files ./files
record search sh search.sh "$(wc -l <directories)"
