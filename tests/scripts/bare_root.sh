#!/usr/bin/env bash
# Show 1: a bare Debian 12 root, without a CUDA toolkit, into which a clean clone is put and a command is run.
#   tests/scripts/bare_root.sh FOLDER [COMMAND…]       COMMAND: default scripts/quickstart, run in /coeus inside the root
# Needs root, debootstrap, and about 6 GB in FOLDER. Not in the default suite. A FOLDER that is there is used again; its clone is laid anew.
# Package clients inside use this machine's settings, so they reach what they reach here.
set -euo pipefail
source_root=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(realpath -m "${1:?usage: bare_root.sh FOLDER [COMMAND…]}")
shift
[ $# -gt 0 ] || set -- scripts/quickstart

if [ ! -e "$folder/.complete" ]; then
  rm -rf "$folder"
  debootstrap --variant=minbase bookworm "$folder"
  touch "$folder/.complete"
fi
cleanup() { umount "$folder/proc" 2>/dev/null || true; }
trap cleanup EXIT
mountpoint -q "$folder/proc" || mount -t proc proc "$folder/proc"
for file in /etc/resolv.conf /etc/hosts /etc/pip.conf; do
  if [ -e "$file" ]; then cp -L "$file" "$folder$file"; fi
done
mkdir -p "$folder/etc/ssl/certs" "$folder/usr/local/share/ca-certificates"
cp -L /etc/ssl/certs/ca-certificates.crt "$folder/usr/local/share/ca-certificates/outside.crt"

kept=$(mktemp -d "$folder/kept.XXXXXX")
[ -e "$folder/coeus/third_party" ] && mv "$folder/coeus/third_party" "$kept/"  # downloads of an earlier try
rm -rf "$folder/coeus"
git clone --quiet --no-hardlinks "$source_root" "$folder/coeus"
[ -e "$kept/third_party" ] && mv "$kept/third_party" "$folder/coeus/"
rmdir "$kept"

environment=(PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8)
while IFS= read -r line; do environment+=("$line"); done < <(env | grep -E '^PIP_|_proxy=|^SSL_CERT' || true)
chroot "$folder" env -i "${environment[@]}" sh -c 'cd /coeus && exec "$@"' sh "$@"
