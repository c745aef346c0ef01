#!/bin/bash
# Token files and checkpoints of earlier versions (golden/ages) load: runs continue as those versions did, in the same
# layout and in one process.
source "$(dirname "$0")/lib.sh" "$1"
source "$TESTS/cli/metrics.sh"
cd "$WORK" || exit 1
for age in "$TESTS"/golden/ages/*/; do
  name=$(basename "$age")
  cp -r "$age" "$name"
  cd "$name" || exit 1
  expect_exit 0 mtl-data verify documents_text_document
  read -r -a flags <<<"$(tr '\n' ' ' <flags)"
  # continue_as PRECISION LAYOUT BOUND COMMAND...: COMMAND continues the run in PRECISION as that version did.
  continue_as() {
    local precision=$1 layout=$2 bound=$3
    shift 3
    expect_exit 0 "$@" --save "$layout" --log-jsonl "$layout.jsonl"
    grep -q '"iteration": 4,' "$layout.jsonl" || fail "$name: $precision does not continue from iteration 4"
    metrics "$layout.jsonl" >"$layout.metrics"
    mtl_compare near "$layout.metrics" "$precision.metrics" --relative "$bound" --count 10 ||
      fail "$name: $precision continues otherwise in the layout $layout"
  }
  cp -r fp32 fp32-4 && cp -r bf16 bf16-4
  continue_as fp32 fp32-4 1e-5 mpirun -n 4 --oversubscribe mtl-train "${flags[@]}"
  continue_as bf16 bf16-4 1e-2 mpirun -n 4 --oversubscribe mtl-train "${flags[@]}" --bf16
  continue_as fp32 one 1e-5 mtl-train "${flags[@]}" --load fp32 --tensor-model-parallel-size 1
  cd ..
done
finish
