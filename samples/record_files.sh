#!/bin/sh
# Records which parts of files real programs reference, under strace, as traces for `forebay compare`, and for `forebay mix`,
# which puts them into one cache with others.
#
#   samples/record_files.sh [--install] [--only NAME]... [--forebay PROGRAM] [DIRECTORY]
#
#   --only NAME          record only the programs named: link, x11, postgres, cscope, gcc; as link-2 another run of any but x11
#   --install            install the missing Debian packages first (needs root)
#   --forebay PROGRAM    the forebay to write the traces with: default `cargo run --release`
#   DIRECTORY            where the traces go: default file-traces in the working directory
#
# link.parquet      ld links all members of libc, libm, libstdc++ and libgcc (2,800 objects) into one object, twice
# x11.parquet       gcc links four programs with the static libraries of X11
# cscope.parquet    cscope answers twelve queries from its cross-reference of a library's sources
# gcc.parquet       gcc preprocesses a third of the sources, one after the other
# postgres.parquet  a PostgreSQL server process answers selections and joins after the Wisconsin benchmark
#
# Another run, in the folder second/, does the same with other arguments: archives in the reverse order, other symbols, another third of the
# sources, other keys.
#
# The server process runs alone (`postgres --single`), with a buffer of its own of 256 KiB, so that it references its files instead
# of remembering them.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
names="link x11 postgres cscope gcc link-2 postgres-2 cscope-2 gcc-2"
packages="cscope g++ libxt-dev postgresql-15 strace"
out=file-traces
. "$root/samples/recording.sh"
options "$@"
need cscope g++ ld strace $postgres_bin/postgres
strace -o /dev/null true 2>/dev/null || fail "strace cannot trace here; a container needs --cap-add=SYS_PTRACE"

# The same messages and the same collation everywhere.
export LC_ALL=C
paths=$PATH home=$HOME
work_in /tmp/forebay-files

# Runs a script under strace, as a user if one is named, and converts what it wrote.
record() {
    name=$1
    by=${2:+--user=$2}
    env -i PATH=/usr/bin:/bin LC_ALL=C HOME=$work TMPDIR=$work \
        strace $by -f -ttt -y -s 0 -o "$name.strace" -e "trace=$calls" sh "$name.sh" </dev/null >"$name.messages" 2>&1 ||
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
    if [ "$run" = 2 ]; then archives=$(echo $archives | tr ' ' '\n' | tac | tr '\n' ' '); fi
    cat >$name.sh <<END
ld -r -o first.o --whole-archive --allow-multiple-definition $archives
ld -r -o second.o --whole-archive --allow-multiple-definition $archives
END
    record $name
}

# Programs of the X Toolkit, as far as linking sees them.
x11() {
    for program in one two three four; do
        case $program in
            one) calls_of="XtAppInitialize XtCreateWidget XtAppMainLoop" ;;
            two) calls_of="XOpenDisplay XCreateSimpleWindow XNextEvent XDrawString" ;;
            three) calls_of="XtAppInitialize XtPopup XtAddCallback XmbDrawString XCreateGC" ;;
            four) calls_of="XOpenDisplay XQueryFont XGetImage XAllocColor XOpenIM" ;;
        esac
        for call in $calls_of; do echo "void $call();"; done >$program.c
        echo "int main() {" >>$program.c
        for call in $calls_of; do echo "$call();"; done >>$program.c
        echo "}" >>$program.c
        gcc -w -c $program.c
        echo "gcc -o $program $program.o -Wl,-Bstatic -lXt -lSM -lICE -lX11 -lxcb -lXau -lXdmcp -luuid -Wl,-Bdynamic"
    done >x11.sh
    record x11
}

# ---- Sources ----------------------------------------------------------------

# Gets the sources of a library as published, which do not change: the folder src.
sources() {
    [ ! -e src ] || return 0
    mkdir -p vendored/src
    printf '[package]\nname = "vendored"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\naws-lc-sys = "=0.30.0"\n' \
        >vendored/Cargo.toml
    touch vendored/src/lib.rs
    (cd vendored && env PATH="$paths" HOME="$home" cargo vendor --versioned-dirs >/dev/null 2>&1) || fail "aws-lc-sys cannot be had from crates.io"
    mv vendored/vendor/aws-lc-sys-0.30.0/aws-lc src
    (cd src && find crypto generated-src include ssl third_party -name '*.[ch]' | sort >../sources)
}

cscope() {
    sources
    symbols="EVP_DigestInit_ex BN_mod_exp SSL_read CRYPTO_free X509_verify_cert RSA_new OPENSSL_malloc bssl AES_encrypt EC_KEY_new SHA256_Update BIO_write"
    if [ "$run" = 2 ]; then
        symbols="EVP_CipherUpdate BN_add SSL_write CRYPTO_memcmp X509_new RSA_sign OPENSSL_free CBS_init AES_set_encrypt_key EC_POINT_mul SHA1_Final BIO_read"
    fi
    if [ ! -e cscope.out ]; then (cd src && command cscope -b -k -c -i ../sources -f ../cscope.out); fi
    for symbol in $symbols; do echo "0$symbol"; done >queries
    echo "cd src; cscope -d -l -k -i ../sources -f ../cscope.out <../queries" >$name.sh
    record $name
}

gcc_third() {
    sources
    # Some sources are parts of others, and are nothing alone.
    (cd src && grep '^crypto.*\.c$' ../sources | awk -v run=$run 'NR % 3 == run' | while read -r file; do
        if gcc -E -Iinclude "$file" >/dev/null 2>&1; then echo "$file"; fi
    done >../chosen)
    echo "cd src; xargs -n 8 gcc -E -Iinclude <../chosen >/dev/null" >$name.sh
    record $name
}

# ---- PostgreSQL -------------------------------------------------------------

postgres() {
    if [ ! -e data ]; then database; fi
    queries
}

database() {
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
}

queries() {
    for round in $((3 * run - 2)) $((3 * run - 1)) $((3 * run)); do
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
    cat >$name.sh <<END
exec $server -c shared_buffers=256kB postgres <queries.sql
END
    record $name $user
    succeeded $name
}

folder=$out
for name in $only; do
    run=1 out=$folder
    case $name in
        *-2)
            run=2 out=$folder/second
            mkdir -p "$out"
            ;;
    esac
    name=${name%-2}
    case $name in gcc) gcc_third ;; *) $name ;; esac
done
