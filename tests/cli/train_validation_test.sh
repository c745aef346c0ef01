#!/bin/bash
# Validation on whole sets: each sample counts once in every layout, and the loss is mtl-eval's, also of several sets.
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
  printf '{"text": "%s"}\n' "$(grep -oE '[0-9]+' seven.jsonl | sed -n "${range/-/,}p" | paste -sd ' ')"
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

# Several data sets are one set, of which each sample counts once.
held $((5 * 32 + 20)) 2 five  # the last 19 tokens are no sample
held $((5 * 32 + 1)) 2 five_whole
BOTH=(--valid-data-path seven_text_document five_text_document --full-validation --lr 0)
expect_exit 0 run_in both "${BOTH[@]}"
expect_text out '\| validation samples 1 to 12 \|'
awk -v a="$(loss_of both/save seven_text_document)" -v b="$(loss_of both/save five_whole_text_document)" \
  'BEGIN { printf "%.9f\n", (7 * a + 5 * b) / 12 }' >mean
expect_near "$(validation_losses both | tail -1)" "$(<mean)" 1e-6
# Losses of their own, by number or by name, in every log.
SETS=("${BOTH[@]}" --multiple-validation-sets)
set_losses() { awk "$VALUE"'/"type": "validation"/ && /"iteration": 6,/ && /"final"/ { print value("set"), value("loss") }' "$1/log.jsonl"; }
expect_exit 0 run_in sets "${SETS[@]}"
set_losses sets >got
printf '0 %s\n1 %s\n' "$(loss_of sets/save seven_text_document)" "$(loss_of sets/save five_whole_text_document)" >want
expect_near_lines got want 'losses of sets' 1e-6 2
expect_text out '^ validation-1 loss at iteration 2 \| lm loss value: .* \| validation samples 1 to 5 \| $'
sed 's/^0/web/; s/^1/my-books/' want >named
for ranks in 1 2; do
  rm -rf names
  expect_exit 0 mpirun --oversubscribe -n $ranks mtl-train "${MODEL[@]}" "${LENGTH[@]}" "${SETS[@]}" --validation-set-names web 'my-books' \
    --save names/save --log-jsonl names/log.jsonl --tensorboard-dir names --pipeline-model-parallel-size $ranks
  set_losses names >got
  expect_near_lines got named "names of sets on $ranks ranks" 1e-6 2
done
expect_text out '^ validation-my-books loss at iteration 6 on validation set \| lm loss value: '
grep -aq 'lm loss validation-my-books ppl vs samples' names/events* || fail 'TensorBoard has no tag for the set'
mtl-plot names/log.jsonl --json >plot.json
expect_text plot.json '"kind": "validation", "set": "web", "x": \[2.0, 4.0, 6.0\]'
mtl-plot <(cat out) --json | grep -oE '"set": "[a-z-]+", "x": [^]]+' >text.sets
grep -oE '"set": "[a-z-]+", "x": [^]]+' plot.json | cmp -s - text.sets || fail 'mtl-plot draws other sets from the terminal log'
expect_exit 2 run_in none "${SETS[@]}" --validation-set-names web
expect_text err '^  --validation-set-names web +has 1 name for 2 validation sets; give each its own$'
expect_exit 2 run_in none "${SETS[@]}" --validation-set-names web web
expect_text err '^  --validation-set-names web web +names two sets alike; give each its own name$'
for name in $'a\nb' $'a\xff' $'\e[31m'; do
  expect_exit 2 run_in none "${SETS[@]}" --validation-set-names web "$name"
  expect_text err '^  --validation-set-names web [^ ]+ +has control characters or invalid UTF-8, which would break the logs; leave them out$'
done

# Weights of --data-path.
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
expect_exit 65 run_in none --valid-data-path seven_text_document short_text_document --full-validation
expect_text err 'short_text_document: the part for validation is shorter than a sample of 32 tokens; use more data, or'
expect_exit 2 mtl-train --num-layers 1 --hidden-size 8 --num-attention-heads 1 --seq-length 8 --vocab-size 9 --micro-batch-size 1 \
  --max-position-embeddings 8 --tokenizer-type NullTokenizer --mock-data --lr 1 --train-iters 1 --full-validation
expect_text err '^  --full-validation +needs a validation set, but --mock-data has no end; use --eval-iters$'
finish
