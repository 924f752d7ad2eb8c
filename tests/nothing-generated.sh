#!/bin/sh
# Fails if something generated is tracked: what `.gitignore` names, or what builds and tests leave behind.
set -eu
cd "$(dirname "$0")/.."
git rev-parse --is-inside-work-tree >/dev/null 2>&1 || { echo "not a git checkout: nothing is tracked" && exit 0; }
found=$(
    git ls-files --cached --ignored --exclude-standard
    git ls-files | grep -E '(^|/)(target|__pycache__|node_modules)/|\.(state|pyc|orig|rej|proptest-regressions)$|(^|/)proptest-regressions/' || true
)
[ -z "$found" ] && exit 0
echo "generated files are tracked; remove them with \`git rm --cached\`:" >&2
echo "$found" | sort -u >&2
exit 1
