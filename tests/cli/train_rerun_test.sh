#!/bin/bash
# --rerun-mode: steps that are computed again have the same bits in every layout, and what a failed step leaves decides
# on another session, and another machine, what is at fault.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/train_runs.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cd "$WORK" || exit 1
preprocess "$CORPUS" c
mkdir states

# --- No mode changes a bit, and no layout computes a step twice with other bits ---
LENGTH=(--train-iters 4 --save-interval 2 --eval-interval 3 --log-interval 1 --micro-batch-size 1 --threads 1)
# same_in_all_modes NAME RANKS FLAG...
same_in_all_modes() {
  local name=$1 ranks=$2 mode
  shift 2
  for mode in disabled validate_results report_determinism_stats; do
    expect_exit 0 mpirun --oversubscribe -n "$ranks" "$BIN/mtl-train" "${MODEL[@]}" "${LENGTH[@]}" --rerun-mode $mode \
      --save "$name.$mode/save" --log-jsonl "$name.$mode/log.jsonl" "$@" </dev/null
    metrics "$name.$mode/log.jsonl" >"$name.$mode.metrics"
    diff "$name.disabled.metrics" "$name.$mode.metrics" || fail "$name: $mode changes the run"
    [ "$(mtl_compare_checkpoints {"$name.disabled","$name.$mode"}/save/iter_0000004)" = 'same 0.0e+00 - 0.0e+00 -' ] ||
      fail "$name: $mode changes the weights: $(mtl_compare_checkpoints {"$name.disabled","$name.$mode"}/save/iter_0000004)"
  done
  expect_text err '^mtl-train: 4 iterations were computed twice; 0 of them differed$'
}
REPLICAS=--check-weight-hash-across-dp-replicas-interval
same_in_all_modes one 1
same_in_all_modes data 2 --overlap-grad-reduce $REPLICAS 1
same_in_all_modes zero1 2 --zero-stage 1 --bf16 --overlap-grad-reduce --overlap-param-gather $REPLICAS 3
same_in_all_modes zero3 2 --zero-stage 3 --fp16
same_in_all_modes tensor 2 --tensor-model-parallel-size 2 --sequence-parallel
same_in_all_modes stages 2 --pipeline-model-parallel-size 2 --optimizer muon
same_in_all_modes parts 2 --context-parallel-size 2 $REPLICAS 2
same_in_all_modes files 1 --bf16 --offload-optimizer states

expect_exit 2 run_in whole --zero-stage 3 $REPLICAS 1
expect_text err "$REPLICAS +.* needs replicas: a --zero-stage below 3"

# --- A step that fails in two runs with equal results: 16, and on other machines a verdict ---
LENGTH=(--train-iters 4 --save-interval 1 --eval-interval 0 --log-interval 1 --lr 1e30 --lr-decay-iters 10 --lr-warmup-iters 5)
MODE=(--rerun-mode validate_results)
expect_exit 16 run_in nan "${MODE[@]}"
expect_text err '^mtl-train: iteration 3: the gradient is not finite, also when computed again; the state after iteration 2 is saved'
expect_text err '^  embedding.tokens.weight'
[ -d nan/save/iter_0000002 ] && [ -f nan/save/failed_step.json ] || fail 'nothing is left for another session'
cp -r nan elsewhere
cp -r nan differs
expect_exit 16 run_in nan "${MODE[@]}"
expect_text err "and fails again, but on the same machines: $(uname -n);"
expect_exit 16 run_in nan "${MODE[@]}" --threads 2
expect_text err "and fails again, but on the same machines: $(uname -n);"
[ -f nan/save/failed_step.json ] || fail 'the record is gone before the verdict'

sed -i 's/"host": "[^"]*"/"host": "broken"/' {elsewhere,differs}/save/failed_step.json
expect_exit 17 run_in elsewhere "${MODE[@]}"
expect_text err 'and fails in the same way on other machines: the result is right'
[ ! -f elsewhere/save/failed_step.json ] || fail 'the record stays after the verdict'
expect_exit 16 run_in elsewhere "${MODE[@]}"  # from the beginning

sed -i 's/"gradients": -*[0-9]*/"gradients": 1/' differs/save/failed_step.json
expect_exit 17 run_in differs "${MODE[@]}"
expect_text err 'fails now with other gradients of the ranks that were on broken'

# The loss scale of the machine before was too large, which only its gradients show: this one goes on.
LENGTH=(--train-iters 4 --save-interval 1 --eval-interval 0 --log-interval 1 --fp16)
expect_exit 0 run_in fine "${MODE[@]}" --loss-scale 128 --exit-interval 2
expect_exit 16 run_in fine "${MODE[@]}" --loss-scale 1e30
sed -i 's/"host": "[^"]*"/"host": "broken"/' fine/save/failed_step.json
expect_exit 0 run_in fine "${MODE[@]}" --loss-scale 128
expect_text err 'warning: iteration 3 failed before \(the gradient is not finite\), but not now, with other gradients of the ranks that were on broken'
[ ! -f fine/save/failed_step.json ] || fail 'the record stays in a run that went on'
[ -d fine/save/iter_0000004 ] || fail 'the run did not go on'

# --- A step that begins with other weights is another one: nobody is accused ---
LENGTH=(--train-iters 4 --save-interval 1 --eval-interval 0 --log-interval 1 --lr-decay-iters 10 --lr-warmup-iters 5)
expect_exit 16 run_in other --lr 1e30 "${MODE[@]}"
expect_exit 0 run_in other --lr 0.001 --override-opt_param-scheduler --ckpt-step 1 "${MODE[@]}"
! grep -q 'failed before' err || fail "another step is compared: $(cat err)"
[ ! -f other/save/failed_step.json ] || fail 'the record of another step stays'
LENGTH+=(--lr 1e30)

# --- The state is kept if the record cannot be; a record that is damaged at the start leaves no checkpoint ---
saved=false
for n in $(seq 103 3 200); do  # from the end of the checkpoint's shard
  rm -rf full
  MTL_FAULT=eio:$n run_in full --save-interval 100 "${MODE[@]}" >out 2>err
  code=$?
  if grep -q 'another session will not know' err; then
    [ $code -eq 17 ] && [ -d full/save/iter_0000002 ] || fail "eio:$n: the state is lost: $(cat err)"
    saved=true
  fi
  [ $code -ne 16 ] || break  # the fault came too late
done
$saved || fail 'no fault met the record'
mkdir -p fresh/save
echo '{' >fresh/save/failed_step.json
expect_exit 65 run_in fresh "${MODE[@]}"
[ ! -e fresh/save/iter_0000000 ] || fail 'a start that is refused leaves a checkpoint'

# --- The record does not stand in the way of another decision, and is not read if it is damaged ---
expect_exit 0 run_in nan "${MODE[@]}" --iterations-to-skip 3 4
echo '{' >nan/save/failed_step.json
LENGTH+=(--train-iters 5)
expect_exit 65 run_in nan "${MODE[@]}" --iterations-to-skip 5
expect_text err 'nan/save/failed_step.json: .*; remove the file'
# Without --save, or in the first step, nothing is kept, and another session could not compare.
expect_exit 17 mtl-train "${MODEL[@]}" "${LENGTH[@]}" "${MODE[@]}"
expect_text err 'the gradient is not finite, also when computed again; nothing was saved'
expect_exit 2 run_in mode --rerun-mode sometimes
expect_text err 'rerun-mode sometimes'
finish
