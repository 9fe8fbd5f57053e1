# shellcheck shell=bash
# Shell pieces shared by the scripts of this folder; sourced, never run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
third_party=$root/third_party
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1  # clones share what they compiled

say() { printf '%s\n' "$*"; }
die() {  # exit code, message
  printf '%s: %s\n' "$(basename "$0")" "$2" >&2
  exit "$1"
}

pins() { awk -v kind="$1" '$1 == kind { sub(/^[^ ]+ +/, ""); print }' scripts/pins; }

# One compiler a core, but no more than memory holds: a libtorch source takes up to 1.5 GB.
jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/^MemAvailable/ { print int($2 / 1572864) }' /proc/meminfo)
  [ "$memory" -lt 1 ] && memory=1
  echo $((cores < memory ? cores : memory))
}

# Prints the nvcc to use; fails where there is none for CUDA 13, which libtorch is built for.
find_nvcc() {
  local nvcc major
  nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
  [ -x "$nvcc" ] || return 1
  major=$("$nvcc" --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
  [ "${major:-0}" -ge 13 ] && echo "$nvcc"
}

have_driver() {
  [ -e /dev/nvidia0 ] || nvidia-smi -L >/dev/null 2>&1
}

has_library() { PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null | grep -q "^[[:space:]]*$1 "; }

# Debian's python3 has pip only with python3-pip; another python3 may come first in PATH.
find_pip() {
  local python
  for python in python3 /usr/bin/python3; do
    "$python" -m pip --version >/dev/null 2>&1 && { echo "$python"; return; }
  done
  die 2 "python3 has no pip (package python3-pip)"
}

# fetch REQUIREMENT SHA256 wheel|source: downloads one pinned file into third_party/downloads and prints its path.
# A complete file is kept and used again; pip refuses any other content than the pinned one.
fetch() {
  local requirement=$1 sha256=$2 kind=$3 downloads=$third_party/downloads file python options
  mkdir -p "$downloads"
  file=$(find "$downloads" -type f -exec sha256sum {} + | awk -v h="$sha256" '$1 == h { print $2; exit }')
  if [ -z "$file" ]; then
    python=$(find_pip)
    if [ "$kind" = source ]; then
      options=(--no-binary :all:)
    else  # the same file on every machine, whatever its Python
      options=(--only-binary :all: --implementation cp --python-version 3.11 --abi cp311 --abi none)
      for tag in 2_28 2_27 2_25 2_18 2_17; do options+=(--platform "manylinux_${tag}_x86_64"); done
      options+=(--platform manylinux2014_x86_64)
    fi
    printf '%s --hash=sha256:%s\n' "$requirement" "$sha256" > "$downloads/requirement.txt"
    "$python" -m pip download --disable-pip-version-check --no-cache-dir --no-deps --require-hashes \
      "${options[@]}" --dest "$downloads" -r "$downloads/requirement.txt" >&2 || return 1
    file=$(find "$downloads" -type f -exec sha256sum {} + | awk -v h="$sha256" '$1 == h { print $2; exit }')
  fi
  echo "$file"
}
