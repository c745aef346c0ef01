#!/bin/bash
# mtl-data: checks the output of info, cat and order, and the errors.
source "$(dirname "$0")/lib.sh" "$1"
GOLDEN=$TESTS/golden/gpt_dataset
cp "$GOLDEN"/items_*.bin "$GOLDEN"/items_*.idx "$WORK" && cd "$WORK" || exit 1

# expect_output COMMAND...: exits with 0 and prints exactly the text on stdin.
expect_output() {
  cat >"$WORK/want"
  expect_exit 0 "$@"
  diff "$WORK/want" "$WORK/out" >&2 || fail "output differs: $*"
}

# --- The tool itself ---
expect_exit 0 mtl-data --help
for command in info verify cat sample stats merge split shuffle repair import export formats order; do expect_text out "^  $command "; done
expect_exit 0 mtl-data --version
expect_text out '^mtl-data [0-9]'
expect_exit 2 mtl-data
expect_exit 2 mtl-data ordr
expect_text err 'mtl-data: unknown command ordr; did you mean order\?'
expect_exit 2 mtl-data zzzzzz
expect_text err 'the commands are info, verify, cat, .*, order'
expect_exit 2 mtl-data items_short
expect_text err 'items_short names token files; put a command first, for example: mtl-data info items_short'

# --- info ---
expect_output mtl-data info items_short <<'END'
items_short
  documents   14
  sequences   14
  tokens      92, stored as u16
  lengths     2 to 10 tokens in a sequence, mean 6.6
  files       .bin 184 bytes, .idx 322 bytes (XXH3 5059e0d8e99771aa)

  tokens in a sequence      sequences
                 2 - 3              3  ####################
                 4 - 7              5  ##################################
                8 - 15              6  ########################################
END
mtl-data info --json items_short.idx ./items_long.bin >json || fail 'info --json: failed'
[ "$(wc -l <json)" -eq 2 ] || fail 'info --json: not one line per prefix'
expect_text json '^\{"schema": "mtl-data-info/1", "prefix": "items_short", "dtype": "u16", "documents": 14, '
expect_text json '"prefix": "./items_long", .*"length_histogram": \[\{"from": '
expect_exit 2 mtl-data info
expect_exit 2 mtl-data info --frob items_short
expect_text err '^mtl-data info: 1 problem '
expect_exit 2 mtl-data info --jsn items_short
expect_text err '^mtl-data info: 1 problem '
expect_text err 'did you mean --json\?'

# --- cat ---
expect_output mtl-data cat items_short.bin --ids --count 2 <<'END'
71 64 90
76 10 78 41 90 5 64 41 61 90
END
expect_output mtl-data cat items_short --begin 1 --count 1 --json <<'END'
{"document":1,"sequences":[[76,10,78,41,90,5,64,41,61,90]]}
END
expect_output mtl-data cat items_short --begin 14 </dev/null
mtl-data cat items_short >all || fail 'cat: failed'
[ "$(wc -l <all)" -eq 14 ] || fail 'cat: not one line per document'
[ "$(wc -w <all)" -eq 92 ] || fail 'cat: not all tokens'
expect_exit 2 mtl-data cat items_short --begin 15
expect_exit 2 mtl-data cat items_short --begin -1
expect_exit 2 mtl-data cat items_short items_long --count 1
[ "$(mtl-data cat items_short items_short | wc -l)" -eq 28 ] || fail 'cat: not all documents of two data sets'
# With a tokenizer: prints JSON lines with text, and mtl-preprocess makes the same files from them.
INDEXED=$TESTS/golden/indexed
GPT2="--vocab-file $SHARE/gpt2/vocab.json --merge-file $SHARE/gpt2/merges.txt"
# shellcheck disable=SC2086
{
  for name in default_text eod_text keys_text keys_title content_content; do
    eod='' key=${name##*_}
    case $name in eod_text | content_content) eod=--append-eod ;; esac
    mtl-data cat "$INDEXED/${name}_document" $GPT2 | sed "s/\"text\":/\"$key\":/" |
      mtl-preprocess --input - --json-keys "$key" --output-prefix again $eod $GPT2 --quiet ||
        fail "cat: cannot make $name again from its text"
    expect_same "again_${key}_document.bin" "$INDEXED/${name}_document.bin"
    expect_same "again_${key}_document.idx" "$INDEXED/${name}_document.idx"
  done
  EOD=$INDEXED/eod_text_document
  mtl-data cat "$EOD" $GPT2 --count 3 | grep -q endoftext && fail 'cat: prints the end of a document without --keep-eod'
  [ "$(mtl-data cat "$EOD" $GPT2 --count 2 --keep-eod | grep -c '<|endoftext|>"}$')" -eq 2 ] ||
    fail 'cat: --keep-eod does not print the ends of documents'
  [ "$(mtl-data cat "$EOD" $GPT2 --count 1 --json)" = "$(mtl-data cat "$EOD" $GPT2 --count 1)" ] ||
    fail 'cat: --json changes the output of text'
  expect_exit 0 mtl-data cat "$EOD" $GPT2 --ids
  expect_same out <(mtl-data cat "$EOD")
  expect_exit 2 mtl-data cat "$EOD" --plain
  expect_exit 2 mtl-data cat "$EOD" $GPT2 --plain --json
  expect_exit 2 mtl-data cat "$EOD" --vocab-size 9
}
expect_output mtl-data cat items_short --count 1 --tokenizer-type NullTokenizer --vocab-size 91 <<'END'
{"document":0,"text":"71 64"}
END
expect_output mtl-data cat items_short --count 1 --tokenizer-type NullTokenizer --vocab-size 91 --plain --keep-eod <<'END'
71 64 90
END
mtl-data cat items_short --tokenizer-type NullTokenizer --vocab-size 91 --keep-eod |
  mtl-preprocess --input - --output-prefix null --tokenizer-type NullTokenizer --vocab-size 91 --quiet ||
  fail 'cat: mtl-preprocess refuses the text of ids'
expect_same null_text_document.bin items_short.bin
expect_same null_text_document.idx items_short.idx
# shellcheck disable=SC2086
expect_exit 65 mtl-data cat "$INDEXED/null70000_text_document" $GPT2
expect_text err 'null70000_text_document: document [0-9]+: .*; select the tokenizer that made the data'
expect_exit 2 mtl-data cat items_short --tokenizer-type GPT2BPETokenizer
expect_text err '--vocab-file +is required by'
mtl-data cat items_long 2>err | head -1 >out
expect_text out '^[0-9 ]+$'
[ -s err ] && fail 'cat | head -1: cat reports the closed pipe'

# --- order ---
expect_output mtl-data order --data-path items_short --split 100,0,0 --seq-length 16 --train-samples 3 --tokens <<'END'
{"sample":1,"dataset":0,"documents":[13,2,9],"offsets":[0,6],"tokens":[61,70,52,90,7,89,72,90,6,90,27,88,47,48,55,87,10]}
{"sample":0,"dataset":0,"documents":[12,10,0,11,13],"offsets":[0,0],"tokens":[84,85,48,15,90,19,90,59,12,90,71,64,90,36,29,90,61]}
{"sample":3,"dataset":0,"documents":[1,8,4,5],"offsets":[8,0],"tokens":[61,90,61,21,28,9,90,1,74,9,63,90,37,84,29,64,11]}
END
order="mtl-data order --data-path items_short --split 50,30,20 --seq-length 8 --train-iters 10 --global-batch-size 4"
[ "$($order | wc -l)" -eq 40 ] || fail 'order: not --train-iters x --global-batch-size samples'
[ "$($order --dataset valid --eval-interval 4 --eval-iters 2 | wc -l)" -eq 24 ] ||
  fail 'order: wrong number of validation samples'
ramp="${order/--train-iters 10/--train-samples 40} --rampup-batch-size 2 2 12"
[ "$($ramp --dataset valid --eval-interval 4 --eval-iters 2 | wc -l)" -eq 32 ] ||
  fail 'order: validation follows the ramp of the batch size'
[ "$($order --dataset test --eval-iters 2 | wc -l)" -eq 8 ] || fail 'order: wrong number of test samples'
[ "$($order --dataset test --eval-iters 0 | wc -l)" -eq 0 ] || fail 'order: --eval-iters 0 has test samples'
# Two ranks share the batch's samples.
$order | head -4 | sort >one
$order --micro-batch-size 2 --data-parallel-size 2 | head -4 | sort >two
expect_same one two
# A cyclic run uses every sample in an epoch once before it repeats any.
$order --dataloader-type cyclic --micro-batch-size 2 >shuffled || fail 'order: failed with --dataloader-type cyclic'
samples=$($order --train-samples 1 2>/dev/null | wc -l)
[ "$samples" -eq 0 ] || fail 'order: accepts both --train-iters and --train-samples'
[ "$(sort -u shuffled | wc -l)" -eq 40 ] || fail 'order: cyclic repeats samples too early'
cmp -s shuffled <($order) && fail 'order: cyclic is not shuffled'

expect_exit 2 mtl-data order --data-path items_short items_long --seq-length 0 --train-iters 2 --global-batch-size 3 \
  --micro-batch-size 2 --split 1,2,3,4 --seed -1
expect_text err '--seq-length 0 +must be from 1 to '
expect_text err '--global-batch-size 3 +is not a multiple'
expect_text err '--split 1,2,3,4 +has 4 weights'
expect_text err '--seed -1 '
expect_exit 2 mtl-data order --data-path items_short --seq-length 8 --train-iters 1 --split 1,0,0 --dataset test
expect_text err '--split .* leaves no data for test'
expect_exit 65 mtl-data order --data-path items_short --seq-length 8 --train-iters 1 --dataset test
expect_text err 'items_short: sequences 14 to 14 \(exclusive\) contain no tokens'
# Products of these numbers exceed 64 bits.
order='timeout 20 mtl-data order --data-path items_short --split 100,0,0 --seq-length 8'
expect_exit 2 $order --train-iters 3 --micro-batch-size 4611686018427387904 --data-parallel-size 4
expect_text err '--micro-batch-size 4611686018427387904 +must be from 1 to 2147483647'
expect_exit 2 $order --train-iters 3 --micro-batch-size 4611686018427387904 --data-parallel-size 4 --global-batch-size 8
expect_exit 2 $order --train-iters 3 --data-parallel-size 4611686018427387904
expect_exit 2 $order --train-iters 9000000000000000000 --global-batch-size 4
expect_text err '--train-iters 9000000000000000000 +.*64 bits can count, 4 per iteration;'
expect_exit 2 $order --train-iters 3 --global-batch-size 3 --eval-iters 9000000000000000000
expect_text err 'evaluation of 9000000000000000000 batches, each of 3 samples, overflow the 64-bit sample count'

# Broken and missing files.
expect_exit 74 mtl-data info absent
expect_text err 'absent.idx: '
head -c 150 items_short.idx >short.idx
cp items_short.bin short.bin
for command in 'info short' 'cat short' 'order --data-path short --seq-length 8 --train-iters 1'; do
  # shellcheck disable=SC2086
  expect_exit 65 mtl-data $command
  expect_text err 'short.idx: sequence_count 14 needs 168 bytes after the header, but the file has 116 \(byte 18\); re-run'
done
cp items_short.idx short.idx
head -c 100 items_short.bin >short.bin
expect_exit 65 mtl-data info short
expect_text err 'short.bin: sequences 0 to [0-9]+ need [0-9]+ bytes, but the file has 100'
# Warns if a document's text would encode to different tokens: this one ends in half a character.
printf '{"text": "15496 447"}\n{"text": "15496"}\n' >halves.jsonl
expect_exit 0 mtl-preprocess --quiet --input halves.jsonl --output-prefix halves --tokenizer-type NullTokenizer --vocab-size 50257
for command in cat sample; do
  expect_exit 0 mtl-data $command halves_text_document --vocab-file "$SHARE/gpt2/vocab.json" --merge-file "$SHARE/gpt2/merges.txt"
  expect_text err '1 text would encode to different tokens with these tokenizer flags'
done

# Reports that a file was truncated while it was read.
yes '{"text": "11 22 33 44 55 66 77 88 99 11 22 33 44 55 66 77 88 99 11 22 33 44 55 66 77 88 99"}' | head -n 100000 >long.jsonl
null=(--tokenizer-type NullTokenizer --vocab-size 100)
expect_exit 0 mtl-preprocess --quiet --input long.jsonl --output-prefix long "${null[@]}"
mkfifo pipe
# expect_shrink_error FILE SIZE: mtl-data cat fails if FILE is truncated to SIZE after the first line was read.
expect_shrink_error() {
  cp long_text_document.bin cut.bin
  cp long_text_document.idx cut.idx
  mtl-data cat cut "${null[@]}" >pipe 2>err &
  reader=$!
  exec 3<pipe
  read -r -u 3 _
  truncate -s "$2" "$1"
  cat <&3 >remaining
  wait "$reader"
  [ $? -eq 74 ] || fail "not exit 74 with $1 truncated by truncate -s $2"
  exec 3<&-
  grep -qE '(^|[" ])0' remaining && fail "truncated tokens of $1 are printed as zeros"
}
expect_shrink_error cut.bin 0
expect_text err '^mtl-data( cat)?: cut.bin was truncated while it was in use; stop what writes to it, restore it'
expect_shrink_error cut.bin -4  # within its last page, where a memory map reads zeros
expect_text err '^mtl-data( cat)?: cut.bin was truncated while it was in use'
expect_shrink_error cut.idx 0
expect_text err '^mtl-data( cat)?: .*was truncated while it was in use'
finish
