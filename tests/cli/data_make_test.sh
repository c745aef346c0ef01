#!/bin/bash
# mtl-data: finds faults in token files (verify), describes them (sample, stats) and makes other files from them (merge,
# shuffle, split, export).
source "$(dirname "$0")/lib.sh" "$1"
INDEXED=$TESTS/golden/indexed
GPT2="--vocab-file $SHARE/gpt2/vocab.json --merge-file $SHARE/gpt2/merges.txt"
cd "$WORK" || exit 1
cp "$INDEXED"/*_document.bin "$INDEXED"/*_document.idx .
chmod u+w ./*

# expect_same_pair PREFIX PREFIX: the .bin files have the same bytes, and so do the .idx files.
expect_same_pair() {
  expect_same "$1.bin" "$2.bin"
  expect_same "$1.idx" "$2.idx"
}

# poke FILE BYTE TEXT: overwrites bytes of a file.
poke() { printf '%b' "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null; }

# value KEY: prints KEY's values in the JSON lines on stdin, one per line.
value() { grep -oE "\"$1\": (\"[^\"]*\"|[^,}]*)" | sed "s/\"$1\": //"; }

# --- merge: equal to Megatron-LM's, with all inputs in one folder under the names used by its run ---
# merge_inputs COMMANDS.JSON: prints NAME=PREFIX for each input.
merge_inputs() {
  sed -n '/"merge_in"/,/}/p' "$1" | tr -d '\n' | grep -oE '"merge_in": *\{[^}]*\}' | grep -oE '"[^"]*": *"[^"]*"' |
    sed -E 's/"([^"]*)": *"([^"]*)"/\1=\2/'
}
mkdir merge_in
for pair in $(merge_inputs "$INDEXED/commands.json"); do
  for ending in bin idx; do cp "${pair#*=}.$ending" "merge_in/${pair%%=*}.$ending"; done
done
[ "$(find merge_in -name '*.idx' | wc -l)" -ge 2 ] || fail 'commands.json lists no inputs of the golden merge'
echo 'notes' >merge_in/README
expect_exit 0 mtl-data merge --input merge_in --output-prefix ./made/merged
expect_same_pair made/merged merged_text_document
expect_text made/merged.json '"schema": "mtl-provenance/1"'
expect_text made/merged.json '"path": "merge_in/[^"]*.bin"'
find made -name '*.tmp.*' | grep -q . && fail 'merge leaves temporary files'
# The same inputs by name, with and without the extension.
expect_exit 0 mtl-data merge merge_in/B_first merge_in/a10.idx merge_in/a9.bin merge_in/b_second --output-prefix named --json
expect_same_pair named merged_text_document
expect_text out '^\{"schema": "mtl-data-made/1", "command": "merge", .*"prefix": "named", "documents": '
# Rejected merges.
expect_exit 65 mtl-data merge default_text_document null70000_text_document --output-prefix mixed
expect_text err 'null70000_text_document.idx stores tokens as i32, but default_text_document.idx as u16; if both were made with the same vocabulary, add --token-type i32$'
expect_exit 0 mtl-data merge default_text_document null70000_text_document --output-prefix mixed --token-type i32 --json
expect_text out '"dtype": "i32"'
expect_same <(mtl-data cat mixed) <(mtl-data cat default_text_document null70000_text_document)
expect_exit 0 mtl-data verify mixed
expect_exit 0 mtl-data split mixed --output-prefix mixed --counts "$(mtl-data cat default_text_document | wc -l),rest" --names back,rest
expect_exit 0 mtl-data merge mixed_back --token-type u16 --output-prefix narrow
expect_same_pair narrow default_text_document
expect_exit 65 mtl-data merge mixed --output-prefix narrower --token-type u16
expect_text err 'mixed.bin: token [0-9]+ of sequence [0-9]+, in document [0-9]+, is (-1|[0-9]+), which does not fit in u16 \(byte [0-9]+\); choose (another|a larger) --token-type$'
expect_exit 2 mtl-data merge mixed --output-prefix narrower --token-type u32
ls narrower* 2>/dev/null && fail 'a merge that failed left files'
expect_exit 2 mtl-data merge default_text_document eod_text_document --output-prefix ./eod_text_document
expect_text err 'eod_text_document.bin +is one of the inputs'
ln eod_text_document.bin other.bin
expect_exit 2 mtl-data merge eod_text_document --output-prefix other
expect_text err 'other.bin +is one of the inputs \(eod_text_document.bin\)'
ln -sf named.json linked.json
expect_exit 2 mtl-data merge named --output-prefix linked
expect_text err 'linked.json +is one of the inputs \(named.json\)'
expect_exit 2 mtl-data merge named --output-prefix ''
expect_exit 2 mtl-data merge named --output-prefix made/
[ ! -e .bin ] && [ ! -e made/.bin ] || fail 'merge: an empty name made a hidden file'
expect_exit 2 mtl-data export named --output ''
# Configuration files are not overwritten either.
printf 'output-prefix = made/conf\n' >made/conf.json
cp made/conf.json conf
for command in 'shuffle named' 'merge named'; do
  # shellcheck disable=SC2086  # words
  expect_exit 2 mtl-data $command --config made/conf.json
  expect_text err 'made/conf.json +is one of the inputs and would be overwritten; choose another --output-prefix'
  expect_same made/conf.json conf
done
printf 'output = conf.npy\n' >conf.npy
expect_exit 2 mtl-data export named --config conf.npy
expect_text err 'conf.npy +is one of the inputs and would be overwritten; choose another --output$'
rm other.bin merge_in/a9.idx
expect_exit 65 mtl-data merge --input merge_in --output-prefix again
expect_text err 'merge_in/a9.idx is missing'
expect_exit 74 mtl-data merge --input nowhere --output-prefix again
expect_exit 2 mtl-data merge --output-prefix again
expect_exit 2 mtl-data merge --input merge_in named --output-prefix again
expect_text err 'PREFIX, --input .*a folder with --input'
[ -e again.bin ] && fail 'a merge that failed left a file'

# --- verify ---
expect_exit 0 mtl-data verify named merged_text_document default_text_document
[ "$(grep -c ': sound: ' out)" -eq 3 ] || fail 'verify: not one line per data set'
expect_text out '^named: sound: .*; agrees with named.json$'
expect_exit 0 mtl-data verify --vocab-size 50257 named --json
expect_text out '^\{"schema": "mtl-data-verify/1", "prefix": "named", "ok": true, .*"vocab_size": 50257, "provenance": true, "hashes": true\}$'
expect_exit 65 mtl-data verify --vocab-size 1000 default_text_document
expect_text err 'default_text_document.bin: token [0-9]+ of sequence [0-9]+, in document [0-9]+, is [0-9]+, but the ids'
first=$(od -An -v -tu2 -w2 default_text_document.bin | awk '$1 >= 1000 {print 2 * (NR - 1); exit}')
expect_text out "broken: rule vocabulary, byte $first of default_text_document.bin\$"
expect_exit 0 mtl-data verify --threads 3 --vocab-size 50257 default_text_document
# Finds a flipped bit in the .bin using the hashes that mtl-preprocess records.
# shellcheck disable=SC2086
expect_exit 0 mtl-preprocess --input "$INDEXED/corpus.jsonl" $GPT2 --output-prefix fresh --quiet
expect_exit 0 mtl-data verify fresh_text_document --json
expect_text out '"provenance": true, "hashes": true\}$'
size=$(stat -c %s fresh_text_document.bin)
for byte in 0 $((size / 2)) $((size - 1)); do
  cp fresh_text_document.bin whole.bin
  byte_now=$(od -An -tu1 -j "$byte" -N 1 whole.bin)
  poke fresh_text_document.bin "$byte" "\\$(printf %03o $((byte_now ^ 1)))"
  expect_exit 65 mtl-data verify fresh_text_document
  expect_text err 'fresh_text_document.bin: the hash is .*, but PREFIX.json records'
  cp whole.bin fresh_text_document.bin
done
# A value of another kind in PREFIX.json is a fault of that file. It ends neither the check of other files nor other tools.
cp fresh_text_document.json whole.json
for edit in '/"tokenizer"/,/}/s/"vocab_size": [0-9]*/"vocab_size": "x"/' '/"tokenizer"/,/}/s/"xxh3": "[^"]*"/"xxh3": [1]/' \
  's/"bin_xxh3": "[^"]*"/"bin_xxh3": 5/'; do
  sed "$edit" whole.json >fresh_text_document.json
  expect_exit 65 mtl-data verify fresh_text_document default_text_document
  expect_text err 'fresh_text_document.json: the file is broken: (vocab_size|xxh3|bin_xxh3): '
  expect_text out '^default_text_document: sound: '
  # shellcheck disable=SC2086
  expect_exit 0 mtl-data cat fresh_text_document $GPT2
done
cp whole.json fresh_text_document.json
sed -i 's/"\(bin\|idx\)_xxh3": "[0-9a-f]*",\?//; s/\("idx_bytes": [0-9]*\),/\1/' fresh_text_document.json
expect_exit 0 mtl-data verify fresh_text_document
expect_text out 'agrees with fresh_text_document.json, which records no hashes: a changed token is not detected$'
# Does the same using the hash that merge records.
poke named.bin 100 '\001'
expect_exit 65 mtl-data verify named
expect_text err 'named.bin: the hash is .*, but PREFIX.json records'
cp merged_text_document.bin named.bin
cp named.json named.json.whole
sed -i 's/"tokens": /"tokens": 1/' named.json
expect_exit 65 mtl-data verify named
expect_text err 'named.json: "tokens" is 1[0-9]+, but the token files have [0-9]+ \(byte [0-9]+\)'
head -c 200 named.json.whole >named.json
expect_exit 65 mtl-data verify named
expect_text err 'named.json: the file is broken: '
# shellcheck disable=SC2086
expect_exit 0 mtl-data cat named $GPT2
expect_text err 'warning: named.json: the file is broken: '
expect_exit 0 mtl-data stats named
expect_text err 'warning: named.json: the file is broken: '
for bad in '' 'not JSON' '{"prog'; do
  printf '%s' "$bad" >named.json
  expect_exit 65 mtl-data verify named
  expect_text err 'named.json: the file is broken: '
done
rm named.json
ln -s named.json named.json
expect_exit 74 mtl-data verify named
expect_text err 'named.json: cannot open: Too many levels of symbolic links'
rm named.json
for other in '{"text": "a corpus"} {"text": "of that name"}' '{"schema": "other"}' '[1]'; do
  echo "$other" >named.json
  expect_exit 0 mtl-data verify named
  expect_text out 'named.json does not record how they were made: no hashes were compared$'
  expect_exit 0 mtl-data verify named --json
  expect_text out '"provenance": false, "hashes": false'
done
# Checks all prefixes. If some are broken and some missing, the exit code is that for a broken prefix.
poke named.idx 34 '\377\377\377\377'
expect_exit 65 mtl-data verify absent named default_text_document --json
[ "$(value ok <out | tr '\n' ' ')" = 'false false true ' ] || fail 'verify: wrong verdicts'
[ "$(value rule <out | tr '\n' ' ')" = 'null "length" ' ] || fail 'verify: wrong rules'
[ "$(value offset <out | tr '\n' ' ')" = 'null 34 ' ] || fail 'verify: wrong offsets'
expect_text err 'named.idx: sequence 0 has length -1 \(byte 34\); re-run mtl-preprocess'
expect_exit 74 mtl-data verify absent default_text_document
expect_exit 2 mtl-data verify

# --- repair ---
# A pointer that wrapped around: the advice of verify repairs it, in place or into another file.
cp merged_text_document.bin wrapped.bin
sequences=$(od -An -tu8 -j18 -N8 merged_text_document.idx | tr -d ' ')
{
  head -c $((34 + 12 * sequences - 4)) merged_text_document.idx
  printf '\377\377\377\377'
  tail -c +$((34 + 12 * sequences + 1)) merged_text_document.idx
} >wrapped.idx
cp wrapped.idx wrapped_before.idx
expect_exit 65 mtl-data verify wrapped
expect_text err "wrapped.idx: .*\(byte $((34 + 12 * sequences - 8))\).*mtl-data repair --in-place wrapped"
for flags in '' '--in-place --output x.idx' '--output x'; do
  # shellcheck disable=SC2086  # words
  expect_exit 2 mtl-data repair wrapped $flags
done
expect_exit 2 mtl-data repair wrapped --output wrapped.idx
expect_same wrapped.idx wrapped_before.idx
expect_exit 0 mtl-data repair wrapped --output repaired.idx
expect_text err "repaired.idx: 1 pointer of $sequences corrected"
expect_same repaired.idx merged_text_document.idx
expect_same wrapped.idx wrapped_before.idx
expect_clean_end killed.idx mtl-data repair wrapped --output killed.idx
expect_exit 0 mtl-data repair --in-place wrapped.bin
expect_same wrapped.idx merged_text_document.idx
expect_exit 0 mtl-data verify wrapped
truncate -s -2 wrapped.bin
expect_exit 65 mtl-data repair --in-place wrapped
expect_text err 'wrapped.bin: '
expect_same wrapped.idx merged_text_document.idx

# --- sample ---
for seed in 1 2; do
  mtl-data sample default_text_document --count 5 --seed $seed --json >"sample$seed" || fail 'sample: failed'
  [ "$(sort -u "sample$seed" | wc -l)" -eq 5 ] || fail 'sample: a document was drawn twice'
  mtl-data cat default_text_document --json | grep -cxFf "sample$seed" | grep -qx 5 ||
    fail 'sample: a document is not in the file'
done
cmp -s sample1 sample2 && fail 'sample: the seed has no effect'
expect_same sample1 <(mtl-data sample default_text_document --count 5 --seed 1 --json)
expect_same <(mtl-data sample default_text_document --count 9999) <(mtl-data cat default_text_document)
# shellcheck disable=SC2086
mtl-data sample default_text_document --count 1 $GPT2 | grep -qE '^\{"document":[0-9]+,"text":' ||
  fail 'sample: prints no text'

# --- stats: equal to counts computed independently ---
mtl-data stats default_text_document --top 1000000 --json --vocab-size 50257 --threads 3 >stats.json ||
  fail 'stats: failed'
od -An -v -tu2 -w2 default_text_document.bin | sort -n | uniq -c | sort -k1,1nr -k2,2n | awk '{print $2, $1}' >want
paste -d' ' <(value id <stats.json) <(value count <stats.json | sed 1,2d) >got
expect_same got want
[ "$(value used_ids <stats.json)" -eq "$(wc -l <want)" ] || fail 'stats: wrong number of used ids'
[ "$(value unused_ids <stats.json)" -eq $((50257 - $(wc -l <want))) ] || fail 'stats: wrong number of unused ids'
awk '{n += $2; c[NR] = $2} END {for (i in c) h -= c[i] / n * log(c[i] / n) / log(2); printf "%.6f\n", h}' want >entropy
printf '%.6f\n' "$(value entropy_bits <stats.json)" | cmp -s - entropy || fail 'stats: wrong entropy'
# shellcheck disable=SC2086
expect_exit 0 mtl-data stats default_text_document eod_text_document $GPT2 --top 3
expect_text out '^  documents +[0-9,]+ +0 '
expect_text out '^ +1 +[0-9]+ +[0-9,]+ +[0-9.]+ % +"'
expect_exit 65 mtl-data stats default_text_document --vocab-size 1000

# --- shuffle: the same documents in a different order, for any thread count ---
expect_exit 0 mtl-data shuffle default_text_document --output-prefix mixed --seed 7
expect_exit 0 mtl-data shuffle default_text_document --output-prefix mixed5 --seed 7 --threads 5
expect_same_pair mixed mixed5
expect_exit 0 mtl-data shuffle default_text_document --output-prefix mixed8 --seed 8
cmp -s mixed.bin mixed8.bin && fail 'shuffle: the seed has no effect'
expect_same <(mtl-data cat mixed | sort) <(mtl-data cat default_text_document | sort)
expect_exit 0 mtl-data verify mixed
expect_exit 2 mtl-data shuffle mixed --output-prefix mixed
expect_exit 2 mtl-data shuffle mixed --output-prefix x --seed -1

# --- split: the parts are in order, and merging them restores the original ---
documents=$(mtl-data info default_text_document --json | value documents)
expect_exit 0 mtl-data split default_text_document --output-prefix part --weights 8,1,1
expect_exit 0 mtl-data merge part_train part_valid part_test --output-prefix whole
expect_same_pair whole default_text_document
expect_exit 0 mtl-data split default_text_document --output-prefix few --counts 2,rest --json
[ "$(value documents <out | tr '\n' ' ')" = "2 $((documents - 2)) " ] || fail 'split: wrong counts'
expect_same <(mtl-data cat few_train) <(mtl-data cat default_text_document --count 2)
expect_exit 0 mtl-data split default_text_document --output-prefix half --weights 1,1 --by tokens --names a,b
expect_same <(mtl-data cat half_a half_b) <(mtl-data cat default_text_document)
expect_exit 2 mtl-data split default_text_document --output-prefix x --counts 2,3
expect_text err '--counts 2,3 +adds up to fewer than the [0-9]+ documents of default_text_document; write `rest`'
expect_exit 2 mtl-data split default_text_document --output-prefix x --weights 1,0.0000001
expect_text err "--weights 1,0.0000001 .*'valid'.*default_text_document"
# Weights may be so large that their sum overflows.
expect_exit 0 mtl-data split default_text_document --output-prefix huge --weights 1e308,1e308
expect_exit 0 mtl-data split default_text_document --output-prefix equal --weights 1,1
for part in train valid; do expect_same huge_$part.bin equal_$part.bin; done
expect_exit 0 mtl-data split default_text_document --output-prefix first --counts 1,rest
expect_text err 'first_train.bin, .idx: 1 document, [0-9]+ tokens$'
# A wrong value is one problem, although a value is needed.
expect_exit 2 mtl-data cat default_text_document --tokenizer-type NullTokenizer --vocab-size 0
expect_text err ': 1 problem with'
expect_exit 2 mtl-data order --data-path default_text_document --seq-length 8 --train-iters 0
expect_text err ': 1 problem with'
expect_exit 2 mtl-data split default_text_document --output-prefix x --weights
expect_text err '^mtl-data split: 1 problem '
expect_exit 2 mtl-data split default_text_document --output-prefix x --weights 1,-1,a --counts 1 --names b,b,c/d
for problem in "'-1' is not a positive number" "'a' is not a positive" 'two parts the same name' "contains 'c/d'"; do
  expect_text err "$problem"
done
ls x* 2>/dev/null && fail 'split: a refused split left files'

# --- export ---
expect_exit 0 mtl-data export default_text_document --output tokens.npy
tokens=$(mtl-data info default_text_document --json | value tokens)
expect_text tokens.npy "'descr': '<u2', 'fortran_order': False, 'shape': \($tokens,\), "
tail -c $((2 * tokens)) tokens.npy | cmp -s - default_text_document.bin || fail 'export: wrong tokens'
[ $(($(wc -c <tokens.npy) - 2 * tokens)) -eq 128 ] || fail 'export: the header does not have 128 bytes'
expect_exit 2 mtl-data export default_text_document --output tokens.txt

# --- full disks and interrupts ---
# If the disk is full or fails, nothing is left behind.
for fault in enospc:3 eio:4 enospc:6; do
  MTL_FAULT=$fault expect_exit 74 mtl-data split default_text_document --output-prefix full --weights 1,1
  ls full* 2>/dev/null && fail "split: $fault left files"
done
# A run that replaces an earlier run's files can fail at any time. All three files then belong to the same run.
for kind in kill enospc; do
  for n in $(seq 40); do
    mtl-data shuffle default_text_document --output-prefix over --seed 1 --quiet ||
      fail 'shuffle: the earlier run failed'
    { (MTL_FAULT=$kind:$n exec mtl-data shuffle default_text_document --output-prefix over --seed 2 --quiet); } 2>err && break
    [ ! -e over.idx ] || mtl-data verify over >out 2>&1 ||
      fail "shuffle: $kind:$n leaves files of both runs: $(cat out)"
    [ "$kind" = kill ] || ! ls over.*tmp* over.lock 2>/dev/null || fail "shuffle: $kind:$n left temporary files"
  done
  [ "$n" -gt 10 ] && [ "$n" -lt 40 ] || fail "shuffle: succeeds with $kind:$n, not with one of 11 to 39"
done
# What a killed run left is removed by the next run, also next to a single file.
for command in 'export default_text_document --output single.npy' 'repair default_text_document --output single.idx'; do
  # shellcheck disable=SC2086  # words
  { (MTL_FAULT=kill:5 exec mtl-data $command); } 2>err
  ls single.*.tmp.* >/dev/null 2>&1 || fail "$command: a killed run left nothing to remove"
  # shellcheck disable=SC2086  # words
  expect_exit 0 mtl-data $command
  expect_text err "removed single.*.tmp.[0-9]+, because the run that wrote it was killed"
  ! ls single.*.tmp.* single*.lock 2>/dev/null || fail "$command: left temporary files"
done
expect_exit 0 mtl-data export default_text_document --output /dev/null --format nanogpt
[ ! -e /dev/null.lock ] || fail 'export: a lock next to a device'
expect_exit 0 mtl-data export default_text_document --output single.bin --format nanogpt
mtl-data export default_text_document --output /dev/stdout --format nanogpt 2>err >written.bin || fail "/dev/stdout: $?"
expect_same written.bin single.bin
mtl-data export default_text_document --output /dev/stdout --format nanogpt 2>err | cmp - single.bin ||
  fail "a pipe: $(cat err)"
[ ! -e /dev/stdout.lock ] || fail 'export: a lock next to /dev/stdout'
# Interrupts leave nothing either. wait_for FILE: waits until FILE is not empty.
wait_for() { for _ in $(seq 200); do [ -s "$1" ] && return; sleep 0.02; done; }
head -c 300000000 /dev/zero >zeros.bin
{
  printf 'MMIDIDX\0\0\1\0\0\0\0\0\0\0\10\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0'
  printf '%b' '\x80\xd1\xf0\x08' '\0\0\0\0\0\0\0\0' '\0\0\0\0\0\0\0\0' '\1\0\0\0\0\0\0\0'
} >zeros.idx
expect_exit 0 mtl-data verify zeros
mtl-data merge zeros zeros zeros zeros --output-prefix stopped 2>/dev/null &
pid=$!
wait_for stopped.bin.tmp.$pid
kill -TERM $pid
wait $pid
[ $? -eq 143 ] || fail 'merge: an interrupt does not end it'
ls stopped* 2>/dev/null && fail 'merge: an interrupt left files'
# No tool removes the files of an active run. Files left by a killed run are removed.
mtl-data merge zeros zeros zeros zeros --output-prefix live_text_document 2>/dev/null &
pid=$!
wait_for live_text_document.bin.tmp.$pid
kill -STOP $pid
echo '{"text": "5 6 7"}' >live.jsonl
expect_exit 1 mtl-preprocess --input live.jsonl --output-prefix live --tokenizer-type NullTokenizer --vocab-size 9
expect_text err "^mtl-preprocess: live_text_document: another run writes there \\(pid $pid on "
expect_exit 1 mtl-data split default_text_document --output-prefix live --weights 1,1 --names text_document,b
[ -e live_text_document.bin.tmp.$pid ] || fail 'a second run removed the files of the first'
kill -KILL $pid
{ wait $pid; } 2>/dev/null
expect_exit 0 mtl-data shuffle default_text_document --output-prefix live_text_document
expect_text err ": removed live_text_document.bin.tmp.$pid, because"
expect_exit 0 mtl-data verify live_text_document
ls live*.tmp.* live*.lock 2>/dev/null && fail 'shuffle leaves temporary files'
mtl-data merge zeros --output-prefix ignored --quiet || fail 'merge: fails after an interrupt'
finish
