#!/bin/bash
# Every flag has an effect: covers the flags that no other test covers, and checks that every flag in any tool's --help
# appears in some test.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/metrics.sh"
export OMP_WAIT_POLICY=passive
cd "$WORK" || exit 1

# --- Tokenizers ---
# ids PREFIX: prints the tokens in its .bin on one line.
ids() { od -An -v -tu2 -w2 "$1_text_document.bin" | tr -s '\n ' ' ' | sed 's/^ //; s/ $//'; }
# expect_ids WANT FLAG...: with these flags, text.jsonl has the ids WANT.
expect_ids() {
  local want=$1
  shift
  expect_exit 0 mtl-preprocess --input text.jsonl --output-prefix t --append-eod "$@"
  [ "$(ids t)" = "$want" ] || fail "ids '$(ids t)' instead of '$want': $*"
}
echo '{"text": "1 2"}' >text.jsonl
null=(--tokenizer-type NullTokenizer --vocab-size 100)
expect_ids '1 2 99' "${null[@]}"
expect_ids '1 2 7' "${null[@]}" --null-tokenizer-eod 7

# Ranks: the 256 bytes, then "oW".
for byte in $(seq 0 255); do echo "$(printf "\\x$(printf %02x "$byte")" | base64) $byte"; done >ranks.tiktoken
echo "$(printf oW | base64) 256" >>ranks.tiktoken
tiktoken=(--tokenizer-type TikTokenizer --tokenizer-model ranks.tiktoken)
echo '{"text": "oW"}' >text.jsonl  # o is 111, W is 87; pattern v2 splits before a capital
expect_ids '1111 1087 2' "${tiktoken[@]}" --vocab-size 1257
expect_ids '1256 2' "${tiktoken[@]}" --vocab-size 1257 --tiktoken-pattern v1
expect_ids '121 97 2' "${tiktoken[@]}" --vocab-size 267 --tiktoken-num-special-tokens 10
expect_ids '121 97 0' "${tiktoken[@]}" --vocab-size 267 --tiktoken-num-special-tokens 10 --tiktoken-special-tokens '</s>' '<s>' '<unk>'
expect_exit 0 mtl-preprocess --input text.jsonl --output-prefix t "${tiktoken[@]}" --vocab-size 257 --tiktoken-num-special-tokens 0 --tiktoken-special-tokens '</s>'
expect_text err '^mtl-preprocess: --tiktoken-special-tokens has no effect with --tiktoken-num-special-tokens 0'

# --tokenizer-hf-include-special-tokens puts <|begin_of_text|> before every text.
hf=(--tokenizer-type HuggingFaceTokenizer --tokenizer-model "$TESTS/golden/tokenizer/llama3_style_tokenizer.json")
echo '{"text": "a"}' >text.jsonl
expect_exit 0 mtl-preprocess --input text.jsonl --output-prefix without "${hf[@]}"
expect_exit 0 mtl-preprocess --input text.jsonl --output-prefix with "${hf[@]}" --tokenizer-hf-include-special-tokens
begin=$(tr -d '\n' <"$TESTS/golden/tokenizer/llama3_style_tokenizer.json" | grep -oE '"id": *[0-9]+,[^}]*"<\|begin_of_text\|>"' | grep -oE '[0-9]+' | head -1)
[ "$(ids with)" = "$begin $(ids without)" ] || fail "--tokenizer-hf-include-special-tokens: '$(ids with)', not '$begin $(ids without)'"

# --- Training ---
for name in a b; do
  expect_exit 0 mtl-preprocess --input "$TESTS/golden/end_to_end/corpus.jsonl" --output-prefix $name \
    --tokenizer-type NullTokenizer --vocab-size 512 --append-eod
done
expect_exit 0 mtl-preprocess --input <(tail -n 100 "$TESTS/golden/end_to_end/corpus.jsonl") --output-prefix b \
  --tokenizer-type NullTokenizer --vocab-size 512 --append-eod
# train NAME FLAG...: runs four iterations. Writes NAME.jsonl, and one checkpoint per iteration to NAME.ck.
train() {
  local name=$1
  shift
  rm -rf "$name".*
  expect_exit 0 mtl-train --num-layers 2 --hidden-size 32 --num-attention-heads 4 --max-position-embeddings 32 --seq-length 32 \
    --tokenizer-type NullTokenizer --vocab-size 512 --data-path a_text_document --split 90,8,2 --micro-batch-size 2 \
    --global-batch-size 2 --train-iters 4 --lr 0.001 --eval-iters 0 --log-interval 1 --threads 1 --peak-tflops 1 \
    --hidden-dropout 0 --attention-dropout 0 --save "$name.ck" --save-interval 1 --log-jsonl "$name.jsonl" "$@"
}
# values NAME KEY: prints KEY's values in the run's log.
values() { awk "$VALUE"'{ text = value("'"$2"'"); if (text != "") print text }' "$1.jsonl"; }
# weights NAME N: prints the path of its iteration N checkpoint.
weights() { printf '%s.ck/iter_%07d' "$1" "$2"; }
# compare_weights NAME N OTHER N: sets $same to "same" or "differ", and $moments to how much the first moments differ.
compare_weights() { read -r same _ _ moments _ <<<"$(mtl_compare_checkpoints "$(weights "$1" "$2")" "$(weights "$3" "$4")")"; }
# expect_rates WANT FLAG...: the iterations have the learning rates WANT.
expect_rates() {
  # shellcheck disable=SC2086 # words
  printf '%s\n' $1 >want.rates
  shift
  train rates "$@"
  values rates learning_rate >got.rates
  expect_near_lines got.rates want.rates "learning rates with $*"
}
train plain --log-prometheus plain.prom
expect_text plain.prom "^mtl_train_lm_loss\{run=\"[0-9a-f]+\"\} $(values plain lm_loss | tail -1 | cut -c1-8)"
expect_exit 2 mtl-train --num-layers 2 --log-prometheus plain.txt
expect_text err '--log-prometheus plain.txt +must end in .prom'

# expect_wandb FOLDER COUNT TEXT...: there is one run of Weights & Biases, with as many rows, and all texts.
expect_wandb() {
  local file text rows
  file=$(echo "$1"/wandb/offline-run-*/run-*.wandb)
  rows=$(grep -aoF 'lm loss' "$file" | wc -l)  # each in a row and in its summary
  [ "$rows" -eq $((2 * $2)) ] || fail "$file: not $2 rows, but $rows texts"
  shift 2
  for text in "$@"; do grep -qaF "$text" "$file" || fail "$file: no $text"; done
}
train plain --wandb-project 'my project'
expect_wandb plain.ck/wandb 4 'my project' "$(values plain lm_loss | head -1)" "$(values plain lm_loss | tail -1)" 'samples vs steps'
grep -qaE '345m|some team' plain.ck/wandb/wandb/*/*.wandb && fail 'a run has a name and an entity by itself'
for name in a/b "$(printf '%0129d' 1)" $'\xff' $'a\nb'; do
  expect_exit 2 mtl-train --num-layers 2 --save plain.ck --wandb-project "$name"
  expect_text err 'is no name of a project; use at most 128 characters'
done
expect_exit 2 mtl-train --num-layers 2 --save plain.ck --wandb-project p --wandb-exp-name $'\xff' --wandb-entity $'\x1b'
[ "$(grep -c 'has control characters or invalid UTF-8, which W&B refuses' err)" -eq 2 ] || fail "accepts names that W&B refuses: $(cat err)"
train plain --wandb-project p --wandb-exp-name 345m --wandb-entity 'some team' --wandb-save-dir plain.w
expect_wandb plain.w 4 345m 'some team'
[ ! -e plain.ck/wandb ] || fail '--wandb-save-dir writes to --save'

expect_rates '1e-4 4e-4 7e-4 1e-3' --lr-warmup-iters 3 --lr-warmup-init 1e-4
samples=(--train-samples 8) # four iterations
# expect_rates_in_samples WANT FLAG...: does the same for a run whose length is given in samples.
expect_rates_in_samples() {
  local want=$1
  shift
  # shellcheck disable=SC2086
  printf '%s\n' $want >want.rates
  rm -rf rates.*
  expect_exit 0 mtl-train --num-layers 1 --hidden-size 32 --num-attention-heads 4 --max-position-embeddings 32 --seq-length 32 \
    --tokenizer-type NullTokenizer --vocab-size 512 --data-path a_text_document --split 90,8,2 --micro-batch-size 2 \
    --lr 0.001 --eval-iters 0 --log-interval 1 --threads 1 --peak-tflops 1 --log-jsonl rates.jsonl "${samples[@]}" "$@"
  values rates learning_rate >got.rates
  expect_near_lines got.rates want.rates "learning rates with $*"
}
expect_rates_in_samples '0 3.333333333e-4 6.666666667e-4 1e-3' --lr-warmup-samples 6
# WSD: constant, then from 1 to 0 over the last three of four iterations. Checks the rates at 0, 1/3 and 2/3 of the
# decay.
wsd=(--lr-decay-style WSD --lr-wsd-decay-iters 3)
expect_rates '1e-3 1e-3 5.874010520e-4 2.599210499e-4' "${wsd[@]}"
expect_rates '1e-3 1e-3 6.666666667e-4 3.333333333e-4' "${wsd[@]}" --lr-wsd-decay-style linear
expect_rates '1e-3 1e-3 7.5e-4 2.5e-4' "${wsd[@]}" --lr-wsd-decay-style cosine
expect_rates '1e-3 1e-3 4.226497308e-4 1.835034191e-4' "${wsd[@]}" --lr-wsd-decay-style minus_sqrt
expect_rates '1e-3 1e-3 1e-3 5e-4' --lr-decay-style WSD --lr-wsd-decay-iters 2 --lr-wsd-decay-style linear
expect_rates_in_samples '1e-3 1e-3 6.666666667e-4 3.333333333e-4' --lr-decay-style WSD --lr-wsd-decay-samples 6 \
  --lr-wsd-decay-style linear

# Increasing weight decay: if it starts and ends at the same value, the run is the same as with constant weight decay.
train constant --weight-decay 0.5
for flags in 'same 0.5 0.5' 'differ 0.4 0.5' 'differ 0.5 0.6'; do
  read -r want from to <<<"$flags"
  train growing --weight-decay-incr-style linear --start-weight-decay "$from" --end-weight-decay "$to"
  compare_weights constant 4 growing 4
  [ "$same" = "$want" ] || fail "weights with weight decay from $from to $to, compared with 0.5: $same instead of $want"
done

# After the first step, the first moments are (1 - beta1) times the gradient: twice as large with 0.8.
train beta --adam-beta1 0.8
compare_weights plain 1 beta 1
expect_near "$moments" 1 1e-6
# A large epsilon: the gradients are the same, but the updates are smaller. The loss hardly falls.
train slow --adam-eps 0.5
compare_weights plain 1 slow 1
[ "$same $moments" = 'differ 0.0e+00' ] || fail "--adam-eps 0.5: weights $same, moments differ by $moments"
below "$(values plain lm_loss | tail -1)" "$(values slow lm_loss | tail -1)" ||
  fail '--adam-eps 0.5 ends with a lower loss'
# Flags of the other rules, and of the rate of tables: each changes the weights.
train sgd --optimizer sgd
train muon --optimizer muon
while read -r name flags; do
  # shellcheck disable=SC2086
  train acts $flags
  compare_weights "$name" 4 acts 4
  [ "$same" = differ ] || fail "$flags has no effect"
done <<'END'
plain --decoupled-lr 0.002
plain --decoupled-lr 0.002 --decoupled-min-lr 0.001
sgd --optimizer sgd --sgd-momentum 0.5
muon --optimizer muon --muon-momentum 0.5
muon --optimizer muon --muon-nesterov
muon --optimizer muon --muon-no-split-qkv
muon --optimizer muon --muon-scale-mode unit_rms_norm
muon --optimizer muon --muon-extra-scale-factor 0.2
muon --optimizer muon --muon-coefficient-type simple
muon --optimizer muon --muon-num-ns-steps 3
muon --optimizer muon --muon-fp32-matmul-prec medium
muon --optimizer muon --muon-scalar-optimizer adam --adam-beta1 0.8
END
train acts --optimizer muon --muon-no-position-embedding
grep -q '"exp_avg.embedding.positions.weight"' "$(weights acts 4)/manifest.json" ||
  fail '--muon-no-position-embedding leaves the positions to Muon'
# With zero weights, all tokens are equally likely, and the loss is ln 512. It is close to that if a large epsilon makes
# the norms shrink their input.
train flat --init-method-std 0 --train-iters 1
expect_near "$(values flat lm_loss)" 6.238324625 1e-6
train flat --norm-epsilon 0.9 --train-iters 1
expect_near "$(values flat lm_loss)" 6.238324625 2e-4
mtl_compare near <(values plain lm_loss | head -1) <(echo 6.238324625) --relative 2e-4 2>/dev/null &&
  fail 'the plain run has the loss of zero weights'

# --no-load-optim: loads the checkpoint's weights without its moments.
for flags in '' --no-load-optim; do
  # shellcheck disable=SC2086
  train "resumed$flags" --load plain.ck/iter_0000002 $flags
done
[ "$(values resumed lm_loss | head -1)" = "$(values resumed--no-load-optim lm_loss | head -1)" ] ||
  fail '--no-load-optim loads different weights'
[ "$(values resumed lm_loss | head -1)" = "$(values plain lm_loss | sed -n 3p)" ] ||
  fail 'the resumed run starts with another loss'
compare_weights resumed 4 plain 4
[ "$same" = same ] || fail 'the resumed run ends with different weights'
compare_weights resumed 4 resumed--no-load-optim 4
[ "$same" = differ ] || fail '--no-load-optim has no effect'

# --test-data-path changes the test but not the validation.
for name in a b; do
  rm -rf "test_$name".*
  expect_exit 0 mtl-train --num-layers 1 --hidden-size 32 --num-attention-heads 4 --max-position-embeddings 32 --seq-length 32 \
    --tokenizer-type NullTokenizer --vocab-size 512 --train-data-path a_text_document --valid-data-path a_text_document \
    --test-data-path "${name}_text_document" --micro-batch-size 2 --train-iters 1 --lr 0.001 --eval-iters 1 --threads 1 \
    --peak-tflops 1 --log-jsonl "test_$name.jsonl"
  grep '"type": "test"' "test_$name.jsonl" >"only_$name.jsonl"
  grep '"type": "validation"' "test_$name.jsonl" >"valid_$name.jsonl"
  [ "$(values "only_$name" loss | wc -l)" -eq 1 ] || fail "--test-data-path ${name}_text_document: not one test line"
done
[ "$(values valid_a loss)" = "$(values valid_b loss)" ] || fail '--test-data-path changes the validation'
[ "$(values only_a loss)" != "$(values only_b loss)" ] || fail '--test-data-path does not change the test'
order=(mtl-data order --seq-length 32 --train-iters 2 --global-batch-size 2 --eval-iters 1 --train-data-path a_text_document --dataset test)
expect_exit 0 "${order[@]}" --test-data-path a_text_document
cp out a.order
expect_exit 0 "${order[@]}" --test-data-path b_text_document
[ -s a.order ] && [ -s out ] || fail 'mtl-data order prints no test samples'
cmp -s out a.order && fail 'mtl-data order: --test-data-path has no effect'

# --- Layouts: layers per stage, in mtl-topo and in mtl-train's plan ---
stages=(--world-size 4 --pipeline-model-parallel-size 4)
sizes=(--hidden-size 64 --num-attention-heads 8 --seq-length 32 --max-position-embeddings 48 --micro-batch-size 2 --vocab-size 100)
layers_of() { grep -oE '"layers": \[\[[0-9]+, [0-9]+' out | sed 's/.* //' | tr '\n' ' '; }
while read -r layers want flags; do
  # shellcheck disable=SC2086
  expect_exit 0 mtl-topo "${stages[@]}" --num-layers "$layers" --format json $flags
  [ "$(layers_of)" = "${want//,/ } " ] ||
    fail "layers of the stages '$(layers_of)' instead of '$want': --num-layers $layers $flags"
  # shellcheck disable=SC2086
  expect_exit 0 mtl-topo "${stages[@]}" "${sizes[@]}" --num-layers "$layers" $flags
  sed -n '/^Memory of/,$p' out >topo.tables
  # shellcheck disable=SC2086
  expect_exit 0 mtl-train "${stages[@]}" "${sizes[@]}" --num-layers "$layers" $flags --train-iters 1 --lr 1 --threads 1 \
    --tokenizer-type NullTokenizer --dry-run
  sed -n '/^Memory of/,/^a checkpoint/p' out | sed '/^a checkpoint/d' | sed '${/^$/d}' >train.tables
  [ -s topo.tables ] || fail "mtl-topo prints no tables of memory: $flags"
  expect_same topo.tables train.tables
done <<'END_OF_STAGES'
8 2,2,2,2
7 1,2,2,2 --account-for-embedding-in-pipeline-split
7 2,2,2,1 --account-for-loss-in-pipeline-split
6 1,2,2,1 --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split
END_OF_STAGES
# In groups of 8, all micro-batches pass one chunk before the next chunk starts. The bubble is longer, and more
# activations are kept.
chunks=("${stages[@]}" --num-virtual-stages-per-pipeline-rank 2 --micro-batches 8)
expect_exit 0 mtl-topo "${chunks[@]}"
expect_text out 'Schedule: interleaved, 8 micro-batches, 2 chunks per stage'
cp out four
expect_exit 0 mtl-topo "${chunks[@]}" --microbatch-group-size-per-virtual-pipeline-stage 4
expect_same out four
expect_exit 0 mtl-topo "${chunks[@]}" --microbatch-group-size-per-virtual-pipeline-stage 8
cmp -s out four && fail '--microbatch-group-size-per-virtual-pipeline-stage has no effect'

# --- Pictures ---
for n in 1 10 100 1000; do echo "{\"type\": \"step\", \"iteration\": $n, \"consumed_samples\": $n, \"lm_loss\": $n.0}"; done >log.jsonl
# points FLAG...: prints x and y for the picture's four points, one per line.
points() {
  expect_exit 0 mtl-plot log.jsonl "$@" -o picture.svg
  grep -oE '<(polyline|path)[^>]*' picture.svg | grep -oE '(points|d)="[^"]*"' | grep -oE '[0-9.]+[, ][0-9.]+' | tr ',' ' ' | tail -4
}
# steps_of COLUMN: prints the distances between neighboring values. On a logarithmic axis, they are equal for powers of
# ten.
steps_of() { awk -v c="$1" 'NR > 1 { print (seen < $c ? $c - seen : seen - $c) } { seen = $c }'; }
points --log-x | steps_of 1 >x.steps
points --log-y | steps_of 2 >y.steps
points | steps_of 1 >linear.steps
for axis in x y; do
  [ "$(wc -l <$axis.steps)" -eq 3 ] || fail "--log-$axis: $(wc -l <$axis.steps) distances between 4 points"
  expect_near_lines $axis.steps <(for _ in 1 2 3; do sed -n 1p $axis.steps; done) "--log-$axis" 0.01
done
mtl_compare near linear.steps <(for _ in 1 2 3; do sed -n 1p linear.steps; done) --relative 0.01 2>/dev/null &&
  fail 'the x axis is logarithmic without --log-x'

# --- Every flag appears in a test ---
commands=(mtl-preprocess mtl-vocab mtl-train mtl-eval mtl-generate mtl-convert mtl-topo "mtl-topo plan" mtl-plot)
for command in info verify cat sample stats merge split shuffle repair import export formats order; do commands+=("mtl-data $command"); done
find "$TESTS" -path "$TESTS/golden" -prune -o \( -name '*.sh' -o -name '*_test.cpp' \) -print0 | xargs -0 cat >all.tests
for command in "${commands[@]}"; do
  # shellcheck disable=SC2086
  flags=$($command --help | grep -oE '^  (-[a-zA-Z], )?--[a-zA-Z0-9-]+' | grep -oE -- '--[a-zA-Z0-9-]+')
  [ "$(wc -l <<<"$flags")" -ge 3 ] || fail "$command --help has no flags"
  for flag in $flags; do
    grep -qE -- "(^|[^a-z-])$flag([^a-zA-Z0-9-]|\$)" all.tests || fail "$command $flag: no test uses it"
  done
done
finish
