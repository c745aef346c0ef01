#!/usr/bin/env bash
# Rehearses the archive from `make gpu-bundle` on a machine without a GPU. Uses a chroot with the archive, bash, the
# tools that tests/gpu/run calls, and the C and C++ libraries they load. Every program must start with a C library as old
# as Ubuntu 22.04's, `run` must end with "no CUDA device", and `measure.sh` must measure the CPU. Needs root.
# Usage: rehearse.sh ARCHIVE.tar.xz|FOLDER
set -euo pipefail
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
mkdir -p "$room"/{bin,tmp,dev,lib,lib64,usr}
ln -s ../bin ../lib "$room/usr/"
: >"$room/dev/null"
if [ -d "$1" ]; then cp -r "$1" "$room/mtl-gpu"; else tar -C "$room" -xf "$1"; fi
copy_with_libraries() {
  cp -L "$1" "$room/bin/"
  ldd "$1" | grep -oE '/[^ ]+\.so[^ ]*' | while read -r library; do
    mkdir -p "$room$(dirname "$library")" && cp -Lu "$library" "$room$library"
  done
}
for tool in env bash sed grep awk sort tail head cut tr mktemp mkdir rm cp cat nl wc timeout dirname paste sleep date seq nproc; do
  copy_with_libraries "$(command -v $tool)"
done
for library in libc.so.6 libm.so.6 libdl.so.2 librt.so.1 libpthread.so.0 libgcc_s.so.1 libstdc++.so.6; do
  cp -Lu "/lib/x86_64-linux-gnu/$library" "$room/lib/"
done
cp -Lu /lib64/ld-linux-x86-64.so.2 "$room/lib64/"
# A program that requires a version newer than GLIBC_2.35 does not find it in this copy.
mkdir "$room/older"
sed -E 's/GLIBC_2\.(3[6-9]|[4-9][0-9])/GLIBC_X.\1/g' /lib/x86_64-linux-gnu/libc.so.6 >"$room/older/libc.so.6"

for program in "$room"/mtl-gpu/bin/* "$room"/mtl-gpu/mpi/bin/*; do
  program=${program#"$room"}
  case $program in
    *mpirun) arguments=(--allow-run-as-root -n 2 --oversubscribe /mtl-gpu/bin/mtl_compare below 1 2) ;;
    */orted | *mtl_bench_*) continue ;;  # started by other programs
    *mtl_compare) arguments=(below 1 2) ;;
    *mtl_gpu_*) arguments=(--list-test-cases) ;;
    *) arguments=(--version) ;;
  esac
  # shellcheck disable=SC2016 # the inner shell expands it
  chroot "$room" /bin/bash -c 'here=/mtl-gpu; . /mtl-gpu/environment.sh; LD_LIBRARY_PATH=/older:$LD_LIBRARY_PATH exec "$@"' run "$program" "${arguments[@]}" >"$room/tmp/log" 2>&1 ||
    { echo "rehearse.sh: $program does not start:"; cat "$room/tmp/log"; exit 1; }
done
code=0
chroot "$room" /mtl-gpu/run >"$room/tmp/log" 2>&1 || code=$?
cat "$room/tmp/log"
if [ $code -ne 1 ] || ! grep -q '^no CUDA device: no NVIDIA driver is installed on this machine$' "$room/tmp/log"; then
  echo "rehearse.sh: exit $code, without 'no CUDA device'"
  exit 1
fi
for call in first second; do
  chroot "$room" /bin/env MTL_GPU_TEST_DEVICE=cpu OUT=/tmp/measured /mtl-gpu/measure.sh $call ||
    { tail -n 20 "$room"/tmp/measured/*; echo "rehearse.sh: measure.sh $call fails"; exit 1; }
done
for part in rows attention cross_entropy memory gemm training; do
  grep -qE '(us |mtl +[0-9])' "$room/tmp/measured/$part.txt" || { echo "rehearse.sh: $part.txt has no time"; exit 1; }
done
[ -s "$room/tmp/measured/training/tiny/rank0.json" ] || { echo "rehearse.sh: no profile"; exit 1; }
echo "rehearsed: every program starts, and measure.sh runs to its end"
