#!/bin/bash
# mtl-convert: Hugging Face folders and checkpoints, there and back, and nothing half-done.
. "$(dirname "$0")/lib.sh" "$1"
MODELS=$TESTS/golden/gpt2_model

# There and back: the weights are the same file.
for model in a b; do
  cp -r "$MODELS/$model" "$WORK/$model"
  echo '{"<|endoftext|>": 7}' >"$WORK/$model/vocab.json"
  echo '#version: 0.2' >"$WORK/$model/merges.txt"
  expect_exit 0 mtl-convert --load "$WORK/$model" --save "$WORK/$model.mtl" --to mtl --verify
  expect_text "$WORK/err" "verified: every tensor is what was read; logits of [0-9]+ positions differ by at most 0 "
  [ -f "$WORK/$model.mtl/iter_0000000/manifest.json" ] || fail "no checkpoint of $model"
  expect_exit 0 mtl-convert --load "$WORK/$model.mtl" --save "$WORK/$model.back/" --to hf --verify
  for file in model.safetensors generation_config.json vocab.json merges.txt; do
    expect_same "$WORK/$model/$file" "$WORK/$model.back/$file"
  done
  expect_same <(tr -d ' \n' <"$WORK/$model/config.json") <(tr -d ' \n' <"$WORK/$model.back/config.json")
done

# --json, other types, shards.
expect_exit 0 mtl-convert --load "$MODELS/a" --save "$WORK/half" --dtype bfloat16 --max-shard-size 100KB --verify --json
for pattern in '"schema": "mtl-convert/1"' '"dtype": "bfloat16"' '"parameters": 136' '"verified": true' 'model-00001-of-0000[0-9].safetensors'; do
  expect_text "$WORK/out" "$pattern"
done
expect_text "$WORK/half/config.json" '"dtype": "bfloat16"'
expect_text "$WORK/half/model.safetensors.index.json" '"total_size": '
expect_exit 0 mtl-convert --load "$WORK/half" --save "$WORK/wide" --dtype float32 --verify
expect_exit 0 mtl-convert --load "$WORK/wide" --save "$WORK/half2" --dtype bfloat16 --max-shard-size 100KB
expect_same "$WORK/half/model-00001-of-00003.safetensors" "$WORK/half2/model-00001-of-00003.safetensors"

# Refusals leave nothing behind, and say what is wrong.
expect_exit 2 mtl-convert --load "$MODELS/a" --save "$WORK/half"
expect_text "$WORK/err" 'is not empty; give another folder to --save, or --force'
expect_exit 0 mtl-convert --load "$MODELS/a" --save "$WORK/half" --force
[ -f "$WORK/half/model.safetensors.index.json" ] && fail "--force left files of the old folder"
expect_exit 2 mtl-convert --load "$MODELS/a" --save "$WORK/x" --to gguf --max-shard-size none
expect_text "$WORK/err" 'max-shard-size none'
expect_text "$WORK/err" 'gguf'
expect_exit 2 mtl-convert --load "$MODELS/a"
expect_exit 74 mtl-convert --load "$WORK/nowhere" --save "$WORK/x"
expect_exit 65 mtl-convert --load "$TESTS/golden" --save "$WORK/x"
expect_text "$WORK/err" 'looked for manifest.json .* config.json .* iter_'
mkdir "$WORK/broken"
cp "$MODELS/a/config.json" "$WORK/broken"
head -c 300000 "$MODELS/a/model.safetensors" >"$WORK/broken/model.safetensors"
expect_exit 65 mtl-convert --load "$WORK/broken" --save "$WORK/x"
expect_text "$WORK/err" "model.safetensors: tensor '.*': .*it is cut short"

# A disk that fails: no output, no leftovers.
for at in 2 5 9 14; do
  MTL_FAULT=enospc:$at expect_exit 74 mtl-convert --load "$MODELS/a" --save "$WORK/x"
done
MTL_FAULT=enospc:12 expect_exit 74 mtl-convert --load "$MODELS/a" --save "$WORK/x" --to mtl
ls "$WORK" | grep -q '^x' && fail "a failed conversion left $(ls "$WORK" | grep '^x')"

# A damaged checkpoint is refused by file and tensor.
printf '\377' | dd of="$WORK/a.mtl/iter_0000000/shard_00000.safetensors" bs=1 seek=200000 conv=notrunc status=none
expect_exit 65 mtl-convert --load "$WORK/a.mtl" --save "$WORK/x"
expect_text "$WORK/err" "shard_00000.safetensors: its hash does not match the manifest \(tensor 'param\."
finish
