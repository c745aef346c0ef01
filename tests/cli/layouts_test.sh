#!/bin/bash
# Fifteen layouts on up to 8 ranks give the loss of one process; one of them gives the same bits twice, and with activations
# computed again. Other architectures in some of the layouts.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/layouts.sh"
cd "$WORK" || exit 1
run_layouts 1 15

run_layouts 10 10 llama 2
run_layouts 11 11 qwen 2
run_layouts 8 8 neox

set_layout 2 1 2 1f1b 2 1 1 2
for name in first second; do train_layout "$ranks" "$name" "${flags[@]}"; done
same_bits first second 'the same layout twice'
check_recompute first --recompute-granularity selective
check_recompute first --recompute-granularity full --recompute-method uniform --recompute-num-layers 2

# Weights that overflow: the ranks and tensors are named, also where sums over ranks have spread what is not finite, and
# nothing is updated.
for flags in '--tensor-model-parallel-size 2 --micro-batch-size 4' \
  '--micro-batch-size 4 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather'; do
  # shellcheck disable=SC2086
  train_layout 2 broken $flags --lr 1e38
  expect_text err 'iteration 3: the gradient is not finite; no update was made$'
  expect_text err '^  rank 1 \(.+\): (embedding|layers|final).+ and [0-9]+ more$'
  [ "$(mtl_compare_checkpoints broken.ck/iter_0000003 broken.ck/iter_0000020)" = 'same 0.0e+00 - 0.0e+00 -' ] || \
    fail 'a broken gradient changed weights'
  rm -rf broken.*
done
finish
