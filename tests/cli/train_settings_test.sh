#!/bin/bash
# Settings that a run takes from what it loads, and settings that differ from it: dropout, the schedule, the optimizer,
# the length and base of rotary positions.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/train_runs.sh"
cd "$WORK" || exit 1
preprocess "$CORPUS" c
# expect_lines COUNT PATTERN: that many lines in err match.
expect_lines() {
  [ "$(grep -cE -- "$2" err)" -eq "$1" ] || { fail "'$2' is not printed $1 times:"; sed 's/^/    /' err >&2; }
}
# shellcheck disable=SC2054  # the comma belongs to a flag's value
common=(--tokenizer-type NullTokenizer --vocab-size 512 --data-path c_text_document --split 100,0,0 --eval-iters 0
  --micro-batch-size 2 --global-batch-size 4 --peak-tflops 0.1 --log-interval 1 --threads 1)
tiny=(mtl-train --num-layers 1 --hidden-size 16 --num-attention-heads 2 --max-position-embeddings 32 --seq-length 32 "${common[@]}")
# losses COMMAND...: prints the losses of the run.
losses() {
  rm -f run.jsonl
  expect_exit 0 "$@" --log-jsonl run.jsonl
  grep -o '"lm_loss": [^,]*' run.jsonl
}

# --- Dropout comes from the loaded model, unless a flag is given ---
LLAMA=$TESTS/golden/llama_model/llama
start=(mtl-train "${common[@]}" --seq-length 32 --lr 1e-3 --train-iters 2 --finetune)
own=$(losses "${start[@]}" --load "$LLAMA")
expect_lines 1 '^mtl-train: dropout: hidden 0 \(as in the Hugging Face folder\), attention 0 \(as in the Hugging Face folder\)$'
[ "$(wc -l <<<"$own")" -eq 2 ] || fail "not two losses: $own"
[ "$own" = "$(losses "${start[@]}" --load "$LLAMA" --hidden-dropout 0 --attention-dropout 0)" ] ||
  fail 'a loaded Llama has other losses than without dropout'
[ "$own" != "$(losses "${start[@]}" --load "$LLAMA" --hidden-dropout 0.1)" ] || fail '--hidden-dropout has no effect'
expect_lines 1 '^mtl-train: dropout: hidden 0.1 \(--hidden-dropout\), attention 0 \(as in '
# GPT-2's rates, which transformers assumes to be 0.1 if they are absent.
cp -r "$TESTS/golden/gpt2_model/a" gpt2
chmod -R u+w gpt2
sed -i 's/"\(resid\|embd\)_pdrop": [0-9.]*/"\1_pdrop": 0.25/; /"attn_pdrop"/d' gpt2/config.json
expect_exit 0 "${start[@]}" --load gpt2 --save from_gpt2
expect_lines 1 '^mtl-train: dropout: hidden 0.25 \(as in .*\), attention 0.1 \(as in '
expect_exit 0 "${start[@]}" --load gpt2 --save from_gpt2 --train-iters 3 --override-opt_param-scheduler
expect_lines 1 '^mtl-train: dropout: hidden 0.25 \(as in the checkpoint\), attention 0.1 \(as in the checkpoint\)$'
expect_exit 0 mtl-convert --load from_gpt2 --save back
for key in '"resid_pdrop": 0.25' '"embd_pdrop": 0.25' '"attn_pdrop": 0.1'; do expect_text back/config.json "$key"; done
expect_exit 0 mtl-convert --load gpt2 --save meg --to megatron
expect_exit 0 "${start[@]}" --load meg
expect_lines 1 '^mtl-train: dropout: hidden 0.25 \(as in the Megatron-LM checkpoint\), attention 0.1 '
expect_exit 0 mtl-convert --load meg --save mtl --to mtl --vocab-size 512
expect_exit 0 "${start[@]}" --load mtl
expect_lines 1 '^mtl-train: dropout: hidden 0.25 \(as in the checkpoint\), attention 0.1 '
sed -i 's/"embd_pdrop": [0-9.]*/"embd_pdrop": 0/' gpt2/config.json
expect_exit 2 "${start[@]}" --load gpt2
expect_text err '^  --hidden-dropout +is required: .*gpt2 was trained with dropout 0 on embeddings and 0.25 '
expect_exit 0 "${start[@]}" --load gpt2 --hidden-dropout 0.1
sed -i 's/"embd_pdrop": 0/"embd_pdrop": 1.5/' gpt2/config.json
expect_exit 65 "${start[@]}" --load gpt2
expect_text err 'config.json: embd_pdrop is 1.5; it must be at least 0 and below 1'

# --- A resume names the settings that differ, once ---
cosine=("${tiny[@]}" --lr-decay-style cosine --lr 0.002 --min-lr 0.0002)
expect_exit 0 "${cosine[@]}" --train-iters 4 --save run
expect_exit 0 "${cosine[@]}" --train-iters 4 --save run
cp -r run other
# Another schedule is refused, as in Megatron-LM, with all differences.
expect_exit 2 "${cosine[@]}" --train-iters 8 --save run --lr 0.001
expect_lines 1 '^  .*run/iter_0000004 +was trained with another schedule: --lr 0.002, now 0.001; --lr-decay-iters \(default: --train-iters\) 4, now 8; add --override-opt_param-scheduler .*--use-checkpoint-opt_param-scheduler'
expect_lines 1 '^  [^ ]'
# The differences have the names and units of the flags that set them, and no consequences of each other.
expect_schedule() {
  expect_exit 2 "${cosine[@]}" --save run "${@:2}"
  expect_lines 1 "^  .*run/iter_0000004 +was trained with another schedule: $1; add "
}
expect_schedule '--lr-decay-iters 4, now 8' --train-iters 9 --lr-decay-iters 8
expect_schedule '--lr-warmup-iters 0, now 2; --lr-decay-iters .* 4, now 8' --train-iters 8 --lr-warmup-iters 2
expect_schedule '--lr-warmup-fraction in iterations 0, now 2; --lr-decay-iters .* 4, now 8' --train-iters 8 --lr-warmup-fraction 0.25
expect_schedule '--lr-decay-iters .* in samples 16, now 20' --train-iters 10 --global-batch-size 2
expect_schedule '--lr-decay-samples \(default: --train-samples\) 16, now 32' --train-samples 32
expect_schedule '--lr-decay-style cosine, now constant' --train-iters 8 --lr-decay-style constant
expect_schedule '--lr-decay-iters .*; --weight-decay-incr-style constant, now linear' --train-iters 8 \
  --weight-decay-incr-style linear --start-weight-decay 0 --end-weight-decay 0.1
expect_exit 2 "${cosine[@]}" --train-iters 8 --save run --override-opt_param-scheduler --use-checkpoint-opt_param-scheduler
expect_text err '^  --override-opt_param-scheduler, --use-checkpoint-opt_param-scheduler +exclude each other'
# Without the optimizer's state, the checkpoint's schedule would have ended: every step would have the rate 0.
expect_exit 2 "${cosine[@]}" --train-iters 8 --load run --save other --no-load-optim --use-checkpoint-opt_param-scheduler
expect_text err '^  --use-checkpoint-opt_param-scheduler +excludes --no-load-optim'
rates() { grep '"type": "step"' run.jsonl | grep -o '"learning_rate": [^,]*'; }
rm -f run.jsonl
expect_exit 0 "${cosine[@]}" --train-iters 8 --save run --lr 0.001 --override-opt_param-scheduler --log-jsonl run.jsonl
expect_lines 1 '^mtl-train: warning: run/iter_0000004 continues with another schedule: --lr 0.002, now 0.001; '
flags=$(rates)
[ "$(wc -l <<<"$flags")" -eq 4 ] || fail "not four learning rates: $flags"
rm run.jsonl
cp -r other again
expect_exit 0 "${cosine[@]}" --train-iters 8 --save again --lr 0.001 --use-checkpoint-opt_param-scheduler --log-jsonl run.jsonl
expect_lines 1 '^mtl-train: warning: again/iter_0000004 continues with its own schedule, not with that of the flags: --lr 0.002, now 0.001; '
[ "$flags" != "$(rates)" ] || fail '--use-checkpoint-opt_param-scheduler has no effect'
expect_text run.jsonl '"iteration": 8, .*"learning_rate": 0.0002[,0]'  # past the checkpoint's 4 iterations
# The schedule of the last start is recorded, so the change is reported once.
expect_exit 0 "${cosine[@]}" --train-iters 8 --save run --lr 0.001
expect_lines 0 'schedule'
# Other settings may change.
expect_exit 0 "${tiny[@]}" --lr-decay-style constant --lr 0.002 --train-iters 4 --save optim
expect_exit 0 "${tiny[@]}" --lr-decay-style constant --lr 0.002 --train-iters 5 --save optim --adam-beta1 0.8 --adam-beta2 0.95 \
  --clip-grad 0.5 --global-batch-size 2 --hidden-dropout 0 --seed 4321 --eod-mask-loss --allow-data-change
for change in '--global-batch-size 4, now 2' '--adam-beta1 0.9, now 0.8' '--adam-beta2 0.999, now 0.95' '--clip-grad 1, now 0.5' \
  '--hidden-dropout 0.1, now 0' '--seed 1234, now 4321' '--eod-mask-loss false, now true'; do
  expect_lines 1 "^mtl-train: warning: optim/iter_0000004 continues with other settings: .*$change(;|\$)"
done
expect_lines 0 'attention-dropout [0-9.]+, now'
# Only weights: nothing is compared. A checkpoint without settings has no schedule to continue with.
expect_exit 0 "${cosine[@]}" --train-iters 8 --load other --finetune --save new --lr 0.001
expect_lines 0 'now'
expect_exit 0 mtl-convert --load other --save weights
expect_exit 0 "${cosine[@]}" --train-iters 1 --load weights --use-checkpoint-opt_param-scheduler
expect_lines 1 '^mtl-train: --use-checkpoint-opt_param-scheduler has no effect on a run that does not resume$'

# --- A model with rotary positions continues with other positions and another base, when told so (more: train_continue) ---
expect_exit 2 "${start[@]}" --load "$LLAMA" --seq-length 128
expect_text err '^  --seq-length 128 +is longer than the 64 positions of the model; add --max-position-embeddings 128 '
longer=("${start[@]}" --load "$LLAMA" --seq-length 128 --max-position-embeddings 128 --rotary-base 500000 --save longer)
expect_exit 0 "${longer[@]}"
expect_lines 1 '^mtl-train: warning: .*/llama continues with --max-position-embeddings 64, now 128; --rotary-base [0-9]+, now 500000$'
expect_exit 0 "${longer[@]}" --train-iters 2
expect_lines 0 'continues with'
expect_exit 0 mtl-convert --load longer --save longer_hf
expect_text longer_hf/config.json '"max_position_embeddings": 128'
expect_text longer_hf/config.json '"rope_theta": 500000'
[ "$own" != "$(losses "${start[@]}" --load "$LLAMA" --rotary-base 500000)" ] || fail '--rotary-base has no effect on a loaded model'
for flag in '--rotary-base 500' '--max-position-embeddings 128'; do
  # shellcheck disable=SC2086
  expect_exit 2 "${start[@]}" --load "$TESTS/golden/gpt2_model/a" $flag
  expect_lines 1 "^  $flag +.*the loaded model.*; leave the flag out$"
done
# One contradiction is one problem, although a flag sets several parts of an architecture.
expect_exit 2 "${start[@]}" --load "$LLAMA" --qk-layernorm
expect_lines 1 '^  [^ ]'
expect_exit 2 "${start[@]}" --load "$TESTS/golden/gpt2_model/a" --swiglu
expect_lines 1 '^  [^ ]'

finish
