#!/usr/bin/env bash
# scripts/setup where packages are missing and there is no root: it prints the apt line, exits 2, and passes once they are there.
# The system is played by stand-ins for id, sudo, dpkg-query and apt-get at the head of PATH.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
fail() { echo "setup_test: $*"; cat "$stage/out" 2>/dev/null; exit 1; }

mkdir "$stage/bin" "$stage/clone"
cp -r "$root/scripts" "$stage/clone/"
stand_in() { printf '#!/bin/sh\n%s\n' "$2" > "$stage/bin/$1"; chmod +x "$stage/bin/$1"; }
stand_in id 'echo 1000'
stand_in sudo 'exit 1'
stand_in apt-get "touch $stage/apt_ran"
stand_in dpkg-query "case \"\$*\" in *ninja-build*|*lld*) cat $stage/status 2>/dev/null;; *) echo installed;; esac"
setup() { PATH=$stage/bin:$PATH COEUS_TORCH_ROOT=$stage "$stage/clone/scripts/setup" > "$stage/out" 2>&1; }

status=0; setup || status=$?
[ $status = 2 ] || fail "exit code $status instead of 2 without root"
grep -q 'apt-get install -y --no-install-recommends ninja-build lld$' "$stage/out" || fail "no apt line naming exactly what is missing"
[ ! -e "$stage/apt_ran" ] || fail "apt-get was run without root"

stand_in id 'echo 0'
status=0; setup || status=$?
[ $status = 0 ] || fail "exit code $status instead of 0 as root"
[ -e "$stage/apt_ran" ] || fail "apt-get was not run as root"

rm "$stage/apt_ran"; stand_in id 'echo 1000'; echo installed > "$stage/status"
status=0; setup || status=$?
[ $status = 0 ] || fail "exit code $status instead of 0 when run again with everything installed"
[ ! -e "$stage/apt_ran" ] || fail "apt-get was run although nothing is missing"
