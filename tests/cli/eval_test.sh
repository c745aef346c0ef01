#!/bin/bash
# mtl-eval: the losses equal transformers' for every form of input. Also checks the errors.
source "$(dirname "$0")/lib.sh" "$1"
export OMP_WAIT_POLICY=passive
MODELS=$TESTS/golden/gpt2_model
cd "$WORK" || exit 1
mkdir b && cp "$MODELS"/b/* "$TESTS"/golden/tokenizer/bpe_tinyshakespeare_1000/* b

# number FILE KEY: prints KEY's number in the JSON file FILE.
number() {
  sed -E "s/.*\"$2\": (\[?[-0-9.e+]+).*/\1/" "$1"
}

# Token files: streams in windows of various lengths.
count=0
while IFS= read -r row; do
  model=$(echo "$row" | sed -E 's/.*"model":"(.)".*/\1/')
  seq_length=$(echo "$row" | sed -E 's/.*"seq_length":([0-9]+).*/\1/')
  loss=$(echo "$row" | sed -E 's/.*"loss":([0-9.]+).*/\1/')
  ids=$(echo "$row" | sed -E 's/.*"ids":\[([0-9,]+)\].*/\1/')
  echo "{\"text\": \"${ids//,/ }\"}" >ids.jsonl
  expect_exit 0 mtl-preprocess --input ids.jsonl --output-prefix ids --tokenizer-type NullTokenizer --vocab-size 1000
  for flags in '' '--threads 1 --batch-size 1' '--batch-size 50'; do
    # shellcheck disable=SC2086
    expect_exit 0 mtl-eval --load "$MODELS/$model" --data-path ids_text_document --seq-length "$seq_length" --json --quiet $flags
    expect_near "$(number out loss)" "$loss" 2e-6
    expect_text out '"tokens": 150, "stream_tokens": 151, '
    expect_text out '"bytes": null, "bits_per_byte": null'
    [ -s err ] && fail '--quiet prints to stderr'
  done
  count=$((count + 1))
done <"$TESTS/golden/evaluate/streams.jsonl"
[ "$count" -eq 4 ] || fail "streams.jsonl has $count streams instead of 4"
expect_exit 0 mtl-eval --load "$MODELS/b" --data-path ids_text_document.idx --quiet
expect_text out '^loss [0-9.]+  perplexity [0-9.e+]+  tokens 150$'

# Text, using the tokenizer stored with the model. JSON lines, plain or compressed, score like their token files.
printf '{"text": "To be, or not to be"}\n{"text": ""}\n{"text": "that is the question"}\n' >d.jsonl
expect_exit 0 mtl-preprocess --input d.jsonl --output-prefix d --append-eod --vocab-file b/vocab.json --merge-file b/merges.txt
expect_exit 0 mtl-eval --load b --data-path d_text_document
cut -d' ' -f1-8 out >want
mtl-eval --load b --input d.jsonl | cut -d' ' -f1-8 | cmp -s - want ||
  fail 'JSON lines score differently than their token files'
xz -c d.jsonl | mtl-eval --load b --input - | cut -d' ' -f1-8 | cmp -s - want ||
  fail 'compressed standard input scores differently'
mtl-eval --load "$MODELS/b" --input d.jsonl --vocab-file b/vocab.json --merge-file b/merges.txt | cut -d' ' -f1-8 | cmp -s - want ||
  fail "the model's tokenizer named by flags scores differently"
expect_exit 0 mtl-eval --load b --input d.jsonl --json
expect_text out '^\{"version": 1, "model": "b", "data": \["d.jsonl"\], .*"bytes": 39, '
printf 'To be, or not to be' >one.txt
expect_exit 0 mtl-eval --load b --input one.txt --json
bits=$(awk -v l="$(number out loss)" -v t="$(number out tokens)" 'BEGIN { printf "%.12g", l * t / log(2) / 19 }')
expect_near "$(number out bits_per_byte)" "$bits" 1e-9
cp d.jsonl d.txt
expect_exit 0 mtl-eval --load b --input d.txt
cut -d' ' -f1-8 out | cmp -s - want || fail 'JSON lines in a .txt file score differently'
expect_exit 0 mtl-eval --load b --input d.txt --format text
cut -d' ' -f1-8 out | cmp -s - want && fail '--format text has no effect'
sed 's/text/body/' d.jsonl >body.jsonl
mtl-eval --load b --input body.jsonl --json-keys body | cut -d' ' -f1-8 | cmp -s - want ||
  fail '--json-keys body scores differently'

# In 16 bits, the loss is close to the fp32 loss, but not equal.
expect_exit 0 mtl-eval --load b --input one.txt --json
exact=$(number out loss)
for dtype in bfloat16 float16; do
  expect_exit 0 mtl-eval --load b --input one.txt --json --dtype "$dtype"
  expect_near "$(number out loss)" "$exact" 1e-2
  [ "$(number out loss)" != "$exact" ] || fail "$dtype has exactly the loss of float32"
done
expect_exit 2 mtl-eval --load b --input one.txt --dtype int8
expect_text err '--dtype int8 .*float32'

# Reports all wrong flags together. An unknown flag may stand for one that is missing.
wrong=(mtl-eval --data-path x --input y --seq-length 0 --batch-size 0 --threads -1)
expect_exit 2 "${wrong[@]}"
for what in '--load +' '--data-path, --input +use only one of them' '--seq-length 0 ' '--batch-size 0 ' '--threads -1 '; do
  expect_text err "$what"
done
expect_exit 2 "${wrong[@]}" --sequence 3
expect_text err '--sequence +unknown flag'
! grep -qE -- '--load +' err || fail 'a missing flag is reported beside an unknown one'
expect_exit 2 mtl-eval --load b
expect_text err '--data-path, --input +one of them is required'
expect_exit 2 mtl-eval --load b --data-path ids_text_document --format text
expect_text err '--format +applies only to --input'
expect_exit 2 mtl-eval --load b --input one.txt --vocab-file v
expect_text err '--merge-file +is required by'
expect_exit 2 mtl-eval --load b --input one.txt --seq-length 49
expect_text err '--seq-length 49 .* 48 positions'
# A model whose configuration states only the positions before scaling is as long as its scaling reaches.
seq -s ' ' 1 100 >count.txt
for sizes in 'yarn 16 64' 'longrope 32 128'; do
  read -r scaling original longest <<<"$sizes"
  cp -r "$TESTS/golden/rotary_model/$scaling" .
  chmod -R u+w "$scaling"
  sed -i -E "s/(\"max_position_embeddings\": )256/\1$original/" "$scaling/config.json"
  scored=(--input count.txt --tokenizer-type NullTokenizer --vocab-size 200 --quiet --seq-length)
  expect_exit 0 mtl-eval --load "$TESTS/golden/rotary_model/$scaling" "${scored[@]}" 60
  cp out want
  expect_exit 0 mtl-eval --load "$scaling" "${scored[@]}" 60
  expect_same out want
  expect_exit 2 mtl-eval --load "$scaling" "${scored[@]}" $((longest + 1))
  expect_text err "is longer than the $longest positions"
  expect_exit 0 mtl-generate --load "$scaling" --ids --prompt "$(seq -s ' ' 1 50)" --max-new-tokens 2
  [ -s err ] && fail 'mtl-generate cuts a prompt that the scaling reaches'
done
expect_exit 2 mtl-eval --load "$MODELS/a" --input one.txt
expect_text err '--input +needs a tokenizer, but .*/a .*--vocab-file'
# A tokenizer may have tokens that the model lacks, as long as no text produces them.
expect_exit 65 mtl-eval --load "$MODELS/a" --input one.txt --vocab-file b/vocab.json --merge-file b/merges.txt
expect_text err 'token id [0-9]+ is not in the model.s vocabulary of 512 tokens; use the tokenizer'
printf 'To be' >short.txt
expect_exit 0 mtl-eval --load "$MODELS/a" --input short.txt --vocab-file b/vocab.json --merge-file b/merges.txt
expect_exit 65 mtl-eval --load "$MODELS/a" --data-path ids_text_document
expect_text err 'token id [0-9]+ is not in the model.s vocabulary of 512'
: >empty.txt
expect_exit 65 mtl-eval --load b --input empty.txt
expect_text err 'empty.txt has 0 tokens'
printf '{"text": "a"}\n{"text": 5}\n' >bad.jsonl
expect_exit 65 mtl-eval --load b --input bad.jsonl
expect_text err 'bad.jsonl:2: '
# A byte order mark and other encodings are refused in every format, from files and from standard input.
printf '\xef\xbb\xbf{"text": "To be"}\n' >mark.jsonl
printf '\xef\xbb\xbfTo be' >mark.txt
for file in mark.jsonl mark.txt; do
  expect_exit 65 mtl-eval --load b --input $file
  expect_text err "$file: .*byte order mark.*tail -c \+4"
  expect_exit 65 mtl-eval --load b --input - <$file
  expect_text err 'standard input: .*byte order mark'
done
# JSON in other layouts than JSON lines is not scored as plain text, unless told so.
for text in '[{"text": "To be"}]' '[\n {"text": "To be"}\n]\n' '{\n "text": "To be"\n}\n' '{"text": "To be"}\r{"text": "or"}\r'; do
  printf '%b' "$text" >odd.txt
  expect_exit 65 mtl-eval --load b --input - <odd.txt
  expect_text err 'standard input:1: .*--format text'
  expect_exit 65 mtl-eval --load b --input odd.txt
  expect_exit 0 mtl-eval --load b --input - --format text <odd.txt
done
printf '\n{"text": "To be"}\n' >odd.txt
expect_exit 65 mtl-eval --load b --input odd.txt
expect_text err ':1: the line is blank'
printf '[1] To be' >reference.txt
expect_exit 0 mtl-eval --load b --input - <reference.txt
printf 'To be\nor caf\xe9' >latin.txt
expect_exit 65 mtl-eval --load b --input latin.txt
expect_text err 'latin.txt:2: invalid UTF-8 \(column 7\); .*iconv'
expect_exit 65 mtl-eval --load b --input - <latin.txt
expect_text err 'standard input:2: invalid UTF-8 \(column 7\)'
expect_exit 74 mtl-eval --load b --input absent.txt
expect_exit 74 mtl-eval --load b --data-path absent
mkdir hollow
mtl-eval --load hollow --data-path ids_text_document 2>err && fail 'accepts an empty folder as a model'
expect_text err 'hollow'

# A FIFO in place of a tokenizer file does not block.
mkdir fifo
cp b/* fifo
rm fifo/merges.txt
mkfifo fifo/merges.txt
expect_exit 74 timeout 60 mtl-eval --load fifo --input one.txt
expect_text err 'fifo/merges.txt is not a regular file'

# A model with non-finite losses gets no score.
mkdir broken
cp b/* broken
chmod -R u+w broken
printf '\x00\x7e' | dd of=broken/model.safetensors bs=1 seek=$(($(stat -c %s broken/model.safetensors) - 2)) conv=notrunc status=none
for flags in '' --json; do
  # shellcheck disable=SC2086
  expect_exit 65 mtl-eval --load broken --input one.txt $flags
  [ -s out ] && fail 'a score that is not finite was printed'
  expect_text err "broken/model.safetensors: tensor 'transformer.wte.weight' contains NaN or infinity"
done
# Finite weights, whose logits are not.
mkdir huge
cp "$MODELS"/a/* huge
chmod -R u+w huge
last=$(($(stat -c %s huge/model.safetensors) - 256))
for i in {0..63}; do printf '\xff\xff\x7f\x7f'; done | dd of=huge/model.safetensors bs=1 seek="$last" conv=notrunc status=none
echo '{"text": "1 2 3 4"}' >few.jsonl
expect_exit 0 mtl-preprocess --input few.jsonl --output-prefix few --tokenizer-type NullTokenizer --vocab-size 512
expect_exit 65 mtl-eval --load huge --data-path few_text_document
expect_text err "the model's logits are not finite"
finish
