#!/bin/bash
# Numeric flags: every tool enforces the bounds in --list-flags. No number, however large, makes it crash or hang.
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
    mtl-data) for command in info verify cat sample stats merge split shuffle repair export order; do check_bounds mtl-data "$command"; done ;;
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
[ "$runs" -gt 300 ] || fail "only $runs commands were tried"
finish
