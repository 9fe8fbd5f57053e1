#!/usr/bin/env bash
# scripts/setup that is cut off between two downloads: it fails, and the next call fetches only what is missing; a third fetches nothing.
# Registry and wheels are played by a stand-in for pip and two small archives with pins of their own.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
fail() { echo "resume_test: $*"; cat "$stage/out" "$stage/asked" 2>/dev/null; exit 1; }

mkdir -p "$stage/bin" "$stage/clone" "$stage/index"
cp -r "$root/scripts" "$stage/clone/"
python=$(command -v python3)
"$python" - "$stage/index" <<'PYTHON'
import sys, zipfile
for name, members in {"torch": ["torch/lib/libc10.so", "torch/lib/libtorch_python.so", "torch/nn.py"], "small": ["nvidia/cu13/lib/libsmall.so.1"]}.items():
    with zipfile.ZipFile(f"{sys.argv[1]}/{name}-1.whl", "w") as wheel:
        for member in members:
            wheel.writestr(member, name)
PYTHON
sha() { sha256sum "$stage/index/$1-1.whl" | cut -d' ' -f1; }
printf 'wheel always %s==1 %s 1 -\n' torch "$(sha torch)" small "$(sha small)" > "$stage/clone/scripts/pins"
cat > "$stage/bin/python3" <<STANDIN
#!/bin/sh
case "\$*" in
  "-m pip --version") exit 0 ;;
  "-m pip download"*) ;;
  *) exec $python "\$@" ;;
esac
while [ "\$1" != --dest ]; do shift; done
name=\$(cut -d= -f1 "\$4")
echo "\$name" >> $stage/asked
[ ! -e $stage/broken ] || [ "\$name" = torch ] || exit 1
cp "$stage/index/\$name-1.whl" "\$2/"
STANDIN
chmod +x "$stage/bin/python3"
setup() { env -u COEUS_TORCH_ROOT PATH="$stage/bin:$PATH" "$stage/clone/scripts/setup" --no-system > "$stage/out" 2>&1; }
py=$stage/clone/third_party/py

touch "$stage/broken"
status=0; setup || status=$?
[ $status = 1 ] || fail "exit code $status instead of 1 after a failed download"
grep -q "small==1 could not be fetched; run scripts/setup again" "$stage/out" || fail "the failed item is not named"
[ -e "$py/torch/lib/libc10.so" ] || fail "what came before the failure was not unpacked"
[ ! -e "$py/torch/lib/libtorch_python.so" ] && [ ! -e "$py/torch/nn.py" ] || fail "the Python half was unpacked"

rm "$stage/broken" "$stage/asked"
setup || fail "the second call failed"
[ "$(cat "$stage/asked")" = small ] || fail "the second call did not fetch exactly what was missing"
[ -e "$py/nvidia/cu13/lib/libsmall.so.1" ] || fail "the second wheel was not unpacked"

rm "$stage/asked"
setup || fail "the third call failed"
[ ! -e "$stage/asked" ] || fail "the third call fetched again"
