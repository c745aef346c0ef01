#!/bin/bash
# transformers can read the folders that mtl writes, for every family: they load completely, give the same
# log-probabilities, and continue prompts with the same tokens and text up to the same end. mtl reads every key of
# config.json that the installed transformers knows as transformers does, or refuses it. Skipped without torch and
# transformers for MTL_PYTHON (default: python3).
source "$(dirname "$0")/lib.sh" "$1"
python=${MTL_PYTHON:-python3}
"$python" -c 'import torch, transformers' 2>"$WORK/why" || { echo "skipped: $python: $(tail -1 "$WORK/why")"; exit 77; }
peer=("$python" "$TESTS/cli/transformers_peer.py")
export HF_HUB_OFFLINE=1

# continue_prompts FOLDER: writes greedy continuations of six random prompts to FOLDER/mtl.jsonl.
continue_prompts() {
  local vocabulary
  vocabulary=$(grep -oP '"vocab_size": \K[0-9]+' "$1/config.json")
  awk -v vocabulary="$vocabulary" 'BEGIN { srand(16); for (n = split("1 2 5 9 14 20", lengths, " "); n; --n) {
    line = ""; for (i = 0; i < lengths[n]; ++i) line = line (i ? " " : "") int(rand() * vocabulary); print line } }' >"$WORK/prompts"
  mtl-generate --load "$1" --ids --input "$WORK/prompts" --greedy --json-lines --logprobs --max-new-tokens 16 \
    >"$1/mtl.jsonl" 2>"$WORK/err" || fail "mtl-generate --load $1: $(cat "$WORK/err")"
}

# train NAME: trains two steps from NAME.mtl and saves to NAME.trained.
train() {
  expect_exit 0 mtl-train --load "$WORK/$1.mtl" --finetune --data-path "$WORK/ids_text_document" --tokenizer-type NullTokenizer \
    --vocab-size 96 --seq-length 32 --micro-batch-size 2 --global-batch-size 2 --train-iters 2 --lr 1e-3 --split 1 --save "$WORK/$1.trained"
}

# Models after a round trip through a checkpoint, stored in multiple files, and models trained by mtl. For the latter,
# it writes config.json from the architecture alone.
mkdir "$WORK/models"
awk 'BEGIN { srand(16); for (n = 0; n < 50; ++n) { line = "{\"text\": \""; for (i = 0; i < 40; ++i)
  line = line (i ? " " : "") int(rand() * 95); print line "\"}" } }' >"$WORK/ids.jsonl"
expect_exit 0 mtl-preprocess --input "$WORK/ids.jsonl" --output-prefix "$WORK/ids" --tokenizer-type NullTokenizer --vocab-size 96
for model in gpt2_model/a llama_model/{llama,mistral,qwen2,neox} family_model/{gpt2_relu,gpt2_gelu,llama3,qwen3,neox_serial,neox_serial_bin} \
  rotary_model/{yarn,yarn_mscale,yarn_factor}; do
  name=${model##*/}
  expect_exit 0 mtl-convert --load "$TESTS/golden/$model" --save "$WORK/$name.mtl" --to mtl --verify
  expect_exit 0 mtl-convert --load "$WORK/$name.mtl" --save "$WORK/models/$name" --dtype float32 --max-shard-size 60KB --verify
  train "$name"
  expect_exit 0 mtl-convert --load "$WORK/$name.trained" --save "$WORK/models/$name.trained"
done
# Each of two stop ids ends a continuation. They come from continuations made without stop ids: one's third new token,
# and another's fifth.
cp -r "$WORK/models/llama" "$WORK/models/llama.ends"
echo '{}' >"$WORK/models/llama.ends/generation_config.json"
continue_prompts "$WORK/models/llama.ends"
"${peer[@]}" set-ends "$WORK/models/llama.ends" || fail 'cannot set stop ids'
for folder in "$WORK"/models/*; do continue_prompts "$folder"; done
grep -q '"stop": "eos"' "$WORK/models/llama.ends/mtl.jsonl" || fail 'no continuation ended at a stop id'

# Models that were continued: longer sequences with each scaling, and more tokens, in a tied and in an untied model.
mkdir "$WORK/continued"
# continue_model NAME MODEL FLAG...: trains two steps from a golden model, and converts the result.
continue_model() {
  expect_exit 0 mtl-train --load "$TESTS/golden/$2" --finetune --data-path "$WORK/ids_text_document" --tokenizer-type NullTokenizer \
    --vocab-size 96 --seq-length 32 --micro-batch-size 2 --global-batch-size 2 --train-iters 2 --lr 1e-3 --split 1 \
    --save "$WORK/$1.continued" "${@:3}"
  expect_exit 0 mtl-convert --load "$WORK/$1.continued" --save "$WORK/continued/$1" --verify
}
factors='1, 1.1, 1.5, 2, 3, 4.5, 6, 8'
continue_model yarn llama_model/llama --position-embedding-type yarn --rotary-scaling-factor 4 --max-position-embeddings 256 \
  --yarn-original-max-position-embeddings 16
continue_model yarn_neox llama_model/neox --position-embedding-type yarn --rotary-scaling-factor 4 --mscale 0.7 \
  --yarn-beta-fast 2 --yarn-original-max-position-embeddings 16 --no-yarn-correction-range-round-to-int
continue_model linear llama_model/qwen2 --rotary-seq-len-interpolation-factor 2 --rotary-base 5000
continue_model llama3 llama_model/llama --use-rope-scaling --max-position-embeddings 128
continue_model longrope llama_model/llama --rope-parameters \
  "{\"rope_type\": \"longrope\", \"short_factor\": [$factors], \"long_factor\": [$factors], \"original_max_position_embeddings\": 16}"
continue_model dynamic llama_model/llama --rope-parameters '{"rope_type": "dynamic", "factor": 4}' --max-position-embeddings 16
continue_model tokens llama_model/llama --new-token-rows mean --vocab-size 600
continue_model tokens_tied llama_model/qwen2 --new-token-rows init --vocab-size 300
expect_exit 0 mtl-convert --load "$TESTS/golden/rotary_model/longrope" --save "$WORK/longrope.mtl" --to mtl
expect_exit 0 mtl-convert --load "$WORK/longrope.mtl" --save "$WORK/continued/longrope_loaded" --dtype float32
for folder in "$WORK"/continued/*; do continue_prompts "$folder"; done
"${peer[@]}" compare-passes "$WORK"/continued/* 2>"$WORK/err" || fail "transformers: $(tail -5 "$WORK/err")"

# Text, through GPT-2's tokenizer.
"${peer[@]}" make "$WORK/made" "$SHARE/gpt2" >"$WORK/out" 2>&1 ||
  fail "cannot make a model with a tokenizer: $(tail -3 "$WORK/out")"
expect_exit 0 mtl-convert --load "$WORK/made" --save "$WORK/made.mtl" --to mtl
expect_exit 0 mtl-convert --load "$WORK/made.mtl" --save "$WORK/text"
expect_exit 0 mtl-generate --load "$WORK/text" --prompt 'In the beginning' --greedy --max-new-tokens 24 --json-lines
cp "$WORK/out" "$WORK/text/mtl.jsonl"

"${peer[@]}" compare "$WORK/text" "$WORK"/models/* 2>"$WORK/err" || fail "transformers: $(tail -5 "$WORK/err")"

# Each key that transformers knows has been judged. With other values of the honoured keys, both compute the same; mtl
# refuses the other values of refused keys.
keys() { "$python" "$TESTS/cli/transformers_keys.py" "$1" "$TESTS/../libcore/models/hf_keys.cpp" "${@:2}" >"$WORK/out" 2>&1; }
keys judged || fail "$(tail -20 "$WORK/out")"
keys make "$WORK/keys" || fail "cannot make models: $(tail -3 "$WORK/out")"
for folder in "$WORK"/keys/*; do continue_prompts "$folder"; done
"${peer[@]}" compare-passes "$WORK"/keys/* 2>"$WORK/err" || fail "transformers: $(tail -5 "$WORK/err")"
mkdir "$WORK/refused"
keys refused "$WORK/refused" || fail "cannot write configurations: $(tail -3 "$WORK/out")"
while read -r name key; do
  expect_exit 65 mtl-convert --load "$WORK/refused/$name" --save "$WORK/none"
  grep -q "$key is " "$WORK/err" || fail "$name: the message does not name the key: $(cat "$WORK/err")"
done <"$WORK/refused/KEYS"
finish
