#!/bin/bash
# If a rank is killed or its disk fails at any write operation, a job that resumes and saves loses nothing.
# shellcheck disable=SC2034 # the sourced files use LENGTH and LAST
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/train_runs.sh"
source "$(dirname "$0")/ranks_runs.sh"
cd "$WORK" || exit 1
preprocess "$CORPUS" c
MODEL+=(--num-layers 1)
LENGTH=(--train-iters 4 --save-interval 2 --eval-interval 3 --log-interval 1)
LAST=iter_0000004/shard_00000.safetensors

# sweep KIND RANK CODE LEAST: a fault at any of RANK's write operations ends the job with CODE. There must be at least
# LEAST operations.
sweep() {
  local at=0 code=1
  while [ $code -ne 0 ]; do
    at=$((at + 1))
    rm -rf faulty
    cp -r half faulty
    with_rank_setup "$2" "export MTL_FAULT=$1:$at" run_quietly faulty
    code=$?
    # On a busy machine, mpirun may end before the ranks that it has killed.
    [ ! -e faulty/save/lock ] || flock -w 60 faulty/save/lock true || fail "$1:$at on rank $2: a rank still holds the lock"
    [ $code -eq 0 ] || [ $code -eq "$3" ] || fail "$1:$at on rank $2: exit $code"
    resumes_as_whole faulty "$1 at write operation $at of rank $2"
  done
  echo "$1: $((at - 1)) write operations of rank $2"
  [ $at -gt "$4" ] || fail "only $((at - 1)) write operations of rank $2"
}

# enter LAYOUT FLAG...: runs the uninterrupted job and the first half of it there.
enter() {
  enter_layout "$1"
  LAYOUT+=("${@:2}")
  expect_exit 0 run_in whole
  expect_exit 0 run_in half --exit-interval 2
}
enter dp
sweep kill 1 137 20
sweep kill 0 137 40
sweep eio 1 74 20
sweep enospc 1 74 20
enter zero3
sweep kill 1 137 10
enter cp
sweep kill 1 137 20
# The state in files has no name, so a killed rank leaves nothing there. Writing it counts as write operations too.
mkdir -p "$WORK/state"
enter zero2 --offload-optimizer "$WORK/state"
sweep kill 1 137 20
sweep eio 1 74 20
finish
