#!/bin/bash
# Jobs of ranks that go wrong: mtl-train ends within seconds, says which rank and why, and loses nothing.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/train_runs.sh"
source "$(dirname "$0")/ranks_runs.sh"
cd "$WORK" || exit 1
preprocess "$CORPUS" c
SHORT=("${LENGTH[@]}")

# A rank is killed in the middle of training, in four layouts.
LENGTH=(--train-iters 200 --save-interval 50 --eval-interval 80 --log-interval 20)
LAST=iter_0000200/shard_00000.safetensors
for layout in tp pp dp tp-pp; do
  enter_layout $layout
  expect_exit 0 run_in whole
  start_job killed
  wait_until killed.err 'saved killed/save/iter_0000050'
  send KILL killed 1
  job_ends killed 137 10
  expect_text killed.err "rank 1 with PID [0-9]+ on node $HOST exited on signal 9"
  goes_on_as_whole killed "$layout: rank 1 killed"
done

# A rank stops: the others say who is missing and what they wait for, and nothing is saved any more.
enter_layout tp-pp
start_job stopped --distributed-timeout-minutes 0.05
wait_until stopped.err 'saved stopped/save/iter_0000050'
send STOP stopped 3
newest=$(newest_of stopped)
job_ends stopped 1 10
expect_text stopped.err "rank [0-2] \($HOST\): .* in group '.*' \(.*iteration [0-9]+, micro-batch [0-9]+\) did not end within 3.00 s"
expect_text stopped.err "rank 3 \($HOST\) gave no answer: stopped or hung; last heard of .* iteration [0-9]+"
[ "$(newest_of stopped)" = "$newest" ] || fail "saved $(newest_of stopped) after a rank stopped"
goes_on_as_whole stopped 'rank 3 stopped'

# A rank is killed during a save, or its disk fails.
LENGTH=("${SHORT[@]}")
LAST=iter_0000012/shard_00000.safetensors
enter_layout dp
rm -r whole
expect_exit 0 run_in whole
finish
