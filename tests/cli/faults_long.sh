#!/bin/bash
# Every fault at the write operations of all tools that write models, token files and vocabularies: a failed run ends
# with 74 and leaves no temporary file, whatever is under a final name is complete and from one run, and the same
# command completes. train_resume_long.sh and ranks_train_long.sh do this for mtl-train.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/random.sh"
export OMP_WAIT_POLICY=passive
cd "$WORK" || exit 1
runs=0

# The inputs a and b of the rows below.
IDS='--tokenizer-type NullTokenizer --vocab-size 512'
ln -s "$TESTS/golden/deepspeed/megatron_fused" model_a
ln -s "$TESTS/golden/gpt2_model/a" model_b
head -20 "$TESTS/golden/end_to_end/corpus.jsonl" >a.jsonl
tail -20 "$TESTS/golden/end_to_end/corpus.jsonl" >b.jsonl
for name in a b; do
  expect_exit 0 mtl-preprocess --input $name.jsonl --output-prefix $name $IDS --append-eod
  expect_exit 0 mtl-data export ${name}_text_document --output $name.npy
done

# run FAULT: starts again from what an earlier command has left, and runs the command with the fault.
run() {
  rm -rf to
  cp -r old to
  again "$1"
}
# again FAULT: runs the command with the fault, in what is there. Sets $code.
again() {
  runs=$((runs + 1))
  { (MTL_FAULT=$1 exec timeout -s KILL 60 "${command[@]}" >out 2>err </dev/null); } 2>/dev/null
  code=$?
  keep to seen
}
# keep FOLDER NAME: keeps a copy to compare with.
keep() {
  rm -rf "$2"
  cp -r "$1" "$2"
  without_time "$2"
}

# Lock files of a killed run stay until the next.
leftovers() { find to -name '*.tmp.*' -o -name '*.lock'; }
# is_whole RUN: the complete files in `seen` are those of RUN. is_part_of RUN: some of them. is_readable RUN: every
# .idx, and what belongs to it, is of RUN.
is_whole() { diff -rq -x '*.tmp.*' -x '*.lock' -x lock seen "$1" >/dev/null; }
is_part_of() { ! diff -rq -x '*.tmp.*' -x '*.lock' -x lock seen "$1" | grep -qv "^Only in $1"; }
is_readable() {
  local file
  for file in $(cd seen && compgen -G '*.idx' | sed 'p; s/idx$/bin/p; s/bin$/json/'); do
    cmp -s "seen/$file" "$1/$file" || return
  done
}

fail_at() {
  fail "MTL_FAULT=$fault ${command[*]}: $1"
  sed 's/^/    /' err >&2
}

# check_fault: the command's state after $fault.
check_fault() {
  run "$fault"
  case $code in
    0 | 74) ;;
    137) [[ $fault == kill:* ]] || fail_at 'killed' ;;
    *) fail_at "exit $code" ;;
  esac
  if [ $code -eq 74 ]; then
    [ -s err ] || fail_at 'no message'
    grep -q 'could not be removed' err || [ -z "$(leftovers)" ] || fail_at "leaves $(leftovers)"
  fi
  [ $code -ne 0 ] || is_whole new || fail_at 'exit 0 with another result'
  "$holds" new || "$holds" earlier || fail_at "leaves parts: $(cd to && find . -type f | tr '\n' ' ')"
  again none
  [ $code -eq 0 ] || fail_at "exit $code when the command is repeated"
  is_whole new || fail_at 'another result when the command is repeated'
  [ -z "$(leftovers)" ] || fail_at "leaves $(leftovers) when the command is repeated"
}

# count_operations: sets $operations. kill:N has no effect beyond them.
count_operations() {
  local low=0 high=1 middle
  while run kill:$high; [ $code -ne 0 ]; do low=$high high=$((2 * high)); done
  while [ $((high - low)) -gt 1 ]; do
    middle=$(((low + high) / 2))
    run kill:$middle
    if [ $code -eq 0 ]; then high=$middle; else low=$middle; fi
  done
  operations=$low
}

# The commands, and what holds for the files that a failed one leaves, either of this run or of an earlier one.
rows=()
for to in hf 'hf --max-shard-size 100KB' mtl 'megatron --tensor-model-parallel-size 2' \
  'megatron --ckpt-format torch_dist'; do
  rows+=("is_whole mtl-convert --load MODEL --save to/x --force --to $to --quiet")
done
for data in "preprocess --input TEXT $IDS --append-eod" "preprocess --input TEXT $IDS --partitions 2" \
  "preprocess --input TEXT $IDS --skip-bad 1" 'data shuffle --seed 1 DATA' 'data split --weights 3,1 DATA' \
  'data merge DATA DATA' 'data import --eod 511 FLAT.npy'; do
  rows+=("is_readable mtl-$data --output-prefix to/x --quiet")
done
rows+=('is_whole mtl-data export DATA --output to/x.npy --quiet'
  'is_whole mtl-data repair DATA --output to/x.idx --quiet'
  'is_part_of mtl-vocab --input TEXT --vocab-size 259 --output-prefix to/x --quiet')

# command_of ROW NAME: sets $command, which reads the inputs NAME.
command_of() {
  local words=$1
  words=${words//MODEL/model_$2} words=${words//TEXT/$2.jsonl} words=${words//DATA/$2_text_document}
  read -r -a command <<<"${words//FLAT/$2}"
}

check_row() {
  local row=${rows[(number - 1) % ${#rows[@]}]} at kind step fault=none holds
  read -r holds row <<<"$row"
  rm -rf old
  mkdir old
  if one_in 2; then
    command_of "$row" b
    run none
    [ $code -eq 0 ] || fail_at "exit $code"
    rm -r old
    mv to old
  fi
  keep old earlier
  command_of "$row" a
  run none
  [ $code -eq 0 ] || { fail_at "exit $code"; return; }
  keep to new
  count_operations
  echo "$number: $operations write operations$([ -z "$(ls old)" ] || echo ', replacing files'): ${command[*]}"
  for kind in kill eio enospc short eintr; do
    step=$((operations / 25 + 1))
    for ((at = 1 + RANDOM % step; at <= operations; at += step)); do
      fault=$kind:$at
      check_fault
    done
  done
}

run_cases ${#rows[@]} check_row
echo "$runs runs"
finish
