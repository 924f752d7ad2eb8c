#!/bin/sh
# Fails if CONTRIBUTING.md's drawing of the house lacks a crate or a room of one, or has one that is not there.
set -eu
cd "$(dirname "$0")/.."
drawn=$(awk '
    /^    crates\// { crate = $1; print crate; next }
    /^      [a-z]+\// && crate { print crate "src/" $1; next }
    /^    [a-z]/ { crate = "" }' CONTRIBUTING.md | sort)
there=$(ls -d crates/*/ crates/*/src/*/ | sort)
[ "$drawn" = "$there" ] && exit 0
echo "CONTRIBUTING.md draws another house than crates/ has (< drawn, > there):" >&2
file=$(mktemp)
printf '%s\n' "$drawn" >"$file"
printf '%s\n' "$there" | diff "$file" - >&2 || true
rm "$file"
exit 1
