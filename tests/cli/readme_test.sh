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

# Texts of other systems make the same documents; of a short one, something is held out.
documents() { awk -f "$SHARE/demo/documents.awk" -v heldout="$1.heldout" 2>>said; }
documents want <corpus.txt >want
for edit in 's/$/\r/' 's/^$/ \t/'; do
  sed "$edit" corpus.txt | documents got >got
  expect_same got want
  expect_same got.heldout want.heldout
done
expect_text said '^226 documents, of which 11 held out$'
printf 'a "b"\f\001\\\n\nc\n' | awk -f "$SHARE/demo/documents.awk" -v speeches=1 -v heldout=few 2>said >got
[ "$(cat got few)" = '{"text": "a \"b\"\u000c\u0001\\"}'$'\n''{"text": "c"}' ] || fail "documents: $(cat got few)"
expect_text said '^fewer than 20 documents: '
finish
