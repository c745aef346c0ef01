#!/bin/bash
# What follows a validation or a save: the best checkpoint stays (--keep-best), and a command runs (--after-save).
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/train_runs.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cd "$WORK" || exit 1
preprocess "$CORPUS" c
LIMIT=120  # seconds for each wait, which is enough on any machine

LENGTH=(--train-iters 12 --save-interval 5 --keep-last 2 --eval-interval 2 --log-interval 1 --full-validation --keep-best
  --lr-decay-style constant --threads 1)
# iterations NAME: prints the iterations of its checkpoints, in one line.
iterations() { find "$1/save" -maxdepth 1 -name 'iter_*' | grep -oE '[1-9][0-9]*$' | sort -n | tr '\n' ' '; }
# expect_best NAME ITERATION KEPT...: the run's best checkpoint is ITERATION, by its log, its newest checkpoint and its
# file, and it has kept the checkpoints KEPT.
expect_best() {
  local name=$1 want=$2 newest
  shift 2
  newest=$(printf '%s/save/iter_%07d/manifest.json' "$name" "${*: -1}")
  [ "$(awk "$VALUE"'/"type": "validation"/ { print value("loss"), value("iteration") }' "$name/log.jsonl" | sort -g | sed -n '1s/.* //p')" = "$want" ] ||
    fail "$name: $want has not the lowest loss"
  grep -A1 '"best": {' "$newest" | grep -q "\"iteration\": $want," || fail "$newest does not have $want as the best"
  [ "$(<"$name/save/best_checkpointed_iteration.txt")" = "$want" ] || fail "$name: the file does not name $want"
  [ "$(iterations "$name")" = "$* " ] || fail "$name: has the checkpoints $(iterations "$name") instead of $*"
}

# As long as the loss falls, every validation saves. A best one that is no longer the best is removed like others.
mkdir -p falls/save
echo 77 >falls/save/best_checkpointed_iteration.txt # left by a run whose checkpoints were removed
expect_exit 0 run_in falls --exit-interval 1
[ ! -e falls/save/best_checkpointed_iteration.txt ] || fail 'a best checkpoint that is not there stays named'
rm -r falls
expect_exit 0 run_in falls
expect_best falls 12 10 12
[ "$(grep -c '^mtl-train: saved' err)" -eq 7 ] || fail "not saved after 2, 4, 5, 6, 8, 10 and 12: $(<err)"
expect_exit 0 run_in cut --exit-interval 7
expect_exit 0 run_in cut
same_run cut falls 'a resume with --keep-best'
expect_best cut 12 10 12
# A crash at any point: the file names a checkpoint that exists, and the repeated command ends in the same way.
cp -r cut whole # for completes_as_whole
for ((n = 1; ; n += 41)); do
  rm -rf killed
  killed_at killed $n || break
  named=$(cat killed/save/best_checkpointed_iteration.txt 2>/dev/null) && [ ! -e "$(printf 'killed/save/iter_%07d/manifest.json' "$named")" ] &&
    fail "kill:$n: iteration $named is the best, but not there"
  completes_as_whole killed "kill:$n"
  expect_best killed 12 10 12
done
[ $n -gt 300 ] || fail "the run has only $n write operations"

# When the loss rises again, the best checkpoint stays, also without the flag and with a larger loss in the end.
expect_exit 0 run_in rises --exit-interval 4
expect_exit 0 run_in rises --lr 10 --override-opt_param-scheduler
expect_best rises 4 4 10 12
expect_exit 0 mtl-eval --load "$(printf 'rises/save/iter_%07d' "$(cat rises/save/best_checkpointed_iteration.txt)")" \
  --data-path c_text_document --seq-length 32 --json
expect_text out '"model": "rises/save/iter_0000004"'
kept=(--train-iters 18 --lr 10 --override-opt_param-scheduler)
cp -r rises other
# shellcheck disable=SC2206
LENGTH=(${LENGTH[*]/--keep-best/})
expect_exit 0 run_in other "${kept[@]}"
expect_best other 4 4 15 18
LENGTH+=(--keep-best)
# A rollback to before the best one: it is no longer there.
cp -r falls back
expect_exit 0 run_in back --ckpt-step 10 --exit-interval 11
[ "$(<back/save/best_checkpointed_iteration.txt) $(iterations back)" = '10 10 11 ' ] || fail 'a rollback leaves a best checkpoint from after it'
# A best checkpoint that is lost, or in another folder, does not count.
rm -r rises/save/iter_0000004
expect_exit 0 run_in rises "${kept[@]}" --exit-interval 13
expect_text err '^mtl-train: the best checkpoint so far is not in rises/save: the next validation counts as the best$'
[ ! -e rises/save/best_checkpointed_iteration.txt ] || fail 'the file names a best checkpoint that is lost'
expect_exit 0 run_in loaded --load other/save --train-iters 22 --lr 10 --override-opt_param-scheduler
expect_text err '^mtl-train: the best checkpoint so far is not in loaded/save'
expect_best loaded "$(<loaded/save/best_checkpointed_iteration.txt)" 20 22
# Two ranks agree on when to save.
LENGTH+=(--use-distributed-optimizer)
expect_exit 0 mpirun --oversubscribe -n 2 mtl-train "${MODEL[@]}" "${LENGTH[@]}" --save two/save --log-jsonl two/log.jsonl
expect_best two 12 10 12

# The command after a save. It gets every checkpoint once, complete, while training continues.
LENGTH=(--train-iters 9 --save-interval 3 --keep-last 2 --eval-interval 100 --log-interval 1 --threads 1)
mkdir copies
cat >copy <<'END'
#!/bin/bash
echo "copying $MTL_ITERATION"
cp -r "$MTL_CHECKPOINT" "copies/$MTL_ITERATION"
echo "$MTL_ITERATION" >>copies/order
[ "$MTL_ITERATION" -ne 6 ] || exit 3
END
chmod +x copy
expect_exit 0 run_in copied --after-save './copy; exit $?'
[ "$(tr '\n' ' ' <copies/order)" = '3 6 9 ' ] || fail "copied $(tr '\n' ' ' <copies/order)"
for iteration in 6 9; do
  diff -r "copied/save/iter_000000$iteration" "copies/$iteration" || fail "the copy of iteration $iteration differs"
done
[ "$(grep -c '^copying' err)" -eq 3 ] || fail 'the output of the command is not on stderr'
! grep -q copying out || fail 'the output of the command is on stdout'
expect_text err '^mtl-train: warning: --after-save: the command for copied/save/iter_0000006 failed with exit code 3; the run continues$'
expect_exit 0 run_in copied --after-save ./copy
[ "$(wc -l <copies/order)" -eq 3 ] || fail 'a complete run runs the command again'

# wait_for FILE PATTERN: waits for a matching line while the job runs.
wait_for() {
  local end=$((SECONDS + LIMIT))
  until grep -qE -- "$2" "$1" 2>/dev/null; do
    kill -0 "$job" 2>/dev/null && [ $SECONDS -lt $end ] || { fail "no line like '$2' in $1"; finish; }
    sleep 0.05
  done
}
# The steps go on beside the command, but the next save waits for it to end, with two ranks longer than they wait for each other.
# shellcheck disable=SC2016  # for the command's shell
mpirun --oversubscribe -n 2 mtl-train "${MODEL[@]}" "${LENGTH[@]}" --save slow/save --log-jsonl slow/log.jsonl \
  --distributed-timeout-minutes 0.05 --after-save 'while [ "$MTL_ITERATION" = 3 ] && ! [ -e go ]; do sleep 0.1; done; echo done >>slow/done' \
  </dev/null >slow.out 2>slow.err &
job=$!
wait_for slow.err 'saved slow/save/iter_0000006'
sleep 6  # twice the ranks' patience
! grep -q ' iteration  *7/' slow.out || fail 'a save does not wait for the command before'
touch go
wait $job || { fail "the run with a slow command ends with exit $?"; cat slow.err >&2; }
[ "$(wc -l <slow/done)" -eq 3 ] || fail 'the run ends before its command'

# A signal ends the run, and then the command, if it takes too long. Ctrl-C does not reach it.
run_in ended --train-iters 100000 --after-save 'sleep 1000' >ended.out 2>ended.err &
job=$!
wait_for ended.err 'saved ended/save/iter_0000003'
kill -TERM "$(sed -E 's/^pid ([0-9]+) .*/\1/' ended/save/lock)"
wait $job
[ $? -eq 75 ] || { fail 'not exit 75 after TERM during a command'; cat ended.err >&2; }
expect_text ended.err '^mtl-train: warning: --after-save: the command for ended/save/iter_0000003 is ended, because it still runs 20 seconds after'
[ "$(grep -c after-save ended.err)" -eq 1 ] || fail "not one warning: $(<ended.err)"

# A signal after a save is answered with the iteration that it ends, and at the end of the run with that.
number_after() { sed -nE "s/^mtl-train: $1 iteration ([0-9]+).*/\1/p" err; }
# shellcheck disable=SC2016  # for the command's shell
expect_exit 75 run_in named --after-save 'kill -TERM "$PPID"'
[ "$(number_after 'TERM: finishing')" = "$(number_after 'ended by a signal after')" ] || fail "the answer to TERM is wrong: $(<err)"
# shellcheck disable=SC2016
expect_exit 0 run_in named --after-save '[ "$MTL_ITERATION" != 9 ] || kill -TERM "$PPID"'
expect_text err '^mtl-train: TERM: the run is ending already$'
finish
