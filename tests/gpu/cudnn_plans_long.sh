#!/usr/bin/env bash
# cudnn_plans_long.sh BUILD: cuDNN itself, the toolkit's or that in LD_LIBRARY_PATH, accepts the attention graph and
# compiles it for sm_80, sm_90 and sm_100. cuDNN loads compiled kernels through the driver. A library whose functions do
# nothing replaces the driver; the toolkit's libcuda.so, which programs link with, lists their names.
set -euo pipefail
build=$1
program=$build/bin/mtl_cudnn_plans
toolkit_driver=/usr/local/cuda/lib64/stubs/libcuda.so
[ -e "$toolkit_driver" ] || { echo "skipped: $toolkit_driver is missing"; exit 77; }
ninja -C "$build" mtl_cudnn_plans >/dev/null
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Loading returns a handle that is not null. Other library and kernel functions succeed, and the rest return
# CUDA_ERROR_STUB_LIBRARY.
nm -D --defined-only "$toolkit_driver" | awk '$2 == "T" {
  if ($3 ~ /^cu(LibraryLoad|LibraryGet(Kernel|Module)|KernelGetFunction|ModuleLoad|ModuleGetFunction)/)
    body = "(void** handle) { *handle = handle; return 0; }"
  else
    body = "(void) { return " ($3 ~ /^cu(Library|Kernel|Module|Func|Occupancy)/ ? 0 : 34) "; }"
  print "int " $3 body }' >"$scratch/driver.c"
"${CC:-cc}" -shared -fPIC -Wl,-soname,libcuda.so.1 "$scratch/driver.c" -o "$scratch/libcuda.so.1"
LD_LIBRARY_PATH=$scratch:${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/cuda/lib64 "$program" | tee "$scratch/plans"
[ "$(wc -l <"$scratch/plans")" -gt 0 ]
