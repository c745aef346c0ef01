#!/bin/bash
# How jobs start: ranks with different weights are an error, messages are printed once, and single-process tools do not
# run as multiple ranks.
# shellcheck disable=SC2034 # the sourced files use LENGTH
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/train_runs.sh"
source "$(dirname "$0")/ranks_runs.sh"
cd "$WORK" || exit 1
preprocess "$CORPUS" c
LENGTH=(--train-iters 12 --exit-interval 2 --save-interval 1 --eval-interval 5 --log-interval 1)

# One rank finds another model in a folder with the same name. This is an error in every format.
enter_layout dp
expect_exit 0 run_in first
expect_exit 0 run_in second --seed 2
expect_exit 0 mtl-convert --load first/save --save hf
mkdir -p other/first
cp -r ../c_text_document.* hf other
cp -r second/save other/first
printf '\1' | dd of=other/hf/model.safetensors bs=1 seek=$(($(stat -c %s hf/model.safetensors) - 2)) conv=notrunc status=none
# expect_refused_start PATTERN: rank 0 reports that rank 1 starts from other files. PATTERN describes them.
expect_refused_start() {
  expect_count 1 "$WORK/err" 'the ranks of this job do not agree'
  expect_text "$WORK/err" "^  start: rank 1 \($HOST\) has '$1', but rank 0 \($HOST\) has '$1'$"
  [ ! -s "$WORK/out" ] || fail "trained from different weights: $1"
}
with_rank_setup 1 'cd other' expect_exit 2 run_in first
expect_refused_start 'manifest.json: [0-9a-f]{16}'
with_rank_setup 1 'cd other' expect_exit 2 run_in loaded --load hf
expect_refused_start 'model.safetensors: [0-9]+ bytes, [0-9a-f]{16}'
cp hf/model.safetensors other/hf
sed -i -E 's/("layer_norm_epsilon":) *[^,]+/\1 1e-6/' other/hf/config.json
with_rank_setup 1 'cd other' expect_exit 2 run_in loaded --load hf
expect_refused_start 'config.json: [0-9a-f]{16}'
cp hf/config.json other/hf
mkdir loaded
ln -s ../loaded other
# Only rank 0 looks for the stop file, which is in rank 1's folder.
touch other/off
with_rank_setup 1 'cd other' expect_exit 0 run_in loaded --load hf --kill-switch-path off
expect_text loaded/save/latest_checkpointed_iteration.txt '^2$'

# All ranks find the same damaged files and changed settings, but only rank 0 reports them.
echo garbage >first/save/latest_checkpointed_iteration.txt
expect_exit 0 run_in first --lr 0.001 --override-opt_param-scheduler
expect_count 2 "$WORK/err" 'warning: '
expect_count 1 "$WORK/err" '^mtl-train: warning: first/save/iter_0000002 continues with another schedule: --lr 0.002, now 0.001'
expect_text "$WORK/err" '^mtl-train: warning: first/save/latest_checkpointed_iteration.txt is not a number; using .* iteration 2$'
expect_exit 0 run_in first --train-iters 4000 --override-opt_param-scheduler
expect_count 1 "$WORK/err" 'warning: first/save/iter_[0-9]+ was trained in a different order of the same samples'
rm second/save/iter_0000002/shard_00001.safetensors
expect_exit 0 run_in second --seed 2
expect_count 1 "$WORK/err" '^mtl-train: warning: skipping an invalid checkpoint: second/save/iter_0000002/shard_00001'
expect_count 1 "$WORK/err" '^mtl-train: warning: second/save/latest_checkpointed_iteration.txt says 2; using .* iteration 1$'
expect_count 1 "$WORK/err" '^mtl-train: warning: second/save/iter_0000002 is now second/save/iter_0000002.damaged$'
expect_count 3 "$WORK/err" 'warning: '

# Single-process tools do not start as multiple ranks. In a larger job's batch script, each runs as one process.
for command in 'eval --load hf --data-path c_text_document' 'generate --load hf --prompt 1 --ids' \
  'convert --load hf --save twice'; do
  # shellcheck disable=SC2086  # words
  expect_exit 2 mpirun --oversubscribe -n 2 mtl-$command </dev/null
  expect_count 1 "$WORK/err" '^mtl-[a-z]+: 1 problem'
  expect_text "$WORK/err" '^  mpirun -n 2 +starts mtl-[a-z]+ 2 times.*; start it without mpirun'
  [ ! -s "$WORK/out" ] || fail "ran as two ranks: $command"
done
[ ! -e twice ] || fail 'mtl-convert wrote files as two ranks'
expect_exit 0 env SLURM_PROCID=0 SLURM_NTASKS=8 mtl-convert --load hf --save once
expect_exit 0 mpirun --oversubscribe -n 1 mtl-eval --load hf --data-path c_text_document </dev/null

# Without --save, a signal that requests a save is reported once.
LENGTH=(--train-iters 20000 --lr-decay-iters 12 --eval-interval 100000 --log-interval 10)
timeout -s KILL 60 mpirun --oversubscribe -n "$ranks" ../as_rank unsaved mtl-train "${MODEL[@]}" "${LENGTH[@]}" "${LAYOUT[@]}" \
  --threads 1 </dev/null >unsaved.out 2>unsaved.err &
job=$!
wait_until unsaved.out ' iteration '
send USR1 unsaved 1
wait_until unsaved.err 'requests a save'
send TERM unsaved 1
job_ends unsaved 1 10
expect_count 1 unsaved.err 'warning: USR1 requests a save, .*--save'
finish
