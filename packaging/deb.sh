#!/bin/sh
# Makes Debian packages of a build's programs: mtl, and mtl-cuda if the build has kernels. The same commit gives the same
# bytes: files get the commit's time, or that of SOURCE_DATE_EPOCH.
# Usage: deb.sh BUILD FOLDER [VERSION]
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
version=${3:-$("$source/packaging/version.sh")}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$source" log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
packages=mtl
[ ! -d "$build/cpu" ] || packages="mtl mtl-cuda"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$source/packaging/debian" "$work/"
cat >"$work/debian/changelog" <<end
mtl ($version) stable; urgency=medium

  * CHANGELOG.md tells what has changed.

 -- $(sed -n 's/^Maintainer: //p' "$work/debian/control")  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
end
make -s -C "$work" -f debian/rules binary BUILD="$build" SOURCE="$source" OUT="$out" PACKAGES="$packages" >"$work/log" 2>&1 ||
  { cat "$work/log" >&2; exit 1; }
for package in $packages; do
  file=$out/${package}_${version}_amd64.deb
  echo "$file: $(($(stat -c %s "$file") >> 10)) KiB"
done
