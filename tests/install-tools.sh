#!/bin/sh
# Installs what the tests need besides Rust: strace and valgrind, which they record real programs with, cscope, whose pages are managed, xz, whose memory is paged, chromium, in which
# reports are opened, the clients that volumes are tested with, up to a PostgreSQL on one, and in a virtual environment of their
# own under target/ the outside programs that must be able to read what we write and the one that drives the browser.
set -eu
cd "$(dirname "$0")/.."

# Each program, and the Debian package that it is in.
programs="strace=strace valgrind=valgrind cscope=cscope chromium=chromium xz=xz-utils
    sqlite3=sqlite3 nbdkit=nbdkit nbdinfo=libnbd-bin nbdcopy=libnbd-bin nbdfuse=libnbd-bin nbdsh=python3-libnbd qemu-io=qemu-utils fio=fio
    openssl=openssl fusermount3=fuse3 losetup=mount stress-ng=stress-ng mkfs.ext4=e2fsprogs mkfs.xfs=xfsprogs mkfs.btrfs=btrfs-progs rsync=rsync pg_lsclusters=postgresql"
# Where programs for root are, whoever asks.
PATH=$PATH:/usr/sbin:/sbin
missing=""
for program in $programs; do
    command -v "${program%=*}" >/dev/null || missing="$missing ${program#*=}"
done
if [ -n "$missing" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "the tests need Debian packages, which are installed now, as root:$missing" >&2
        apt-get update -qq
        # shellcheck disable=SC2086 # a list of package names
        apt-get install -y -qq $missing
    else
        echo "missing:$missing; install them (Debian: apt-get install$missing), or the tests that need them skip" >&2
    fi
fi

tools=target/test-tools
stamp=$tools/installed-$(cksum <tests/requirements.txt | cut -d' ' -f1)
if [ ! -e "$stamp" ]; then
    echo "the tests need Python packages, which are installed in $tools: $(tr '\n' ' ' <tests/requirements.txt)" >&2
    mkdir -p target
    python3 -m venv "$tools"
    # Not bin/pip: it names the folder that it was made in, which a copied or moved checkout has left.
    "$tools/bin/python" -m pip install --quiet --disable-pip-version-check -r tests/requirements.txt
    touch "$stamp"
fi
