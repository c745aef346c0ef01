#!/bin/bash
# Fifteen layouts on up to 8 ranks give the loss of one process; one of them gives the same bits twice.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/layouts.sh"
cd "$WORK" || exit 1
run_layouts 1 15

set_layout 2 1 2 1f1b 2 1 1 2
for name in first second; do train_layout "$ranks" "$name" "${flags[@]}"; done
expect_same <(figures first.jsonl) <(figures second.jsonl)
[ "$(mtl_compare_checkpoints first.ck second.ck)" = 'same 0.0e+00 - 0.0e+00 -' ] || fail 'the same layout, other bits'

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
