#!/bin/bash
# mtl-data import, export and formats: token files of other tools, in and out.
source "$(dirname "$0")/lib.sh" "$1"
FLAT=$TESTS/golden/flat_tokens
GPT2=(--vocab-file "$SHARE/gpt2/vocab.json" --merge-file "$SHARE/gpt2/merges.txt")
cd "$WORK" || exit 1
cp "$FLAT"/*.bin "$FLAT"/*.npy "$FLAT"/*.txt .
chmod u+w ./*

# --- import ---
expect_exit 0 mtl-data import nanogpt_u16.bin --format nanogpt --eod 50256 --output-prefix made/nano --json
expect_text out '^\{"schema": "mtl-data-made/1", "command": "import", .*"documents": 14, .*"dtype": "u16"'
[ -s err ] && fail 'import --json prints messages'
expect_same <(mtl-data cat made/nano) small.txt
expect_exit 0 mtl-data verify made/nano --vocab-size 50257
expect_text made/nano.json '"path": "nanogpt_u16.bin"'
expect_exit 0 mtl-data import nanogpt_u32.bin --format nanogpt --input-type u32 --eod 128001 --output-prefix wide
expect_same <(mtl-data cat wide) large.txt
# A pattern's files are one stream of tokens, in which a document spans files.
expect_exit 0 mtl-data import 'llm_c_train_*.bin' --eod 50256 --eod-first --output-prefix shards
expect_text err 'shards.bin, .idx: 14 documents, 281 tokens$'
expect_same <(mtl-data cat shards | cut -d' ' -f2-) <(sed 's/ 50256$//' small.txt)
expect_exit 0 mtl-data import llm_c_train_000000.bin --eod 50256 --output-prefix last
expect_text err 'warning: llm_c_train_000000.bin begins with the end-of-document token 50256; .*add --eod-first$'
expect_exit 0 mtl-data import llm_c_train_000000.bin llm_c_train_000001.bin --output-prefix two
expect_text err 'warning: each file is one document, .* use --eod ID, or a tokenizer, to find the documents$'
expect_text err 'two.bin, .idx: 2 documents, 281 tokens$'
expect_exit 0 mtl-data import lit_gpt_i32.bin --eod 128001 --output-prefix packed
expect_same <(mtl-data cat packed) large.txt
# A token that does not occur leaves one document, and a file without a header is read in the type that it is said to have.
expect_exit 0 mtl-data import llmq.bin --eod 7 --output-prefix undivided
expect_text err 'warning: the end-of-document token 7 does not occur, so all tokens are one document, .* check the id'
for _ in 1 2 3 4; do cat nanogpt_u32.bin; done >long_u32.bin
expect_exit 0 mtl-data import long_u32.bin --format nanogpt --input-type u32 --eod 128001 --output-prefix right
! grep -q warning err || fail 'a warning of the right type'
expect_exit 0 mtl-data import long_u32.bin --format nanogpt --eod 128001 --output-prefix halves
expect_text err 'warning: long_u32.bin: the tokens seem to be stored as u32, not u16, .* again with --input-type u32$'
# A tokenizer names the token and bounds the ids, and is recorded.
expect_exit 0 mtl-data import npy_i8.npy "${GPT2[@]}" --token-type u16 --output-prefix known
expect_same <(mtl-data cat known) small.txt
expect_text known.json '"vocab_size": 50257'
expect_exit 0 mtl-data verify known
expect_text out 'all ids are below 50257 \(known.json\)|all ids are below 50,257 \(known.json\)'
expect_exit 65 mtl-data import llmq.bin "${GPT2[@]}" --output-prefix none
expect_text err 'llmq.bin: token [0-9]+ \(byte [0-9]+\) is [0-9]+, but the ids of the vocabulary are 0 to 50256; select'
expect_exit 65 mtl-data import llmq.bin --vocab-size 1000 --output-prefix none
expect_exit 65 mtl-data import llmq.bin --token-type u16 --output-prefix none
expect_text err 'which does not fit in u16; choose a larger --token-type$'
for bad in bad_*.npy llmq_masks.bin llm_c_questions.bin; do
  expect_exit 65 mtl-data import "$bad" --output-prefix none
  expect_text err "^mtl-data import: $bad: "
done
head -c 500 llmq.bin >short.bin
expect_exit 65 mtl-data import short.bin --output-prefix none
expect_exit 65 mtl-data import nanogpt_u16.bin --output-prefix none
expect_text err 'add --format nanogpt$'
expect_exit 74 mtl-data import absent.bin --output-prefix none
expect_exit 74 mtl-data import /dev/null --format nanogpt --output-prefix none
for flags in '' '-' 'llmq.bin --eod -1' 'llmq.bin --eod-first' 'llmq.bin --format megatron' 'llmq.bin --token-type u32'; do
  # shellcheck disable=SC2086  # words
  expect_exit 2 mtl-data import $flags --output-prefix none
done
expect_exit 0 mtl-data import llmq.bin --input-type u32 --eod 128001 --output-prefix noted
expect_text err '--input-type has no effect without --format nanogpt'
# The default output name would replace the input.
expect_exit 2 mtl-data import nanogpt_u16.bin --format nanogpt --output-prefix nanogpt_u16
expect_text err 'nanogpt_u16.bin +is one of the inputs and would be overwritten'
ls none* 2>/dev/null && fail 'import: a refused import left files'

# --- export ---
expect_exit 0 mtl-data export made/nano --format nanogpt --output train.bin --json
expect_text out '^\{"schema": "mtl-data-export/1", "output": "train.bin", "format": "nanogpt", "dtype": "u16", "tokens": 281, "bytes": 562, '
expect_same train.bin nanogpt_u16.bin
expect_exit 0 mtl-data export wide --format nanogpt --output train.bin
expect_same train.bin nanogpt_u32.bin
expect_exit 0 mtl-data export made/nano --output u32.npy --token-type u32
expect_same u32.npy npy_u4.npy
expect_exit 0 mtl-data import llm_c_llama3.bin --eod 128001 --eod-first --output-prefix llama
expect_exit 0 mtl-data export llama --format llm.c --output again.bin
expect_text err 'again.bin: 308 tokens as u32, format llm.c$'
expect_same again.bin llm_c_llama3.bin
expect_exit 65 mtl-data export llama --format llm.c --token-type u16 --output no.bin
expect_text err 'llama.bin: token [0-9]+ of sequence [0-9]+, in document [0-9]+, is [0-9]+, which does not fit in u16'
for flags in '--output no.bin' '--output no.npy --format nanogpt' '--output no.bin --format npy' \
  '--output no.bin --format llm.c --token-type i32' '--output no.bin --format llmq'; do
  # shellcheck disable=SC2086  # words
  expect_exit 2 mtl-data export llama $flags
done
expect_exit 2 mtl-data export llama --format nanogpt --output llama.bin
ls no.* 2>/dev/null && fail 'export: a refused export left files'
# mtl-preprocess's files come back from every format.
expect_exit 0 mtl-preprocess --quiet --input "$TESTS/golden/indexed/corpus.jsonl" "${GPT2[@]}" --append-eod --output-prefix text
for format in nanogpt llm.c npy; do
  file=text.$([ $format = npy ] && echo npy || echo bin)
  expect_exit 0 mtl-data export text_text_document --format $format --output "$file"
  expect_exit 0 mtl-data import "$file" --format $format --eod 50256 --output-prefix back
  expect_same back.bin text_text_document.bin
  # Documents without text have no token, and are lost.
  expect_same <(mtl-data cat back) <(mtl-data cat text_text_document | grep .)
done

# --- formats, and what other commands say of these files ---
expect_exit 0 mtl-data formats
for format in megatron llm.c llmq lit-gpt npy nanogpt; do expect_text out "^$format\$"; done
expect_exit 0 mtl-data formats --json
expect_text out '"schema": "mtl-data-formats/1"'
[ "$(grep -c '"name": ' out)" -eq 6 ] || fail 'formats --json: not 6 formats'
train=(--num-layers 1 --hidden-size 8 --num-attention-heads 1 --seq-length 8 --max-position-embeddings 8 --train-iters 1 --lr 1e-3
  --tokenizer-type NullTokenizer --vocab-size 50257)
for file in llm_c_train_000000.bin llm_c_train_000000 llmq.bin lit_gpt_i32.bin npy_u2.npy; do
  for command in info verify cat sample stats 'shuffle --output-prefix none' 'split --weights 1,1 --output-prefix none' \
    'merge --output-prefix none' 'export --output none.npy' 'order --seq-length 8 --train-iters 1 --data-path'; do
    # shellcheck disable=SC2086  # words
    expect_exit 65 mtl-data $command $file
    expect_text err "$file(.bin)?: this is a token file of the format .*; convert it: mtl-data import $file"
  done
  expect_exit 2 mtl-data $file
  expect_text err "convert it: mtl-data import $file"
  expect_exit 65 mtl-train "${train[@]}" --data-path "$file"
  expect_text err "--data-path .*: this is a token file of the format .*; convert it: mtl-data import $file"
done
expect_exit 74 mtl-train "${train[@]}" --data-path train
expect_text err 'train.idx is missing, but train.bin exists; .*mtl-data import --format nanogpt train.bin --eod ID'

# --- full disks and interrupts leave nothing ---
# The space is looked at before the work, here of a file with a hole.
if truncate -s 8T huge.bin 2>why && [ "$(df --output=avail -B1 . | tail -1)" -lt $((8 << 40)) ]; then
  expect_exit 74 timeout 60 mtl-data import huge.bin --format nanogpt --eod 5 --output-prefix big
  expect_text err 'big needs 8.0 TiB, but its disk has .* free; free some space'
fi
rm -f huge.bin
for fault in enospc:1 eio:2 enospc:4; do
  MTL_FAULT=$fault expect_exit 74 mtl-data import llmq.bin --eod 128001 --output-prefix full
  ls full* 2>/dev/null && fail "import: $fault left files"
done
MTL_FAULT=enospc:1 expect_exit 74 mtl-data export llama --output full.npy
ls full* 2>/dev/null && fail 'export: a full disk left files'
expect_clean_end killed.bin mtl-data import llmq.bin --eod 128001 --output-prefix killed
expect_clean_end killed.npy mtl-data export llama --output killed.npy
finish
