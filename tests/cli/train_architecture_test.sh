#!/bin/bash
# Architecture and recomputation flags change the parameter count, the plan and the losses.
source "$(dirname "$0")/lib.sh" "$1"
enter_data_folder

null=(--tokenizer-type NullTokenizer --vocab-size 512)
expect_exit 0 mtl-preprocess --input "$TESTS/golden/end_to_end/corpus.jsonl" --output-prefix a "${null[@]}" --append-eod
L=4 C=32 H=4 P=32 V=512
small=(--num-layers $L --hidden-size $C --num-attention-heads $H --max-position-embeddings $P --seq-length 32)

# --- Parameters, in mtl-train's plan and in mtl-topo's ---
# expect_parameters N FLAG...: with these flags, the model has N parameters.
expect_parameters() {
  local want=$1
  shift
  expect_exit 0 mtl-train "${null[@]}" "$@" --dry-run --json
  expect_text out "\"parameters\": $want,"
  expect_exit 0 mtl-topo --world-size 1 --vocab-size $V "$@" --format json
  expect_text out "\"parameters\": $want,"
}
qkv=$((3 * C * C)) out=$((C * C)) ffn=$((4 * C)) norms=$((2 * 2 * C))  # per layer, weights and norms
biases=$((3 * C + C + ffn + C))
ends=$((V * C + P * C + 2 * C))
plain=$((ends + L * (qkv + out + 2 * C * ffn + norms + biases)))
expect_parameters $plain "${small[@]}"
expect_parameters $((plain - L * biases)) "${small[@]}" --disable-bias-linear
expect_parameters $((plain - L * (biases - 3 * C))) "${small[@]}" --disable-bias-linear --add-qkv-bias
expect_parameters $((plain - (2 * L + 1) * C)) "${small[@]}" --normalization RMSNorm
expect_parameters $((plain - (2 * L + 1) * C + L * 2 * C / H)) "${small[@]}" --normalization RMSNorm --qk-layernorm
expect_parameters $((plain + V * C)) "${small[@]}" --untie-embeddings-and-output-weights
expect_parameters $((plain - P * C)) "${small[@]}" --position-embedding-type rope
expect_parameters $((plain - P * C)) "${small[@]}" --use-rotary-position-embeddings
width=64 # 4 x 32 x 2 / 3, rounded down to a multiple of 64
expect_parameters $((plain + L * (3 * C * width + 2 * width - 2 * C * ffn - ffn))) "${small[@]}" --swiglu
# Keys and values for two heads instead of four, and for one, which is Megatron-LM's default.
expect_parameters $((plain - L * (C + 1) * C)) "${small[@]}" --group-query-attention --num-query-groups 2
expect_parameters $((plain - L * (C + 1) * 3 * C / 2)) "${small[@]}" --group-query-attention
expect_parameters $((plain + L * (4 * C * C + 3 * C))) "${small[@]}" --kv-channels 16
expect_parameters 124439808 --model gpt2-124m --vocab-size 50257
[ -s err ] && fail 'a preset alone prints a message'
expect_parameters 494032768 --model qwen2.5-0.5b --vocab-size 151936
expect_exit 0 mtl-train --model 345m --num-layers 2 "${null[@]}" --dry-run
expect_text err '^mtl-train: --model 345m: --num-layers 2 in place of 24$'
expect_exit 2 mtl-train --model gpt5 "${null[@]}" --dry-run
expect_text err '^  --model gpt5 +is not a known model; choose one of gpt2-124m, .*, pythia-160m$'
expect_exit 0 mtl-train --model llama-30m --squared-relu "${null[@]}" --dry-run
expect_text err '^mtl-train: --model llama-30m: --squared-relu in place of --swiglu$'

# --- Contradictions are rejected ---
# expect_problem TEXT FLAG...: these flags are rejected with the message TEXT.
expect_problem() {
  local text=$1
  shift
  expect_exit 2 mtl-train "${small[@]}" "${null[@]}" --dry-run "$@"
  expect_text err "^  $text"
}
expect_problem '--swiglu +needs --ffn-hidden-size, .* is 0' --swiglu --hidden-size 20
expect_problem '--swiglu, --squared-relu +choose different activations' --swiglu --squared-relu
expect_problem '--window-size 4 +must be LEFT,0' --window-size 4
expect_problem '--rotary-seq-len-interpolation-factor 2, --use-rope-scaling +scale rotary' --use-rotary-position-embeddings \
  --use-rope-scaling --rotary-seq-len-interpolation-factor 2
expect_problem '.*norms of queries and keys are RMSNorm; they need' --qk-layernorm
expect_problem '--num-query-groups 2 +is not a multiple of --tensor-model-parallel-size 4' --group-query-attention \
  --num-query-groups 2 --tensor-model-parallel-size 4 --world-size 4
for tool in "mtl-train ${null[*]} --dry-run" "mtl-topo --vocab-size $V"; do  # with a preset too
  # shellcheck disable=SC2086
  expect_exit 2 $tool --model qwen3-0.6b --tensor-model-parallel-size 16 --world-size 16
  expect_text err '^  --num-query-groups 8 +is not a multiple of --tensor-model-parallel-size 16;'
done
expect_exit 2 mtl-train --load "$TESTS/golden/llama_model/mistral" --finetune --dry-run --seq-length 32 \
  --tokenizer-type NullTokenizer --vocab-size 200 --tensor-model-parallel-size 2 --world-size 2
expect_text err '^  --num-query-groups 1 +is not a multiple of --tensor-model-parallel-size 2;'
expect_problem '--recompute-granularity full +needs --recompute-method' --recompute-granularity full
expect_problem '--recompute-activations +requests selective recomputation, which contradicts' --recompute-activations --checkpoint-activations

# --- Losses ---
# losses FLAG...: prints the losses in four updates.
losses() {
  rm -f run.jsonl
  expect_exit 0 mtl-train "${small[@]}" "${null[@]}" --data-path a_text_document --split 90,8,2 --micro-batch-size 2 \
    --train-iters 4 --lr 0.01 --eval-iters 0 --log-interval 1 --threads 1 --peak-tflops 1 --log-jsonl run.jsonl \
    --init-method-std 0.2 "$@"
  grep -o '"lm_loss": [^,]*' run.jsonl
}
none=(--hidden-dropout 0 --attention-dropout 0)
rope=(--position-embedding-type rope)
declare -A seen=()
# expect_new_losses FLAG...: the losses differ from those with any flags tested before.
expect_new_losses() {
  local got
  got=$(losses "${none[@]}" "$@")
  [ "$(wc -l <<<"$got")" -eq 4 ] || fail "not four losses with $*"
  [ -z "${seen[$got]:-}" ] || fail "$* has the losses of ${seen[$got]}"
  seen[$got]="'$*'"
}
expect_new_losses
for flags in --parallel-residual '--window-size 3,0' '--window-size 4,0' --squared-relu '--activation relu' '--activation silu' \
  '--activation gelu_erf' --swiglu '--normalization RMSNorm' '--normalization RMSNorm --qk-layernorm' '--norm-epsilon 0.01' \
  --disable-bias-linear --untie-embeddings-and-output-weights '--group-query-attention --num-query-groups 2'; do
  # shellcheck disable=SC2086 # words
  expect_new_losses $flags
done
for flags in '' '--rotary-base 100' '--rotary-percent 0.5' --rotary-interleaved '--rotary-seq-len-interpolation-factor 4'; do
  # shellcheck disable=SC2086
  expect_new_losses "${rope[@]}" $flags
done
# In such a head, the slowest pair rotates once in 6283 positions. --use-rope-scaling interpolates in this range.
expect_new_losses "${rope[@]}" --rotary-base 1000000 --use-rope-scaling
expect_new_losses "${rope[@]}" --rotary-base 1000000 --use-rope-scaling --rope-scaling-factor 64
# With this base, the four pairs of a head turn between 5 times and a sixth of a time in 32 positions.
yarn=(--position-embedding-type yarn --rotary-base 100 --yarn-original-max-position-embeddings 32)
expect_new_losses "${yarn[@]}" --rotary-scaling-factor 4
for flags in '--yarn-original-max-position-embeddings 16' '--yarn-beta-fast 1' '--yarn-beta-slow 0.25' '--mscale 2' \
  '--mscale-all-dim 0.5' --no-yarn-correction-range-round-to-int; do
  # shellcheck disable=SC2086
  expect_new_losses "${yarn[@]}" --rotary-scaling-factor 4 $flags
done
expect_new_losses "${rope[@]}" --rope-parameters '{"rope_type": "dynamic", "factor": 4}' --max-position-embeddings 16
[ "$(losses "${none[@]}" "${yarn[@]}" --rotary-scaling-factor 4 --yarn-correction-range-round-to-int)" = \
  "$(losses "${none[@]}" "${rope[@]}" --rope-parameters '{"rope_type": "yarn", "rope_theta": 100, "factor": 4, "original_max_position_embeddings": 32}')" ] ||
  fail '--position-embedding-type yarn and --rope-parameters have different losses'
[ "$(losses "${none[@]}" --no-bias-gelu-fusion)" = "$(losses "${none[@]}" --activation gelu_erf)" ] ||
  fail '--no-bias-gelu-fusion and --activation gelu_erf have different losses'
[ "$(losses "${none[@]}" --no-bias-gelu-fusion --openai-gelu)" = "$(losses "${none[@]}")" ] ||
  fail '--openai-gelu has other losses than the default, the tanh form'

# --- Recomputation: the same losses, dropout included, and a smaller plan ---
expected=$(losses)
# activation_bytes COMMAND FLAG...: prints the size of the activations in mtl-train's or mtl-topo's plan.
activation_bytes() {
  expect_exit 0 "$1" "${small[@]}" "${@:2}"
  grep -oE '"activations": [0-9]+' out | grep -oE '[0-9]+' | head -1
}
train_plan=(mtl-train "${null[@]}" --dry-run --json)
topo_plan=(mtl-topo --world-size 1 --vocab-size $V --format json)
for tool in train topo; do
  declare -n plan=${tool}_plan
  all=$(activation_bytes "${plan[@]}")
  for flags in '--recompute-granularity selective' --recompute-activations '--recompute-granularity full --recompute-method uniform' \
    '--recompute-granularity full --recompute-method uniform --recompute-num-layers 2' --checkpoint-activations \
    '--recompute-granularity full --recompute-method block --recompute-num-layers 3' '--activations-checkpoint-method block' \
    '--checkpoint-activations --checkpoint-num-layers 2' '--activations-checkpoint-method uniform --activations-checkpoint-num-layers 2'; do
    # shellcheck disable=SC2086
    below "$(activation_bytes "${plan[@]}" $flags)" "$all" ||
      fail "mtl-$tool $flags: the plan does not have fewer bytes of activations"
    [ $tool = topo ] && continue
    # shellcheck disable=SC2086
    [ "$(losses $flags)" = "$expected" ] || fail "$flags: different losses"
  done
done
# Flags used by Megatron-LM and Megatron-DeepSpeed scripts.
for flags in '--checkpoint-activations --deepspeed-activation-checkpointing' \
  '--sequence-parallel --recompute-activations' '--sequence-parallel --use-flash-attn --recompute-granularity selective'; do
  # shellcheck disable=SC2086
  [ "$(losses $flags)" = "$expected" ] || fail "$flags: different losses"
done
expect_exit 0 mtl-train "${small[@]}" "${null[@]}" --dry-run --deepspeed-activation-checkpointing
expect_text err '^mtl-train: --deepspeed-activation-checkpointing has no effect, because --checkpoint-activations alone recomputes$'
expect_exit 0 mtl-train "${small[@]}" "${null[@]}" --dry-run --json --checkpoint-activations
grep -qE '"recompute_saves_bytes": [1-9]' out || fail 'the dry run does not report how many bytes recomputation saves'
expect_exit 0 mtl-train "${small[@]}" "${null[@]}" --dry-run --checkpoint-activations
expect_text out '^  saved by recomputation +[1-9]'
finish
