#!/bin/sh
# Records which parts of files real programs reference, under strace, as traces for `forebay compare`, and for `forebay mix`,
# which puts them into one cache with others.
#
#   samples/record_files.sh [--install] [--only NAME]... [--forebay PROGRAM] [DIRECTORY]
#
#   --only NAME          record only the programs named: link, postgres
#   --install            install the missing Debian packages first (needs root)
#   --forebay PROGRAM    the forebay to write the traces with: default `cargo run --release`
#   DIRECTORY            where the traces go: default file-traces in the working directory
#
# link.parquet      ld links all members of libc, libm, libstdc++ and libgcc (2,800 objects) into one object, twice
# postgres.parquet  a PostgreSQL server process answers selections and joins after the Wisconsin benchmark
#
# The server process runs alone (`postgres --single`), with a buffer of its own of 256 KiB, so that it references its files instead
# of remembering them.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
names="link postgres"
packages="g++ postgresql-15 strace"
out=file-traces
. "$root/samples/recording.sh"
options "$@"
if wanted postgres; then need g++ ld strace $postgres_bin/postgres; else need g++ ld strace; fi
strace -o /dev/null true 2>/dev/null || fail "strace cannot trace here; a container needs --cap-add=SYS_PTRACE"

# The same messages and the same collation everywhere.
export LC_ALL=C
work_in /tmp/forebay-files

# Runs a script under strace, as a user if one is named, and converts what it wrote.
record() {
    name=$1
    user=${2:+--user=$2}
    env -i PATH=/usr/bin:/bin LC_ALL=C HOME=$work TMPDIR=$work \
        strace $user -f -ttt -y -s 0 -o "$name.strace" -e "trace=$calls" sh "$name.sh" </dev/null >"$name.messages" 2>&1 ||
        { cat "$name.messages" >&2; fail "$name failed under strace"; }
    to_trace "$name" strace
}

# ---- Linking ----------------------------------------------------------------

link() {
    archives=
    for archive in libc.a libm-2.36.a libmvec.a libstdc++.a libgcc.a; do
        path=$(g++ -print-file-name=$archive)
        [ -e "$path" ] || fail "there is no $archive of Debian 12"
        archives="$archives $(realpath "$path")"
    done
    cat >link.sh <<END
ld -r -o first.o --whole-archive --allow-multiple-definition $archives
ld -r -o second.o --whole-archive --allow-multiple-definition $archives
END
    record link
}

# ---- PostgreSQL -------------------------------------------------------------

postgres() {
    make_database
    {
        relation onektup 1000
        relation tenktup1 10000
        relation tenktup2 10000
        relation hundredktup 100000
        echo "CREATE INDEX tenktup1_unique1 ON tenktup1 (unique1);"
        echo "CREATE INDEX hundredktup_unique1 ON hundredktup (unique1);"
        echo "VACUUM ANALYZE;"
    } >load.sql
    load_database
    for round in 1 2 3; do
        cat <<END
SELECT count(stringu1) FROM tenktup2 WHERE unique2 BETWEEN 792 AND 891;
SELECT count(stringu1) FROM tenktup2 WHERE unique2 BETWEEN 792 AND 1791;
SELECT count(stringu1) FROM tenktup1 WHERE unique1 BETWEEN $round * 100 AND $round * 100 + 99;
SELECT count(a.stringu1) FROM tenktup1 a, tenktup2 b WHERE a.unique1 = b.unique1 AND b.unique2 < 1000;
SELECT count(a.stringu1) FROM tenktup1 a, onektup b WHERE a.unique1 = b.unique1;
SELECT count(a.stringu1) FROM hundredktup a, onektup b WHERE a.unique1 = b.unique1 * 97;
SELECT min(stringu1) FROM hundredktup GROUP BY hundred;
SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET enable_indexscan = off; SET enable_bitmapscan = off;
SELECT count(a.stringu1) FROM tenktup1 a, onektup b WHERE b.unique2 < 40 AND a.twenty = b.twenty;
SELECT count(a.stringu1) FROM tenktup2 a, tenktup1 b WHERE b.unique2 < 20 AND a.unique1 = b.unique2;
RESET ALL;
END
    done >queries.sql
    cat >postgres.sh <<END
exec $server -c shared_buffers=256kB postgres <queries.sql
END
    record postgres $user
    succeeded postgres
}

for name in $only; do $name; done
