#!/bin/bash
# Context-parallel ranks: documents, masks and a window have the losses of one process, and a run continues with another
# number of ranks.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/layouts.sh"
cd "$WORK" || exit 1
prepare_token_files

masks=(--reset-position-ids --reset-attention-mask --eod-mask-loss --window-size '24,0' --micro-batch-size 2)
train_layout 1 one "${masks[@]}"
for exchange in all_gather p2p; do
  train_layout 4 other "${masks[@]}" --context-parallel-size 4 --cp-comm-type $exchange
  check_layout one other "documents, masks and a window, $exchange"
  rm -rf other.*
done

# The first half on two ranks, the second on four, on one, and on two again: the same losses.
train_layout 2 first "${masks[@]}" --context-parallel-size 2 --use-distributed-optimizer --exit-interval $((STEPS / 2))
for flags in '4 --context-parallel-size 4 --cp-comm-type p2p' '1' '4 --context-parallel-size 2 --use-distributed-optimizer'; do
  rm -rf second.*
  cp -r first.ck second.ck
  cp first.jsonl second.jsonl
  # shellcheck disable=SC2086 # words
  train_layout ${flags%% *} second "${masks[@]}" --load second.ck $(cut -s -d' ' -f2- <<<"$flags")
  metrics second.jsonl >second.metrics
  metrics one.jsonl >one.metrics
  loss=$(mtl_compare difference one.metrics second.metrics --key loss --count $METRICS)
  echo "resumed with $flags: losses differ by $loss"
  below "$loss" 1e-8 || fail "resumed with $flags: losses differ by $loss"
done
finish
