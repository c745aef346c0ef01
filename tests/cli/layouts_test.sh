#!/bin/bash
# Fifteen layouts on up to 8 ranks have the same loss as one process. One of them computes the same bits twice, also
# with recomputation. Runs other architectures and precisions in some of the layouts.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/layouts.sh"
cd "$WORK" || exit 1
run_layouts 1 15

run_layouts 10 10 llama 2
run_layouts 11 11 qwen 2
run_layouts 8 8 neox
run_layouts 10 11 gpt-bf16
run_layouts 11 11 gpt-fp16

set_layout 2 1 2 1f1b 2 1 1 2
for name in first second; do train_layout "$ranks" "$name" "${flags[@]}"; done
same_bits first second 'the same layout twice'
check_recompute first --recompute-granularity selective
check_recompute first --recompute-granularity full --recompute-method uniform --recompute-num-layers 2
rm -rf first.* second.*

set_architecture gpt-bf16
title="gpt-bf16 $title"
for name in first second; do train_layout "$ranks" "$name" "${flags[@]}"; done
same_bits first second 'the same layout twice, in bf16'
check_recompute first --recompute-granularity full --recompute-method uniform --recompute-num-layers 2
set_architecture gpt

# Weights that overflow: mtl-train reports the ranks and tensors, even if sums over ranks have spread the infinities,
# and makes no update.
for flags in '--tensor-model-parallel-size 2 --micro-batch-size 4' \
  '--micro-batch-size 4 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather'; do
  # shellcheck disable=SC2086
  train_layout 2 broken $flags --lr 1e38
  expect_text err 'iteration 3: the gradient is not finite; no update was made$'
  expect_text err '^  rank 1 \(.+\): (embedding|layers|final).+ and [0-9]+ more$'
  [ "$(mtl_compare_checkpoints broken.ck/iter_0000003 broken.ck/iter_0000010)" = 'same 0.0e+00 - 0.0e+00 -' ] || \
    fail 'a gradient that is not finite changed the weights'
  rm -rf broken.*
done
finish
