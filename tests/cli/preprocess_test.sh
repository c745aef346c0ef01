#!/bin/bash
# mtl-preprocess: token files equal Megatron-LM's byte for byte, for any thread count and compression. Also checks the
# errors.
source "$(dirname "$0")/lib.sh" "$1"
GOLDEN=$TESTS/golden/indexed
GPT2="--tokenizer-type GPT2BPETokenizer --vocab-file $SHARE/gpt2/vocab.json --merge-file $SHARE/gpt2/merges.txt"

# same_files PREFIX: both files equal the golden files.
same_files() {
  expect_same "$WORK/$1.bin" "$GOLDEN/$1.bin"
  expect_same "$WORK/$1.idx" "$GOLDEN/$1.idx"
}

# expect_nothing PREFIX: no file name starts with PREFIX.
expect_nothing() {
  [ -z "$(find "$WORK" -name "$1*")" ] || fail "left behind: $(find "$WORK" -name "$1*")"
}

# The runs in golden/indexed/commands.json, with Megatron-LM's own flags.
run() {
  local prefix=$1
  shift
  expect_exit 0 mtl-preprocess --output-prefix "$WORK/$prefix" "$@"
}
CORPUS="--input $GOLDEN/corpus.jsonl"
run default $CORPUS $GPT2 --workers 1 && same_files default_text_document
run eod $CORPUS $GPT2 --workers 1 --append-eod && same_files eod_text_document
run keys $CORPUS $GPT2 --workers 1 --json-keys text title && same_files keys_text_document && same_files keys_title_document
run content $CORPUS $GPT2 --workers 1 --json-keys content --append-eod && same_files content_content_document
# Megatron-LM writes the id -1 in line 9. mtl rejects ids outside the vocabulary, so the comparison omits this line.
null="--tokenizer-type NullTokenizer --vocab-size 70000 --workers 1 --append-eod"
expect_exit 65 mtl-preprocess --input "$GOLDEN/null.jsonl" $null --output-prefix "$WORK/outside"
expect_text "$WORK/err" 'null.jsonl:9: the token id -1 is not in the vocabulary of NullTokenizer, which has ids 0 to 69999;'
(cd "$WORK" && make_null_corpus)
run inside --input "$WORK/null.jsonl" $null
for suffix in bin idx; do expect_same "$WORK/inside_text_document.$suffix" "$WORK/null_expected.$suffix"; done
run special --input "$GOLDEN/special.jsonl" $GPT2 --workers 1 --append-eod --parse-special-tokens
same_files special_text_document
run partitions $CORPUS $GPT2 --workers 2 --partitions 2 --append-eod && same_files partitions_text_document
run sequential $CORPUS $GPT2 --workers 3 --partitions 3 --keep-sequential-samples --append-eod
same_files sequential_text_document

# These are all runs in commands.json except `merged`, which data_make_test.sh tests.
names=$(sed -nE 's/^  "name": "(.*)",$/\1/p' "$GOLDEN/commands.json" | sort | tr '\n' ' ')
[ "$names" = "content default eod keys merged null70000 partitions partitions_sequential special " ] || fail "commands.json has different runs: $names"

# Without --parse-special-tokens, special strings are ordinary text.
run ordinary --input "$GOLDEN/special.jsonl" $GPT2 --append-eod
cmp -s "$WORK/ordinary_text_document.bin" "$GOLDEN/special_text_document.bin" && fail "<|endoftext|> in a text became a token"

# Old flags are accepted, each with one notice.
run old $CORPUS --vocab "$SHARE/gpt2/vocab.json" --merge-file "$SHARE/gpt2/merges.txt" --tokenizer-type GPT2BPETokenizer \
  --dataset-impl mmap --chunk-size 25 --json-keys content --workers 32 --append-eod
expect_same "$WORK/old_content_document.bin" "$GOLDEN/content_content_document.bin"
expect_text "$WORK/err" '--dataset-impl has no effect'
expect_text "$WORK/err" '--chunk-size has no effect'
for flag in --dataset-impl --chunk-size --vocab; do
  [ "$(grep -c -- "^mtl-preprocess: $flag " "$WORK/err")" -eq 1 ] || fail "not exactly one notice about $flag"
done

# Sentences: each is a sequence. The line breaks between them are dropped or kept.
echo '{"text": "Mr. Fox came.\n\nHe left at 5 p.m. on Jan. 5... \"Why?\" she asked. No end", "a": ["One. Two.", "", "Three"]}' >"$WORK/prose.jsonl"
run drop --input "$WORK/prose.jsonl" $GPT2 --split-sentences --json-keys text a --json
expect_text "$WORK/out" '"key": "text", "prefix": ".*drop_text_sentence", "documents": 1, "sequences": 4,'
expect_text "$WORK/out" '"key": "a", "prefix": ".*drop_a_sentence", "documents": 1, "sequences": 3,'
[ ! -e "$WORK/drop_text_document.bin" ] || fail "--split-sentences also writes documents"
echo '{"text": ["Mr. Fox came.", "He left at 5 p.m. on Jan. 5...", "\"Why?\" she asked.", "No end"]}' >"$WORK/dropped.jsonl"
echo '{"text": ["Mr. Fox came.\n\n", "He left at 5 p.m. on Jan. 5... ", "\"Why?\" she asked. ", "No end"]}' >"$WORK/kept.jsonl"
run list --input "$WORK/dropped.jsonl" $GPT2 && expect_same "$WORK/drop_text_sentence.idx" "$WORK/list_text_document.idx"
expect_same "$WORK/drop_text_sentence.bin" "$WORK/list_text_document.bin"
run keep --input "$WORK/prose.jsonl" $GPT2 --split-sentences --keep-newlines --lang english
run kept --input "$WORK/kept.jsonl" $GPT2 && expect_same "$WORK/keep_text_sentence.idx" "$WORK/kept_text_document.idx"
expect_same "$WORK/keep_text_sentence.bin" "$WORK/kept_text_document.bin"
run idle $CORPUS $GPT2 --keep-newlines --lang german && expect_same "$WORK/idle_text_document.bin" "$GOLDEN/default_text_document.bin"
for flag in --keep-newlines --lang; do expect_text "$WORK/err" "^mtl-preprocess: $flag has no effect without --split-sentences"; done

# Multiple chunks of lines: any thread count, any compression and standard input give the same bytes.
for i in $(seq 120); do cat "$GOLDEN/corpus.jsonl"; echo; done >"$WORK/big.jsonl"
gzip -c "$WORK/big.jsonl" >"$WORK/big.gz"
xz -1 -c "$WORK/big.jsonl" >"$WORK/big.xz"
zstd -q -c "$WORK/big.jsonl" >"$WORK/big.zst"
xz -1 -T2 --block-size=64KiB -c "$WORK/big.jsonl" >"$WORK/blocks.xz"
half=$(($(stat -c %s "$WORK/big.jsonl") / 2))
{ head -c "$half" "$WORK/big.jsonl" | zstd -q -c; tail -c +$((half + 1)) "$WORK/big.jsonl" | zstd -q -c; } >"$WORK/frames.zst"
run w1 --input "$WORK/big.jsonl" $GPT2 --append-eod --workers 1
[ "$(stat -c %s "$WORK/w1_text_document.bin")" -eq $((120 * 14708)) ] || fail "120 copies have the wrong size"
same_as_w1() {
  expect_same "$WORK/$1_text_document.bin" "$WORK/w1_text_document.bin"
  expect_same "$WORK/$1_text_document.idx" "$WORK/w1_text_document.idx"
}
run w4 --input "$WORK/big.jsonl" $GPT2 --append-eod --workers 4 && same_as_w1 w4
for kind in gz xz zst; do
  run "$kind" --input "$WORK/big.$kind" $GPT2 --append-eod && same_as_w1 "$kind"
done
run blocks --input "$WORK/blocks.xz" $GPT2 --append-eod --workers 4 && same_as_w1 blocks
run frames --input "$WORK/frames.zst" $GPT2 --append-eod --workers 4 && same_as_w1 frames
run stdin --input - $GPT2 --append-eod <"$WORK/big.zst" && same_as_w1 stdin
run pipe --input - $GPT2 --append-eod < <(cat "$WORK/big.jsonl") && same_as_w1 pipe
mkdir "$WORK/shards"
split -n l/3 "$WORK/big.jsonl" "$WORK/shards/part."
run files --input "$WORK"/shards/part.* $GPT2 --append-eod && same_as_w1 files
run pattern --input "$WORK/shards/part.*" $GPT2 --append-eod && same_as_w1 pattern
run workers_p4 --input "$WORK/big.jsonl" $GPT2 --append-eod --partitions 7 --workers 4
run workers_p1 --input "$WORK/big.jsonl" $GPT2 --append-eod --partitions 7 --workers 1
expect_exit 0 mtl-preprocess --input "$WORK/big.jsonl" --output-prefix "$WORK/size" --partitions 7 $GPT2 --json
expect_text "$WORK/out" "\"input_bytes\": $(stat -c %s "$WORK/big.jsonl"),"
expect_same "$WORK/workers_p4_text_document.bin" "$WORK/workers_p1_text_document.bin"
cat "$WORK/big.gz" "$WORK/big.gz" >"$WORK/twice.gz"
run twice --input "$WORK/twice.gz" $GPT2 --append-eod --json
expect_text "$WORK/out" '"schema": "mtl-preprocess/1", "documents": 9840,'
[ ! -s "$WORK/err" ] || fail "--json prints to stderr"
run logged --input "$WORK/big.xz" $GPT2 --log-interval 100
expect_text "$WORK/err" '^mtl-preprocess: [0-9,]+ documents, .* MB; .* MB/s, [0-9,]+ documents/s, [0-9,]+ tokens/s; [0-9]+% read, .* left$'
expect_text "$WORK/err" '^mtl-preprocess: 4,920 documents, 877,800 tokens, .* MB in .* \(.* MB/s, [0-9,]+ documents/s, [0-9,]+ tokens/s\)$'
run unlogged --input "$WORK/big.xz" $GPT2 --log-interval 0
[ "$(grep -c ' documents/s' "$WORK/err")" -eq 1 ] || fail "--log-interval 0 prints more than the summary: $(cat "$WORK/err")"
run ordered_by_name --input "$WORK/big.xz" $GPT2 --append-eod --quiet
[ ! -s "$WORK/err" ] || fail "--quiet prints to stderr"
expect_text "$WORK/w1_text_document.json" '"schema": "mtl-provenance/1"'
expect_text "$WORK/w1_text_document.json" "\"path\": \"$WORK/big.jsonl\""

# A bad line ends the run. The error gives its place, and no file remains.
head -2 "$GOLDEN/corpus.jsonl" >"$WORK/head.jsonl"
# expect_bad_line NAME LINE MESSAGE: such a line is rejected with this message.
expect_bad_line() {
  local name=$1 line=$2 message=$3
  { cat "$WORK/head.jsonl"; printf '%b\n' "$line"; cat "$WORK/head.jsonl"; } >"$WORK/$name.jsonl"
  expect_exit 65 mtl-preprocess --input "$WORK/$name.jsonl" --output-prefix "$WORK/bad_$name" $GPT2
  expect_text "$WORK/err" "$name.jsonl:3: $message"
  expect_nothing "bad_$name"
}
expect_bad_line blank '' 'the line is blank'
expect_bad_line broken '{"text": "a"' 'the text ends early \(column 13\)'
expect_bad_line missing '{"title": "a"}' "the line has no key \"text\", but earlier .* jq -c 'select\(.text\)' FILE"
expect_bad_line number '{"text": 5}' 'the value of "text" is neither'
expect_bad_line mixed '{"text": ["a", 5]}' 'the value of "text" is a list'
expect_bad_line surrogate '{"text": "\\ud800"}' 'the value of "text" contains a lone surrogate'
expect_bad_line utf8 '{"text": "\xff"}' 'invalid UTF-8 \(column 11\); .*iconv'
expect_bad_line list '["text"]' '.*array of strings, not an object .* jq -c objects FILE'
expect_bad_line tail '{"text": "a"} x' 'unexpected text'
expect_exit 65 mtl-preprocess --input "$GOLDEN/corpus.jsonl" --output-prefix "$WORK/bad_null" --tokenizer-type NullTokenizer --vocab-size 10
expect_text "$WORK/err" 'corpus.jsonl:1: "A" is not a token id'
echo '{"text": "1 70000"}' >"$WORK/range.jsonl"
expect_exit 65 mtl-preprocess --input "$WORK/range.jsonl" --output-prefix "$WORK/bad_range" --tokenizer-type NullTokenizer --vocab-size 100
expect_text "$WORK/err" 'range.jsonl:1: the token id 70000 is not in the vocabulary'
expect_nothing bad_

# Keys that are not requested can have any value that Python accepts, even lone surrogates.
echo '{"text": "a", "other": "\ud800", "n": NaN, "big": 123456789012345678901234567890}' >"$WORK/other.jsonl"
run other --input "$WORK/other.jsonl" $GPT2

# --skip-bad N: skips up to N bad lines and writes them to PREFIX.rejects.jsonl.
{ cat "$WORK/head.jsonl"; echo '{"text": 1}'; cat "$WORK/head.jsonl"; echo 'x'; } >"$WORK/two.jsonl"
cat "$WORK/head.jsonl" "$WORK/head.jsonl" >"$WORK/good.jsonl"
run good --input "$WORK/good.jsonl" $GPT2
run skipped --input "$WORK/two.jsonl" $GPT2 --skip-bad 2
expect_same "$WORK/skipped_text_document.bin" "$WORK/good_text_document.bin"
expect_text "$WORK/skipped.rejects.jsonl" "two.jsonl:3\", \"reason\": \".*neither.*\", \"line\": \"\{.*1\}\""
expect_text "$WORK/skipped.rejects.jsonl" 'two.jsonl:6'
: >"$WORK/kinds.jsonl"
for kind in blank broken missing number mixed surrogate utf8 list tail; do sed -n 3p "$WORK/$kind.jsonl" >>"$WORK/kinds.jsonl"; done
cat "$WORK/good.jsonl" >>"$WORK/kinds.jsonl"
run kinds --input "$WORK/kinds.jsonl" $GPT2 --skip-bad 9
expect_same "$WORK/kinds_text_document.bin" "$WORK/good_text_document.bin"
[ "$(grep -cE '^\{"where": ".*kinds.jsonl:[1-9]", "reason": ".+", "line": ".*"\}$' "$WORK/kinds.rejects.jsonl")" -eq 9 ] ||
  fail "kinds.rejects.jsonl: $(cat "$WORK/kinds.rejects.jsonl")"
expect_exit 65 mtl-preprocess --input "$WORK/kinds.jsonl" --output-prefix "$WORK/kinds9" $GPT2 --skip-bad 8
expect_text "$WORK/err" 'kinds.jsonl:9: .*more bad lines than --skip-bad 8'
run kinds --input "$WORK/good.jsonl" $GPT2 --skip-bad 9
[ ! -e "$WORK/kinds.rejects.jsonl" ] || fail "the earlier run's rejects were not removed"
expect_exit 65 mtl-preprocess --input "$WORK/two.jsonl" --output-prefix "$WORK/toomany" $GPT2 --skip-bad 1
expect_text "$WORK/err" 'two.jsonl:6: '
expect_nothing toomany

# A file of another kind is named on its first line, with the command that converts it.
printf '[\n{"text": "a"}\n]\n' >"$WORK/array.json"
expect_exit 65 mtl-preprocess --input "$WORK/array.json" --output-prefix "$WORK/bad_array" $GPT2
expect_text "$WORK/err" "array.json:1: .*array.*jq -c '\.\[\]'"
tar -C "$WORK" -czf "$WORK/tar.gz" head.jsonl
expect_exit 65 mtl-preprocess --input - --output-prefix "$WORK/bad_tar" $GPT2 <"$WORK/tar.gz"
expect_text "$WORK/err" 'standard input: .*tar archive.* gzip -dc FILE \| tar -xO'
# The command decompresses the file first, wherever the line is, and it works.
printf '{"text": "a"}\n{"text": "caf\xe9"}\n' >"$WORK/latin.jsonl"
printf '{"text": "a"},\n{"text": "b"},\n' >"$WORK/commas.jsonl"
printf '{"text": "a"}, {"text": "b"}\n' >"$WORK/several.jsonl"
printf '{"text": "a"}\r{"text": "b"}\r' >"$WORK/cr.jsonl"
printf 'To be\nor not\n' >"$WORK/plain.jsonl"
printf '[{"text": "a"}, {"text": "b"}]\n' >"$WORK/one.jsonl"
printf '{"rows": [{"text": "a"}, {"text": "b"}]}\n' >"$WORK/rows.jsonl"
printf '{"text": "a"}\n{"title": "b"}\n{"text": null}\n{"text": "c"}\n' >"$WORK/missing_some.jsonl"
printf '{"text": null}\n{"text": "a"}\n{}\n' >"$WORK/nulls.jsonl"
printf '"one"\n"two"\n' >"$WORK/strings.jsonl"
printf '{"text": "a"}\n"b"\n5\n["c"]\n' >"$WORK/values.jsonl"
printf '%s\n' '{"$(id) `id` '\''\" \n\\(1)": [{"role": "user", "content": "a"}, {"role": "x", "content": "b"}]}' \
  '{"$(id) `id` '\''\" \n\\(1)": [{"role": "user", "content": [{"type": "text", "text": "a"}, {}]}, {"role": "x", "content": null}]}' >"$WORK/chats.jsonl"
for name in latin commas several cr plain one rows missing_some nulls strings values chats; do
  for unpack in '' 'gzip -dc' 'xz -dc' 'zstd -dc'; do
    cp "$WORK/$name.jsonl" "$WORK/hint.jsonl"
    [ -z "$unpack" ] || ${unpack% -dc} -c <"$WORK/$name.jsonl" >"$WORK/hint.jsonl"
    expect_exit 65 mtl-preprocess --input "$WORK/hint.jsonl" --output-prefix "$WORK/bad_hint" $GPT2
    expect_text "$WORK/err" ": ${unpack:+$unpack FILE \| }(iconv|sed|tr|jq)[^:]*( \{\"text\": \.\}')?.* \| \.\.\. --input -"
    command=$(grep -oE "${unpack:-(iconv|sed|tr|jq)} .* \| \.\.\. --input -" "$WORK/err")
    command=${command% | ... --input -}
    case $command in *jq\ *) command -v jq >/dev/null || continue ;; esac
    bash -c "${command/FILE/"$WORK/hint.jsonl"}" >"$WORK/mended.jsonl"
    expect_exit 0 mtl-preprocess --input "$WORK/mended.jsonl" --output-prefix "$WORK/mended" $GPT2
  done
done
expect_nothing bad_

# Damaged files.
head -c 20000 "$WORK/big.gz" >"$WORK/cut.gz"
head -c 8000 "$WORK/big.xz" >"$WORK/cut.xz"
head -c 8000 "$WORK/big.zst" >"$WORK/cut.zst"
for kind in gz xz zst; do
  expect_exit 65 mtl-preprocess --input "$WORK/cut.$kind" --output-prefix "$WORK/damaged" $GPT2
  expect_text "$WORK/err" "cut.$kind: .*truncated"
done
{ cat "$WORK/big.gz"; echo '{"text": "plain"}'; } >"$WORK/trailing.gz"
expect_exit 65 mtl-preprocess --input "$WORK/trailing.gz" --output-prefix "$WORK/damaged" $GPT2
expect_text "$WORK/err" 'trailing.gz: the gzip data ends at byte [0-9]+, but other data follows'
expect_nothing damaged

# Wrong flags: reported together, exit code 2. A missing file: exit code 74, before anything is written.
expect_exit 2 mtl-preprocess --input x --output-prefix "$WORK/p" --tokenizer-type GPT2BPETokenizer --partitions 0 --workers -1
for flag in --vocab-file --merge-file '--partitions 0' '--workers -1'; do expect_text "$WORK/err" "^  $flag"; done
expect_exit 2 mtl-preprocess
expect_text "$WORK/err" '--input .*required'
expect_exit 2 mtl-preprocess $CORPUS --output-prefix "$WORK/p" $GPT2 --append-oed
expect_text "$WORK/err" 'did you mean --append-eod'
expect_exit 2 mtl-preprocess $CORPUS --output-prefix "$WORK/p" $GPT2 --split-sentences --lang german
expect_text "$WORK/err" '^  --lang german .*use english'
expect_exit 2 mtl-preprocess $CORPUS --output-prefix "$WORK/p" --tokenizer-type BertWordPieceCase
expect_text "$WORK/err" 'BertWordPieceCase .*not supported'
expect_exit 2 mtl-preprocess $CORPUS --output-prefix "$WORK/p" --tokenizer-type NullTokenizer
expect_exit 74 mtl-preprocess --input "$WORK/nosuch.jsonl" "$WORK/nor*this" --output-prefix "$WORK/p" $GPT2
expect_text "$WORK/err" 'nosuch.jsonl: no such file'
expect_text "$WORK/err" 'nor\*this: no such file'
expect_exit 74 mtl-preprocess $CORPUS --output-prefix "$WORK/p" --vocab-file "$WORK/nosuch.json" --merge-file "$SHARE/gpt2/merges.txt"
expect_exit 65 mtl-preprocess $CORPUS --output-prefix "$WORK/p" --vocab-file "$SHARE/gpt2/vocab.json" --merge-file /dev/null
expect_text "$WORK/err" 'vocab.json: no merge makes .* tokens'
expect_nothing p_

# It links no model and no kernel, and so starts without their libraries, in little memory.
expect_exit 0 mtl-preprocess --version --verbose
expect_text "$WORK/out" '^oneDNN .* not loaded by this program$'

# It is not an error if --help's reader closes the pipe early.
mtl-preprocess --help | head -1 >"$WORK/out" 2>"$WORK/err"
[ ! -s "$WORK/err" ] || fail "--help | head prints to stderr"
finish
