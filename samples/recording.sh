# What the scripts that record programs have in common. They source it from the project's `root`, once they have set `names`, the programs
# that they record; `packages`, what Debian calls what they need; and `out`, where traces go by default.

fail() {
    echo "${0##*/}: $*" >&2
    exit 1
}

# Reads the command line: sets install, only, forebay, out. The help is the comment at the head of the script.
options() {
    install=no
    only=
    forebay=
    given=
    while [ $# -gt 0 ]; do
        case $1 in
            --install) install=yes ;;
            --only)
                case "${2-} " in
                    *' '*' '*) fail "--only takes one name; repeat it for more" ;;
                esac
                case " $names " in
                    *" ${2:-none} "*) only="$only $2" ;;
                    *) fail "--only needs one of: $names" ;;
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
                sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
                exit 0
                ;;
            -*) fail "unknown option $1; --help lists the right ones" ;;
            *)
                [ -z "$given" ] || fail "give one directory, not both $given and $1"
                given=$1
                ;;
        esac
        shift
    done
    only=${only:-$names}
    out=${given:-$out}
}

# Installs the packages if that was asked for, and says which of these programs are missing then.
need() {
    if [ $install = yes ]; then
        [ "$(id -u)" = 0 ] || fail "--install needs root; run it with sudo or leave the flag out"
        apt-get update -q
        # shellcheck disable=SC2086 # several words
        apt-get install -qy --no-install-recommends $packages
    fi
    missing=
    for program; do
        command -v "$program" >/dev/null || missing="$missing $program"
    done
    [ -z "$missing" ] || fail "missing:$missing; --install gets them"
}

# Whether a program is to be recorded.
wanted() {
    case " $only " in
        *" $1 "*) return 0 ;;
        *) return 1 ;;
    esac
}

# Makes the folder for traces, and goes to a fresh one: of a fixed name where traces have paths, so that these say nothing of the machine.
work_in() {
    mkdir -p "$out"
    out=$(cd "$out" && pwd)
    if [ $# = 0 ]; then
        work=$(mktemp -d)
    else
        work=$1
        if [ -e "$work" ] && [ ! -e "$work/.made-by-forebay" ]; then
            fail "$work exists and is not of this script's making; move it away"
        fi
        rm -rf "$work"
        mkdir -m 755 "$work"
        touch "$work/.made-by-forebay"
    fi
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' INT TERM
    cd "$work"
}

# What strace records of file references: the calls that name, move or copy a descriptor, and those that move bytes.
calls=open,openat,openat2,creat,close,close_range,dup,dup2,dup3,fcntl,lseek
calls=$calls,read,write,pread64,pwrite64,readv,writev,preadv,pwritev,preadv2,pwritev2
calls=$calls,copy_file_range,sendfile,chdir,fchdir,execve,fork,vfork,clone,clone3

# Converts NAME.KIND in the present folder to a trace, with options of `forebay convert`, and removes it.
to_trace() {
    from=$PWD/$1.$2
    trace=$out/$1.parquet
    shift 2
    rm -f "$trace"
    if [ -n "$forebay" ]; then
        "$forebay" convert "$from" "$trace" "$@"
    else
        (cd "$root" && cargo run --release --quiet -- convert "$from" "$trace" "$@")
    fi
    rm -f "$from"
    ls -l "$trace"
}

# ---- PostgreSQL: a server process that runs alone (`--single`), and a database in the folder data -------------------------------

postgres_bin=/usr/lib/postgresql/15/bin

# Makes the database. Sets user, whom the server runs as if not as us; as, the command that runs it so; and server, the command without
# the database's name.
make_database() {
    as=
    user=
    if [ "$(id -u)" = 0 ]; then
        id postgres >/dev/null 2>&1 || fail "PostgreSQL does not run as root, and there is no user postgres"
        user=postgres
        chown -R postgres .
        as="setpriv --reuid=postgres --regid=postgres --clear-groups"
    fi
    $as $postgres_bin/initdb --no-sync -D data -A trust --no-locale -E SQL_ASCII >/dev/null
    server="$postgres_bin/postgres --single -D data -c fsync=off -c work_mem=64kB -c jit=off -c wal_level=minimal"
    server="$server -c max_wal_senders=0 -c archive_mode=off -c log_checkpoints=off"
}

# Runs the statements in load.sql.
load_database() {
    $as $server postgres <load.sql >load.messages 2>&1 || fail "the relations cannot be loaded: $(cat load.messages)"
    succeeded load
}

# A relation of the Wisconsin benchmark: unique1 is a shuffle of 0..n-1 (n is no multiple of 7), unique2 the order of insertion. One
# statement a line, as the server reads them.
relation() {
    echo "CREATE TABLE $1 AS SELECT (i * 7) % $2 AS unique1, i AS unique2, i % 2 AS two, i % 10 AS ten, i % 20 AS twenty," \
        "i % 100 AS hundred, lpad(i::text, 52, 'x') AS stringu1, lpad((i * 7 % $2)::text, 52, 'x') AS stringu2," \
        "repeat(substr('AHOV', i % 4 + 1, 1), 52) AS string4 FROM generate_series(0, $2 - 1) AS i;"
}

# A server process that runs alone goes on after an error.
succeeded() {
    if grep -q ERROR "$1.messages"; then fail "a statement failed: $(grep ERROR "$1.messages" | head -n 1)"; fi
}
