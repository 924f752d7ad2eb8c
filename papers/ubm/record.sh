#!/bin/sh
# Records the programs of figure-12.toml under strace, after the paper's: cscope, cpp and postgres at once, beside a build in C for its sdet.
#
#   papers/ubm/record.sh [--install] [--only NAME]... [--forebay PROGRAM] [DIRECTORY]
#
#   --only NAME          write only the traces named: cold, warm
#   --install            install the missing Debian packages first (needs root)
#   --forebay PROGRAM    the forebay to write the traces with: default `cargo run --release`
#   DIRECTORY            where the traces go: default ubm-traces in the working directory
#
# cold.parquet      cscope, cpp, postgres and the build at once: recorded one after the other, and stretched to the same time
# warm.parquet      the build alone, then the same: what cold.parquet has is the end of it
#
# Needs cargo, and the network for the sources: the crate aws-lc-sys.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
names="cold warm"
packages="cscope gcc libc6-dev postgresql-15 strace"
out=ubm-traces
. "$root/samples/recording.sh"
options "$@"
need cargo cscope gcc ld strace "$postgres_bin/postgres"
strace -o /dev/null true 2>/dev/null || fail "strace cannot trace here; a container needs --cap-add=SYS_PTRACE"
export LC_ALL=C
work_in /tmp/forebay-ubm

# ---- Data -------------------------------------------------------------------

# Published versions never change on crates.io: everyone gets the same sources.
mkdir -p get/src
: >get/src/lib.rs
printf '[package]\nname = "get"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\naws-lc-sys = "=0.30.0"\n' >get/Cargo.toml
(cd get && cargo vendor --quiet vendored >/dev/null)
mv get/vendored/aws-lc-sys/aws-lc src
rm -rf get
cd src
find crypto generated-src include ssl third_party -name '*.[ch]' | sort >../cscope.files
# Some are for other processors, or parts of others: they include headers that are not there, or do not compile by themselves.
grep '\.c$' ../cscope.files | awk 'NR % 9 == 1' | while read -r file; do
    if gcc -E -Iinclude "$file" >/dev/null 2>&1; then echo "$file"; fi
done >../cpp.files
while read -r file; do
    if gcc -fsyntax-only -Iinclude "$file" 2>/dev/null </dev/null; then echo "$file"; fi
done <../cpp.files >../build.files
cd ..
mkdir objects

# Relations of the paper's sizes: 150 KB, 1.5, 7.5 and 15 MB.
make_database
{
    relation twothoustup 600
    relation twentythoustup 6000
    relation hundredthoustup 30000
    relation twohundredthoustup 60000
    echo "CREATE INDEX hundredthoustup_unique1 ON hundredthoustup (unique1);"
    echo "CREATE INDEX twohundredthoustup_unique1 ON twohundredthoustup (unique1);"
    echo "VACUUM ANALYZE;"
} >load.sql
load_database

# ---- What the programs are asked --------------------------------------------

# Roughly as many references of each program as in the paper's Table 1. The digit says what cscope looks for: each query scans the
# cross-reference.
tr ' ' '\n' >queries.txt <<'END'
0EVP_DigestInit 1BN_mod_exp_mont 3OPENSSL_free 0SSL_CTX_new 8openssl/bn.h 1CRYPTO_BUFFER_new 3BN_CTX_get 0X509_NAME 1EC_POINT_mul 0CBS q
END
cat >queries.sql <<'END'
SELECT count(b.stringu1) FROM twothoustup a, twohundredthoustup b WHERE b.unique1 = a.unique1 * 97;
SELECT count(a.stringu1) FROM hundredthoustup a, twentythoustup b WHERE a.unique1 = b.unique1 * 5;
SELECT count(a.stringu1) FROM twohundredthoustup a, hundredthoustup b WHERE a.unique1 = b.unique1 AND b.ten = 3;
SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET enable_indexscan = off; SET enable_bitmapscan = off;
SELECT count(b.stringu1) FROM twothoustup a, twentythoustup b WHERE a.unique2 < 10 AND b.unique1 = a.unique2;
SELECT count(b.stringu1) FROM twothoustup a, hundredthoustup b WHERE a.unique2 < 3 AND b.unique1 = a.unique2;
RESET ALL;
END

cat >sdet.sh <<'END'
(cd src && exec xargs -P 2 -n 1 sh -c 'exec gcc -Iinclude -c "$1" -o "../objects/$(echo "$1" | tr / _).o"' gcc) <build.files
ld -r -o objects/all.o $(sed 's|/|_|g; s|.*|objects/&.o|' build.files)
END
cat >cscope.sh <<'END'
cd src
cscope -b -k -i ../cscope.files -f ../cscope.out
exec cscope -d -l -k -i ../cscope.files -f ../cscope.out <../queries.txt
END
cat >cpp.sh <<'END'
cd src
exec xargs -n 8 gcc -E -Iinclude <../cpp.files
END
echo "exec $as $server -c shared_buffers=256kB postgres <queries.sql" >postgres.sh

# ---- The recording ----------------------------------------------------------

# Records a program, and stretches its times to the 1,000 seconds from $2 on: on one machine, and at the pace of strace, one would be
# long done before another.
record() {
    strace -f -ttt -y -s 0 -o recorded -e "trace=$calls" sh "$1.sh" >"$1.messages" 2>&1 || { cat "$1.messages" >&2; fail "$1 failed under strace"; }
    first=$(awk '{ print $2; exit }' recorded)
    last=$(awk 'END { print $2 }' recorded)
    awk -v begin="$2" -v first="$first" -v last="$last" '{ $2 = sprintf("%.6f", begin + 1000 * ($2 - first) / (last - first)); print }' recorded
}
record sdet 0 >warm.strace
for program in sdet cscope cpp postgres; do record $program 1001; done | sort -s -n -k 2,2 >cold.strace
succeeded postgres
cat cold.strace >>warm.strace
for name in $only; do to_trace "$name" strace; done
