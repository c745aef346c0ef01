#!/bin/sh
# Installs the missing Debian packages of the build, the tests and the demo, and those of the named steps:
# deb and tar (what is carried to other machines), docs (the site) and test-all (what the long tests run beside mtl).
set -eu
packages="g++ cmake ninja-build pkg-config libdnnl-dev ocl-icd-opencl-dev libhwy-dev libxxhash-dev libdeflate-dev
libsimdjson-dev libcli11-dev libzstd-dev liblzma-dev zlib1g-dev libopenmpi-dev openmpi-bin doctest-dev scdoc
mandoc xz-utils zstd gzip"
for step; do
  case $step in
    deb) packages="$packages debhelper" ;;
    tar) packages="$packages patchelf" ;;
    docs) packages="$packages pandoc python3 python3-venv" ;;
    test-all) packages="$packages debhelper patchelf pandoc python3 python3-venv lintian mmdebstrap zsh fish chromium" ;;
    *) echo "no packages are known for $step" >&2; exit 2 ;;
  esac
done

missing=""
for package in $packages; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ -n "${MTL_NO_INSTALL:-}" ]; then
  echo "missing packages:$missing" >&2
  echo "install them, for example with: apt-get install$missing" >&2
  exit 1
fi
as_root=""
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "missing packages:$missing; install them as root" >&2; exit 1; }
  as_root=sudo
fi
echo "installing:$missing" >&2
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
$as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
