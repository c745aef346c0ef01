#!/bin/bash
# mtl-preprocess and mtl-data cat with SentencePiece models, using each of Megatron-LM's three tokenizer types.
source "$(dirname "$0")/lib.sh" "$1"
GOLDEN=$TESTS/golden/tokenizer
cd "$WORK" || exit 1
cp "$GOLDEN/sentencepiece_bpe.model" bpe.model
cp "$GOLDEN/sentencepiece_unigram.model" unigram.model
printf '%s\n' '{"text": "What say the citizens?  Speak, speak."}' '{"text": "<s>1607</s> caf\u00e9 \ud83d\ude00"}' '{"text": ""}' >text.jsonl
printf '%s\n' 'What say the citizens?  Speak, speak.' '<s>1607</s> café 😀' '' >text

# run PREFIX TYPE MODEL FLAG...: makes token files from text.jsonl. cat_text prints their text.
run() {
  local prefix=$1 type=$2 model=$3
  shift 3
  expect_exit 0 mtl-preprocess --input text.jsonl --output-prefix "$prefix" --tokenizer-type "$type" --tokenizer-model "$model" --append-eod "$@"
}
cat_text() {
  local prefix=$1 type=$2 model=$3
  shift 3
  expect_exit 0 mtl-data cat --plain "${prefix}_text_document" --tokenizer-type "$type" --tokenizer-model "$model" "$@"
}

# The three types are the same tokenizer: they give the same bytes, and the text decodes back.
for type in SentencePieceTokenizer GPTSentencePieceTokenizer Llama2Tokenizer; do
  run "$type" "$type" bpe.model --workers 2
  expect_same "${type}_text_document.bin" SentencePieceTokenizer_text_document.bin
  cat_text "$type" "$type" bpe.model
  expect_same out text
done
grep -q '"type": "Llama2Tokenizer"\|Llama2Tokenizer' Llama2Tokenizer_text_document.json || fail "the provenance does not name the tokenizer"

# A folder works like a file. If the model normalizes, it decodes to the normalized text.
mkdir model && cp unigram.model model/tokenizer.model
run unigram GPTSentencePieceTokenizer model
cat_text unigram GPTSentencePieceTokenizer unigram.model
sed 's/  / /' text >single
expect_same out single

# Megatron-LM's older behavior: <s> before the text, and additional special tokens.
run llama Llama2Tokenizer bpe.model --legacy-tokenizer
expect_exit 0 mtl-data cat llama_text_document --ids --count 1
expect_text out '^1 .* 2$'
echo '{"text": "one<EOD>two<extra_id_0>"}' >text.jsonl
run old SentencePieceTokenizer bpe.model --legacy-tokenizer --vocab-extra-ids 1
expect_exit 0 mtl-data cat old_text_document --ids
expect_text out '^[0-9 ]* 2002 [0-9 ]* 2005 2002$'

# expect_refused FLAG FLAG...: mtl-preprocess rejects these flags, and the error is about the first.
expect_refused() {
  local flag=$1
  shift
  expect_exit 2 mtl-preprocess --input text.jsonl --output-prefix refused "$@"
  expect_text err "^  $flag"
}
expect_refused --tokenizer-model --tokenizer-type Llama2Tokenizer
expect_refused --parse-special-tokens --tokenizer-type Llama2Tokenizer --tokenizer-model bpe.model \
  --parse-special-tokens
expect_refused --legacy-tokenizer --tokenizer-type GPTSentencePieceTokenizer --tokenizer-model bpe.model \
  --legacy-tokenizer
expect_refused --vocab-extra-ids --tokenizer-type SentencePieceTokenizer --tokenizer-model bpe.model --vocab-extra-ids 3
head -c 1000 bpe.model >cut.model
expect_exit 65 mtl-preprocess --input text.jsonl --output-prefix refused --tokenizer-type Llama2Tokenizer --tokenizer-model cut.model
expect_text err 'cut.model is not a SentencePiece model, or is damaged'
expect_exit 74 mtl-preprocess --input text.jsonl --output-prefix refused --tokenizer-type Llama2Tokenizer --tokenizer-model nosuch.model
expect_text err 'nosuch.model'
finish
