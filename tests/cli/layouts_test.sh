#!/bin/bash
# 24 layouts on up to 8 ranks have the same loss as one process, also with other architectures and precisions in some of
# them. Four compute the same bits again with recomputation, and so without any race between the ranks.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/layouts.sh"
cd "$WORK" || exit 1
run_layouts 1 24

FULL='--recompute-granularity full --recompute-method uniform --recompute-num-layers 2'
RECOMPUTE=$FULL run_layouts 10 10 llama 2
RECOMPUTE='--recompute-granularity selective' run_layouts 11 11 qwen 2
run_layouts 8 8 neox
run_layouts 10 10 gpt-bf16
RECOMPUTE=$FULL run_layouts 11 11 gpt-bf16
run_layouts 8 8 gpt-logits-bf16
run_layouts 11 11 gpt-fp16

# Lines 19 to 22 split sequences.
RECOMPUTE='--recompute-granularity selective' run_layouts 20 20 qwen 2
run_layouts 19 19 llama-bf16 2

# mtl-train refuses the pairs of settings that no line of layouts.txt can have.
awk -v refused=1 -f "$TESTS/cli/layouts_make.awk" "$TESTS/cli/layouts.txt" >refused
[ "$(wc -l <refused)" -eq 10 ] || fail "$(wc -l <refused) refused pairs instead of 10"
while read -r one value zero stage; do
  [ "$zero" = zero ] || fail "a refused pair of $one $value and $zero $stage"
  case $one in
    pp) flags=(--pipeline-model-parallel-size "$value") ;;
    schedule) flags=(--pipeline-model-parallel-size 2 --pipeline-schedule "$value") ;;
  esac
  [ "$value" != interleaved ] || flags+=(--num-virtual-stages-per-pipeline-rank 2)
  expect_exit 2 mtl-train --model gpt2-345m --world-size 8 --zero-stage "$stage" "${flags[@]}" --dry-run
  expect_text "$WORK/err" "^  --zero-stage $stage +cannot be combined with --pipeline-(model-parallel-size 2|model-parallel-size 4|schedule $value)"
done <refused

# All schedules compute the same bits, whatever each stage holds. (The norm's bits depend on the stages' tensors.)
VEE='--pipeline-schedule zb-v --pipeline-model-parallel-layout Et|t|tt|tL'
for tie in '' --untie-embeddings-and-output-weights; do
  # shellcheck disable=SC2086 # words
  train_layout 2 one --pipeline-model-parallel-size 2 --clip-grad 0 --micro-batch-size 2 $tie
  schedules=('--pipeline-schedule gpipe' '--pipeline-schedule zb-h1' '--pipeline-schedule zb-h2'
    '--pipeline-model-parallel-layout Et|ttt|t|L'
    '--pipeline-model-parallel-layout E|tt|t|ttL --microbatch-group-size-per-virtual-pipeline-stage 3' "$VEE")
  [ -z "$tie" ] || schedules=("$VEE")
  for flags in "${schedules[@]}"; do
    # shellcheck disable=SC2086 # words
    train_layout 2 other --pipeline-model-parallel-size 2 --clip-grad 0 --micro-batch-size 2 $tie $flags
    same_checkpoints one other "$tie $flags"
    rm -rf other.*
  done
  rm -rf one.*
done

# On a V, one stage has both uses of a tied embedding, and sums their gradients over the ranks as two stages would.
for flags in '--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --ddp-bucket-size 20000' \
  "--bf16 --overlap-grad-reduce $FULL" '--fp16 --initial-loss-scale 4096 --use-distributed-optimizer' \
  '--tensor-model-parallel-size 2 --sequence-parallel --bf16'; do
  # shellcheck disable=SC2086 # words
  train_layout 4 one --pipeline-model-parallel-size 2 --clip-grad 0 --micro-batch-size 2 $flags
  # shellcheck disable=SC2086 # words
  train_layout 4 other --pipeline-model-parallel-size 2 --clip-grad 0 --micro-batch-size 2 $flags $VEE
  same_checkpoints one other "$flags $VEE"
  rm -rf one.* other.*
done

# The first stage holds consecutive layers in two chunks, because the chunk between them is empty. Groups of sharded
# gradients still end where chunks do.
for stage in 1 2; do
  train_layout 4 zero$stage --zero-stage $stage --pipeline-model-parallel-size 2 --micro-batch-size 2 \
    --pipeline-model-parallel-layout 'Et||tt|ttL' --untie-embeddings-and-output-weights --ddp-bucket-size 100000000
  metrics zero$stage.jsonl >zero$stage.metrics
done
mtl_compare near zero1.metrics zero2.metrics --relative 1e-6 --count $METRICS || fail 'sharded gradients of empty chunks'
rm -rf zero1.* zero2.*

# Weights that overflow: mtl-train reports the ranks and tensors, even if sums over ranks have spread the infinities,
# and makes no update.
for flags in '--tensor-model-parallel-size 2 --micro-batch-size 4' \
  '--micro-batch-size 4 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather' \
  '--micro-batch-size 4 --zero-stage 2' '--micro-batch-size 4 --zero-stage 3'; do
  # shellcheck disable=SC2086
  train_layout 2 broken $flags --lr 1e38 --no-check-for-nan-in-loss-and-grad
  expect_text err 'iteration 3: the gradient is not finite; no update was made$'
  expect_text err '^  rank 1 \(.+\): (embedding|layers|final).+ and [0-9]+ more$'
  [ "$(mtl_compare_checkpoints broken.ck/iter_0000003 "broken.ck/$FINAL")" = 'same 0.0e+00 - 0.0e+00 -' ] || \
    fail 'a gradient that is not finite changed the weights'
  rm -rf broken.*
done
finish
