#!/bin/bash
# Interrupted runs: however a run ends, the same command continues it. The result equals the uninterrupted run bit for
# bit.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/train_runs.sh"
cd "$WORK" || exit 1
prepare_runs

# Killed at operations spread over the entire run (train_resume_long.sh tries every operation).
kills=0
for at in $(seq 13 47 100000); do
  killed_at kill-$at "$at" || break
  completes_as_whole kill-$at "killed at write operation $at"
  rm -r kill-$at
  kills=$((kills + 1))
done
[ "$kills" -ge 5 ] || fail "only $kills kills, 47 write operations apart"

# Killed in every session, as by a time limit.
for session in $(seq 12); do
  MTL_FAULT=kill:170 run_quietly often && break
done
[ "$session" -gt 2 ] && [ "$session" -lt 12 ] || fail "$session sessions instead of 3 to 11"
same_as_whole often 'killed in every session'

# --exit-interval, in the middle of a log interval.
expect_exit 0 run_in exit --exit-interval 5
expect_text err '^mtl-train: --exit-interval after iteration 5; the same command continues'
[ -d exit/save/iter_0000005 ] && [ ! -d exit/save/iter_0000006 ] ||
  fail '--exit-interval 5 did not save iteration 5 as the last'
expect_exit 0 run_in exit --exit-interval 5
expect_text err 'resuming exit/save/iter_0000005 at iteration 5'
expect_exit 0 run_in exit --exit-interval 5
same_as_whole exit '--exit-interval'

# Already complete: reports this and touches only the lock.
state_of() { find "$1" -type f ! -name lock -printf '%p %T@ %s\n' | sort; }
state_of exit >before
expect_exit 0 run_in exit
expect_text err '^mtl-train: already complete: 12 of 12 iterations are done$'
[ -s out ] && fail 'a complete run prints metrics'
state_of exit >after
expect_same before after

# Corrects the tracker if a job died before writing it.
echo 9 >exit/save/latest_checkpointed_iteration.txt
touch exit/save/latest_checkpointed_iteration.txt.tmp.1
expect_exit 0 run_in exit
expect_text err 'already complete'
expect_text exit/save/latest_checkpointed_iteration.txt '^12$'
same_as_whole exit 'an old tracker'

# The disk is full or fails during a save: exits with 74, and committed checkpoints stay.
for fault in enospc:60 eio:150 enospc:235 eio:330; do
  rm -rf fault
  MTL_FAULT=$fault expect_exit 74 run_in fault
  expect_text err '(No space left on device; free some space on that disk|Input/output error)$'
  [ -z "$(find fault -name '*.tmp.*')" ] || fail "$fault: left behind $(find fault -name '*.tmp.*')"
  completes_as_whole fault "$fault"
done
# Short and interrupted writes are not faults.
for fault in short:60 eintr:60 short:200; do
  rm -rf fault
  MTL_FAULT=$fault expect_exit 0 run_in fault
  same_as_whole fault "$fault"
done

# Resumes the newest checkpoint, even if the tracker gives a different checkpoint or none.
# copy_at_9 NAME: makes the run NAME, which ended at iteration 9.
copy_at_9() {
  rm -rf "$1"
  cp -r at9 "$1"
}
expect_exit 0 run_in at9 --exit-interval 9
for text in '' 'garbage' '400' '3' '-1'; do
  copy_at_9 tracker
  echo "$text" >tracker/save/latest_checkpointed_iteration.txt
  expect_exit 0 run_in tracker
  expect_text err 'latest_checkpointed_iteration.txt'
  expect_text err 'resuming tracker/save/iter_0000009'
  same_as_whole tracker "tracker '$text'"
done
copy_at_9 tracker
rm tracker/save/latest_checkpointed_iteration.txt
completes_as_whole tracker 'no tracker'

# Damage (more in train_start_test.sh): an incomplete newest checkpoint is skipped.
copy_at_9 damaged
truncate -s -1 damaged/save/iter_0000009/shard_00000.safetensors
expect_exit 0 run_in damaged
expect_text err 'skipping an invalid checkpoint: .*iter_0000009/shard_00000.safetensors has [0-9]+ bytes instead of'
same_as_whole damaged 'a truncated shard'
copy_at_9 damaged
for folder in damaged/save/iter_*; do rm "$folder/manifest.json"; done
expect_exit 65 run_in damaged
expect_text err 'none of the 3 checkpoints is valid'

# A Git LFS pointer in place of a file is not damage: no checkpoint is skipped or renamed.
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 12345\n' 7 >pointer
for file in shard_00000.safetensors manifest.json; do
  copy_at_9 pointer9
  cp pointer pointer9/save/iter_0000009/$file
  ls -R pointer9/save >before
  expect_exit 65 run_in pointer9
  expect_text err "^mtl-train: pointer9/save/iter_0000009/$file: this is a Git LFS pointer .*git lfs pull"
  ls -R pointer9/save >after
  expect_same before after
done

# A superseded checkpoint that cannot be removed is reported once in each run, and training and saving go on.
MTL_FAULT=no-remove:1 expect_exit 0 run_in stuck --keep-last 2 --exit-interval 9
[ "$(grep -c 'warning: stuck/save/iter_0000003.tmp.old.[0-9]*: cannot remove: ' err)" -eq 1 ] || fail 'not one warning of iteration 3'
MTL_FAULT=no-remove:1 expect_exit 0 run_in stuck --keep-last 2
for old in 3 6; do
  [ "$(grep -c "warning: stuck/save/iter_000000$old.tmp.old.[0-9]*: cannot remove: " err)" -eq 1 ] || fail "not one warning of iteration $old"
done
same_run stuck whole 'checkpoints that cannot be removed'
expect_exit 0 run_in stuck --keep-last 2
[ -z "$(find stuck -name '*.tmp.*')" ] || fail 'superseded checkpoints were not removed later'

# --save-retain-interval: of the checkpoints of 3, 6, 9 and 12, the newest two and the multiples of 6 stay.
expect_exit 0 run_in retained --save-retain-interval 6
[ "$(cd retained/save && echo iter_*)" = 'iter_0000006 iter_0000009 iter_0000012' ] || fail "kept: $(ls retained/save)"
expect_exit 0 run_in retained --save-retain-interval 6 --train-iters 18 --keep-last 3 --override-opt_param-scheduler
[ "$(cd retained/save && echo iter_*)" = 'iter_0000006 iter_0000012 iter_0000015 iter_0000018' ] || fail "kept: $(ls retained/save)"
expect_exit 2 run_in retained --save-retain-interval 7
expect_text err '--save-retain-interval 7 +is not a multiple of --save-interval 3; use 9$'

# Other data is rejected without --allow-data-change. The same data in another place is accepted.
head -n 390 "$CORPUS" >other.jsonl
preprocess other.jsonl other
copy_at_9 data
expect_exit 65 run_in data --data-path other_text_document
expect_text err 'trained on different data: other_text_document: bin_bytes is [0-9]+, but was [0-9]+ .*--allow-data-change'
expect_exit 0 run_in data --data-path other_text_document --allow-data-change
expect_text err 'resuming data/save/iter_0000009'
expect_exit 0 run_in data --allow-data-change
grep 'other data' err && fail 'a complete run continues with other data'
copy_at_9 data
mkdir moved && cp c_text_document.* moved
expect_exit 0 run_in data --data-path moved/c_text_document
same_as_whole data 'data files elsewhere'

# Another tokenizer of the same size is rejected without --allow-data-change.
BPE=$TESTS/golden/tokenizer/bpe_tinyshakespeare_1000
sed -E 's/"a":/"swapped":/; s/"b":/"a":/; s/"swapped":/"b":/' "$BPE/vocab.json" >vocab.json
cmp -s vocab.json "$BPE/vocab.json" && fail 'the vocabulary was not changed'
bpe=(--tokenizer-type GPT2BPETokenizer --merge-file "$BPE/merges.txt")
expect_exit 0 run_in bpe "${bpe[@]}" --vocab-file "$BPE/vocab.json" --exit-interval 3
expect_exit 65 run_in bpe "${bpe[@]}" --vocab-file vocab.json
expect_text err 'bpe/save/iter_0000003 was trained with another tokenizer'
expect_exit 0 run_in bpe "${bpe[@]}" --vocab-file vocab.json --allow-data-change
expect_text err '^mtl-train: warning: bpe/save/iter_0000003 continues with another tokenizer$'
expect_exit 0 run_in bpe "${bpe[@]}" --vocab-file "$BPE/vocab.json" --allow-data-change
grep 'another tokenizer' err && fail 'a complete run continues with another tokenizer'

# --load with --finetune: uses another run's weights, unless --save already has a checkpoint to resume.
expect_exit 0 run_in tune --load whole/save --finetune --exit-interval 3
expect_text err 'starting from the weights of the checkpoint whole/save/iter_0000012'
expect_exit 0 run_in tune --load whole/save --finetune
expect_text err 'resuming tune/save/iter_0000003'
expect_exit 0 run_in tuned --load whole/save --finetune
same_run tune tuned '--finetune, interrupted'
cmp -s "tune/save/$LAST" "whole/save/$LAST" && fail '--finetune has no effect'
expect_exit 0 run_in continued --load at9/save
expect_text err 'resuming at9/save/iter_0000009 at iteration 9'
expect_same "continued/save/$LAST" "whole/save/$LAST"
expect_exit 0 run_in single --load at9/save/iter_0000006
expect_text err 'resuming at9/save/iter_0000006 at iteration 6'
expect_same "single/save/$LAST" "whole/save/$LAST"
expect_exit 74 run_in nowhere --load nosuch
expect_text err '--load nosuch: no such file or folder'
[ -e nowhere/save ] && fail 'a refused run leaves a folder'
expect_exit 0 run_in fresh --load fresh/save
expect_text err '^mtl-train: fresh/save contains no checkpoints yet: starting from iteration 0'
same_as_whole fresh '--load and --save the same'

# Signals to a run with many iterations.
LENGTH=(--train-iters 20000 --lr-decay-iters 12 --save-interval 100000 --eval-interval 100000 --log-interval 50)
# start_long NAME FLAG...: starts the run in the background and waits for its first metrics.
start_long() {
  run_in "$@" >"$1.out" 2>"$1.err" &
  job=$!
  wait_until "$1.out" ' iteration '
}
# wait_until FILE PATTERN: waits for a matching line while the job runs, up to a minute.
wait_until() {
  for _ in $(seq 600); do
    grep -qE -- "$2" "$1" 2>/dev/null && return
    kill -0 "$job" 2>/dev/null || break
    sleep 0.1
  done
  grep -qE -- "$2" "$1" || fail "$1 never contains '$2'"
}

# owner_of NAME: prints the run's process id. $job is a shell that waits for it.
owner_of() { sed -E 's/^pid ([0-9]+) .*/\1/' "$1/save/lock"; }

# The folder is locked before the search for a checkpoint. A slow start (here until the test writes its vocabulary)
# cannot train from scratch and replace what another job completes in the meantime.
mkfifo vocab.fifo
BPE=$TESTS/golden/tokenizer/bpe_tinyshakespeare_1000
SLOW=(--tokenizer-type GPT2BPETokenizer --vocab-file vocab.fifo --merge-file "$BPE/merges.txt")
run_in turns --train-iters 12 "${SLOW[@]}" >turns.out 2>turns.err &
job=$!
for _ in $(seq 600); do
  [ ! -e turns/save/lock ] && kill -0 "$job" 2>/dev/null || break
  sleep 0.1
done
expect_exit 1 run_in turns --train-iters 12
expect_text err '^mtl-train: turns/save: another job saves here \(pid [0-9]+ on '
cat "$BPE/vocab.json" >vocab.fifo
wait "$job" || { fail "the first job: exit $?"; sed 's/^/    /' turns.err >&2; }

start_long signals
expect_exit 1 run_in signals  # another job in the same folder
expect_text err '^mtl-train: signals/save: another job saves here \(pid [0-9]+ on '
owner=$(owner_of signals)
# Signals during GEMMs do not change the metrics, which are compared below.
deadline=$((SECONDS + 3))
while [ $SECONDS -lt $deadline ]; do kill -USR2 "$owner" || fail 'USR2 ended the run'; done
wait_until signals.err 'iteration [0-9]+ of 20000, [0-9]+ samples consumed'
kill -USR1 "$owner"
wait_until signals.err 'saved signals/save/iter_'
kill -0 "$owner" || fail 'USR1 ended the run'
kill -TERM "$owner"
wait $job
code=$?
[ $code -eq 75 ] || fail "TERM: exit $code"
expect_text signals.err '^mtl-train: ended by a signal after iteration [0-9]+; the same command continues from here'
expect_text signals.err '^mtl-train: training [0-9,]+ parameters on a CPU process of [0-9]+ threads?: iterations 1 to 20,000, each of'
expect_text signals.err '^mtl-train: USR1: finishing iteration [0-9]+, then saving$'
expect_text signals.err '^mtl-train: TERM: finishing iteration [0-9]+, then saving and ending$'
checkpoints=$(find signals/save -name 'iter_*' | wc -l)
[ "$checkpoints" -eq 2 ] || fail "$checkpoints checkpoints after USR1 and TERM"
# The signals arrive at random iterations. Both runs end 7 iterations later. (Later runs may pass that iteration before
# they are ended.)
end=$(($(cat signals/save/latest_checkpointed_iteration.txt) + 7))
LAST=$(printf 'iter_%07d/shard_00000.safetensors' $end)
expect_exit 0 run_in signals --exit-interval $end
expect_exit 0 run_in uninterrupted --exit-interval $end
same_run signals uninterrupted 'USR1 and TERM'

# A run whose first report is not near says when it comes.
expect_exit 0 run_in slow --train-iters 100000 --log-interval 100000 --exit-interval 2 --eval-iters 0
expect_text err '; the first report comes after iteration 100,000$'
expect_text err '^mtl-train: the first iteration took [0-9.]+ s; at this rate it is about ([0-9hmins .]+) to the first report and \1 to the end$'
expect_exit 0 run_in validating --train-iters 100000 --log-interval 100000 --exit-interval 2 --eval-interval 100 --eval-iters 30 # a tenth more
expect_text err '^mtl-train: the first iteration took .* to the first report and .* to the end$'
! grep -qE 'about (.+) to the first report and \1 to the end$' err || fail "validations take no time: $(cat err)"

# Signals while the run is starting: it waits for its log's reader and has nothing to save.
# start_waiting NAME: starts the run in the background and waits until it has its folder.
start_waiting() {
  rm -f pipe
  mkfifo pipe
  run_in "$1" --log-jsonl pipe >"$1.out" 2>"$1.err" &
  job=$!
  wait_until "$1/save/run_id" '^[0-9a-f]{16}$'
}
start_waiting early
kill -TERM "$(owner_of early)"
wait $job
code=$?
[ $code -eq 75 ] || fail "TERM at the start: exit $code"
expect_text early.err '^mtl-train: ended by a signal before the first iteration; the same command starts again$'
[ ! -s early.out ] && [ -z "$(find early/save -name 'iter_*')" ] || fail 'TERM at the start: the run trained or saved'
# USR1 at the start requests a save after the first iteration. INT has no effect if the shell ignores it.
trap '' INT
start_waiting kept
trap - INT
kill -INT "$(owner_of kept)"
kill -USR1 "$(owner_of kept)"
cat pipe >kept.jsonl &
wait_until kept.err 'saved kept/save/iter_0000001'
kill -TERM "$(owner_of kept)"
wait $job
code=$?
[ $code -eq 75 ] || fail "TERM after the start: exit $code"
expect_text kept.jsonl '"type": "start"'

# INT twice within microseconds, as `timeout -s INT` sends it, is one request. (signals_test.cpp sends a second INT later.)
start_long twice
owner=$(owner_of twice)
kill -INT "$owner"
kill -INT "$owner"
wait $job
code=$?
[ $code -eq 75 ] || fail "INT twice: exit $code"
[ -n "$(find twice/save -name 'iter_*')" ] || fail 'INT twice: nothing was saved'

# Without --save, a signal loses the run, and says so.
mtl-train "${MODEL[@]}" --train-iters 20000 --eval-interval 100000 --log-interval 50 >unsaved.out 2>unsaved.err &
job=$!
wait_until unsaved.out ' iteration '
kill -TERM $job
wait $job
code=$?
[ $code -eq 1 ] || fail "TERM without --save: exit $code"
expect_text unsaved.err '^mtl-train: TERM: finishing iteration [0-9]+, then ending; without --save nothing is kept$'
expect_text unsaved.err '^mtl-train: ended by a signal at iteration [0-9]+; without --save nothing was kept$'

# A stop file ends the run after a save, with status 0. While the file exists, the same command does not train.
start_long switched --kill-switch-path off
touch off
wait $job
code=$?
[ $code -eq 0 ] || fail "a stop file: exit $code"
expect_text switched.err '^mtl-train: --kill-switch-path off after iteration [0-9]+; the same command continues from here'
stopped=$(cat switched/save/latest_checkpointed_iteration.txt)
expect_exit 0 run_in switched --kill-switch-path off
expect_text err '^mtl-train: --kill-switch-path off: the file exists; remove it'
[ ! -s out ] && [ "$(find switched/save -name 'iter_*' | wc -l)" -eq 1 ] || fail 'trains although the stop file exists'
rm off
# So does a time limit.
expect_exit 0 run_in switched --kill-switch-path off --exit-duration-in-mins 0.0001
expect_text err "resuming switched/save/iter_0*$stopped at"
expect_text err '^mtl-train: --exit-duration-in-mins 0.0001 after iteration [0-9]+; the same command continues from here'
[ "$(cat switched/save/latest_checkpointed_iteration.txt)" -gt "$stopped" ] || fail 'a time limit: nothing was saved'

# A signal that arrives before the flags are parsed does not end the run.
mkfifo config.fifo
run_in soon --config config.fifo >soon.out 2>soon.err &
job=$!
exec 3>config.fifo  # once this returns, the run is reading its flags
kill -USR1 "$(pgrep -P $job || echo $job)"
printf 'log-interval = 50\n' >&3
exec 3>&-
wait_until soon.err 'saved soon/save/iter_0000001'
kill -TERM "$(owner_of soon)"
wait $job
code=$?
[ $code -eq 75 ] || fail "USR1 before the flags are parsed: exit $code"

# A request to end in the last iteration interrupts its validation. The log keeps the line of the last, shorter interval.
LENGTH=(--train-iters 1 --lr-warmup-iters 0 --eval-interval 1 --log-interval 2)
LAST=iter_0000001/shard_00000.safetensors
expect_exit 0 run_in last
expect_exit 0 run_in last-cut --exit-duration-in-mins 0.0001
grep -q '"type": "validation"' last-cut/log.jsonl && fail 'the last validation was not interrupted'
expect_exit 0 run_in last-cut
grep -q '^mtl-train: training' err && fail 'only a validation remains, but the run says that it trains'
same_run last-cut last 'interrupted in the last validation'

# Every session makes progress, also if its time limit is shorter than the start and a validation.
LENGTH=(--train-iters 2 --lr-warmup-iters 0 --eval-interval 1 --log-interval 2)
for iteration in 1 2 2; do
  expect_exit 0 run_in short --exit-duration-in-mins 0.0001
  [ "$(cat short/save/latest_checkpointed_iteration.txt)" -eq $iteration ] || fail "a short session does not end at iteration $iteration"
done
expect_exit 0 run_in short --exit-duration-in-mins 0.0001
expect_text err 'already complete: 2 of 2 iterations are done'
finish
