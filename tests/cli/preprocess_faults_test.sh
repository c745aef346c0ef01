#!/bin/bash
# mtl-preprocess under external faults: signals, full disks, closed streams, a second run, unusual paths. Files get
# their final names only if all of them are complete.
source "$(dirname "$0")/lib.sh" "$1"
P="mtl-preprocess --tokenizer-type NullTokenizer --vocab-size 70000 --append-eod"
cd "$WORK" || exit 1
make_null_corpus
CORPUS=$WORK/null.jsonl

# expect_only NAME...: the folder `to` contains exactly these files.
expect_only() {
  local have
  have=$(ls -A to 2>/dev/null | tr '\n' ' ')
  [ "$have" = "${*:+$* }" ] || fail "the folder to holds '$have' instead of '$*'"
}
FILES="x_text_document.bin x_text_document.idx x_text_document.json"
# expect_complete: the token files in `to` equal null_expected's.
expect_complete() {
  expect_same to/x_text_document.bin null_expected.bin
  expect_same to/x_text_document.idx null_expected.idx
}

# If a signal arrives while mtl-preprocess waits for input, it leaves nothing behind and dies from the signal.
set -m  # a background job does not ignore INT
for signal in TERM INT HUP; do
  rm -rf to fifo
  mkfifo fifo
  $P --input fifo --output-prefix to/x 2>err &
  pid=$!
  exec 7>fifo
  cat "$CORPUS" >&7
  for _ in $(seq 100); do [ -e to/x_text_document.bin.tmp.$pid ] && break; sleep 0.1; done
  kill -$signal $pid
  wait $pid 2>/dev/null
  code=$?
  exec 7>&-
  [ "$code" -eq $((128 + $(kill -l $signal))) ] || fail "SIG$signal: exit $code"
  expect_only
  expect_text err "^mtl-preprocess: ended by signal $(kill -l $signal) "
done
set +m

# Two runs with the same prefix: the second fails and harms nothing. After a run was killed, the next run removes what
# it left.
$P --input fifo --output-prefix to/x 2>err7 &
pid=$!
exec 7>fifo
for _ in $(seq 100); do [ -e to/x_text_document.bin.tmp.$pid ] && break; sleep 0.1; done
expect_exit 1 $P --input "$CORPUS" --output-prefix to/x
expect_text err "^mtl-preprocess: to/x: another run writes there \(pid $pid on .*--output-prefix"
kill -KILL $pid
wait $pid 2>/dev/null
exec 7>&-
[ -e to/x_text_document.bin.tmp.$pid ] || fail "the killed run left nothing to remove"
MTL_FAULT=no-remove:1 expect_exit 0 $P --input "$CORPUS" --output-prefix to/x
expect_text err "warning: to/x_text_document.bin.tmp.$pid: cannot remove: "
expect_complete
expect_exit 0 $P --input "$CORPUS" --output-prefix to/x
expect_text err "removed to/x_text_document.bin.tmp.$pid, because"
expect_only $FILES && expect_complete

# Checks the same for two prefixes whose keys lead to the same file names.
echo '{"b_c": "1 2", "c": "3"}' >keys.jsonl
$P --input fifo --output-prefix to/a --json-keys b_c 2>err7 &
pid=$!
exec 7>fifo
for _ in $(seq 100); do [ -e to/a_b_c_document.bin.tmp.$pid ] && break; sleep 0.1; done
expect_exit 1 $P --input keys.jsonl --output-prefix to/a_b --json-keys c
expect_text err "^mtl-preprocess: to/a_b_c_document: another run writes there \\(pid $pid on "
cat keys.jsonl >&7
exec 7>&-
wait $pid || fail "the first run failed: $(cat err7)"
[ "$(mtl-data cat to/a_b_c_document)" = '1 2 69999' ] || fail "to/a_b_c_document is not the first run's"
expect_only a_b_c_document.bin a_b_c_document.idx a_b_c_document.json $FILES

# Each file operation fails once. The run must either complete or report the error, without temporary files and without
# an .idx for incomplete data.
operations=40
for kind in enospc eio short eintr; do
  for n in $(seq $operations); do
    rm -rf to
    MTL_FAULT=$kind:$n $P --input "$CORPUS" --output-prefix to/x --quiet 2>err
    code=$?
    if [ $code -eq 0 ]; then
      expect_only $FILES && expect_complete
      [ $kind = enospc ] && operations=$n && break  # fewer than n operations
    elif [ $code -ne 74 ]; then
      fail "$kind:$n: exit $code: $(cat err)"
    elif ls to/*.tmp.* to/*.lock >/dev/null 2>&1; then
      fail "$kind:$n left $(ls to)"
    elif [ -e to/x_text_document.idx ]; then
      expect_complete
    fi
  done
done
[ "$operations" -gt 10 ] && [ "$operations" -lt 40 ] || fail "$operations file operations instead of 11 to 39"
rm -rf to
MTL_FAULT=enospc:6 expect_exit 74 $P --input "$CORPUS" --output-prefix to/x
expect_text err 'No space left on device'
expect_text err '^  the output needs about .* KiB, judging by the 100% of the input that was read, and /.*/to had .* free; .*--output-prefix'
expect_only

# Files from different runs are never readable together: a run killed between its first and last rename leaves no .idx.
echo '{"text": "5 6 7"}' >old.jsonl
$P --input old.jsonl --output-prefix old --quiet
for n in $(seq "$operations"); do
  rm -rf to
  $P --input old.jsonl --output-prefix to/x --quiet
  { (MTL_FAULT=kill:$n exec $P --input "$CORPUS" --output-prefix to/x --quiet); } 2>err
  [ -e to/x_text_document.idx ] || continue
  if cmp -s to/x_text_document.idx old_text_document.idx; then
    expect_same to/x_text_document.bin old_text_document.bin
  else
    expect_complete
  fi
done

# If file size is limited, the run reports an error instead of being killed.
rm -rf to
for _ in $(seq 200); do cat "$CORPUS"; done >many.jsonl
(ulimit -f 8 && exec $P --input many.jsonl --output-prefix to/x) 2>err
[ $? -eq 74 ] || fail "ulimit -f: not exit 74: $(cat err)"
expect_text err 'File too large'
expect_only

# It is an error if an input is truncated at a line end while it is read, even though the rest looks complete.
rm -rf to
line='{"text": "11 22 33 44 55 66 77 88 99 11 22 33 44 55 66 77 88 99 11 22 33 44 55 66 77 88 99 11 22"}'
yes "$line" | head -n 600000 >shrinking.jsonl
length=$((${#line} + 1))
$P --input shrinking.jsonl --output-prefix to/x --workers 1 2>err &
pid=$!
for _ in $(seq 1000); do ls -l /proc/$pid/fd 2>/dev/null | grep -q shrinking.jsonl && break; sleep 0.01; done
kill -STOP $pid
was_read=$(awk '$1 == "pos:" {print $2}' $(ls -l /proc/$pid/fd | awk -v dir=/proc/$pid/fdinfo '/shrinking.jsonl/ {print dir "/" $9}'))
truncate -s $(((was_read / length + 1000) * length)) shrinking.jsonl
[ "$(stat -c %s shrinking.jsonl)" -lt $((600000 * length)) ] ||
  fail "the run read all of its input before it was stopped"
kill -CONT $pid
wait $pid
[ $? -eq 74 ] || fail "a truncated input: not exit 74: $(cat err)"
expect_text err "^mtl-preprocess: shrinking.jsonl: .*truncated while it was read, from $((600000 * length)) to $(stat -c %s shrinking.jsonl) bytes"
expect_only
rm shrinking.jsonl

# A Git LFS pointer in place of any file is named.
rm -rf to
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 12345\n' 7 >pointer
for arguments in '--input pointer' "--input $CORPUS --vocab-file pointer --merge-file $SHARE/gpt2/merges.txt --tokenizer-type GPT2BPETokenizer" \
  "--input $CORPUS --vocab-file $SHARE/gpt2/vocab.json --merge-file pointer --tokenizer-type GPT2BPETokenizer" \
  "--input $CORPUS --tokenizer-type HuggingFaceTokenizer --tokenizer-model pointer" \
  "--input $CORPUS --tokenizer-type SentencePieceTokenizer --tokenizer-model pointer" \
  "--input $CORPUS --tokenizer-type TikTokenizer --tokenizer-model pointer"; do
  expect_exit 65 mtl-preprocess --tokenizer-type NullTokenizer --vocab-size 70000 $arguments --output-prefix to/x
  expect_text err '^mtl-preprocess: pointer: .*Git LFS pointer.*12,345.*git lfs pull'
done
expect_exit 65 $P --input - --output-prefix to/x < <(cat pointer)
expect_text err '^mtl-preprocess: standard input: .*git lfs pull'
expect_only

# Closed streams: no file gets their descriptors.
rm -rf to
$P --input "$CORPUS" --output-prefix to/x --log-interval 1 2>&- || fail "stderr closed: exit $?"
expect_only $FILES && expect_complete
rm -rf to
$P --input "$CORPUS" --output-prefix to/x --json >&- 2>err
[ $? -eq 74 ] || fail "stdout closed: not exit 74"
expect_only $FILES && expect_complete
rm -rf to
$P --input - --output-prefix to/x <&- 2>err
[ $? -eq 74 ] || fail "stdin closed: not exit 74: $(cat err)"
expect_text err 'standard input: cannot read'
expect_only
$P --input many.jsonl --output-prefix to/x --log-interval 1 2>&1 | true  # a reader that closes early
expect_only $FILES

# Paths.
rm -rf to
expect_exit 0 $P --input "$CORPUS" --output-prefix to/new/folder/x
[ -s to/new/folder/x_text_document.idx ] || fail "a missing folder was not created"
rm -rf to
expect_exit 74 $P --input "$CORPUS" --output-prefix many.jsonl/x
expect_text err 'many.jsonl: cannot create the folder'
expect_exit 74 $P --input "$CORPUS" --output-prefix /proc/x
expect_text err '/proc: cannot create files here: .*; choose another --output-prefix'
mkdir -p to/x_text_document.idx
expect_exit 74 $P --input "$CORPUS" --output-prefix to/x
expect_text err 'to/x_text_document.idx is a folder'
expect_only x_text_document.idx
expect_exit 74 $P --input . nothing.json 'nothing*.gz' --output-prefix to/y
expect_text err '^mtl-preprocess: \. is a folder'
expect_text err '^nothing.json: no such file$'
expect_text err '^nothing\*.gz: no such file, and no file matches'
mkdir dataset datasets && touch dataset/data-00000-of-00001.arrow datasets/dataset_dict.json
expect_exit 74 $P --input dataset datasets --output-prefix to/x
expect_text err 'dataset is a folder of Arrow files .* python3 -c .*glob.escape\(sys.argv\[1\]\) .*" dataset \| ... --input -'
expect_text err 'datasets has several datasets of Hugging Face; use one of its folders, such as datasets/train$'
# A command in a message reads any name as one word.
mkdir 'a $(touch ran)' && touch 'a $(touch ran)/data-00000-of-00001.arrow'
expect_exit 74 $P --input 'a $(touch ran)' --output-prefix to/e
command=$(grep -oE 'python3 -c .* \| ' err)
(python3() { printf '%s\n' "${@: -1}"; }; eval "${command% | }") >word
expect_same word <(echo 'a $(touch ran)')
[ ! -e ran ] || fail 'a message has a command that runs a part of a name'
# Files whose formats are never empty.
for ending in parquet arrow gz zst npy; do
  : >"empty.$ending"
  expect_exit 65 $P --input "empty.$ending" --output-prefix to/e
  expect_text err "empty.$ending: the file is empty, which no .$ending file is; copy or download it again"
done
cp "$CORPUS" z.rejects.jsonl
expect_exit 2 $P --input z.rejects.jsonl --output-prefix z --skip-bad 3
expect_text err 'z.rejects.jsonl +is one of the inputs and would be overwritten; choose another --output-prefix'
expect_same z.rejects.jsonl "$CORPUS"
expect_exit 2 $P --input many.jsonl --output-prefix to/
expect_text err '--output-prefix to/ +has no file name; give a prefix such as'
# No output replaces an input, whatever its name: standard input, the lock, tokenizer files, a configuration file.
cp "$CORPUS" z.lock
expect_exit 2 $P --input z.lock --output-prefix z
cp "$CORPUS" z_text_document.idx.tmp.12
expect_exit 2 $P --input z_text_document.idx.tmp.12 --output-prefix z
ln -s "$CORPUS" z_text_document.bin
expect_exit 2 $P --input - --output-prefix z <"$CORPUS"
expect_text err 'z_text_document.bin +is one of the inputs \(standard input\)'
expect_same z.lock "$CORPUS"
expect_same z_text_document.idx.tmp.12 "$CORPUS"
HF="mtl-preprocess --tokenizer-type HuggingFaceTokenizer --input many.jsonl"
cp "$TESTS"/golden/tokenizer/hf_saved_tinyshakespeare_1000/tokenizer.json t_text_document.json
expect_exit 2 $HF --tokenizer-model t_text_document.json --output-prefix t
expect_text err 't_text_document.json +is one of the inputs'
cmp -s t_text_document.json "$TESTS"/golden/tokenizer/hf_saved_tinyshakespeare_1000/tokenizer.json || fail 'the tokenizer was overwritten'
mkdir model && cp "$TESTS"/golden/tokenizer/hf_saved_tinyshakespeare_1000/*.json model
ln model/tokenizer_config.json u_text_document.json
expect_exit 2 $HF --tokenizer-model model --output-prefix u
expect_text err 'u_text_document.json +is one of the inputs \(model/tokenizer_config.json\)'
printf 'output-prefix = w\n' >w_text_document.json
cp w_text_document.json conf
expect_exit 2 mtl-preprocess --config w_text_document.json --input many.jsonl --tokenizer-type NullTokenizer --vocab-size 9
expect_text err 'w_text_document.json +is one of the inputs'
expect_same w_text_document.json conf
cp "$SHARE/gpt2/merges.txt" v.rejects.jsonl
expect_exit 2 mtl-preprocess --input many.jsonl --vocab-file "$SHARE/gpt2/vocab.json" --merge-file v.rejects.jsonl --output-prefix v
expect_same v.rejects.jsonl "$SHARE/gpt2/merges.txt"
# If a name is not UTF-8, the record and the summary are still valid JSON, and mtl-data verify accepts them.
name=$(printf 'caf\351')
cp "$CORPUS" "$name.jsonl"
expect_exit 0 $P --input "$name.jsonl" --output-prefix "$name" --json
shown=$(printf 'caf\357\277\275')
expect_text out "\"prefix\": \"${shown}_text_document\""
iconv -f UTF-8 -t UTF-8 out "${name}_text_document.json" >/dev/null 2>&1 ||
  fail 'the summary or the record is not UTF-8'
expect_text "${name}_text_document.json" "\"path\": \"$shown.jsonl\""
expect_exit 0 mtl-data verify "${name}_text_document" --json
iconv -f UTF-8 -t UTF-8 out >/dev/null 2>&1 || fail 'mtl-data verify: the JSON is not UTF-8'
expect_text out '"ok": true, .*"provenance": true, "hashes": true\}$'
expect_exit 0 mtl-data merge "${name}_text_document" --output-prefix "$name-merged"
expect_exit 0 mtl-data verify "$name-merged"
expect_exit 2 $P --input <(cat "$CORPUS") --output-prefix to/y --partitions 2
expect_text err '--partitions 2: .*pipe.*--keep-sequential-samples'
# A small stack limit: raised, for threads too, or refused if it is a hard one.
expect_exit 0 bash -c "ulimit -S -s 64; exec $P --input '$CORPUS' --output-prefix to/stack --workers 3"
# A umask that takes away the owner's rights does not leave files that nobody can read or remove.
(umask 0777 && $P --input "$CORPUS" --output-prefix masked/x 2>err) || fail "umask 0777: exit $?"
for file in masked masked/x_text_document.bin; do
  case $(stat -c %a $file) in [67]00) ;; *) fail "umask 0777: $file has the rights $(stat -c %a $file)" ;; esac
done
# No inodes are left, although there is space.
mkdir -p inodes
# without_inodes COMMAND...: runs COMMAND with a file system of two inodes at `inodes`.
without_inodes() {
  # shellcheck disable=SC2016 # the inner shell's words
  unshare -m sh -c 'mount -t tmpfs -o nr_inodes=2,size=10m tmpfs inodes && exec "$@"' sh "$@"
}
if without_inodes true 2>/dev/null; then
  expect_exit 74 without_inodes $P --input "$CORPUS" --output-prefix inodes/x
  expect_text err '^mtl-preprocess: inodes: .*: No space left on device; no inodes are left on that disk \(df -i\)'
else
  echo 'SKIPPED: a disk without inodes: cannot mount one' >&2
fi

expect_exit 1 bash -c "ulimit -s 64; exec $P --input '$CORPUS' --output-prefix to/stack"
expect_text err 'the stack may have only 64.0 KiB .*ulimit -s '
printf '\xef\xbb\xbf{"text": "a"}\n' >mark.jsonl
expect_exit 65 $P --input mark.jsonl --output-prefix to/y
expect_text err 'mark.jsonl: .*byte order mark.*tail -c \+4'
expect_exit 65 $P --input - --output-prefix to/y <mark.jsonl
expect_text err 'standard input: .*byte order mark.*tail -c \+4'
: >empty.jsonl
expect_exit 0 $P --input empty.jsonl --output-prefix y
expect_text err 'warning: the input contains no documents'
[ "$(stat -c %s y_text_document.idx)" -eq 42 ] || fail "the .idx without documents has the wrong size"
finish
