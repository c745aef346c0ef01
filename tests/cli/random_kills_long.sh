#!/bin/bash
# Random configurations, interrupted at random moments by signals to a rank or to mpirun, or killed at a write
# operation. When they are complete, weights, moments and metrics have the same bits as those of the uninterrupted run.
# Its checkpoints also continue in another layout, with the same losses. A repeated case has other moments.
# shellcheck disable=SC2034,SC2046,SC2086,SC2206 # the sourced files use some variables; numbers
source "$(dirname "$0")/lib.sh" "$1"
STEPS=10
source "$(dirname "$0")/train_runs.sh"
source "$(dirname "$0")/ranks_runs.sh"
source "$(dirname "$0")/layouts.sh"
source "$(dirname "$0")/random_runs.sh"
cd "$WORK" || exit 1
prepare_data
interruptions=0

# start NAME FLAG...: starts the job NAME in the background.
start() {
  local name=$1
  shift
  command=(mpirun --oversubscribe -n $ranks ../as_rank "$name" mtl-train --lr 0.001 "${settings[@]}" "${layout[@]}"
    --micro-batch-size $micro "${reports[@]}" --save "$name/save" --log-jsonl "$name/log.jsonl" "$@")
  rm -f "$name".*.pid
  set -m  # a background job does not ignore INT
  "${command[@]}" >out 2>err </dev/null &
  job=$!
  set +m
}
# end NAME: waits for the job's end and sets $code. All ranks must end as well.
end() {
  local file pid
  for _ in $(seq 1000); do kill -0 $job 2>/dev/null || break; sleep 0.1; done
  ! kill -KILL $job 2>/dev/null || fail_case "mpirun did not end$history"
  wait $job 2>/dev/null
  code=$?
  for file in "$1".*.pid; do
    [ -e "$file" ] || continue
    pid=$(<"$file")
    for _ in $(seq 300); do kill -0 "$pid" 2>/dev/null || continue 2; sleep 0.1; done
    fail_case "rank $file does not end$history"
  done
}

# interrupt MILLISECONDS: starts a session of the job `killed` and interrupts it at a random moment in this time.
interrupt() {
  local at signal victim
  at=$((RANDOM * 32768 + RANDOM)) at=$((at % $1 + 100))
  one_of KILL TERM INT USR1 HUP write write
  signal=$drawn victim=$((RANDOM % (ranks + 1)))
  interruptions=$((interruptions + 1))
  if [ $signal = write ]; then
    with_rank_setup $((victim % ranks)) "export MTL_FAULT=kill:$((1 + RANDOM % 60))" start killed
    history+=", rank $((victim % ranks)) killed at a write"
  else
    start killed
    sleep $((at / 1000)).$(printf %03d $((at % 1000)))
    history+=", SIG$signal to $([ $victim -eq $ranks ] && echo mpirun || echo rank $victim) after $at ms"
    if [ $victim -eq $ranks ]; then victim=$job; else victim=$(cat killed.$victim.pid 2>/dev/null); fi
    [ -z "$victim" ] || kill -$signal "$victim" 2>/dev/null
  fi
  end killed
  case $code in
    0 | 75 | 1 | 12[89] | 1[3-4]?) ;;
    *) fail_case "exit $code$history" ;;
  esac
}

# draw_other_layout: sets $layout and $ranks to another layout that mtl-train accepts for these settings.
draw_other_layout() {
  local _
  has_fixed_micro || micro=1
  for _ in $(seq 30); do
    layout=() schedule=1f1b
    draw_ranks
    [[ $dp -gt 1 && "${settings[*]}" == *cyclic* ]] && continue  # its samples depend on the ranks
    if [ $pp -gt 1 ]; then
      one_of 1f1b gpipe zb-h1 zb-v
      schedule=$drawn
      layout --pipeline-schedule $schedule --pipeline-split balanced
    fi
    draw_memory
    mtl-train --lr 0.001 "${settings[@]}" "${layout[@]}" --micro-batch-size $micro "${reports[@]}" --dry-run \
      --world-size $ranks --save other >out 2>err && return
  done
  fail_case 'no other layout'
  return 1
}

check_case() {
  local began length last history='' shard
  draw_run
  one_of 1 2 3
  reports=(--tokenizer-type NullTokenizer --threads 1 --peak-tflops 0.1 --log-interval "$drawn"
    --save-interval $((1 + RANDOM % 4)) --distributed-timeout-minutes 0.5)
  one_of 0 1 3
  reports+=(--non-persistent-save-interval "$drawn")
  rm -rf "$WORK/case"
  mkdir "$WORK/case"
  cd "$WORK/case" || exit 1
  ln -s ../[cd]_text_document.* .
  began=$(date +%s%3N)
  start whole
  end whole
  [ $code -eq 0 ] || { fail_case "exit $code"; return; }
  length=$(($(date +%s%3N) - began))
  for _ in 1 2 3 4 5; do interrupt $length; done
  start killed
  end killed
  [ $code -eq 0 ] || fail_case "exit $code$history"
  last=$(newest_of whole)
  for shard in "$last"/*.safetensors; do
    cmp -s "$shard" "killed${shard#whole}" || fail_case "another $shard$history"
  done
  diff <(metrics_of whole) <(metrics_of killed) >difference || fail_case "other metrics$history: $(<difference)"
  [ -z "$(find killed -name '*.tmp.*')" ] || fail_case "leaves $(find killed -name '*.tmp.*')$history"

  mapfile -t saves < <(find whole/save -name 'iter_???????' ! -path "$last" | sort)
  [ ${#saves[@]} -gt 0 ] || return
  last=${saves[RANDOM % ${#saves[@]}]}
  draw_other_layout || return
  start other --load "$last"
  end other
  [ $code -eq 0 ] || { fail_case "exit $code in another layout"; return; }
  last=$((10#${last##*_}))
  metrics_after whole $last | metrics - >one.metrics
  metrics_after other $last | metrics - >other.metrics
  check_metrics
}

run_cases 12 check_case
show_differences
echo "$interruptions interruptions"
finish
