#!/usr/bin/env bash
# Packs a build's programs, with the libraries that they load, into an archive for machines where nothing can be installed.
# The same commit gives the same bytes: files get the commit's time, or that of SOURCE_DATE_EPOCH.
# Usage: tar.sh BUILD FOLDER [VERSION]
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
mkdir -p "$2"
version=${3:-$("$source/packaging/version.sh")}
time=${SOURCE_DATE_EPOCH:-$(git -C "$source" log -1 --format=%ct)}
archive=$2/mtl-$version-x86_64.tar.xz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/mtl-$version

DESTDIR=$work/staged cmake --install "$build" --prefix /mtl >/dev/null
mapfile -t programs < <(cd "$work/staged/mtl/bin" && find . -type f -name 'mtl-*' ! -name mtl-demo -printf '%f\n' | sort)
bash "$source/packaging/relocatable.sh" "$build/bin" "$root" libexec "${programs[@]}"
cp "$source/packaging/launch" "$root/libexec/"
mkdir "$root/bin"
for program in "${programs[@]}"; do ln -s ../libexec/launch "$root/bin/$program"; done
cp "$work/staged/mtl/bin/mtl-demo" "$root/bin/"
cp -r "$work/staged/mtl/share" "$root/"

tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$time" --mode=go=rX,u+rw \
  -c "mtl-$version" | xz -T0 --block-size=16MiB >"$archive.tmp"
mv "$archive.tmp" "$archive"
echo "$archive: $(($(stat -c %s "$archive") >> 10)) KiB"
