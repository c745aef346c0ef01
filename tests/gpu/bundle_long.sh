#!/usr/bin/env bash
# The archive for a machine with a GPU, from the build's own programs: it packs, no file needs a C library newer than 2.34,
# and every program starts with one as old as 2.35, which Debian's libgcc needs. Skips the last part unless root.
# Usage: bundle_long.sh BUILD
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --build "$1" --target gpu-programs >"$work/log" 2>&1 ||
  { cat "$work/log"; exit 1; }
bash "$here/bundle.sh" "$1" "$work/mtl-gpu.tar.xz"
[ "$(id -u)" = 0 ] || { echo "skipped: rehearse.sh needs root for its chroot"; exit 77; }
bash "$here/rehearse.sh" "$work/mtl-gpu.tar.xz"
