#!/bin/bash
# What a run checks of its steps, and which it leaves out: numbers that are not finite, spikes, --iterations-to-skip,
# --skip-train, and the norm of the parameters and the zeros of the gradient in the log.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/train_runs.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cd "$WORK" || exit 1
preprocess "$CORPUS" c
LENGTH=(--train-iters 12 --save-interval 3 --eval-interval 5 --log-interval 1)

# values NAME KEY: prints KEY's values in the steps of the run's log, one "ITERATION VALUE" in a line.
values() {
  awk "$VALUE"'/"type": "step"/ { text = value("'"$2"'"); if (text != "") print value("iteration"), text }' "$1/log.jsonl"
}
# value NAME KEY ITERATION: prints one of them.
value() { values "$1" "$2" | awk -v at="$3" '$1 == at { print $2 }'; }
# ranks N NAME FLAG...: runs NAME on N ranks.
ranks() {
  local count=$1
  shift
  expect_exit 0 mpirun --oversubscribe -n "$count" "$BIN/mtl-train" "${MODEL[@]}" "${LENGTH[@]}" --threads 1 --save "$1/save" \
    --log-jsonl "$1/log.jsonl" "${@:2}" </dev/null
}

# --- --iterations-to-skip: no update, no advance of the schedule, but the samples are consumed ---
SKIP=(--iterations-to-skip 1 5 6 12)
expect_exit 0 run_in whole
expect_exit 0 run_in gaps "${SKIP[@]}" --save-interval 1
expect_text err '^mtl-train: iteration 5 is left out, as --iterations-to-skip requests$'
[ "$(grep -c 'is left out' err)" -eq 4 ] || fail "not four iterations are left out: $(cat err)"
[ "$(values gaps skipped_iterations | awk '$2 { print $1 }' | xargs)" = '1 5 6 12' ] || fail 'the log does not count what is left out'
[ "$(values gaps grad_norm | wc -l)" -eq 8 ] || fail 'an iteration that is left out has a gradient norm'
diff <(values whole consumed_samples) <(values gaps consumed_samples) || fail 'the samples of an iteration that is left out are read again'
for pair in '4 5' '5 6' '11 12'; do
  read -r a b <<<"$pair"
  [ "$(mtl_compare_checkpoints "gaps/save/$(printf iter_%07d "$a")" "gaps/save/$(printf iter_%07d "$b")")" = 'same 0.0e+00 - 0.0e+00 -' ] ||
    fail "iteration $b is left out, but changes the weights or the moments"
done
# The iterations that are computed have the rates of the first eight.
diff <(values whole learning_rate | awk '$1 <= 8 { print $2 }') \
  <(values gaps learning_rate | awk '$1 != 1 && $1 != 5 && $1 != 6 && $1 != 12 { print $2 }') || fail 'an iteration that is left out advances the schedule'
# After iteration 1 was left out, iteration 2 has its own samples and the first weights.
expect_exit 0 run_in still --lr 0 --min-lr 0 --exit-interval 2
[ "$(value gaps lm_loss 2)" = "$(value still lm_loss 2)" ] || fail 'iteration 2 does not compute its own samples with the first weights'
# Interrupted before, between, and after iterations that are left out, the run has the same bits. (Logs and checkpoints
# also if a line covers what was left out.)
LENGTH=(--train-iters 12 --save-interval 3 --eval-interval 5 --log-interval 4)
expect_exit 0 run_in again "${SKIP[@]}"
for at in 1 4 5 6 7; do
  expect_exit 0 run_in cut$at "${SKIP[@]}" --exit-interval $at
  [ -d cut$at/save/iter_000000$at ] || fail "nothing is saved after iteration $at"
  expect_exit 0 run_in cut$at "${SKIP[@]}"
  same_run cut$at again "interrupted after iteration $at"
done
LENGTH=(--train-iters 12 --save-interval 3 --eval-interval 5 --log-interval 1)
ranks 2 stages "${SKIP[@]}" --pipeline-model-parallel-size 2
ranks 2 shards "${SKIP[@]}" --micro-batch-size 1 --zero-stage 3
metrics gaps/log.jsonl >gaps.metrics
for name in stages shards; do
  metrics $name/log.jsonl >$name.metrics
  mtl_compare near gaps.metrics $name.metrics --relative 2e-5 --count 20 || fail "$name: other losses on two ranks"
done
# A signal ends the run between iterations that are left out, too.
echo "iterations-to-skip = $(seq -s ' ' 2 20000)" >all.cfg
run_in asked --config all.cfg --train-iters 20000 --save-interval 0 --eval-iters 0 --log-interval 1000 >out 2>err &
until grep -q 'iteration 9 is left out' err; do kill -0 $! || break; sleep 0.01; done
kill -TERM "$(sed -E 's/^pid ([0-9]+) .*/\1/' asked/save/lock)"
wait $!
code=$?
[ $code -eq 75 ] || fail "exit $code at TERM while iterations are left out"
last=$(sed -nE 's/^mtl-train: ended by a signal after iteration ([0-9]+); .*/\1/p' err)
[ "${last:-20000}" -lt 20000 ] && [ -d "asked/save/$(printf iter_%07d "$last")" ] || fail "TERM ends after iteration '$last'"
for word in 0 -3 x 1.5; do
  expect_exit 2 run_in bad --iterations-to-skip 2 $word
  expect_text err "^  --iterations-to-skip $word  is not the number of an iteration, from 1; leave it out"
done

# --- A gradient that is not finite ends the run, and the state before it is saved ---
for job in 1 2; do
  BROKEN=(--lr 1e38 --lr-decay-style constant --save-interval 100 --eval-iters 0)
  [ $job -eq 1 ] || BROKEN+=(--micro-batch-size 1)
  launch=(run_in)
  [ $job -eq 1 ] || launch=(mpirun_in)
  mpirun_in() { mpirun --oversubscribe -n 2 "$BIN/mtl-train" "${MODEL[@]}" "${LENGTH[@]}" --threads 1 --save "$1/save" --log-jsonl "$1/log.jsonl" "${@:2}"; }
  expect_exit 1 "${launch[@]}" broken$job "${BROKEN[@]}"
  expect_text err '^mtl-train: warning: iteration [0-9]+: the gradient is not finite; no update was made$'
  bad=$(sed -nE 's/^mtl-train: warning: iteration ([0-9]+): the gradient.*/\1/p' err)
  expect_text err "^mtl-train: .*iteration $bad: the gradient is not finite; the state after iteration $((bad - 1)) is saved\. .*--iterations-to-skip $bad; --no-check-for-nan-in-loss-and-grad "
  [ "$(echo broken$job/save/iter_*)" = "broken$job/save/$(printf iter_%07d $((bad - 1)))" ] ||
    fail "$job ranks: not only the state after iteration $((bad - 1)) is saved: $(ls broken$job/save)"
  # The same command meets it again. The flag goes on, without an update.
  expect_exit 1 "${launch[@]}" broken$job "${BROKEN[@]}"
  expect_text err "^mtl-train: .*iteration $bad: the gradient is not finite; the state after iteration $((bad - 1)) is saved\."
  expect_exit 0 "${launch[@]}" broken$job "${BROKEN[@]}" --no-check-for-nan-in-loss-and-grad
  expect_text err "^mtl-train: warning: iteration 12: the gradient is not finite; no update was made$"
  [ "$(mtl_compare_checkpoints "broken$job/save/$(printf iter_%07d $((bad - 1)))" broken$job/save/iter_0000012)" = 'same 0.0e+00 - 0.0e+00 -' ] ||
    fail "$job ranks: a gradient that is not finite changed the weights"
  # Left out, it does not end the run.
  rm -rf broken$job
  # shellcheck disable=SC2046 # words
  expect_exit 0 "${launch[@]}" broken$job "${BROKEN[@]}" --iterations-to-skip $(seq "$bad" 12)
done
expect_exit 1 run_in first --fp16 --loss-scale 1e38
expect_text err 'Lower --loss-scale, or leave it out, if it is too large'
expect_text err '^mtl-train: iteration 1: the gradient is not finite; nothing was saved\.'

# --- Spikes: the first hundred steps, over a resume, then a learning rate that throws the weights away ---
SMALL=(--num-layers 1 --hidden-size 8 --num-attention-heads 1 --seq-length 8 --global-batch-size 2 --lr-decay-style constant
  --lr-warmup-iters 0 --eval-iters 0 --train-iters 106 --log-interval 1 --save-interval 1000 --hidden-dropout 0 --attention-dropout 0)
for flag in none --check-for-spiky-loss --check-for-large-grads; do
  flags=()
  [ $flag = none ] || flags=("$flag")
  expect_exit 0 run_in spike$flag "${SMALL[@]}" "${flags[@]}" --exit-interval 60
  expect_exit 0 run_in spike$flag "${SMALL[@]}" "${flags[@]}" --exit-interval 102
  grep -q 'times the largest' err && fail "$flag: warns without a spike"
  [ $flag != --check-for-spiky-loss ] || flags+=(--rerun-mode validate_results)
  expect_exit 0 run_in spike$flag "${SMALL[@]}" "${flags[@]}" --lr 1000 --override-opt_param-scheduler --clip-grad 0
  mv err spikes
  case $flag in
    none) grep -q 'times the largest' spikes && fail 'warns of spikes without a flag' ;;
    --check-for-spiky-loss) expect_text spikes '^mtl-train: warning: iteration 10[4-6]: the loss, .*, is [0-9.]+ times the largest of the first 100 steps, .*, also when computed again; .*--iterations-to-skip 10[4-6]$' ;;
    *) expect_text spikes '^mtl-train: warning: iteration 10[4-6]: the gradient norm, .*, is [0-9.]+ times the largest of the first 100 steps, ' ;;
  esac
done

# --- --skip-train: validates and tests as at the end of a run, and changes nothing ---
LENGTH=(--train-iters 6 --eval-interval 100 --log-interval 2)
expect_exit 0 run_in ended
state() { (cd ended && find . -printf '%p %s %T@\n' | sort && find . -type f -exec sha256sum {} +); }
state >before
for from in --save --load; do
  expect_exit 0 mtl-train "${MODEL[@]}" "${LENGTH[@]}" $from ended/save --skip-train --log-jsonl skip.jsonl
  state | diff before - || fail "--skip-train $from changes the folder"
  for type in validation test; do
    [ "$(grep "\"type\": \"$type\"" skip.jsonl)" = "$(grep "\"type\": \"$type\"" ended/log.jsonl)" ] || fail "--skip-train $from: another $type"
  done
  grep -q '"type": "step"' skip.jsonl && fail '--skip-train trains'
  rm skip.jsonl
done
expect_exit 0 mpirun --oversubscribe -n 2 "$BIN/mtl-train" "${MODEL[@]}" "${LENGTH[@]}" --threads 1 --load ended/save --skip-train \
  --pipeline-model-parallel-size 2 --log-jsonl skip.jsonl
for file in skip ended/log; do grep -E '"type": "(validation|test)"' $file.jsonl | metrics /dev/stdin >"$(basename $file).metrics"; done
mtl_compare near skip.metrics log.metrics --relative 1e-6 --count 2 || fail '--skip-train on two ranks: other losses'
# Of a run that has validated before and could go on, too: the first samples of the set.
LENGTH=(--train-iters 6 --eval-interval 2 --log-interval 2)
expect_exit 0 run_in ended2 --exit-interval 4
expect_exit 0 mtl-train "${MODEL[@]}" "${LENGTH[@]}" --load ended2/save --skip-train
expect_text out '^ validation loss at iteration 4 on validation set \| .* validation samples 1 to 8 '
grep -q 'iteration  *5/' out && fail '--skip-train trains'
LENGTH=(--train-iters 6 --eval-interval 100 --log-interval 2)
expect_exit 2 mtl-train "${MODEL[@]}" "${LENGTH[@]}" --load ended/save --skip-train --eval-iters 0
expect_text err '--skip-train  needs validation: --eval-iters above 0'
expect_exit 0 mtl-train "${MODEL[@]}" "${LENGTH[@]}" --save mistyped --skip-train
expect_text err '^mtl-train: warning: no model is loaded: --skip-train evaluates random weights$'

# --- The norm of the parameters and the zeros of the gradient are those of the model, in every layout ---
# shellcheck disable=SC2054 # the comma belongs to a flag's value
MODEL+=(--normalization RMSNorm --position-embedding-type rope --swiglu --disable-bias-linear --untie-embeddings-and-output-weights
  --global-batch-size 8
  --hidden-dropout 0 --attention-dropout 0 --eval-iters 0)
LENGTH=(--train-iters 4 --log-interval 1 --log-params-norm --log-num-zeros-in-grad)
ranks 1 one
values one params_norm >params
values one num_zeros >zeros
[ "$(wc -l <params)" -eq 4 ] || fail 'not four norms of the parameters'
awk '$2 < 1000 || $2 % 32 { exit 1 }' zeros || fail "the zeros are not those of tokens that do not occur: $(xargs <zeros)"
while IFS=: read -r count name flags; do
  # shellcheck disable=SC2086 # words
  ranks "$count" "$name" $flags
  mtl_compare near params <(values "$name" params_norm) --relative 1e-6 --count 4 || fail "$name: another norm of the parameters"
  diff zeros <(values "$name" num_zeros) || fail "$name: other zeros in the gradient"
done <<'END'
1:padded:--make-vocab-size-divisible-by 600
4:tensor:--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --make-vocab-size-divisible-by 300
2:zero1:--zero-stage 1 --overlap-grad-reduce --overlap-param-gather
4:zero3:--zero-stage 3 --pipeline-model-parallel-size 1
2:context:--context-parallel-size 2 --micro-batch-size 4
END
# A tied table counts once, also on two stages that each have a copy.
UNTIED=("${MODEL[@]}")
MODEL=()
for flag in "${UNTIED[@]}"; do [ "$flag" = --untie-embeddings-and-output-weights ] || MODEL+=("$flag"); done
ranks 1 tied
ranks 2 copies --pipeline-model-parallel-size 2
mtl_compare near <(values tied params_norm) <(values copies params_norm) --relative 1e-6 --count 4 || fail 'tied: another norm on two stages'
mtl_compare near params <(values tied params_norm) --relative 1e-3 --count 4 2>/dev/null && fail 'tied: the norm is that of two tables'
[ "$(values tied num_zeros | cut -d' ' -f2 | sort -u)" = 0 ] || fail 'tied: the output layer leaves no zeros'
MODEL=("${UNTIED[@]}")
# A 16-bit run sums the fp32 main weights, which the first update, with the rate 0, leaves as they began.
ranks 1 narrow --bf16
mtl_compare near <(head -1 params) <(values narrow params_norm | head -1) --relative 1e-12 || fail 'bf16: the norm is not that of the main weights'
# Only for lines of the log, and only if asked.
LENGTH=(--train-iters 4 --log-interval 3)
ranks 1 rare --log-params-norm
[ "$(values rare params_norm)" = "$(sed -n '3,4p' params)" ] || fail "lines with a norm: $(values rare params_norm | xargs)"
[ -z "$(values rare num_zeros)" ] || fail 'zeros are counted without the flag'
expect_text out '\| grad norm: [0-9.]+ \| params norm: [0-9.]+ \| number of skipped'
cmp -s rare/save/iter_0000004/shard_00000.safetensors one/save/iter_0000004/shard_00000.safetensors || fail 'logging changes the weights'
mkdir state
expect_exit 2 mtl-train "${MODEL[@]}" --train-iters 4 --bf16 --offload-optimizer state --log-params-norm
expect_text err '--log-params-norm  is not supported with --offload-optimizer in 16 bits'
finish
