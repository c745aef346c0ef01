#!/bin/bash
# Validation on whole sets: each sample counts once in every layout, and the loss is mtl-eval's.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/train_runs.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cd "$WORK" || exit 1
preprocess "$CORPUS" c
# held N TOKENS NAME: makes a set of one document, which mtl-train and mtl-eval cut at the same places.
held() {
  awk -v n="$1" -v seed="$2" 'BEGIN { srand(seed); printf "{\"text\": \""
    for (i = 0; i < n; ++i) printf "%s%d", i ? " " : "", rand() * 500; print "\"}" }' >"$3.jsonl"
  expect_exit 0 mtl-preprocess --input "$3.jsonl" --output-prefix "$3" --tokenizer-type NullTokenizer --vocab-size 512
}
held $((7 * 32 + 1)) 1 seven  # 7 samples, which no batch below divides
for range in 1-100 101-150 151-225; do  # the same tokens in three documents
  printf '{"text": "%s"}\n' "$(grep -oE '[0-9]+' seven.jsonl | sed -n "${range/-/,}p" | tr '\n' ' ')"
done >three.jsonl
expect_exit 0 mtl-preprocess --input three.jsonl --output-prefix three --tokenizer-type NullTokenizer --vocab-size 512
MODEL=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --max-position-embeddings 32
  --tokenizer-type NullTokenizer --vocab-size 512 --seq-length 32 --train-data-path c_text_document --lr 0.002
  --hidden-dropout 0.1 --attention-dropout 0.1 --peak-tflops 0.1 --threads 1)
LENGTH=(--train-iters 2 --eval-interval 1 --eval-iters 0 --log-interval 1)
SEVEN=(--valid-data-path seven_text_document --full-validation)

# validation_losses NAME: prints its validation losses, in the order of the log.
validation_losses() { awk "$VALUE"'/"type": "validation"/ { print value("loss") }' "$1/log.jsonl"; }
# loss_of CHECKPOINT PREFIX: prints mtl-eval's loss.
loss_of() { mtl-eval --load "$1" --data-path "$2" --seq-length 32 --json --quiet | awk "$VALUE"'{ print value("loss") }'; }

# Layouts and batches, on weights that do not change: the last batch lacks 1 to 9 samples, whole micro-batches of it, or
# all samples of a rank.
count=0
while read -r ranks flags; do
  rm -rf run
  # shellcheck disable=SC2086 # words
  expect_exit 0 mpirun --oversubscribe -n "$ranks" mtl-train "${MODEL[@]}" "${LENGTH[@]}" "${SEVEN[@]}" --lr 0 --save run/save \
    --log-jsonl run/log.jsonl $flags </dev/null
  validation_losses run >losses
  [ "$(wc -l <losses) $(uniq losses | wc -l)" = '3 1' ] || fail "validations of the same weights differ with $flags: $(<losses)"
  expect_near "$(head -1 losses)" "$(loss_of run/save seven_text_document)" 1e-6
  [ "$(grep -c '| validation samples 1 to 7 |' out)" -eq 3 ] || fail "not all samples are read with $flags"
  count=$((count + 1))
done <<'END'
1 --micro-batch-size 2 --global-batch-size 4
1 --micro-batch-size 4 --global-batch-size 16
1 --micro-batch-size 1 --global-batch-size 7
1 --micro-batch-size 2 --global-batch-size 2 --dataloader-type cyclic
1 --micro-batch-size 2 --global-batch-size 4 --calculate-per-token-loss
1 --micro-batch-size 2 --global-batch-size 4 --data-order feistel --valid-data-path three_text_document
2 --micro-batch-size 2 --global-batch-size 8
2 --micro-batch-size 4 --global-batch-size 8 --zero-stage 3
2 --micro-batch-size 2 --tensor-model-parallel-size 2 --sequence-parallel
2 --micro-batch-size 2 --global-batch-size 8 --pipeline-model-parallel-size 2
2 --micro-batch-size 1 --global-batch-size 2 --context-parallel-size 2
4 --micro-batch-size 4 --global-batch-size 16
END
[ $count -eq 12 ] || fail "$count layouts instead of 12"

# Interrupted runs go on with the same losses, also from a run whose validations were batches.
MODEL+=(--micro-batch-size 2 --global-batch-size 4)
LENGTH=(--train-iters 6 --save-interval 2 --eval-interval 2 --log-interval 1 --eval-iters 0)
LAST=iter_0000006/shard_00000.safetensors
expect_exit 0 run_in whole "${SEVEN[@]}"
expect_exit 0 run_in cut "${SEVEN[@]}" --exit-interval 2
expect_exit 0 run_in cut "${SEVEN[@]}"
same_run cut whole 'a resume between full validations'
expect_near "$(validation_losses whole | tail -1)" "$(loss_of whole/save seven_text_document)" 1e-6
expect_exit 0 run_in changed --valid-data-path seven_text_document --eval-iters 1 --exit-interval 2
expect_exit 0 run_in changed "${SEVEN[@]}"
[ "$(validation_losses changed | tail -3)" = "$(validation_losses whole | tail -3)" ] ||
  fail 'full validations depend on the validations before'

# Several data sets are one set, of which each sample counts once, whatever the weights with which training reads them.
held $((5 * 32 + 20)) 2 five  # the last 19 tokens are no sample
held $((5 * 32 + 1)) 2 five_whole
BOTH=(--valid-data-path seven_text_document five_text_document --full-validation --lr 0)
expect_exit 0 run_in both "${BOTH[@]}"
expect_text out '\| validation samples 1 to 12 \|'
awk -v a="$(loss_of both/save seven_text_document)" -v b="$(loss_of both/save five_whole_text_document)" \
  'BEGIN { printf "%.9f\n", (7 * a + 5 * b) / 12 }' >mean
expect_near "$(validation_losses both | tail -1)" "$(<mean)" 1e-6
MODEL=("${MODEL[@]/--train-data-path/--data-path}")
ARGS=(--split 50,40,10 --full-validation --lr 0 --train-iters 2)
preprocess <(head -n 100 "$CORPUS") d
for words in '1 c_text_document 3 d_text_document' 'c_text_document d_text_document'; do
  rm -rf shares
  # shellcheck disable=SC2086
  expect_exit 0 run_in shares --data-path $words "${ARGS[@]}"
  validation_losses shares >>both.losses
done
[ "$(wc -l <both.losses) $(uniq both.losses | wc -l)" = '4 1' ] || fail "weights change a full validation: $(<both.losses)"

# What it would have to ignore, or cannot read, is refused.
expect_exit 2 run_in none --split 1,0,0 --full-validation
expect_text err '^  --full-validation +needs validation data; set the second weight of --split above 0$'
MODEL=("${MODEL[@]/--data-path/--train-data-path}")
expect_exit 2 run_in none --valid-data-path 1 seven_text_document --full-validation
expect_text err '^  --valid-data-path +has weights, but --full-validation reads every sample once; leave them out$'
expect_exit 2 run_in none --full-validation
expect_text err '^  --full-validation +needs validation data; add --valid-data-path$'
held 32 3 short
expect_exit 65 run_in none --valid-data-path short_text_document --full-validation
expect_text err 'short_text_document: the part for validation is shorter than a sample of 32 tokens; use more data, or'
expect_exit 2 mtl-train --num-layers 1 --hidden-size 8 --num-attention-heads 1 --seq-length 8 --vocab-size 9 --micro-batch-size 1 \
  --max-position-embeddings 8 --tokenizer-type NullTokenizer --mock-data --lr 1 --train-iters 1 --full-validation
expect_text err '^  --full-validation +needs a validation set, but --mock-data has no end; use --eval-iters$'
finish
