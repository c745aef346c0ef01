#!/bin/bash
# Runs that end and continue: extended, interrupted during a validation, resumed without the optimizer.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/train_runs.sh"
cd "$WORK" || exit 1
preprocess "$CORPUS" c
# The data order does not depend on the run's length, and the intervals do not divide 10.
LENGTH=(--lr-decay-iters 20 --save-interval 4 --eval-interval 5 --log-interval 4 --data-order feistel)
LAST=iter_0000020/shard_00000.safetensors

# A run that finished and was then extended equals an uninterrupted run.
expect_exit 0 run_in whole --train-iters 20
expect_exit 0 run_in extended --train-iters 10
expect_text extended/log.jsonl '"type": "step", "iteration": 10, .*"final": true'
expect_text extended/log.jsonl '"type": "test", "iteration": 10, .*"final": true'
expect_exit 0 run_in extended --train-iters 10
expect_text err 'already complete: 10 of 10 iterations are done'
expect_exit 0 run_in extended --train-iters 20
same_run extended whole 'a extended run'
[ "$(metrics_of whole | wc -l)" -eq $((5 + 4 + 2)) ] ||
  fail 'the uninterrupted run does not have 5 + 4 + 2 lines of metrics'
expect_exit 0 run_in extended --train-iters 20
expect_text err 'already complete: 20 of 20'

# A changed validation interval: as in Megatron-LM, the interval determines how many validation samples there are. If a
# run needs more, it fails at the start.
blend=(--data-path 1 c_text_document --train-iters 10)
expect_exit 0 run_in interval "${blend[@]}" --eval-interval 2
expect_exit 2 run_in interval "${blend[@]}" --train-iters 20 --eval-interval 10
expect_text err '^mtl-train: --eval-interval 10, --eval-iters 2: iterations 11 to 20 need 16 validation samples, but only 0 '
[ ! -s out ] || fail 'trains before it refuses'
expect_exit 0 run_in interval "${blend[@]}" --train-iters 20 --eval-interval 2

# Signals during an endless validation, so that machine speed does not matter. The resumed run has short validations
# again.
LENGTH=(--train-iters 6 --save-interval 4 --eval-interval 3 --log-interval 3 --data-order feistel --eval-iters 20)
LAST=iter_0000006/shard_00000.safetensors
ENDLESS=(--eval-iters 1000000)
LIMIT=120  # seconds for each wait, which is enough on any machine
# give_up WHAT: ends the job and the test. The later waits would fail, too, and take long.
give_up() {
  fail "$1"
  pkill -KILL -P "$job"
  finish
}
# wait_for FILE PATTERN: waits for a matching line while the job runs.
wait_for() {
  local end=$((SECONDS + LIMIT))
  until grep -qE -- "$2" "$1" 2>/dev/null; do
    kill -0 "$job" 2>/dev/null || break
    [ $SECONDS -lt $end ] || give_up "no line like '$2' in $1 after $LIMIT seconds"
    sleep 0.05
  done
  grep -qE -- "$2" "$1" || fail "no line like '$2' in $1 before the job ended"
}
# owner_of NAME: prints the process id from its folder's lock.
owner_of() { sed -E 's/^pid ([0-9]+) .*/\1/' "$1/save/lock"; }
# start NAME FLAG...: starts the run in the background, with endless validations.
start() {
  local name=$1
  shift
  run_in "$name" "${ENDLESS[@]}" "$@" >"$name.out" 2>"$name.err" &
  job=$!
}
# ends_with CODE NAME: the job ends with CODE.
ends_with() {
  local code
  timeout $LIMIT tail --pid="$job" -s 0.1 -f /dev/null || give_up "$2: still runs $LIMIT seconds after the signal"
  wait "$job"
  code=$?
  [ "$code" -eq "$1" ] || { fail "$2: exit $code instead of $1"; sed 's/^/    /' "$2.err" >&2; }
}
expect_exit 0 run_in whole6
start early
wait_for early.out ' iteration +3/'
kill -TERM "$(owner_of early)"
ends_with 75 early
expect_text early.err 'saved early/save/iter_0000003'
! grep -q '"type": "validation"' early/log.jsonl || fail 'TERM in a validation waits for its end'
expect_exit 0 run_in early
same_run early whole6 'TERM in a validation'

start save
wait_for save.out ' iteration +3/'
kill -USR1 "$(owner_of save)"
wait_for save.err 'saved save/save/iter_0000003'
kill -USR2 "$(owner_of save)"
wait_for save.err 'iteration 3 of 6, 12 samples consumed, validation batch [0-9]+ of 1000000'
kill -TERM "$(owner_of save)"
ends_with 75 save
expect_exit 0 run_in save
same_run save whole6 'USR1 in a validation'

# The last validation: these runs' first session includes the validation at iteration 5.
expect_exit 0 run_in last6 --eval-interval 5
start_last() {
  expect_exit 0 run_in "$1" --eval-interval 5 --exit-interval 5
  start "$1" --eval-interval 5
}
start_last final
wait_for final.err 'saved final/save/iter_0000006'
kill -USR2 "$(owner_of final)"
wait_for final.err 'iteration 6 of 6, 24 samples consumed, (validation|test) batch [0-9]+ of 1000000'
kill -TERM "$(owner_of final)"
ends_with 75 final
[ -d final/save/iter_0000006 ] || fail 'no model after TERM in the last validation'
expect_exit 0 run_in final --eval-interval 5
same_run final last6 'TERM in the last validation'
expect_exit 0 run_in final --eval-interval 5
expect_text err 'already complete: 6 of 6'

start_last killed
wait_for killed.err 'saved killed/save/iter_0000006'
kill -KILL "$(owner_of killed)"
ends_with 137 killed 2>/dev/null
[ -d killed/save/iter_0000006 ] || fail 'the model is saved only after the last validation'
# Imitates runs that died between writing the last checkpoint and the tracker, or while marking the run as finished.
touch killed/save/iter_0000006.tmp.1
mkdir killed/save/iter_best.tmp.1 killed/save/iter_0000004.tmp.mine
echo 4 >killed/save/latest_checkpointed_iteration.txt
expect_exit 0 run_in killed --eval-interval 5
same_run killed last6 'killed in the last validation'
[ ! -e killed/save/iter_0000006.tmp.1 ] || fail "a killed run's leftovers were not removed"
expect_text killed/save/latest_checkpointed_iteration.txt '^6$'
[ -d killed/save/iter_best.tmp.1 ] && [ -d killed/save/iter_0000004.tmp.mine ] || fail "other programs' folders were removed"

# TERM to one of two ranks: both end at the same batch.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# shellcheck disable=SC2016  # for the script
printf '#!/bin/bash\necho $$ >rank.$OMPI_COMM_WORLD_RANK.pid\nexec "$@"\n' >as_rank
chmod +x as_rank
run_two() {
  local name=$1
  shift
  mpirun --oversubscribe -n 2 ./as_rank mtl-train "${MODEL[@]}" "${LENGTH[@]}" --use-distributed-optimizer --threads 1 \
    --save "$name/save" --log-jsonl "$name/log.jsonl" "$@" </dev/null
}
expect_exit 0 run_two whole2
run_two two "${ENDLESS[@]}" >two.out 2>two.err &
job=$!
wait_for two.out ' iteration +3/'
kill -TERM "$(<rank.1.pid)"
ends_with 75 two
expect_exit 0 run_two two
same_run two whole2 'TERM to one rank in a validation'

# --no-load-optim: AdamW starts over once. When requeued, the same command resumes the run's own checkpoint.
LENGTH=(--train-iters 6 --eval-interval 100 --log-interval 1 --data-order feistel)
expect_exit 0 run_in source --train-iters 3
expect_exit 0 run_in moments --load source/save --no-load-optim
grep -q '"optimizer_steps": 3[,}]' moments/save/iter_0000006/manifest.json || fail '--no-load-optim keeps the count of updates'
expect_exit 0 run_in requeued --load source/save --no-load-optim --exit-interval 5
expect_exit 0 run_in requeued --load source/save --no-load-optim
expect_text err 'resuming requeued/save/iter_0000005'
expect_text err '^mtl-train: --no-load-optim has no effect on the newest checkpoint in --save: its moments are resumed$'
same_run requeued moments '--no-load-optim, requeued'
expect_exit 0 run_in continued --load source/save --override-opt_param-scheduler
cmp -s "continued/save/$LAST" "moments/save/$LAST" && fail '--no-load-optim has no effect'

# Non-finite weights are rejected, here in the position table's last row, which no sample uses.
expect_exit 0 mtl-convert --load source/save --save hf
weights=hf/model.safetensors
header=$(od -An -tu8 -N 8 $weights)
end=$(grep -aoE '"[a-z.]*wpe.weight":\{[^}]*\}' $weights | head -1 | sed -E 's/.*\[[0-9]+, ?([0-9]+)\].*/\1/')
printf '\0\0\300\177' | dd of=$weights bs=1 seek=$((header + 8 + end - 4)) conv=notrunc status=none
expect_exit 65 run_in nan --load hf --seq-length 16
expect_text err "^mtl-train: hf/model.safetensors: tensor 'transformer.wpe.weight' contains NaN or infinity"
[ ! -d nan/save/iter_0000006 ] || fail 'weights that are not finite are saved'
finish
