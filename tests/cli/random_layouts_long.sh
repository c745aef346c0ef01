#!/bin/bash
# Random configurations, in layouts of up to 8 ranks, have the losses, gradient norms and validation losses of one
# process. mtl-train itself compares the planned memory with the used memory.
source "$(dirname "$0")/lib.sh" "$1"
# shellcheck disable=SC2034 # the sourced files use it
STEPS=4
source "$(dirname "$0")/layouts.sh"
source "$(dirname "$0")/random_runs.sh"
cd "$WORK" || exit 1
prepare_data
cases=0 refused=0

# train NAME COMMAND...: runs mtl-train with the drawn settings. Returns false if it refuses them.
train() {
  local name=$1
  shift
  command=("$@" --lr 0.001 "${settings[@]}" --tokenizer-type NullTokenizer --log-interval 1 --threads 1
    --peak-tflops 0.1 --distributed-timeout-minutes 0.5 --log-jsonl "$name.jsonl")
  rm -f "$name.jsonl"
  timeout -s KILL 100 "${command[@]}" >out 2>err </dev/null
  code=$?
  [ $code -ne 0 ] || { metrics "$name.jsonl" >"$name.metrics"; return; }
  if [ $code -eq 2 ]; then
    refused=$((refused + 1))
    echo "case $number is refused: ${command[*]}"
    sed 's/^/    /' err
  else
    fail_case "exit $code"
  fi
  return 1
}

check_case() {
  cases=$((cases + 1))
  draw_run
  one_of 1 $micro
  ! has_fixed_micro || drawn=$micro
  train one mtl-train --micro-batch-size "$drawn" || return
  train other mpirun -n $ranks --oversubscribe mtl-train --micro-batch-size $micro "${layout[@]}" || return
  check_metrics
}

run_cases 240 check_case
show_differences
echo "$cases cases, $refused of them refused"
[ $((3 * refused)) -le $cases ] || fail "$refused of $cases cases are refused"
finish
