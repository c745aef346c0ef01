#!/bin/bash
# Precision: presets and single dtypes; fp16's loss scale with skipped iterations, its minimum and its resume; lost
# updates in every log.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/metrics.sh"
export OMP_WAIT_POLICY=passive
cd "$WORK" || exit 1
expect_exit 0 mtl-preprocess --input "$TESTS/golden/end_to_end/corpus.jsonl" --output-prefix c --tokenizer-type NullTokenizer \
  --vocab-size 512 --append-eod
tiny=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --max-position-embeddings 32 --seq-length 32 --tokenizer-type NullTokenizer
  --vocab-size 512 --micro-batch-size 2 --global-batch-size 4 --lr 0.002 --lr-decay-style constant --threads 1)
# train NAME FLAG...: runs 12 iterations, with a checkpoint every 4 iterations. Writes NAME.jsonl, NAME.out and NAME.ck.
train() {
  local name=$1
  shift
  mtl-train "${tiny[@]}" --data-path c_text_document --split 90,8,2 --train-iters 12 --save-interval 4 --eval-iters 0 \
    --log-interval 1 --peak-tflops 1 --save "$name.ck" --log-jsonl "$name.jsonl" "$@" >"$name.out" 2>err
}
# run NAME FLAG...: trains from the start, which must succeed.
run() {
  rm -rf "$1".*
  train "$@" || { fail "exit $?: $*"; sed 's/^/    /' err >&2; }
}
# values NAME KEY: prints KEY's values in all step lines. words prints them on one line.
values() { grep '"type": "step"' "$1.jsonl" | awk "$VALUE"'{ text = value("'"$2"'"); if (text != "") print text }'; }
words() { values "$@" | xargs; }
# same_end NAME OTHER: the last checkpoints have the same bits and the same training state.
same_end() {
  expect_same "$1.ck/iter_0000012/shard_00000.safetensors" "$2.ck/iter_0000012/shard_00000.safetensors"
  for key in loss_scale skipped_iterations growth_tracker hysteresis_tracker optimizer_steps; do
    [ "$(state "$1" $key)" = "$(state "$2" $key)" ] || fail "$key of $1 is $(state "$1" $key), of $2 $(state "$2" $key)"
  done
}
# state NAME KEY: prints KEY and its value from iteration 12's manifest.
state() { tr -d ' \n' <"$1.ck/iter_0000012/manifest.json" | grep -oE "\"$2\":[0-9.e+-]+" | head -1; }

# --- A run's table, and its bytes per parameter, role by role. Memory is planned accordingly ---
# roles FLAG...: prints dtype and bytes for weights, main gradients, main weights, first and second moments, and the
# sum.
roles() {
  expect_exit 0 mtl-train "${tiny[@]}" --dry-run "$@"
  awk '/, [0-9]+ bytes per parameter/ { sub(",", ""); for (i = 1; i <= NF; i++) if ($i == "bytes") printf "%s ", $(i - 2) $(i - 1) }
       /^  bytes per parameter on a rank/ { print $NF }' out
}
expect_roles() {
  local want=$1 got
  shift
  got=$(roles "$@")
  [ "$got" = "$want" ] || fail "roles '$got' instead of '$want': $*"
}
expect_roles 'fp324 fp324 fp324 fp324 16'
expect_roles 'bf162 fp324 fp324 fp324 fp324 18' --bf16
expect_text out '^  mode +load +mixed precision +local preparation +training +optimizer$'
expect_text out '^  bf16 +fp32 +bf16 +fp32 +bf16 +fp32$'
expect_roles 'fp162 fp324 fp324 fp324 fp324 18' --fp16
expect_text out '^  fp16 +fp32 +fp16 +fp32 +fp16 +fp32$'
expect_roles 'bf162 bf162 bf162 bf162 8' --precision fsdp-low
expect_text out '^  fsdp-low +bf16 +none +bf16 +bf16 +bf16$'
expect_roles 'bf162 bf162 fp324 fp324 fp324 16' --precision fsdp-mixed
expect_text out '^  fsdp-mixed +bf16 +bf16 +fp32 +bf16 +fp32$'
expect_roles 'bf162 fp324 fp324 fp324 fp324 18' --precision deepspeed
expect_text out '^  deepspeed +bf16 +bf16 +fp32 +bf16 +fp32$'
expect_roles 'bf162 bf162 fp324 fp324 fp324 16' --bf16 --main-grads-dtype bf16
expect_text out '^  bf16, changed +fp32 +bf16 +fp32 +bf16 +fp32$'
expect_roles 'bf162 bf162 fp324 fp324 fp324 16' --bf16 --grad-reduce-in-bf16
expect_roles 'bf162 fp324 fp324 fp324 14' --bf16 --main-params-dtype bf16
expect_roles 'bf162 fp324 bf162 fp324 fp324 16' --bf16 --exp-avg-dtype bf16
expect_roles 'bf162 fp324 fp324 bf162 fp324 16' --bf16 --exp-avg-sq-dtype bf16
expect_text out '^  bf16, changed .* fp32, bf16$'
expect_roles 'bf162 fp324 fp324 fp324 fp324 12' --bf16 --use-distributed-optimizer --world-size 2
expect_text out '^  main weights +fp32, 4 bytes per parameter, sharded over 2 ranks$'
# Megatron-LM's GPT-2 124M, and each role's memory: slightly more than bytes per parameter times parameters.
shape=(--model gpt2-124m --tokenizer-type NullTokenizer --vocab-size 50257 --threads 1)
while read -r flags parameters gradients optimizer main total; do
  # shellcheck disable=SC2086 # words
  expect_exit 0 mtl-train "${shape[@]}" --dry-run --json ${flags//,/ }
  expect_text out "\"bytes_per_parameter\": $total\.0\$"
  for role in "parameters $parameters" "gradients $gradients" "optimizer $optimizer" "main_weights $main"; do
    [ "${role#* }" = 0 ] && continue
    bytes=$(grep -A12 '"memory_bytes"' out | awk -v key="\"${role% *}\":" '$1 == key { sub(",", "", $2); print $2; exit }')
    expect_near "$bytes" $((${role#* } * 124439808)) 1e-3
  done
  saved=$(awk '$1 == "\"checkpoint_bytes\":" { sub(",", "", $2); print $2 }' out)
  expect_near "$saved" $((((main > 0 ? main : parameters) + optimizer) * 124439808)) 1e-9
done <<'END_OF_MODES'
--bf16 2 4 8 4 18
--bf16,--main-grads-dtype,bf16 2 2 8 4 16
--precision,fsdp-low 2 2 4 0 8
END_OF_MODES

# --- Contradictions, and unsupported dtypes ---
# expect_problem PATTERN FLAG...: these flags have one problem, which matches PATTERN.
expect_problem() {
  local pattern=$1
  shift
  expect_exit 2 mtl-train "${tiny[@]}" --dry-run "$@"
  expect_text err "^mtl-train: 1 problem "
  expect_text err "^  $pattern"
}
expect_problem '--fp16 +excludes --bf16' --fp16 --bf16
expect_problem '--precision deepspeed +excludes --bf16' --precision deepspeed --bf16
expect_problem '--main-params-dtype bf16 +needs --bf16' --fp16 --main-params-dtype bf16
expect_problem '--main-grads-dtype bf16 +needs --bf16' --main-grads-dtype bf16
expect_problem '--exp-avg-dtype fp8 +is not supported .*range is too small' \
  --bf16 --exp-avg-dtype fp8
expect_problem '--exp-avg-sq-dtype fp16 +is not supported .*range is too small' \
  --bf16 --exp-avg-sq-dtype fp16
expect_problem '--accumulate-allreduce-grads-in-fp32 +contradicts --grad-reduce-in-bf16' \
  --bf16 --accumulate-allreduce-grads-in-fp32 --grad-reduce-in-bf16
expect_problem '--fp32-allreduce +contradicts --precision fsdp-mixed' \
  --precision fsdp-mixed --fp32-allreduce
expect_problem '--stochastic-rounding +needs main weights in bf16' --bf16 --stochastic-rounding
expect_problem '--fp16-lm-cross-entropy +is not supported in this version, which computes losses in fp32' \
  --fp16 --fp16-lm-cross-entropy
expect_problem '--bf16-logits +needs layers that compute in bf16' --bf16-logits
expect_problem '--bf16-logits +needs layers that compute in bf16' --fp16 --bf16-logits
expect_problem '--initial-loss-scale 2 +is below --min-loss-scale 4' --fp16 --initial-loss-scale 2 --min-loss-scale 4

# --- bf16: close to the fp32 losses, resumed bit for bit, rejected in another precision ---
run fp32
run bf16 --bf16
[ "$(values bf16 lm_loss | wc -l)" -eq 12 ] || fail 'bf16: not 12 losses'
mtl_compare near <(values fp32 lm_loss) <(values bf16 lm_loss) --relative 0.01 ||
  fail 'the losses of bf16 are far from those of fp32'
[ "$(words bf16 lm_loss)" != "$(words fp32 lm_loss)" ] || fail 'bf16 has the losses of fp32'
[ "$(values bf16 loss_scale | sort -u)" = "$(values fp32 loss_scale | sort -u)" ] ||
  fail 'bf16 has another loss scale than fp32'
expect_text bf16.out ' lost updates: 0\.0% \| lost updates of the copy: [0-9.]+% \|'
[ -z "$(values fp32 lost_updates)" ] || fail 'fp32 reports lost updates'
expect_text bf16.jsonl '"precision": "bf16"'
# expect_same_resumed NAME FLAG...: if resumed from iteration 8, the run ends with the same bits.
expect_same_resumed() {
  local name=$1
  shift
  rm -rf again.*
  cp -r "$name.ck" again.ck && rm -r again.ck/iter_0000012
  train again "$@" || fail "$name: exit $? when resumed: $(cat err)"
  same_end again "$name"
  [ "$(words again lm_loss)" = "$(values "$name" lm_loss | tail -4 | xargs)" ] ||
    fail "$name: different losses when resumed"
}
expect_same_resumed bf16 --bf16
cp -r bf16.ck other.ck
train other && fail 'a run in bf16 is resumed in fp32'
expect_text err '^  --precision fp32 +is not the precision of other.ck/iter_0000012 \(compute bfloat16, not float32; residual .*; .*that run.s flags'
train other --precision fsdp-mixed && fail 'a run in bf16 is resumed with other main gradients'
expect_text err '^  --precision fsdp-mixed +is not the precision of .* \(main_grads float32, not bfloat16\)'
train other --bf16 --bf16-logits && fail 'a run with logits in fp32 is resumed with logits in bf16'
expect_text err '^  --bf16, --bf16-logits +are not the precision of .* \(logits float32, not bfloat16\)'
rm -rf tuned.*
train tuned --load bf16.ck --finetune || fail "--finetune in another precision: $(cat err)"
expect_text err 'starting from the weights of the checkpoint'
# A run does not resume from main weights that mtl-convert has rounded.
rm -rf same.* rounded.*
expect_exit 0 mtl-convert --load bf16.ck/iter_0000008 --save same.ck --to mtl --dtype float32
train same --bf16 || fail "a checkpoint whose main weights were not rounded is not resumed: $(cat err)"
expect_exit 0 mtl-convert --load bf16.ck/iter_0000008 --save rounded.ck --to mtl --dtype bfloat16
train rounded --bf16 && fail 'a run with fp32 main weights is resumed from rounded ones'
expect_text err '^  --bf16 +is not the precision of rounded.ck.* \(main_params bfloat16, not float32\)'
run fp32
expect_exit 0 mtl-convert --load fp32.ck/iter_0000008 --save rounded32.ck --to mtl --dtype float16
train rounded32 && fail 'a run in fp32 is resumed from weights in float16'
expect_text err 'main_params float16, not float32'

# --- A Llama: gated MLP, RMSNorm, rotary positions, grouped queries ---
llama=(--swiglu --normalization RMSNorm --disable-bias-linear --position-embedding-type rope --untie-embeddings-and-output-weights
  --group-query-attention --num-query-groups 2 --qk-layernorm)
run llama "${llama[@]}"
for flags in --bf16 '--fp16 --loss-scale 1024'; do
  # shellcheck disable=SC2086 # words
  run llama16 "${llama[@]}" $flags
  mtl_compare near <(values llama lm_loss) <(values llama16 lm_loss) --relative 0.01 ||
    fail "a Llama with $flags has losses far from those of fp32"
  [ "$(words llama lm_loss)" != "$(words llama16 lm_loss)" ] || fail "a Llama with $flags has the losses of fp32"
done

# --- Lost updates in bf16 weights without main weights, and with stochastic rounding ---
run low --precision fsdp-low
expect_same_resumed low --precision fsdp-low
below 0.001 "$(values low lost_updates | tail -1)" || fail 'fsdp-low reports no lost updates'
[ -z "$(values low lost_updates_copy)" ] || fail 'fsdp-low reports lost updates of a copy, which it lacks'
# Checkpoints contain main weights if there are any, and everything else in its dtype.
for name in bf16:float32 low:bfloat16; do
  expect_exit 0 mtl-convert --load ${name%:*}.ck --save ${name%:*}.hf --verify
  expect_text ${name%:*}.hf/config.json "\"dtype\": \"${name#*:}\""
  expect_exit 0 mtl-convert --load ${name%:*}.ck --save ${name%:*}.mtl --to mtl --verify
  expect_same <(grep -c '"dtype": "BF16"' ${name%:*}.mtl/iter_0000012/manifest.json) \
    <(grep -c '"dtype": "BF16"' ${name%:*}.ck/iter_0000012/manifest.json)
  rm -rf ${name%:*}.hf ${name%:*}.mtl
done
run rounded --precision fsdp-low --stochastic-rounding
expect_same_resumed rounded --precision fsdp-low --stochastic-rounding
[ "$(words rounded lm_loss)" != "$(words low lm_loss)" ] || fail '--stochastic-rounding has no effect'
for flags in '--fp32-residual-connection' '--bf16-logits' '--main-grads-dtype bf16' '--exp-avg-dtype bf16' '--exp-avg-sq-dtype bf16' '--main-params-dtype bf16'; do
  # shellcheck disable=SC2086 # words
  run changed --bf16 $flags
  [ "$(words changed lm_loss)" != "$(words bf16 lm_loss)" ] || fail "$flags has no effect"
done

# --- fp16: on overflow, the scale falls, the iteration is skipped, and the learning rate does not advance ---
scale=(--fp16 --initial-loss-scale 4294967296 --loss-scale-window 3)
run fp16 "${scale[@]}" --lr-warmup-iters 6 --train-iters 24
skipped=$(values fp16 skipped_iterations | paste -sd+ | bc)
[ "$skipped" -ge 3 ] || fail "fp16: only $skipped skipped iterations"
[ "$(values fp16 nan_iterations | sort -u)" = 0 ] || fail 'fp16: an overflow counts as a NaN iteration'
[ "$(values fp16 lm_loss | wc -l)" -eq $((24 - skipped)) ] ||
  fail 'fp16: not one loss for each iteration that was not skipped'
grep -q 'not finite' err && fail 'fp16: warns of an overflow that a lower scale avoids'
# A line shows its step's scale. The hysteresis absorbs the first overflow, and each further overflow halves the scale.
[ "$(words fp16 loss_scale | cut -d' ' -f1-4)" = '4294967296.0 4294967296.0 2147483648.0 1073741824.0' ] || fail "scales: $(words fp16 loss_scale)"
expect_text fp16.out ' loss scale: 2147483648\.0 \| '
values fp16 loss_scale | awk 'NR > 1 && $1 > seen { grew = 1 } { seen = $1 } END { exit !grew }' || fail "the scale never grows: $(words fp16 loss_scale)"
# Only updates advance the warm-up: the first update has the first step's rate.
paste -d' ' <(values fp16 skipped_iterations) <(values fp16 learning_rate) |
  awk '{ want = 0.002 * (updates < 6 ? updates / 6 : 1); if (($2 - want)^2 > 1e-16) bad = 1 } !$1 { updates++ } END { exit bad }' ||
  fail 'fp16: skipped iterations advance the learning-rate schedule'
# A resumed run continues with the scale, its counters and the learning-rate schedule, which skipped iterations did not
# advance. The checkpoint lies between two changes of the scale.
lower_scale=(--fp16 --initial-loss-scale 33554432 --loss-scale-window 3 --lr-decay-style linear)
run fp16 "${lower_scale[@]}"
values fp16 loss_scale | tail -4 | uniq | wc -l | grep -qx 1 &&
  fail "the scale does not change after iteration 8: $(words fp16 loss_scale)"
expect_same_resumed fp16 "${lower_scale[@]}"
[ "$(state fp16 skipped_iterations)" = "\"skipped_iterations\":$(values fp16 skipped_iterations | paste -sd+ | bc)" ] ||
  fail "the state has $(state fp16 skipped_iterations), the log $(words fp16 skipped_iterations)"
# A report of iterations before and after the resume has the figures of both.
run fp16 "${lower_scale[@]}" --log-interval 12
rm -rf again.*
cp -r fp16.ck again.ck && rm -r again.ck/iter_0000012
train again "${lower_scale[@]}" --log-interval 12 || fail "exit $? within a log interval: $(cat err)"
for key in lm_loss skipped_iterations lost_updates lost_updates_copy; do
  [ "$(values again $key)" = "$(values fp16 $key | tail -1)" ] ||
    fail "$key is $(values again $key) when resumed, not $(values fp16 $key | tail -1)"
done
run constant --fp16 --loss-scale 128
[ "$(values constant loss_scale | sort -u)" = 128.0 ] || fail "--loss-scale 128: $(words constant loss_scale)"
[ "$(values constant skipped_iterations | sort -u)" = 0 ] || fail '--loss-scale 128: skipped iterations'
mtl_compare near <(values fp32 lm_loss) <(values constant lm_loss) --relative 0.002 ||
  fail 'the losses of fp16 are far from those of fp32'
run other_scale --fp16 --loss-scale 1024
mtl_compare near <(values constant lm_loss) <(values other_scale lm_loss) --relative 1e-4 || fail 'the loss scale changes the losses'
# If the scale cannot fall, an overflow is reported with its tensors.
run overflow --fp16 --loss-scale 1e38 --train-iters 1 --no-check-for-nan-in-loss-and-grad
expect_text err '^mtl-train: warning: iteration 1: the gradient is not finite; no update was made$'
expect_text err '^  embedding.tokens.weight, embedding.positions.weight, layers.0.norm1.weight and 25 more$'
# --hysteresis: the scale falls at the first overflow.
run first --fp16 --hysteresis 1
[ "$(words first loss_scale | cut -d' ' -f1-3)" = '4294967296.0 2147483648.0 1073741824.0' ] || fail "--hysteresis 1: $(words first loss_scale)"

# --- Overflow at the smallest scale: the run saves, reports the reason and ends ---
rm -rf end.*
train end --fp16 --initial-loss-scale 4294967296 --min-loss-scale 2147483648
status=$?
[ $status -eq 1 ] || fail "exit $status at the smallest loss scale"
expect_text err '^mtl-train: warning: iteration 3: the gradient is not finite; no update was made$'
expect_text err '^mtl-train: iteration 3: the gradient is not finite in fp16, and the loss scale is at its minimum, 2147483648; the state is saved\.'
[ -e end.ck/iter_0000003/manifest.json ] || fail 'not saved at the smallest loss scale'
[ "$(values end skipped_iterations | xargs)" = '1 1 1' ] ||
  fail "not three skipped iterations before the end: $(words end skipped_iterations)"
train end --fp16 --initial-loss-scale 4294967296 || fail "a smaller --min-loss-scale does not continue: $(cat err)"

# --- Multiple ranks: all agree on overflows and sum their lost updates ---
mpirun=(mpirun --oversubscribe -n 2 mtl-train)
while IFS=: read -r precision layout; do
  flags="$precision $layout"
  rm -rf ranks.* single.*
  # shellcheck disable=SC2086 # words
  expect_exit 0 "${mpirun[@]}" "${tiny[@]}" --data-path c_text_document --split 90,8,2 --train-iters 12 --eval-iters 0 --log-interval 1 \
    --peak-tflops 1 --save ranks.ck --log-jsonl ranks.jsonl $flags
  # shellcheck disable=SC2086 # words
  run single $precision
  [ "$(values ranks lm_loss | wc -l)" -ge 1 ] || fail "no losses on two ranks: $flags"
  [ "$(words ranks skipped_iterations)" = "$(words single skipped_iterations)" ] || fail "two ranks skip different iterations: $flags"
  mtl_compare near <(values single lm_loss) <(values ranks lm_loss) --relative 0.01 ||
    fail "the losses of two ranks are far from those of one: $flags"
  mtl_compare near <(values single lost_updates_copy) <(values ranks lost_updates_copy) --relative 0.1 || fail "two ranks lose different updates: $flags"
done <<'END_OF_LAYOUTS'
--fp16 --initial-loss-scale 33554432:
--bf16:--use-distributed-optimizer
--bf16:--tensor-model-parallel-size 2
END_OF_LAYOUTS
rm -rf ranks.*
expect_exit 1 "${mpirun[@]}" "${tiny[@]}" --data-path c_text_document --split 90,8,2 --train-iters 12 --eval-iters 0 --save ranks.ck \
  --peak-tflops 1 --fp16 --min-loss-scale 2147483648
expect_text err '^mtl-train: rank 0 .*: iteration 3: the gradient is not finite in fp16, and the loss scale is at its minimum, 2147483648; the state is saved\.'
[ -e ranks.ck/iter_0000003/manifest.json ] || fail 'two ranks: not saved at the smallest loss scale'
finish
