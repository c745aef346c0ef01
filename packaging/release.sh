#!/usr/bin/env bash
# Makes a release in build/dist: Debian packages, the archive, the site, and their checksums. Run for the first time, gives
# CHANGELOG.md's section Unreleased the version and today's date, commits that with VERSION, and sets the tag vVERSION;
# pushing both is up to you. Run at the tag, in any clean checkout, it makes the same files, to the byte.
# Usage: release.sh VERSION [CMAKE_ARGUMENT]   (`make release VERSION=x.y.z`)
set -euo pipefail
version=$1
cd "$(dirname "$0")/.."
refuse() { echo "release: $*" >&2; exit 2; }

[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || refuse "VERSION is '$version'; give three numbers, such as make release VERSION=0.2.0"
[ -z "$(git status --porcelain)" ] || refuse "the checkout has changes or files that git does not know; commit or remove them"
if ! git tag --points-at HEAD | grep -qx "v$version"; then
  ! git rev-parse -q --verify "refs/tags/v$version" >/dev/null || refuse "v$version is the tag of another commit; check it out, or choose another version"
  [ "$(printf '%s\n' "$(cat VERSION)" "$version" | sort -V | tail -1)" = "$version" ] || refuse "$version is older than $(cat VERSION)"
  [ -n "$(awk '/^## / { inside = $0 == "## Unreleased" } inside && /^- /' CHANGELOG.md)" ] || refuse 'CHANGELOG.md has nothing under Unreleased'
  sed -i "s/^## Unreleased\$/## Unreleased\n\n## $version - $(date -u +%F)/" CHANGELOG.md
  echo "$version" >VERSION
  git commit -q -m "Release $version" -m 'CHANGELOG.md tells what has changed.' -- CHANGELOG.md VERSION
  git tag "v$version"
  echo "committed and tagged v$version"
fi
rm -rf build/dist build/package
make --no-print-directory deb tar CONFIGURE="${2:-}"
bash packaging/docs.sh build/package build/docs build/site-tools
tar -C build --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" --mode=go=rX,u+rw \
  --transform "s,^docs,mtl-$version-docs," -c docs | xz -T0 --block-size=16MiB >"build/dist/mtl-$version-docs.tar.xz"
(cd build/dist && sha256sum -- * >SHA256SUMS)
echo "made in build/dist:"
ls build/dist
