#!/bin/bash
# What releases of megatron-core save as torch_dist: weights and Adam's moments have the bits of the same model in the
# torch format, in every layout of the optimizer state that a release has, for tensor, data and pipeline parallel ranks,
# and for interleaved and uneven stages. MTL_MCORE_PYTHONS lists Python interpreters, each with torch, psutil and a
# megatron-core. Skipped if it is empty.
source "$(dirname "$0")/lib.sh" "$1"
read -ra pythons <<<"${MTL_MCORE_PYTHONS:-}"
[ ${#pythons[@]} -gt 0 ] || { echo "skipped: MTL_MCORE_PYTHONS lists no Python with megatron-core"; exit 77; }
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
make=$TESTS/golden/dist_ckpt/make.py
cd "$WORK" || exit 1

# compare CASE: both folders of a case convert to the same checkpoint of mtl, with moments.
compare() {
  local vocabulary=45
  [[ $1 == gpt* ]] && vocabulary=42
  rm -rf dist torch
  expect_exit 0 mtl-convert --load "made/$1" --save dist --to mtl --vocab-size $vocabulary
  grep -q 'without the optimizer' err && fail "$1: $(cat err)"
  expect_exit 0 mtl-convert --load "made/$1_plain" --save torch --to mtl --vocab-size $vocabulary
  grep -q 'without the optimizer' err && fail "$1_plain: $(cat err)"
  expect_exit 0 mtl_compare_checkpoints --exact dist/iter_0000030 torch/iter_0000030
  grep -qa '"exp_avg_sq\.' dist/iter_0000030/shard_00000.safetensors || fail "$1: no moments"
}

for python in "${pythons[@]}"; do
  "$python" -c 'import importlib.metadata as m; print("megatron-core", m.version("megatron-core"), "torch", m.version("torch"))' \
    >version 2>err || fail "$python: $(tail -1 err)"
  "$python" "$make" --layouts >layouts 2>err || fail "$python $make --layouts: $(tail -1 err)"
  cases=()
  for layout in $(tail -1 layouts); do
    for sizes in '' _tp2 _pp2 _dp2 _tp2_pp2 _tp2_dp2 _pp2_vp2_nl4 _pp2_nl3_fl1; do
      cases+=("llama_$layout$sizes" "gpt_$layout$sizes")
    done
  done
  rm -rf made
  expect_exit 0 "$python" "$make" made "${cases[@]}"
  before=$failures
  for name in "${cases[@]}"; do compare "$name"; done
  echo "$(cat version): ${#cases[@]} checkpoints, $((failures - before)) failures ($(tail -1 layouts))"
done
finish
