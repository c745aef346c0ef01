#!/bin/bash
# Faults in multi-rank jobs: mtl-train ends within seconds, reports the rank and the reason, and loses nothing.
# shellcheck disable=SC2034 # the sourced files use LENGTH and LAST
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/train_runs.sh"
source "$(dirname "$0")/ranks_runs.sh"
cd "$WORK" || exit 1
preprocess "$CORPUS" c
SHORT=("${LENGTH[@]}")

# A rank is killed during training, in four layouts.
LENGTH=(--train-iters 120 --save-interval 40 --eval-interval 50 --log-interval 15)
LAST=iter_0000120/shard_00000.safetensors
for layout in chunks vee dp tp-pp; do
  enter_layout $layout
  expect_exit 0 run_in whole
  start_job killed
  wait_until killed.err 'saved killed/save/iter_0000040'
  send KILL killed 1
  job_ends killed 137 10
  expect_text killed.err "rank 1 with PID [0-9]+ on node $HOST exited on signal 9"
  resumes_as_whole killed "$layout: rank 1 killed"
done

# A rank stops: the other ranks report it and the operation they wait for, and save nothing more.
enter_layout chunks
start_job stopped --distributed-timeout-minutes 0.05
wait_until stopped.err 'saved stopped/save/iter_0000040'
send STOP stopped 1
newest=$(newest_of stopped)
job_ends stopped 1 10
at='iteration [0-9]+(, (forward|backward) of micro-batch [01] in chunk [01])?' # none between two steps
expect_text stopped.err "rank 0 \($HOST\): .* in group '.*' \(.*$at\) did not end within 3.00 s"
expect_text stopped.err "rank 1 \($HOST\) gave no answer: stopped or hung; last message .* iteration [0-9]+"
[ "$(newest_of stopped)" = "$newest" ] || fail "saved $(newest_of stopped) after a rank stopped"
resumes_as_whole stopped 'rank 1 stopped'
# Megatron-LM's timeout in seconds takes precedence over its timeout in minutes.
enter_layout dp
start_job late --distributed-timeout-minutes 5 --distributed-timeout-seconds-after-init 2
wait_until late.err 'saved late/save/iter_0000040'
send STOP late 1
job_ends late 1 10
expect_text late.err "rank 0 \($HOST\): .* did not end within 2.00 s"

# A rank is killed during a save, or its disk fails. A partial checkpoint is never loaded, and the next job removes it.
LENGTH=("${SHORT[@]}")
LAST=iter_0000012/shard_00000.safetensors
enter_layout dp
rm -r whole
expect_exit 0 run_in whole
interrupted_saves=0
for fault in '1 2' '1 20' '1 70' '0 100'; do
  rm -rf killed
  read -r rank at <<<"$fault"
  with_rank_setup "$rank" "export MTL_FAULT=kill:$at" run_quietly killed
  code=$?
  [ $code -eq 137 ] || fail "rank $rank killed at write operation $at: exit $code"
  expect_text err "rank $rank with PID [0-9]+ on node $HOST exited on signal 9"
  [ -z "$(find killed/save -name 'iter_*.tmp.*')" ] || interrupted_saves=$((interrupted_saves + 1))
  resumes_as_whole killed "rank $rank killed at write operation $at"
done
[ $interrupted_saves -ge 3 ] || fail "only $interrupted_saves of 4 kills interrupted a save"
for fault in eio:30:'Input/output error' enospc:70:'No space left on device'; do
  rm -rf faulty
  IFS=: read -r kind at text <<<"$fault"
  with_rank_setup 1 "export MTL_FAULT=$kind:$at" expect_exit 74 run_in faulty
  expect_count 1 "$WORK/err" "^mtl-train: rank 0 \($HOST\): on rank 1: faulty/save/iter_[0-9]+.tmp.[0-9]+/shard_00001.safetensors: .*$text"
  [ -z "$(find faulty/save -name '*.tmp.*')" ] || fail "$kind: leaves $(find faulty/save -name '*.tmp.*')"
  resumes_as_whole faulty "$kind on rank 1 at its write operation $at"
done

# Without --save, too, a run that ends early first waits for the weights that ranks send each other.
expect_exit 0 timeout -s KILL 60 mpirun --oversubscribe -n 4 mtl-train "${MODEL[@]}" --hidden-size 256 --train-iters 12 \
  --exit-interval 4 --global-batch-size 8 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather \
  --threads 1 </dev/null
expect_text "$WORK/err" '^mtl-train: --exit-interval after iteration 4; without --save nothing was kept$'

# If a rank was started differently, this is detected before anything is trained or written. expect_refused NAME WHAT
# RANK_1 RANK_0: the job NAME failed because WHAT differs between these ranks.
expect_refused() {
  expect_count 1 "$WORK/err" 'the ranks of this job do not agree; start all with the same command, program and files:$'
  expect_text "$WORK/err" "^  $2: rank 1 \($HOST\) has '$3', but rank 0 \($HOST\) has '$4'"
  [ ! -s "$WORK/out" ] || fail "$1: trained, though the ranks differ"
  [ ! -e "$1" ] || fail "$1: a refused job leaves files"
}
# shellcheck disable=SC2016  # "$@" is the rank's
with_rank_setup 1 'set -- "$@" --lr 0.004' expect_exit 2 run_in flags
expect_refused flags 'command line' 'lr = 0.004 .*' 'lr = 0.002 .*'
# Two stages have a group more than two replicas.
# shellcheck disable=SC2016
with_rank_setup 1 'set -- "$@" --pipeline-model-parallel-size 2' expect_exit 2 run_in layout
expect_refused layout 'command line' 'pipeline-model-parallel-size = 2 .*' 'pipeline-model-parallel-size = 1 .*'
cp "$BIN/mtl-train" other-program
echo >>other-program
# shellcheck disable=SC2016
with_rank_setup 1 'shift; set -- ./other-program "$@"' expect_exit 2 run_in program
expect_refused program program '[0-9a-f]+' '[0-9a-f]+'
mkdir other
head -n 390 "$CORPUS" >other.jsonl
preprocess other.jsonl other/c
with_rank_setup 1 'cd other' expect_exit 2 run_in data
expect_refused data data '.*"idx_hash": *"[0-9a-f]+".*' '.*"idx_hash": *"[0-9a-f]+".*'
BPE=$TESTS/golden/tokenizer/bpe_tinyshakespeare_1000
cp "$BPE/merges.txt" "$BPE/vocab.json" .
cp c_text_document.* merges.txt other
sed -E 's/"a":/"swapped":/; s/"b":/"a":/; s/"swapped":/"b":/' vocab.json >other/vocab.json
with_rank_setup 1 'cd other' expect_exit 2 run_in tokenizer --tokenizer-type GPT2BPETokenizer --vocab-file vocab.json \
  --merge-file merges.txt
expect_refused tokenizer tokenizer '[0-9a-f]+' '[0-9a-f]+'

# A wrong command is reported once.
enter_layout tp-pp
expect_exit 2 run_in wrong --nonsense --min-lr 1
expect_count 1 "$WORK/err" '^mtl-train: '
expect_count 1 "$WORK/err" '--nonsense +unknown flag'
expect_count 1 "$WORK/err" '^  --min-lr '
expect_exit 2 run_in wrong --tensor-model-parallel-size 4
expect_count 1 "$WORK/err" '^mtl-train: '
[ ! -e wrong ] || fail 'a refused job leaves files'

# A signal to one rank acts on all ranks, between the same two steps. If ranks receive TERM, mpirun returns their exit
# code 75. (If mpirun itself receives TERM, the ranks have a second to save, and it returns 1.)
LENGTH=(--train-iters 20000 --lr-decay-iters 12 --save-interval 100000 --eval-interval 100000 --log-interval 10)
start_job signals
wait_until signals.out ' iteration '
send USR2 signals 2
wait_until signals.err 'iteration [0-9]+ of 20000, [0-9]+ samples consumed'
send USR1 signals 3
wait_until signals.err 'saved signals/save/iter_'
send TERM signals 1
job_ends signals 75 10
expect_count 1 signals.err 'samples consumed'
expect_count 2 signals.err '^mtl-train: saved '
expect_count 1 signals.err '^mtl-train: ended by a signal after iteration [0-9]+; the same command continues from here'
start_job slurm
wait_until slurm.out ' iteration '
send TERM slurm 0 1 2 3
job_ends slurm 75 10
expect_count 1 slurm.err '^mtl-train: saved '
# So does a stop file, which only rank 0 looks for, and with status 0.
start_job file --kill-switch-path off
wait_until file.out ' iteration '
touch off
job_ends file 0 10
expect_count 1 file.err '^mtl-train: saved '
expect_count 1 file.err '^mtl-train: --kill-switch-path off after iteration [0-9]+; the same command continues from here'
expect_exit 0 run_in file --kill-switch-path off
expect_count 1 "$WORK/err" '^mtl-train: --kill-switch-path off: the file exists; remove it'
rm off
# The signals arrive at random iterations. Then all runs continue to the same iteration.
end=$(cat {signals,slurm}/save/latest_checkpointed_iteration.txt | sort -n | tail -1)
end=$((end + 7))
LENGTH+=(--exit-interval "$end")
expect_exit 0 run_in uninterrupted
for run in signals slurm; do
  expect_exit 0 run_in $run
  for rank in 0 1 2 3; do
    LAST=$(printf 'iter_%07d/shard_%05d.safetensors' $end $rank)
    same_run $run uninterrupted "$run: rank $rank"
  done
done
finish
