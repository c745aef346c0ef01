#!/bin/bash
# Numeric flags: every tool enforces the bounds in --list-flags. No number, however large, makes it crash or hang. A value
# that is not a number is one problem.
source "$(dirname "$0")/lib.sh" "$1"
export OMP_WAIT_POLICY=passive
cd "$WORK" || exit 1
values=(nan inf -inf -1 0 1e308 4611686018427387904 9223372036854775808)

# numeric_flags FILE: prints the numeric flags in --list-flags output, each as "NAME KIND LOW HIGH".
numeric_flags() { sed 's/;.*//' "$1" | awk '$2 == "whole" || $2 == "real"'; }

# refused_by_bounds VALUE: prints which of the flags on stdin must reject VALUE.
refused_by_bounds() {
  awk -v value="$1" '
    function is_inside(  low, high, x) {
      if (value ~ /nan|inf/ || ($2 == "whole" && value ~ /e/) || ($2 == "whole" && value == "9223372036854775808")) return 0
      low = substr($3, 2); high = substr($4, 1, length($4) - 1); x = value + 0
      if (low != "-inf" && (x < low + 0 || ($3 ~ /^\(/ && x == low + 0))) return 0
      if (high != "inf" && (x > high + 0 || ($4 ~ /\)$/ && x == high + 0))) return 0
      return 1
    }
    !is_inside() { print $1 }'
}

# check_bounds TOOL [COMMAND]: sets all numeric flags to the same value. The tool must reject exactly those that are out
# of bounds.
check_bounds() {
  expect_exit 0 "$@" --list-flags
  numeric_flags out >numbers
  awk '$3 ~ /-inf/ { print $1 }' numbers >unbounded
  while read -r flag; do fail "$*: $flag is declared without a lower bound"; done <unbounded
  for value in "${values[@]}"; do
    mapfile -t flags < <(awk -v value="$value" '{ print $1 "=" value }' numbers)
    [ "${#flags[@]}" -gt 0 ] || return
    refused_by_bounds "$value" <numbers | sort >expected
    timeout 60 "$@" "${flags[@]}" --dump-config >out 2>err
    status=$?
    [ "$status" -eq "$([ -s expected ] && echo 2 || echo 0)" ] || fail "$*: exit $status with all numeric flags $value"
    sed -nE "s/^  (--[a-z0-9-]+) .*(must be|is not a).*/\\1/p" err | sort >found
    cmp -s expected found || fail "$* with $value: bounds and refusals differ: $(diff expected found | tr '\n' ' ')"
    checked=$((checked + ${#flags[@]}))
  done
}

# expect_documented_exit COMMAND...: exits within a minute with a documented code.
expect_documented_exit() {
  timeout 60 "$@" >out 2>err </dev/null
  status=$?
  case $status in 0 | 1 | 2 | 65 | 74) ;; *) fail "exit $status: $*" ;; esac
}

checked=0
for path in "$BIN"/mtl-*; do
  tool=$(basename "$path")
  case $tool in
    *_test* | mtl_*) ;;
    mtl-data) for command in info verify cat sample stats merge split shuffle repair import export formats order; do check_bounds mtl-data "$command"; done ;;
    mtl-topo) check_bounds mtl-topo; check_bounds mtl-topo plan ;;
    *) check_bounds "$tool" ;;
  esac
done
[ "$checked" -gt 800 ] || fail "only $checked numbers were tried"

# Tests the bounds themselves and other numbers, one flag at a time.
train=(mtl-train --dry-run --num-layers 2 --hidden-size 16 --num-attention-heads 2 --max-position-embeddings 32 --seq-length 16
  --tokenizer-type NullTokenizer --vocab-size 100 --train-iters 2 --lr 1e-3)
topo=(mtl-topo --world-size 4 --num-layers 2 --hidden-size 16 --num-attention-heads 2 --max-position-embeddings 32
  --seq-length 16 --vocab-size 100)
printf '{"text": "5 6 7 8 9"}\n' >ids.jsonl
expect_exit 0 mtl-preprocess --input ids.jsonl --output-prefix ids --tokenizer-type NullTokenizer --vocab-size 1000
order=(mtl-data order --data-path ids_text_document --seq-length 2 --split 1,0,0 --train-iters 1)
runs=0
for base in train topo order; do
  declare -n command=$base
  expect_exit 0 "${command[@]}"
  words=1
  [ "$base" = order ] && words=2
  "${command[@]:0:$words}" --list-flags >listed
  numeric_flags listed >numbers
  while read -r flag kind low high; do
    # Skips flags whose upper bound is valid but would take too long.
    case $base$flag in order--seq-length | order--*-batch-size | *--num-layers | *-parallel-size) continue ;; esac
    for value in "${low#?}" "${high%?}" 0 1 4611686018427387904 1e308; do
      [ "$value" = inf ] && continue
      expect_documented_exit "${command[@]}" "$flag=$value"
      runs=$((runs + 1))
    done
  done <numbers
  [ "$kind$high" = "" ] || fail 'the last line of bounds is incomplete'
done
# A value that is not a number is one mistake, whatever depends on it.
layout=(--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --num-layers-in-first-pipeline-stage 1
  --micro-batch-size 2 --global-batch-size 4 --use-distributed-optimizer --ddp-bucket-size 100)
train+=("${layout[@]}" --world-size 4 --lr-decay-style WSD --lr-wsd-decay-iters 4 --lr-warmup-iters 2 --lr-decay-iters 30
  --weight-decay-incr-style linear --start-weight-decay 0.1 --end-weight-decay 0.2 --profile --profile-step-start 1
  --recompute-granularity full --recompute-method block --recompute-num-layers 1 --save saved --save-interval 5)
topo+=("${layout[@]}" --gpus-per-node 2 --hosts "a,b" --micro-batches 2)
for base in train topo; do
  declare -n command=$base
  expect_exit 0 "${command[@]}"
  "${command[0]}" --list-flags >listed
  while read -r flag _; do
    changed=()
    is_replaced=
    for word in "${command[@]}"; do
      [ "$is_replaced" != next ] || { is_replaced=yes; word=x; }
      [ "$word" != "$flag" ] || is_replaced=next
      changed+=("$word")
    done
    [ -n "$is_replaced" ] || changed+=("$flag" x)
    expect_exit 2 "${changed[@]}"
    { [ "$(grep -c '^  ' err)" -eq 1 ] && grep -qE "^  $flag x +is not a" err; } || fail "$flag x is not one problem: $(cat err)"
    runs=$((runs + 1))
  done < <(numeric_flags listed)
done
expect_exit 2 "${train[0]}" --model gpt9 --dry-run
[ "$(grep -c '^  ' err)" -eq 1 ] || fail "an unknown preset is not one problem: $(cat err)"
[ "$runs" -gt 400 ] || fail "only $runs commands were tried"
finish
