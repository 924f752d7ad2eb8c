#!/bin/sh
# Installs what the tests need besides Rust: strace and valgrind, which they record real programs with, chromium, in which
# reports are opened, and in a virtual environment of their own under target/ the outside programs that must be able to
# read what we write and the one that drives the browser.
set -eu
cd "$(dirname "$0")/.."

missing=""
for program in strace valgrind chromium; do
    command -v "$program" >/dev/null || missing="$missing $program"
done
if [ -n "$missing" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
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
    mkdir -p target
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check -r tests/requirements.txt
    touch "$stamp"
fi
