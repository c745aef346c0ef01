#!/bin/bash
# Every fault at every write operation of a run: the same command goes on, and nothing is lost.
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

for kind in eio enospc short; do
  for at in $(seq "$operations"); do
    rm -rf faulty
    MTL_FAULT=$kind:$at run_quietly faulty
    code=$?
    [ $code -eq 74 ] || [ $code -eq 0 ] || fail "$kind:$at: exit $code"
    completes_as_whole faulty "$kind at write operation $at"
  done
done
finish
