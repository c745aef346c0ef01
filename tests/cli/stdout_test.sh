#!/bin/bash
# Every tool that prints a result reports if it cannot write to standard output, whether the device is full or the
# descriptor closed. It exits with 74.
source "$(dirname "$0")/lib.sh" "$1"
export OMP_WAIT_POLICY=passive
MODEL=$TESTS/golden/gpt2_model/a
cd "$WORK" || exit 1

# expect_write_error COMMAND...: succeeds normally, but exits with 74 if it cannot write its output.
expect_write_error() {
  expect_exit 0 "$@"
  [ -s out ] || fail "prints nothing: $*"
  "$@" >/dev/full 2>err
  [ $? -eq 74 ] || fail "not exit 74 on a full device: $*"
  expect_text err '^mtl-[a-z]+( [a-z]+)?: standard output: cannot write: No space left on device'
  "$@" >&- 2>err
  [ $? -eq 74 ] || fail "not exit 74 with standard output closed: $*"
}

echo '{"text": "5 6 7 8 9"}' >ids.jsonl
expect_exit 0 mtl-preprocess --input ids.jsonl --output-prefix ids --tokenizer-type NullTokenizer --vocab-size 500
echo '{"iteration": 1, "lm_loss": 3}' >log.jsonl
tools=0
for path in "$BIN"/mtl-*; do
  tool=$(basename "$path")
  tools=$((tools + 1))
  for flag in --help --version; do expect_write_error "$tool" $flag; done
done
[ "$tools" -ge 9 ] || fail "only $tools tools in $BIN"

generate=(mtl-generate --load "$MODEL" --ids --prompt '5 6' --max-new-tokens 3)
expect_write_error "${generate[@]}"
expect_write_error "${generate[@]}" --json-lines
expect_write_error "${generate[@]}" --num-samples 3
expect_write_error "${generate[@]}" --num-samples 3 --batch-size 2
expect_write_error "${generate[@]}" --dump-config
expect_write_error mtl-eval --load "$MODEL" --data-path ids_text_document
expect_write_error mtl-eval --load "$MODEL" --data-path ids_text_document --json
for form in --terminal --json '-o -' ''; do
  # shellcheck disable=SC2086
  expect_write_error mtl-plot log.jsonl $form
done
expect_write_error mtl-data info ids_text_document
expect_write_error mtl-data cat ids_text_document
expect_write_error mtl-data stats ids_text_document
expect_write_error mtl-topo --world-size 2
convert() { rm -rf hf && mtl-convert --load "$MODEL" --save hf --json; }
expect_write_error convert
expect_write_error mtl-train --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 4 \
  --max-position-embeddings 4 --micro-batch-size 1 --train-iters 1 --lr 1e-3 --data-path ids_text_document \
  --tokenizer-type NullTokenizer --vocab-size 500 --dry-run
finish
