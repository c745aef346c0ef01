#!/bin/sh
# Prints the version of packages: VERSION at its tag or outside a checkout, else VERSION+N, where N is the number of
# commits, so that later ones are newer.
set -eu
cd "$(dirname "$0")/.."
version=$(cat VERSION)
if [ -e .git ] && ! git tag --points-at HEAD | grep -qx "v$version"; then
  version=$version+$(git rev-list --count HEAD)
fi
echo "$version"
