#!/bin/bash
# Shows that a redesign changes no bit: compares an earlier commit's programs with the working tree's on this machine.
#
# tests/old_new.sh [--quick] [--no-times] COMMIT [BUILD]
#
# Builds COMMIT in build/old_new (or uses the programs in $OLD_BIN) and runs old and new programs alternately. These
# must have the same bits: token files, losses in 20 steps with dropout and clipping, every tensor in the checkpoints, a
# run that one starts and the other resumes, generated ids, scores. Gradient norms may differ in the last bits, because
# their fp64 sums are divided differently with ZeRO-1: where the ranks' ranges in a bucket end. Then runs both
# alternately with timing and prints the ratio. --quick uses 4 layouts from cli/layouts.txt instead of 15. BUILD is the
# working tree's build, build/release.
set -u
TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
quick=0 times=1 words=()
for word in "$@"; do
  case $word in
    --quick) quick=1 ;;
    --no-times) times=0 ;;
    -*) echo "old_new.sh: unknown flag $word" >&2; exit 2 ;;
    *) words+=("$word") ;;
  esac
done
[ "${#words[@]}" -ge 1 ] || { echo "usage: tests/old_new.sh [--quick] [--no-times] COMMIT [BUILD]" >&2; exit 2; }
COMMIT=${words[0]}
source "$TOP/tests/cli/lib.sh" "${words[1]:-$TOP/build/release}"
source "$TOP/tests/cli/layouts.sh"
NEW_BIN=$BIN
PLAIN_PATH=$PATH

# Builds COMMIT's programs in a separate worktree, which is kept for the next call.
build_old() {
  local tree=$TOP/build/old_new/$COMMIT launcher=()
  [ -d "$tree" ] || git -C "$TOP" worktree add --detach "$tree" "$COMMIT" >&2 || return 1
  command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  (cd "$tree" && cmake --preset release "${launcher[@]}" >/dev/null &&
    ninja -C build/release mtl-preprocess mtl-train mtl-generate mtl-eval >&2) || return 1
  OLD_BIN=$tree/build/release/bin
}
[ -n "${OLD_BIN:-}" ] || build_old || { echo "old_new.sh: cannot build $COMMIT" >&2; exit 1; }

use() { if [ "$1" = old ]; then PATH=$OLD_BIN:$PLAIN_PATH; else PATH=$NEW_BIN:$PLAIN_PATH; fi; }

# both NAME COMMAND...: both must print the same standard output.
both() {
  local name=$1 side
  shift
  for side in old new; do
    use $side
    expect_exit 0 "$@"
    cp out "$name.$side"
  done
  [ -s "$name.old" ] || fail "$name: no output"
  expect_same "$name.old" "$name.new"
}

# same_tensors WHAT A B: every tensor has the same bits in both checkpoints.
same_tensors() {
  local answer
  answer=$("$NEW_BIN/mtl_compare_checkpoints" --exact "$2" "$3" 2>&1) || fail "$1: $answer"
}

same_token_files() {
  local side name flags
  while read -r name flags; do
    for side in old new; do
      use $side
      # shellcheck disable=SC2086
      expect_exit 0 mtl-preprocess --output-prefix "$name.$side" $flags
    done
    for side in .bin .idx; do expect_same "$name.old_text_document$side" "$name.new_text_document$side"; done
    echo "token files, $name: same bytes"
  done <<END
gpt2 --input $TESTS/golden/indexed/corpus.jsonl --tokenizer-type GPT2BPETokenizer --vocab-file $SHARE/gpt2/vocab.json --merge-file $SHARE/gpt2/merges.txt --append-eod
null --input $TESTS/golden/end_to_end/corpus.jsonl --tokenizer-type NullTokenizer --vocab-size 512 --append-eod --workers 3
END
}

# train SIDE NAME FLAG...: runs 20 steps with dropout and clipping, with checkpoints after 10 and 20.
train() {
  use "$1"
  train_layout "$ranks" "$2" "${flags[@]}" --train-iters 20 --eval-interval 10 --clip-grad 0.5 --save-interval 10 "${@:3}"
}

# same_layout RESUME: trains the layout in `flags` with both. With RESUME, each continues the other's run.
same_layout() {
  local side other before=$failures
  for side in old new; do train $side $side; done
  for side in old new; do
    metrics $side.jsonl >$side.metrics
    grep ^loss $side.metrics >$side.losses
    grep ^norm $side.metrics >$side.norms
  done
  expect_same old.losses new.losses
  below "$(mtl_compare difference old.norms new.norms --count 20)" 1e-14 || fail "$title: different gradient norms"
  [ "$(wc -l <old.metrics)" -eq 44 ] || fail "$title: $(wc -l <old.metrics) metrics instead of 44"
  same_tensors "$title, step 10" old.ck/iter_0000010 new.ck/iter_0000010
  same_tensors "$title, step 20" old.ck/iter_0000020 new.ck/iter_0000020
  if [ "$1" = resume ]; then
    for side in old new; do
      other=$([ $side = old ] && echo new || echo old)
      mkdir "resumed_$side.ck" && cp -r "$other.ck/iter_0000010" "resumed_$side.ck"
      train $side "resumed_$side"
      same_tensors "$title, $side resumes $other" old.ck/iter_0000020 "resumed_$side.ck/iter_0000020"
    done
  fi
  [ "$failures" -eq "$before" ] && echo "$title: same bits"
  rm -rf old.* new.* resumed_*
}

same_layouts() {
  local line number=0 resume=resume
  expect_exit 0 mtl-preprocess --input "$TESTS/golden/end_to_end/corpus.jsonl" --output-prefix c \
    --tokenizer-type NullTokenizer --vocab-size 512 --append-eod
  ranks=1 flags=(--micro-batch-size 2) title="one process"
  same_layout resume
  while read -r -a line; do
    case ${line[0]}${line[3]} in '#'*) continue ;; *1f1b | *gpipe) ;; *) continue ;; esac # an old program may lack others
    number=$((number + 1))
    [ "$number" -le 15 ] || break
    if [ $quick = 1 ]; then case $number in 4 | 6 | 11) ;; *) continue ;; esac; fi
    line[11]=adam # the same
    set_layout "${line[@]}"
    resume=no
    case $number in 6 | 11) resume=resume ;; esac
    same_layout $resume
  done <"$TESTS/cli/layouts.txt"
}

same_answers() {
  local models=$TESTS/golden/gpt2_model ids
  sed -E 's/.*"prompt":\[([0-9,]*)\].*/\1/; s/,/ /g' "$TESTS/golden/generate/greedy.jsonl" >prompts.txt
  ids=(mtl-generate --load "$models/a" --ids --input prompts.txt --max-new-tokens 60)
  both greedy "${ids[@]}" --greedy
  both batched "${ids[@]}" --greedy --batch-size 3 --json-lines --logprobs
  both drawn "${ids[@]}" --top-p 0.9 --temperature 0.8 --seed 3 --num-samples 2
  both scores mtl-eval --load "$models/a" --data-path c_text_document --seq-length 40
  echo "generated ids, scores: same"
}

# seconds COMMAND...: prints its user time.
seconds() { local TIMEFORMAT=%U; { time "$@" >time.out 2>time.err </dev/null; } 2>&1; }

# ratio NAME COMMAND...: takes the smallest of five user times for each, alternating.
ratio() {
  local name=$1 side round
  shift
  rm -f times.*
  for round in 1 2 3 4 5; do
    for side in old new; do
      use $side
      seconds "$@" >>times.$side || fail "$name: $*"
    done
  done
  awk -v name="$name" -v old="$(sort -n times.old | head -1)" -v new="$(sort -n times.new | head -1)" \
    'BEGIN { printf "%-10s old %6.2f s  new %6.2f s  new / old %.3f\n", name, old, new, new / old }'
}

print_times() {
  export OMP_NUM_THREADS=1
  local model=$TESTS/golden/gpt2_model/a
  ratio train mtl-train --num-layers 4 --hidden-size 256 --num-attention-heads 8 --max-position-embeddings 256 \
    --tokenizer-type NullTokenizer --vocab-size 512 --data-path c_text_document --split 100,0,0 --seq-length 256 \
    --micro-batch-size 4 --global-batch-size 8 --train-iters 8 --lr 0.001 --seed 1 --peak-tflops 0.1 --threads 1
  ratio generate mtl-generate --load "$model" --ids --input prompts.txt --max-new-tokens 2000 --ignore-eos --threads 1
  ratio score mtl-eval --load "$model" --data-path c_text_document --threads 1
}

cd "$WORK" || exit 1
echo "old: $COMMIT, $OLD_BIN"
echo "new: $NEW_BIN"
same_token_files
same_layouts
same_answers
[ $times = 0 ] || print_times
finish
