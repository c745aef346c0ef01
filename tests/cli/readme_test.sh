#!/bin/bash
# README.md's lines for a text of one's own, with ten iterations: a loss curve, a perplexity, a text and a Hugging Face
# folder come out.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/readme.sh"
cd "$WORK" || exit 1
xz -dc "$SHARE/demo/tinyshakespeare.txt.xz" >corpus.txt
run_readme 'Your own text' 10 8
expect_text out ' perplexity [0-9.]+ '
expect_text out '^Once'
for file in loss.svg hf/model.safetensors hf/tokenizer.json checkpoints/iter_0000010/manifest.json; do
  [ -s "$file" ] || fail "no $file"
done
finish
