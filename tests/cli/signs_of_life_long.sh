#!/bin/bash
# A program that is still for ten seconds says what it does or waits for. All programs here start at once, and are
# killed when they have said it.
. "$(dirname "$0")/lib.sh" "$1"
enter_data_folder
GPT2=(--vocab-file vocab.json --merge-file merges.txt)
MODEL=$TESTS/golden/gpt2_model/a
declare -A wanted
pids=()

# expect_sign NAME TEXT COMMAND...: COMMAND, whose standard input is an open pipe that stays empty, says TEXT.
expect_sign() {
  local name=$1
  wanted[$name]=$2
  shift 2
  "$@" <pipe >"$name.out" 2>"$name.err" 9>&- &
  pids+=("$!")
}

# little_endian BYTES NUMBER...
little_endian() {
  local bytes=$1 number byte
  shift
  for number; do
    for ((byte = 0; byte < bytes; ++byte)); do printf '%b' "$(printf '\\x%02x' $((number >> 8 * byte & 255)))"; done
  done
}

mkfifo pipe
exec 9<>pipe
expect_sign preprocess 'waiting for standard input' mtl-preprocess --input - --output-prefix p "${GPT2[@]}"
expect_sign vocab 'waiting for standard input' mtl-vocab --input - --output-prefix v --vocab-size 300 --format text
expect_sign eval 'waiting for standard input' mtl-eval --load "$MODEL" --input - "${GPT2[@]}"
expect_sign generate 'waiting for standard input' mtl-generate --load "$MODEL" --ids
expect_sign plot 'waiting for standard input' mtl-plot - --terminal

# Each write takes 0.3 seconds.
MTL_FAULT=slow:1 expect_sign convert "converting $MODEL" mtl-convert --load "$MODEL" --save c --to mtl

# 50 billion tokens in a sparse file take a minute to read.
documents=25 length=2000000000
truncate -s $((2 * documents * length)) sparse.bin
{
  printf 'MMIDIDX\0\0'
  little_endian 8 1
  little_endian 1 8
  little_endian 8 $documents $((documents + 1))
  for ((i = 0; i < documents; ++i)); do little_endian 4 $length; done
  for ((i = 0; i < documents; ++i)); do little_endian 8 $((2 * i * length)); done
  for ((i = 0; i <= documents; ++i)); do little_endian 8 $i; done
} >sparse.idx
expect_sign verify 'verifying sparse' mtl-data verify sparse --vocab-size 100
expect_sign stats 'counting the tokens of sparse' mtl-data stats sparse

for ((second = 0; second < 120; ++second)); do
  missing=()
  for name in "${!wanted[@]}"; do
    grep -qE "^mtl-.*: ${wanted[$name]}, .* so far$" "$name.err" || missing+=("$name")
  done
  [ ${#missing[@]} -gt 0 ] || break
  sleep 1
done
for name in "${missing[@]}"; do fail "$name does not say '${wanted[$name]}': $(cat "$name.err")"; done
disown -a  # else the shell reports that they were killed
kill -KILL "${pids[@]}" 2>/dev/null
finish
