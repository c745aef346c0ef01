#!/bin/bash
# mtl-vocab: trains the golden vocabularies from text and JSON lines, with any compression and thread count. Also checks
# the errors.
source "$(dirname "$0")/lib.sh" "$1"
GOLDEN=$TESTS/golden/tokenizer
SHAKESPEARE=$SHARE/demo/tinyshakespeare.txt.xz
xz -dc "$SHAKESPEARE" >"$WORK/shakespeare.txt"

# same_as PREFIX FOLDER: the vocabulary equals the golden vocabulary.
same_as() {
  expect_same "$WORK/$1-vocab.json" "$GOLDEN/$2/vocab.json"
  expect_same "$WORK/$1-merges.txt" "$GOLDEN/$2/merges.txt"
}

expect_exit 0 mtl-vocab --input "$SHAKESPEARE" --vocab-size 1000 --output-prefix "$WORK/ts"
same_as ts bpe_tinyshakespeare_1000
expect_same "$WORK/ts-tokenizer.json" "$GOLDEN/hf_saved_tinyshakespeare_1000/tokenizer.json"
for threads in 1 4; do
  expect_exit 0 mtl-vocab --input - --vocab-size 1000 --output-prefix "$WORK/stdin" --threads $threads <"$WORK/shakespeare.txt"
  same_as stdin bpe_tinyshakespeare_1000
done
expect_exit 0 mtl-vocab --input "$TESTS/golden/corpora/wikitext2-test.txt.xz" --unit line --vocab-size 4000 --output-prefix "$WORK/wiki" --json
same_as wiki bpe_wikitext2-test_4000
expect_text "$WORK/out" '"schema": "mtl-vocab/1", "vocab_size": 4000, "merges": 3743, '

# The same text as one JSON line, and under another key.
{ printf '{"content": "'; sed 's/\\/\\\\/g; s/"/\\"/g' "$WORK/shakespeare.txt" | awk '{printf "%s\\n", $0}'; printf '"}'; } | gzip >"$WORK/ts.jsonl.gz"
expect_exit 0 mtl-vocab --input "$WORK/ts.jsonl.gz" --json-key content --vocab-size 1000 --output-prefix "$WORK/json"
same_as json bpe_tinyshakespeare_1000
expect_exit 65 mtl-vocab --input "$WORK/ts.jsonl.gz" --vocab-size 1000 --output-prefix "$WORK/nokey"
expect_text "$WORK/err" 'ts.jsonl.gz:1: the line has no key "text"'
[ -z "$(find "$WORK" -name 'nokey*')" ] || fail "files of a failed run were left"

# A trained vocabulary has two forms. mtl-preprocess makes the same files with either.
expect_exit 0 mtl-preprocess --input "$WORK/ts.jsonl.gz" --json-keys content --output-prefix "$WORK/a" --vocab-file "$WORK/ts-vocab.json" \
  --merge-file "$WORK/ts-merges.txt" --append-eod
expect_exit 0 mtl-preprocess --input "$WORK/ts.jsonl.gz" --json-keys content --output-prefix "$WORK/b" --append-eod \
  --tokenizer-type HuggingFaceTokenizer --tokenizer-model "$WORK/ts-tokenizer.json"
expect_same "$WORK/a_content_document.bin" "$WORK/b_content_document.bin"
[ "$(stat -c %s "$WORK/a_content_document.bin")" -eq $((2 * (462884 + 1))) ] || fail "wrong number of tokens"

# Special tokens, and a text that runs out of pairs.
printf 'ab ab' >"$WORK/small.txt"
expect_exit 0 mtl-vocab --input "$WORK/small.txt" --vocab-size 300 --special-tokens '<|endoftext|>' '<pad>' --output-prefix "$WORK/small"
expect_text "$WORK/err" 'warning: .*260 tokens instead of 300'
expect_text "$WORK/small-vocab.json" '^\{"<\|endoftext\|>":0,"<pad>":1,"!":2,'

expect_exit 0 mtl-vocab --input "$WORK/small.txt" --vocab-size 258 --special-tokens '<pad>' --output-prefix "$WORK/noend"
echo '{"text": "ab"}' >"$WORK/ab.jsonl"
expect_exit 65 mtl-preprocess --input "$WORK/ab.jsonl" --output-prefix "$WORK/noend" --append-eod --vocab-file "$WORK/noend-vocab.json" \
  --merge-file "$WORK/noend-merges.txt"
expect_text "$WORK/err" 'noend-vocab.json has no <\|endoftext\|>'

expect_exit 2 mtl-vocab --input "$WORK/small.txt" --vocab-size 256 --output-prefix "$WORK/x" --unit page --threads -1
expect_text "$WORK/err" '--unit page'
expect_exit 2 mtl-vocab --input "$WORK/small.txt" --vocab-size 256 --output-prefix "$WORK/x" --threads -1
expect_text "$WORK/err" '--vocab-size 256 +must be at least 257'
expect_text "$WORK/err" '--threads -1'
printf 'hello hello world' >"$WORK/hello.txt"
expect_exit 0 mtl-vocab --input "$WORK/hello.txt" --vocab-size 258 --output-prefix "$WORK/none" --special-tokens
grep -q 'endoftext' "$WORK/none-vocab.json" && fail '--special-tokens without values adds special tokens'
expect_exit 0 mtl-vocab --input "$WORK/hello.txt" --vocab-size 258 --output-prefix "$WORK/none" --special-tokens --dump-config
cp "$WORK/out" "$WORK/none.conf"
expect_exit 0 mtl-vocab --config "$WORK/none.conf" --dump-config
expect_text "$WORK/out" '^special-tokens = +# '
expect_exit 2 mtl-vocab --input "$WORK/small.txt" --output-prefix "$WORK/x"
expect_text "$WORK/err" '^mtl-vocab: 1 problem with'
expect_exit 2 mtl-vocab --input "$WORK/small.txt" --vocab-size 300 --special-tokens a a --output-prefix "$WORK/x"
expect_exit 74 mtl-vocab --input "$WORK/nosuch" --vocab-size 300 --output-prefix "$WORK/x"
expect_exit 74 mtl-vocab --input "$WORK/small.txt" --vocab-size 300 --output-prefix /dev/null/x

# Multiple inputs are treated like one, by name or pattern, with any compression and thread count.
head -n 20000 "$WORK/shakespeare.txt" | zstd -q >"$WORK/part1.txt.zst"
tail -n +20001 "$WORK/shakespeare.txt" | gzip >"$WORK/part2.txt.gz"
for threads in 1 3; do
  expect_exit 0 mtl-vocab --input "$WORK/part?.txt*" --unit line --vocab-size 700 --output-prefix "$WORK/parts$threads" --threads $threads
done
expect_exit 0 mtl-vocab --input "$WORK/part2.txt.gz" "$WORK/part1.txt.zst" --unit line --vocab-size 700 --output-prefix "$WORK/parts2"
expect_exit 0 mtl-vocab --input "$SHAKESPEARE" --unit line --vocab-size 700 --output-prefix "$WORK/line"
for run in parts1 parts2 parts3; do
  for file in vocab.json merges.txt tokenizer.json; do expect_same "$WORK/$run-$file" "$WORK/line-$file"; done
done

# The word limit is exact: a text with more words ends the run, but a text with exactly as many does not.
words=$(mtl-vocab --quiet --json --input "$SHAKESPEARE" --vocab-size 260 --output-prefix "$WORK/count" | sed -E 's/.*"words": ([0-9]+).*/\1/')
expect_exit 0 mtl-vocab --input "$SHAKESPEARE" --vocab-size 260 --max-words "$words" --output-prefix "$WORK/room"
expect_exit 1 mtl-vocab --input "$SHAKESPEARE" --vocab-size 260 --max-words $((words - 1)) --output-prefix "$WORK/noroom"
expect_text "$WORK/err" "more than $((words - 1)) distinct words; raise --max-words"
[ -z "$(find "$WORK" -name 'noroom*')" ] || fail "files of a run that exceeded --max-words were left"

expect_exit 0 mtl-vocab --input "$WORK/small.txt" --vocab-size 300 --min-frequency 3 --output-prefix "$WORK/frequent"
expect_text "$WORK/err" 'warning: .* 257 tokens instead of .* no more pairs to merge that occur'

# If any file operation fails, no file remains.
small="mtl-vocab --input $WORK/small.txt --quiet --output-prefix $WORK/faulty/x"
for n in $(seq 40); do
  mkdir "$WORK/faulty"
  MTL_FAULT=enospc:$n $small --vocab-size 258 2>"$WORK/err" && break
  expect_text "$WORK/err" 'No space left on device'
  [ -z "$(ls "$WORK/faulty")" ] || fail "enospc:$n left $(ls "$WORK/faulty")"
  rm -r "$WORK/faulty"
done
[ "$n" -gt 10 ] && [ "$n" -lt 40 ] || fail "$n file operations instead of 11 to 39"
# A killed run leaves files from one run, never from both.
mv "$WORK/faulty" "$WORK/new"
for n in $(seq "$n"); do
  mkdir "$WORK/faulty"
  $small --vocab-size 259 || fail "the earlier run failed"
  cp -r "$WORK/faulty" "$WORK/old"
  { (MTL_FAULT=kill:$n exec $small --vocab-size 258); } 2>/dev/null
  rm -f "$WORK"/faulty/*.tmp.* "$WORK"/faulty/*.lock
  for run in old new; do diff -q "$WORK/faulty" "$WORK/$run" | grep -q differ || same=$run; done
  [ -n "${same:-}" ] || fail "kill:$n leaves files of both runs"
  unset same
  rm -r "$WORK/faulty" "$WORK/old"
done
# An interrupt leaves nothing behind.
mkfifo "$WORK/pipe"
mtl-vocab --input "$WORK/pipe" --format text --vocab-size 300 --output-prefix "$WORK/interrupted" 2>/dev/null &
exec 9>"$WORK/pipe"
cat "$WORK/shakespeare.txt" >&9
kill -TERM $!
wait $!
[ $? -eq $((128 + 15)) ] || fail "SIGTERM did not end the run"
exec 9>&-
[ -z "$(find "$WORK" -name 'interrupted*')" ] || fail "files of an interrupted run were left"

# Running out of memory is reported as an error, whatever the limit.
seq 2000000 >"$WORK/numbers.txt"
for kib in 100000 140000 175000; do
  is_sanitized mtl-vocab && break
  (ulimit -v $kib && exec mtl-vocab --input "$WORK/numbers.txt" --threads 1 --vocab-size 300 --output-prefix "$WORK/tight") 2>"$WORK/err"
  code=$?
  [ $code -eq 0 ] || [ $code -eq 1 ] || fail "ulimit -v $kib: exit $code"
  [ $code -eq 0 ] || expect_text "$WORK/err" 'mtl-vocab: out of memory'
done

# Only one run at a time can write to a prefix. A second run fails immediately, even while the first is still reading.
mtl-vocab --input "$WORK/pipe" --format text --vocab-size 300 --output-prefix "$WORK/busy" 2>/dev/null &
pid=$!
exec 9>"$WORK/pipe"
for _ in $(seq 100); do [ -e "$WORK/busy.lock" ] && break; sleep 0.05; done
expect_exit 1 mtl-vocab --input "$WORK/small.txt" --vocab-size 260 --output-prefix "$WORK/busy"
expect_text "$WORK/err" "busy: another run writes there \\(pid $pid on "
cat "$WORK/shakespeare.txt" >&9
exec 9>&-
wait $pid || fail "the first run failed"
[ "$(find "$WORK" -name 'busy*' | wc -l)" -eq 3 ] || fail "not the three files of one run"
# No output replaces an input, whatever its name.
cp "$WORK/small.txt" "$WORK/own-vocab.json"
expect_exit 2 mtl-vocab --input "$WORK/own-vocab.json" --format text --vocab-size 258 --output-prefix "$WORK/own"
expect_text "$WORK/err" 'own-vocab.json +is one of the inputs and would be overwritten; choose another --output-prefix'
ln -s small.txt "$WORK/link-merges.txt"
ln "$WORK/small.txt" "$WORK/hard-tokenizer.json"
cp "$WORK/small.txt" "$WORK/held.lock"
cp "$WORK/small.txt" "$WORK/left-vocab.json.tmp.7"
expect_exit 2 mtl-vocab --input "$WORK/small.txt" --vocab-size 258 --output-prefix "$WORK/link"
expect_exit 2 mtl-vocab --input "$WORK/small.txt" --vocab-size 258 --output-prefix "$WORK/hard"
expect_exit 2 mtl-vocab --input "$WORK/held.lock" --format text --vocab-size 258 --output-prefix "$WORK/held"
expect_exit 2 mtl-vocab --input "$WORK/left-vocab.json.tmp.7" --format text --vocab-size 258 --output-prefix "$WORK/left"
expect_exit 2 mtl-vocab --input - --format text --vocab-size 258 --output-prefix "$WORK/own" <"$WORK/own-vocab.json"
expect_text "$WORK/err" 'own-vocab.json +is one of the inputs \(standard input\)'
printf 'vocab-size = 300\n' >"$WORK/own-merges.txt"
expect_exit 2 mtl-vocab --config "$WORK/own-merges.txt" --input "$WORK/small.txt" --format text --output-prefix "$WORK/own"
expect_text "$WORK/err" 'own-merges.txt +is one of the inputs'
[ "$(<"$WORK/own-merges.txt")" = 'vocab-size = 300' ] || fail 'a configuration file was overwritten'
for file in own-vocab.json link-merges.txt hard-tokenizer.json held.lock left-vocab.json.tmp.7; do
  expect_same "$WORK/$file" "$WORK/small.txt"
done
# A folder whose name looks like a leftover is not removed.
mkdir "$WORK/dir-vocab.json.tmp.7"
expect_exit 0 mtl-vocab --input "$WORK/small.txt" --vocab-size 258 --output-prefix "$WORK/dir"
expect_text "$WORK/err" 'dir-vocab.json.tmp.7 looks like a leftover of a killed run, but is a folder; it is kept'
[ -d "$WORK/dir-vocab.json.tmp.7" ] || fail 'a folder was removed'
# Another program's file is not overwritten, even if it has the lock's name.
echo '[[package]]' >"$WORK/cargo.lock"
cp "$WORK/cargo.lock" "$WORK/kept"
expect_exit 2 mtl-vocab --input "$WORK/small.txt" --vocab-size 258 --output-prefix "$WORK/cargo"
expect_text "$WORK/err" 'cargo.lock is not an mtl lock file, and would be overwritten; '
expect_same "$WORK/cargo.lock" "$WORK/kept"
[ ! -e "$WORK/cargo-vocab.json" ] || fail 'files were written without the lock'
# Rejects input that is not text, and standard input that looks like another format.
printf 'good\nbad caf\351\n' >"$WORK/latin.txt"
for unit in document line; do
  expect_exit 65 mtl-vocab --input "$WORK/latin.txt" --vocab-size 300 --output-prefix "$WORK/x" --unit $unit
  expect_text "$WORK/err" 'latin.txt:2: invalid UTF-8 \(column 8\)'
done
printf '{"text": "ab"}\n' >"$WORK/in"
mtl-vocab --input - --vocab-size 300 --output-prefix "$WORK/x" <"$WORK/in" >/dev/null 2>"$WORK/err"
[ $? -eq 2 ] || fail 'JSON lines on standard input are read as text'
expect_text "$WORK/err" 'looks like JSON lines; choose --format'
mtl-vocab --input - --format jsonl --vocab-size 257 --output-prefix "$WORK/x" <"$WORK/in" >/dev/null 2>&1 ||
  fail '--format jsonl refuses JSON lines on standard input'
for text in '[{"text": "ab"}]' '{\n "text": "ab"\n}\n' '{"text": "ab"}\r{"text": "ab"}\r'; do
  printf '%b' "$text" >"$WORK/in"
  for unit in document line; do
    expect_exit 65 mtl-vocab --input - --vocab-size 300 --output-prefix "$WORK/x" --unit $unit <"$WORK/in"
    expect_text "$WORK/err" 'standard input:1: .*--format text'
  done
done
expect_exit 65 mtl-vocab --input "$WORK/in" --vocab-size 300 --output-prefix "$WORK/x"
# The first line that is not blank counts, even if it is longer than what is read at once.
printf '\n{"text": "hello there"}\n' >"$WORK/blank"
awk 'BEGIN { printf "{\"text\":\"word"; for (i = 0; i < 210000; i++) printf " word"; print "\"}" }' >"$WORK/long"
sed 's/{"text":/[/; s/}$/]/' "$WORK/long" >"$WORK/strings"
for input in blank long; do
  for unit in document line; do
    expect_exit 2 mtl-vocab --input - --vocab-size 300 --output-prefix "$WORK/x" --unit $unit <"$WORK/$input"
    expect_text "$WORK/err" 'looks like JSON lines; choose --format'
  done
  expect_exit 2 mtl-vocab --input "$WORK/$input" --vocab-size 300 --output-prefix "$WORK/x"
done
expect_exit 65 mtl-vocab --input "$WORK/strings" --vocab-size 300 --output-prefix "$WORK/x" --json-key body
expect_text "$WORK/err" 'array of strings.*\{"body": \.\}'
expect_exit 0 mtl-vocab --input - --vocab-size 257 --output-prefix "$WORK/x" --format text <"$WORK/in"

finish
