#!/usr/bin/env bash
# Packs everything that tests/gpu/run needs into one archive, for a machine that has only a GPU, its driver and a C
# library: programs, operator tests built for the device, fixtures, and the shared libraries they load, including Open
# MPI. The driver's libraries and CUDA's (cuBLASLt) come from the machine.
# Usage: bundle.sh BUILD ARCHIVE.tar.xz; kernels are for the architectures that BUILD was configured for.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
bin=$(cd "$1/bin" && pwd)
archive=$2
archs=$(sed -n 's/^MTL_CUDA_ARCHS:[A-Z]*=//p' "$1/CMakeCache.txt")
case $archs in *';'*) limit=$((55 << 20)) ;; *) limit=$((28 << 20)) ;; esac  # maximum archive size in bytes
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bundle=$work/mtl-gpu

programs=(mtl-preprocess mtl-vocab mtl-train mtl-eval mtl-generate mtl-convert mtl_gpu_kernels mtl_gpu_goldens mtl_compare mtl_bench_peaks
  mtl_bench_kernels mtl_bench_attention)

# Open MPI finds its components and texts in OPAL_PREFIX. Omits network components, which need many libraries.
mpi=$(dirname "$(readlink -f "$(ldd "$bin/mtl-train" | awk '/libmpi\./ {print $3}')")")
mkdir -p "$bundle/mpi/lib/openmpi" "$bundle/mpi/bin" "$bundle/mpi/share"
cp -L "$mpi"/openmpi/lib/openmpi3/*.so "$bundle/mpi/lib/openmpi/" 2>/dev/null || cp -L "$mpi"/openmpi/*.so "$bundle/mpi/lib/openmpi/"
rm -f "$bundle"/mpi/lib/openmpi/mca_{atomic,memheap,scoll,spml,sshmem}_*.so \
  "$bundle"/mpi/lib/openmpi/mca_*_{ucx,ofi,openib,psm,psm2,usnic,monitoring}.so
cp -Lr /usr/share/openmpi "$bundle/mpi/share/openmpi"
for tool in mpirun orted; do cp -L "$(command -v $tool)" "$bundle/mpi/bin/"; done
bash "$root/packaging/relocatable.sh" "$bin" "$bundle" bin "${programs[@]}" -- "$bundle"/mpi/bin/* "$bundle"/mpi/lib/openmpi/*.so

mkdir -p "$bundle/share" "$bundle/tests"
cp -r "$root/share/gpt2" "$bundle/share/"
cp "$root/share/demo/tinyshakespeare.txt.xz" "$root/share/demo/documents.awk" "$bundle/share/"
xz -dc "$root/share/demo/tinyshakespeare.txt.xz" |
  awk -f "$root/share/demo/documents.awk" -v heldout=/dev/null >"$bundle/share/text.jsonl" # xz may be missing there
rm "$bundle/share/tinyshakespeare.txt.xz" "$bundle/share/documents.awk"
mkdir -p "$bundle/tests/golden"
cp -r "$root"/tests/golden/{gpt2_model,llama_model,family_model,train_trajectory} "$bundle/tests/golden/"
cp -r "$here"/{run,measure.sh,environment.sh,README.md,parts,curve} "$bundle/"
mkdir -p "$bundle/share/bench"
cp "$root"/share/bench/{gpu.sh,lib.sh,pytorch_peer.py} "$bundle/share/bench/"
cp "$root/VERSION" "$bundle/"
git -C "$root" describe --always --dirty >"$bundle/COMMIT" 2>/dev/null || echo "unknown" >"$bundle/COMMIT"

mkdir -p "$(dirname "$archive")"
# Nearly the same kernels are in every program: a dictionary that spans several of them halves the archive.
XZ_OPT=--lzma2=preset=6,dict=128MiB tar -C "$work" -cJf "$archive.tmp" mtl-gpu
size=$(stat -c %s "$archive.tmp")
[ "$size" -le $limit ] || { echo "bundle.sh: the archive has $size bytes, more than $limit" >&2; exit 1; }
mv "$archive.tmp" "$archive"
echo "$archive: $((size >> 10)) KiB; for sm_${archs//;/, sm_}; on the machine: tar -xJf $(basename "$archive") && mtl-gpu/run"
