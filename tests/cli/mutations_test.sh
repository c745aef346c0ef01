#!/bin/bash
# The tests' comparisons detect wrong metrics: each passes on valid metrics and fails on corrupted metrics.
# mutations_long.sh does the same for entire tests.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/metrics.sh"
source "$(dirname "$0")/layouts.sh"
GOLDEN=$TESTS/golden/end_to_end/plain.jsonl
MODEL=$TESTS/golden/gpt2_model/a
cd "$WORK" || exit 1
mutations=0

# failures_of COMMAND...: prints how many of its checks fail.
failures_of() {
  # shellcheck disable=SC2030  # the subshell counts for itself
  (unset FAIL_FAST; failures=0; "$@" >comparison.log 2>&1; echo "$failures")
}
# passes COMMAND...: none of its checks fails.
passes() { [ "$(failures_of "$@")" -eq 0 ] || { fail "fails on sound figures: $*"; sed 's/^/    /' comparison.log >&2; }; }
# caught WHAT COMMAND...: one of COMMAND's checks fails. WHAT is wrong.
caught() {
  local what=$1
  shift
  mutations=$((mutations + 1))
  [ "$(failures_of "$@")" -gt 0 ] || fail "not caught: $what: $*"
}

# Ways to corrupt a log: a name and a sed program. Each value is replaced in all lines, then in one.
LOG_MUTATIONS=(
  'every gradient norm NaN|s/("grad_norm": *)[^,}]+/\1NaN/'
  'one gradient norm NaN|5s/("grad_norm": *)[^,}]+/\1NaN/'
  'every loss NaN|s/("(lm_)?loss": *)[^,}]+/\1NaN/'
  'one loss null|4s/("lm_loss": *)[^,}]+/\1null/'
  'one loss infinite|2s/("lm_loss": *)[^,}]+/\1Infinity/'
  'one loss off|5s/("lm_loss": *[0-9]\.[0-9]{3})[0-9]+/\19999999/'
  'one loss missing|5s/"lm_loss"/"lost"/'
  'no lines|d'
  'a line dropped|5d'
  'two lines swapped|4{h;d};5G'
  'a line twice|5p'
)
# break_log FILE OUT PROGRAM: applies the sed PROGRAM to FILE and writes the result to OUT. It must differ from FILE.
break_log() {
  sed -E "$3" "$1" >"$2"
  cmp -s "$1" "$2" && fail "'$3' changes nothing in $1"
}

# The comparison in train_end_to_end_test.sh.
compare_to_golden() { compare_losses "$GOLDEN" "$1"; }
passes compare_to_golden "$GOLDEN"
VALIDATIONS=('every validation loss NaN|s/("validation_loss": *)[^,}]+/\1NaN/' 'test loss NaN|s/("test_loss": *)[^,}]+/\1NaN/'
  'learning rate NaN|3s/("learning_rate": *)[^,}]+/\1NaN/')
for mutation in "${LOG_MUTATIONS[@]}" "${VALIDATIONS[@]}"; do
  break_log "$GOLDEN" broken.jsonl "${mutation#*|}"
  # Iterations are compared by name: their order does not matter, but a duplicate line does.
  [ "${mutation%%|*}" = 'two lines swapped' ] || caught "${mutation%%|*}" compare_to_golden broken.jsonl
done

# The comparisons between a layout and one process: clipping, metrics and weights.
prepare_token_files
train_layout 1 one --micro-batch-size 2
passes check_clipping one
train_layout 1 loose --micro-batch-size 2 --clip-grad 0
caught 'a run without clipping' check_clipping loose
rm -r loose.*
train_layout 1 loose --micro-batch-size 2 --clip-grad 3
caught 'a run that clips less' check_clipping loose
rm -r loose.*
cp one.jsonl sound.jsonl
ln -s one.ck sound.ck
passes check_layout one sound sound
passes same_bits one sound copy
grep -vE '"type": "start"' one.jsonl >steps.jsonl
ln -s one.ck broken.ck
for mutation in "${LOG_MUTATIONS[@]}"; do
  break_log steps.jsonl broken.jsonl "${mutation#*|}"
  caught "${mutation%%|*}" check_layout one broken broken
  caught "${mutation%%|*}" same_bits one broken copy
done
break_log steps.jsonl broken.jsonl 's/("(lm_)?loss": *)[^,}]+/\1NaN/'
caught 'the same losses NaN in both' same_bits broken broken copy
rm broken.ck
cp one.jsonl broken.jsonl
caught 'no checkpoint' check_layout one broken broken
expect_text comparison.log 'weights differ by'
train_layout 1 broken --micro-batch-size 2 --weight-decay 0.2
cp one.jsonl broken.jsonl
caught 'other weights' check_layout one broken broken
expect_text comparison.log 'weights differ by'
caught 'other weights' same_bits one broken copy
expect_text comparison.log 'copy: '

# Models that differ in one weight.
weights_agree() {
  local same rms
  read -r same rms _ <<<"$(mtl_compare_checkpoints "$1" "$2")"
  below "$rms" 1e-4 || fail "weights differ by $rms ($same)"
}
# break_weight BYTES: replaces the third weight in the first tensor in the folder `broken`.
break_weight() {
  local header
  rm -rf broken
  cp -r "$MODEL" broken
  chmod -R u+w broken
  header=$(od -An -tu8 -N8 broken/model.safetensors)
  printf "$1" | dd of=broken/model.safetensors bs=1 seek=$((8 + header + 8)) conv=notrunc status=none
  cmp -s "$MODEL/model.safetensors" broken/model.safetensors && fail "$1 changes no weight"
}
passes weights_agree "$MODEL" "$MODEL"
break_weight '\x00\x00\xc0\x7f'
caught 'a weight NaN' weights_agree "$MODEL" broken
caught 'the same weight NaN in both' weights_agree broken broken
break_weight '\x00\x00\x80\x7f'
caught 'a weight infinite' weights_agree "$MODEL" broken
break_weight '\xcd\xcc\xcc\x3d'
caught 'a weight off by 0.1' weights_agree "$MODEL" broken
caught 'another model' weights_agree "$MODEL" "${MODEL%a}b"

# Single numbers and lists of numbers.
passes below 1e-7 1e-6
expect_near 2.0000001 2 1e-6
printf '1\n2\n' >numbers
passes expect_near_lines numbers numbers same
number_below() { below "$@" || fail "$1 is not below $2"; }
for value in nan NaN -nan inf '' x 1e-5; do
  caught "below $value" number_below "$value" 1e-6
  caught "limit $value" number_below 1 "$value"
  caught "expect_near $value" expect_near "$value" 2 1e-6
  caught "expect_near 2 $value" expect_near 2 "$value" 1e-6
done
for text in '' '1\n' '1\nnan\n' '1\n\n' '1\n2\n3\n' '2\n1\n' '1\nx\n' '1\n2 x\n' 'a 1\na 2\n' '1\n2.00001\n' '1\ninf\n'; do
  # shellcheck disable=SC2059
  printf "$text" >other
  caught "lines '$text'" expect_near_lines numbers other other
  caught "lines '$text' first" expect_near_lines other numbers other
done
: >other
caught 'two empty files' expect_near_lines other other empty
caught 'fewer lines than expected' expect_near_lines numbers numbers count 1e-6 3

[ "$mutations" -ge 60 ] || fail "only $mutations mutations"
echo "$mutations mutations"
finish
