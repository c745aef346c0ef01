#!/bin/bash
# `make release` in a clean clone sets version, changelog and tag, and refuses what it should; a second clone elsewhere, at
# the tag, makes the same bytes. Without CUDA, whose kernels take long to compile: TEST_CUDA=1 includes them. Needs what
# `make deb`, `make tar` and `make docs` need.
. "$(dirname "$0")/lib.sh" "$1"
for program in dh patchelf pandoc git; do
  command -v $program >/dev/null || { echo "skipped: $program is not installed"; exit 77; }
done
tree=$(cd "$TESTS/.." && pwd)
git -C "$tree" rev-parse -q --verify HEAD >/dev/null || { echo 'skipped: not a checkout'; exit 77; }
export CCACHE_DISABLE=1 MTL_NO_INSTALL=1
export GIT_AUTHOR_NAME=test GIT_AUTHOR_EMAIL=test@example.org GIT_COMMITTER_NAME=test GIT_COMMITTER_EMAIL=test@example.org
configure=-DMTL_CUDA=OFF
[ -z "${TEST_CUDA:-}" ] || configure=-DMTL_CUDA_ARCHS=90a
cd "$WORK" || exit 1
git clone -q "$tree" first
cd first || exit 1
release() { expect_exit "$1" make -s release VERSION="$2" CONFIGURE="$configure"; }
release 2 1.2
expect_text "$WORK/err" 'give three numbers'
touch left-over
release 2 99.0.0
expect_text "$WORK/err" 'has changes or files'
rm left-over
release 2 0.0.1
expect_text "$WORK/err" '0.0.1 is older than'
release 0 99.0.0
[ "$(cat VERSION)" = 99.0.0 ] || fail "VERSION is $(cat VERSION)"
[ "$(git describe --tags --exact-match)" = v99.0.0 ] || fail 'no tag'
[ "$(grep -cE "^## (Unreleased|99.0.0 - [0-9-]{10})$" CHANGELOG.md)" -eq 2 ] || fail "the changelog has no section"
[ -z "$(git status --porcelain)" ] || fail "left behind: $(git status --porcelain)"
for file in mtl_99.0.0_amd64.deb mtl-99.0.0-x86_64.tar.xz mtl-99.0.0-docs.tar.xz SHA256SUMS; do
  [ -s "build/dist/$file" ] || fail "no $file"
done
(cd build/dist && sha256sum -c --quiet SHA256SUMS) || fail 'the checksums are wrong'
tar -xf build/dist/mtl-99.0.0-x86_64.tar.xz -C "$WORK"
expect_exit 0 "$WORK/mtl-99.0.0/bin/mtl-plot" --version
expect_text "$WORK/out" '^mtl-plot 99.0.0$'

# Elsewhere, and on another day.
git clone -q "$WORK/first" "$WORK/a longer path of the second clone"
cd "$WORK/a longer path of the second clone" || exit 1
release 0 99.0.0
for file in "$WORK"/first/build/dist/*; do expect_same "$file" "build/dist/${file##*/}"; done
finish
