#!/bin/bash
# Every fault at every write operation in a run: the same command continues, and nothing is lost.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/train_runs.sh"
cd "$WORK" || exit 1
prepare_runs

at=1
while killed_at killed $at; do
  completes_as_whole killed "killed at write operation $at"
  rm -r killed
  at=$((at + 1))
done
operations=$((at - 1))
echo "$operations write operations"
[ "$operations" -gt 100 ] || fail "only $operations write operations"

# Does the same in a session that resumes, which first removes the log lines for lost iterations.
expect_exit 0 run_in resumed
rm -r resumed/save/iter_0000012 killed
at=1
while cp -r resumed killed && killed_at killed $at; do
  completes_as_whole killed "resumed, and killed at write operation $at"
  rm -r killed
  at=$((at + 1))
done
[ "$at" -gt 20 ] || fail "only $at write operations of a session that resumes"

for kind in eio enospc short; do
  for at in $(seq "$operations"); do
    rm -rf faulty
    MTL_FAULT=$kind:$at run_quietly faulty
    code=$?
    [ $code -eq 74 ] || [ $code -eq 0 ] || fail "$kind:$at: exit $code"
    if grep -qE ' lines? could not be written' err; then  # in the log: otherwise the run is the same
      [ $code -eq 0 ] && cmp -s "faulty/save/$LAST" "whole/save/$LAST" ||
        fail "$kind:$at: an error of the log changes the run"
      continue
    fi
    completes_as_whole faulty "$kind at write operation $at"
  done
done

# TERM at random times until the run is complete. Before the first step, it may end without a save.
LENGTH=(--train-iters 1000 --save-interval 30 --eval-interval 50 --log-interval 20)
# shellcheck disable=SC2034  # train_runs.sh compares it
LAST=iter_0001000/shard_00000.safetensors
expect_exit 0 run_in long
for session in $(seq 40); do
  timeout --preserve-status -s TERM "0.$((RANDOM % 40 + 10))" mtl-train "${MODEL[@]}" "${LENGTH[@]}" --save term/save \
    --log-jsonl term/log.jsonl >out 2>err
  code=$?
  [ $code -eq 0 ] && break
  [ $code -eq 75 ] || [ $code -eq 143 ] || fail "TERM: exit $code"
done
[ $code -eq 0 ] || expect_exit 0 run_in term
same_run term long "TERM in each of $session sessions"
finish
