#!/bin/sh
# Records the sample trace: cscope, gcc and sqlite3 run at once under strace.
# README.md beside this script says what they do and what the trace holds.
#
#   samples/record.sh [--install] [--only-trace] [OUT]
#
#   --install      install the missing Debian packages first (needs root)
#   --only-trace   stop at the text that strace wrote; do not make the Parquet file
#   OUT            where the result goes: default samples/sample.parquet, or
#                  sample.strace in the working directory with --only-trace
set -eu

# A fixed directory, so that the paths in the trace say nothing of the machine.
work=/tmp/forebay-sample
# Published versions never change on crates.io: everyone gets the same sources.
crate=aws-lc-sys
version=0.30.0

fail() {
    echo "record.sh: $*" >&2
    exit 1
}

install=no
only_trace=no
out=
for argument in "$@"; do
    case $argument in
        --install) install=yes ;;
        --only-trace) only_trace=yes ;;
        -h | --help)
            sed -n '2,10s/^# \{0,1\}//p' "$0"
            exit 0
            ;;
        -*) fail "unknown option $argument; --help lists the right ones" ;;
        *)
            [ -z "$out" ] || fail "give one output file, not both $out and $argument"
            out=$argument
            ;;
    esac
done
root=$(cd "$(dirname "$0")/.." && pwd)
if [ -z "$out" ]; then
    if [ $only_trace = yes ]; then out=sample.strace; else out=$root/samples/sample.parquet; fi
fi
case $out in
    /*) ;;
    *) out=$PWD/$out ;;
esac

if [ $install = yes ]; then
    [ "$(id -u)" = 0 ] || fail "--install needs root; run it with sudo or leave the flag out"
    apt-get update -q
    apt-get install -qy --no-install-recommends \
        ca-certificates cscope gcc libc6-dev sqlite3 strace
fi
missing=
for program in cargo cscope gcc sqlite3 strace; do
    command -v "$program" >/dev/null || missing="$missing $program"
done
[ -z "$missing" ] || fail "missing:$missing; --install gets all but cargo (https://rustup.rs)"
strace -o /dev/null true 2>/dev/null ||
    fail "strace cannot trace here; a container needs --cap-add=SYS_PTRACE"
if [ -e $work ] && [ ! -e $work/.forebay-sample ]; then
    fail "$work exists and is not of this script's making; move it away"
fi

# The same messages and the same collation everywhere.
export LC_ALL=C

# ---- Data -------------------------------------------------------------------

rm -rf $work
mkdir -p $work/fetch/src
touch $work/.forebay-sample
cd $work/fetch
cat >Cargo.toml <<END
[package]
name = "fetch"
version = "0.0.0"
edition = "2021"
[dependencies]
$crate = "=$version"
[workspace]
END
: >src/lib.rs
cargo vendor --quiet --versioned-dirs vendor >/dev/null
mv vendor/$crate-$version/aws-lc $work/src
cd $work
rm -rf fetch

cd src
find crypto generated-src include ssl third_party -name '*.[ch]' | sort >../cscope.files
# A third of the sources, which keeps gcc about as long at it as the others. Some
# are for other processors and include headers that are not there: left out.
grep '\.c$' ../cscope.files | awk 'NR % 3 == 1' | while read -r file; do
    if gcc -E -Iinclude "$file" >/dev/null 2>&1; then echo "$file"; fi
done >../gcc.files
cd ..

# Relations after the Wisconsin benchmark: unique1 is a shuffle of 0..n-1 and
# unique2 the order of insertion. Indexes on unique1 of the two larger ones only,
# so that there are joins that use an index and joins that scan the inner relation.
relation() {
    cat <<END
CREATE TABLE $1 (
    unique1 INTEGER, unique2 INTEGER, two INTEGER, ten INTEGER, twenty INTEGER,
    hundred INTEGER, stringu1 TEXT, stringu2 TEXT, string4 TEXT);
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < $2),
    shuffled(i, u) AS (
        SELECT i, row_number() OVER (ORDER BY (i * i * 48271 + i * 69621) % 2147483647, i) - 1
        FROM n)
INSERT INTO $1
SELECT u, i, u % 2, u % 10, u % 20, u % 100,
    printf('%052d', u), printf('%052d', i),
    substr('AAAAHHHHOOOOVVVV', i % 4 * 4 + 1, 4) || printf('%048d', 0)
FROM shuffled ORDER BY i;
END
}
{
    echo "PRAGMA page_size = 8192; PRAGMA journal_mode = off; PRAGMA synchronous = off; BEGIN;"
    relation two_hundred 200
    relation two_thousand 2000
    relation twenty_thousand 20000
    relation two_hundred_thousand 200000
    echo "CREATE INDEX twenty_thousand_unique1 ON twenty_thousand (unique1);"
    echo "CREATE INDEX two_hundred_thousand_unique1 ON two_hundred_thousand (unique1);"
    echo "COMMIT;"
} | sqlite3 -init /dev/null wisconsin.db >/dev/null

# ---- What the programs are asked --------------------------------------------

# A page cache of 16 pages: SQLite references its file instead of remembering it.
# Automatic indexes off: a join without an index scans its inner relation.
pragmas="PRAGMA cache_size = 16; PRAGMA mmap_size = 0; PRAGMA automatic_index = off;
PRAGMA temp_store = file; PRAGMA synchronous = off;"

{
    echo "$pragmas ATTACH 'results.db' AS results; PRAGMA results.cache_size = 16;"
    for round in 0 1 2; do
        cat <<END
-- Inner relation scanned for each outer tuple: a loop.
SELECT count(*), max(s.stringu1) FROM two_hundred AS r CROSS JOIN twenty_thousand AS s
    WHERE r.unique2 < 14 AND s.hundred = r.unique1 % 100;
-- Inner relation by index: its pages at random.
SELECT count(*), max(s.stringu1) FROM two_thousand AS r CROSS JOIN two_hundred_thousand AS s
    ON s.unique1 = r.unique1 * 100 + $round;
-- The same few inner pages again and again.
SELECT count(*), max(s.stringu2) FROM two_thousand AS r CROSS JOIN twenty_thousand AS s
    ON s.unique1 = r.hundred * 200 + r.two;
-- A smaller loop, within most caches.
SELECT count(*), max(s.stringu1) FROM two_hundred AS r CROSS JOIN two_thousand AS s
    WHERE r.ten = $round AND s.unique2 = r.unique1;
CREATE TABLE results.round_$round AS SELECT r.*, s.stringu2 AS other
    FROM twenty_thousand AS r JOIN two_thousand AS s ON s.rowid = r.unique1 / 10 + 1
    WHERE r.ten = $round;
END
    done
    # One selection by a scan of the largest relation: references that never come again.
    echo "SELECT count(*), max(stringu1) FROM two_hundred_thousand WHERE hundred = 7;"
} >joins.sql

# Tuples by key, low keys asked for most: the cube of an even number of 0..1.
{
    echo "$pragmas"
    cat <<END
WITH RECURSIVE draw(i, x) AS (
    SELECT 1, 12345
    UNION ALL SELECT i + 1, (x * 48271) % 2147483647 FROM draw WHERE i < 9000)
SELECT count(*), max(r.stringu1) FROM draw CROSS JOIN two_hundred_thousand AS r
    ON r.unique1 = CAST(200000 * (x / 2147483647.0) * (x / 2147483647.0) * (x / 2147483647.0) AS INTEGER);
END
} >lookups.sql

# Input for cscope's line interface: the digit says what is looked for (0 a symbol,
# 1 a definition, 3 the callers, 4 text, 8 the includers). Each scans the whole
# cross-reference, but 4, which reads the sources.
tr ' ' '\n' >queries.txt <<END
0EVP_DigestInit 1BN_mod_exp_mont 3OPENSSL_free 0SSL_CTX_new 8openssl/bn.h 1CRYPTO_BUFFER_new
3BN_CTX_get 0X509_NAME 1EC_POINT_mul 3OPENSSL_memcpy 0CBS 4constant.time 3ERR_put_error
1RSA_private_decrypt 0ASN1_STRING 8openssl/mem.h 3EVP_PKEY_free 1ssl_do_handshake 0EC_GROUP
3BIO_write 0SHA256_CTX 1AES_encrypt 3CBB_add_u8 0SSL_SESSION 8internal.h 1PKCS7_sign 3sk_value
0BIGNUM 1ec_GFp_mont_add 3X509_free 4timing.attack 0CRYPTO_MUTEX_lock_read 1PEM_read_bio
3CBS_get_u16 0EVP_AEAD_CTX 1HMAC_Init_ex 3BN_num_bits 0STACK_OF 8openssl/err.h 1DH_generate_key
3EVP_MD_size 0BN_ULONG 1X509_verify_cert 3CBS_init 0EC_KEY 8openssl/evp.h 1RAND_bytes 3BN_free
0SSL_HANDSHAKE 1ASN1_item_d2i 3CRYPTO_memcmp 4side.channel 0RSA 1BIO_new_mem_buf 3OPENSSL_malloc
0EVP_CIPHER_CTX 8stdint.h 1X509_STORE_add_cert 3EC_POINT_free 0EVP_MD 1CRYPTO_gcm128_init q
END

# ---- The recording ----------------------------------------------------------

cat >run.sh <<'END'
cd /tmp/forebay-sample/src
(
    cscope -b -k -i ../cscope.files -f ../cscope.out
    cscope -d -l -k -i ../cscope.files -f ../cscope.out <../queries.txt
) >/dev/null &
xargs -P 4 -n 8 gcc -E -Iinclude <../gcc.files >/dev/null &
# -init: not the user's own start-up file, which may change what is asked.
(cd .. && exec sqlite3 -init /dev/null wisconsin.db <joins.sql) >/dev/null &
(cd .. && exec sqlite3 -init /dev/null wisconsin.db <lookups.sql) >/dev/null &
wait
END

# The calls that name, move or copy a descriptor, those that move bytes, and those
# that make processes. mmap is left out on purpose: the dynamic linker maps whole
# libraries of which it touches little, for each of hundreds of processes.
calls=open,openat,openat2,creat,close,close_range,dup,dup2,dup3,fcntl,lseek
calls=$calls,read,write,pread64,pwrite64,readv,writev,preadv,pwritev,preadv2,pwritev2
calls=$calls,copy_file_range,sendfile,chdir,fchdir,execve,fork,vfork,clone,clone3

# An empty environment, a fixed search path and fixed places for input, messages and
# temporary files keep the recording machine's own directories out of the trace;
# -s 0 keeps out what the files hold.
mkdir tmp
env -i PATH=/usr/bin:/bin LC_ALL=C HOME=$work TMPDIR=$work/tmp \
    strace -f -ttt -y -s 0 -o trace.strace -e "trace=$calls" sh run.sh </dev/null >/dev/null 2>messages
if [ -s messages ]; then
    cat messages >&2
    fail "a program complained, so the trace is not what it should be; it stays in $work"
fi

if [ $only_trace = yes ]; then
    cp trace.strace "$out"
else
    cd "$root"
    cargo run --release --quiet -- convert $work/trace.strace "$out" --page-size 8KiB
fi
ls -l "$out"
