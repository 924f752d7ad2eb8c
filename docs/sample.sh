#!/bin/sh
# Draws docs/sample.svg, the picture of the first page, by the program given: docs/sample.sh target/release/forebay
set -eu
"$1" compare --policies lru,2q,arc,lirs,clock-pro,opt --plot "$(dirname "$0")/sample.svg" >/dev/null
