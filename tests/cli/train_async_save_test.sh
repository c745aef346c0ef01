#!/bin/bash
# --async-save: checkpoints that are written while iterations go on are those of a run that waits for them, and however
# such a run ends, it has lost nothing that was committed.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/train_runs.sh"
cd "$WORK" || exit 1
prepare_runs

expect_exit 0 run_in behind --async-save
same_as_whole behind '--async-save'
for iteration in 3 6 9; do
  expect_text err "^mtl-train: saving iteration $iteration behind the next iterations; they waited [0-9.]+ s for the copy$"
  expect_text err "^mtl-train: saved behind/save/iter_00000*$iteration in [0-9.]+ s, of which iterations waited [0-9.]+ s$"
done
expect_text err '^mtl-train: saved behind/save/iter_0000012 in [0-9.]+ s$'

# Killed at operations spread over the run, most of them in threads; it continues with or without --async-save.
kills=0
for at in $(seq 13 53 100000); do
  { (MTL_FAULT=kill:$at run_in kill-$at --async-save >out 2>err); } 2>/dev/null
  code=$?
  [ $code -eq 0 ] && break
  [ $code -eq 137 ] || fail "kill:$at: exit $code"
  [ -z "$(find kill-$at/save -name 'iter_*' ! -name '*.tmp.*' -type d -exec test ! -e '{}/manifest.json' \; -print)" ] ||
    fail "kill:$at: a checkpoint without a manifest"
  if [ $((kills % 2)) -eq 0 ]; then
    completes_as_whole kill-$at "killed at write operation $at"
  else
    expect_exit 0 run_in kill-$at --async-save
    same_as_whole kill-$at "killed at write operation $at, twice behind"
  fi
  rm -r kill-$at
  kills=$((kills + 1))
done
[ "$kills" -ge 5 ] || fail "only $kills kills, 53 write operations apart"

# A thread's write fails: the run ends like one whose save fails, and committed checkpoints stay.
for fault in enospc:60 eio:150 enospc:235 eio:330; do
  rm -rf fault
  MTL_FAULT=$fault expect_exit 74 run_in fault --async-save
  expect_text err '(No space left on device; free some space on that disk|Input/output error)$'
  [ -z "$(find fault -name '*.tmp.*')" ] || fail "$fault: left behind $(find fault -name '*.tmp.*')"
  completes_as_whole fault "$fault"
done

# USR1 again and again, at every moment: the last validation, too, in which the state is saved already. The run ends as it
# would have.
AT_END=(--eval-iters 1000 --eval-interval 6)
expect_exit 0 run_in long "${AT_END[@]}"
run_in asked --async-save "${AT_END[@]}" >asked.out 2>asked.err &
job=$!
while kill -0 $job 2>/dev/null; do
  kill -USR1 "$(sed -nE 's/^pid ([0-9]+) .*/\1/p' asked/save/lock 2>/dev/null)" 2>/dev/null
  sleep 0.02
done
wait $job || fail "USR1 at every moment: exit $?"
same_run asked long 'USR1 at every moment'
grep -q '"finished": true' asked/save/iter_0000012/manifest.json || fail 'USR1 in the last validation: the run is not marked as finished'
[ "$(sed '1,/ validation loss at iteration 12/d' asked.out | grep -c 'test set')" -eq 1 ] || fail 'no test after USR1'
awk 'done { print } /saved asked.save.iter_0000012 in [0-9.]+ s$/ { done = 1 }' asked.err >last.err
[ "$(grep -c ' USR1: finishing' last.err)" -ge 2 ] || fail 'fewer than two requests in the last validation'
! grep -qE 'mtl-train: (saving|saved) ' last.err || { fail 'USR1 in the last validation saves again'; head -3 last.err >&2; }
[ -z "$(find asked -name '*.tmp.*')" ] || fail 'a leftover of a save that USR1 requested'

# The rest: saves that last (a third of a second per operation), in two ranks that both write.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# ranks_in NAME FLAG...: runs NAME in two ranks, slowly if SLOW is set.
ranks_in() {
  local name=$1
  shift
  mpirun -n 2 --oversubscribe env ${SLOW:+MTL_FAULT=slow:1} mtl-train "${MODEL[@]}" --num-layers 1 --eval-iters 0 \
    --use-distributed-optimizer --log-interval 1 --threads 1 --save "$name/save" "$@"
}
# between FIRST SECOND FILE: how many iterations FILE reports between its first lines that match.
between() { awk -v first="$1" -v second="$2" '$0 ~ first {on = 1} $0 ~ second {exit} on && / iteration /' "$3" | wc -l; }
# wait_for FILE PATTERN: waits for a matching line while the job runs, up to a minute.
wait_for() {
  for _ in $(seq 600); do
    grep -qE -- "$2" "$1" 2>/dev/null && return
    kill -0 "$job" 2>/dev/null || break
    sleep 0.1
  done
  grep -qE -- "$2" "$1" || { fail "$1 never contains '$2'"; sed 's/^/    /' "$1" >&2; }
}

# Steps go on while a save lasts, and what they compute does not change: the checkpoint after it is that of a run that
# saves nothing before.
LENGTH=(--train-iters 30 --lr-decay-iters 30)
expect_exit 0 ranks_in once "${LENGTH[@]}"
SLOW=1 ranks_in lasting "${LENGTH[@]}" --save-interval 20 --async-save >lasting.out 2>&1 || fail "a lasting save: exit $?"
steps=$(between ': saving iteration 20 ' ': saved lasting.save.iter_0000020 ' lasting.out)
[ "$steps" -ge 5 ] || fail "$steps iterations during a save"
for rank in 0 1; do expect_same lasting/save/iter_0000030/shard_0000$rank.safetensors once/save/iter_0000030/shard_0000$rank.safetensors; done

# SIGKILL while a save is pending: the newest committed checkpoint is resumed, and the leftover removed.
expect_exit 0 ranks_in killed "${LENGTH[@]}" --exit-interval 10
SLOW=1 ranks_in killed "${LENGTH[@]}" --save-interval 20 --async-save >killed.out 2>&1 &
job=$!
wait_for killed.out ' iteration +26/'
kill -KILL "$(sed -E 's/^pid ([0-9]+) .*/\1/' killed/save/lock)"
wait $job && fail 'a killed rank does not end the run'
[ "$(ls -d killed/save/iter_*)" = "$(printf '%s\n' killed/save/iter_0000010 killed/save/iter_0000020.tmp.*)" ] ||
  fail "after SIGKILL: $(ls killed/save)"
expect_exit 0 ranks_in killed "${LENGTH[@]}" --async-save
expect_text err '^mtl-train: resuming killed/save/iter_0000010 at iteration 10$'
for rank in 0 1; do expect_same killed/save/iter_0000030/shard_0000$rank.safetensors once/save/iter_0000030/shard_0000$rank.safetensors; done
[ -z "$(find killed -name '*.tmp.*')" ] || fail 'a leftover stays'

# SIGTERM while a save is pending: it is committed, and then the state at the signal.
SLOW=1 ranks_in term --train-iters 20000 --lr-decay-iters 30 --save-interval 20 --async-save >term.out 2>&1 &
job=$!
wait_for term.out ' iteration +26/'
kill -TERM "$(sed -E 's/^pid ([0-9]+) .*/\1/' term/save/lock)"
wait $job
grep -E '^mtl-train: saved' term.out | head -2 >found
[ "$(grep -c 'term/save/iter_' found)" -eq 2 ] && head -1 found | grep -q iter_0000020 || { fail 'TERM while a save is pending'; cat term.out >&2; }
expect_text term.out '^mtl-train: ended by a signal after iteration [0-9]+; the same command continues from here'
last=$(cat term/save/latest_checkpointed_iteration.txt)
[ "$last" -gt 20 ] || fail "the state at TERM is not saved: $last"
finish
