#!/bin/bash
# How a run starts: from the newest valid checkpoint or a given one. Also covers signals during the start.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/train_runs.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cd "$WORK" || exit 1
prepare_runs

# --load and --save are the same if they lead to the same place.
mkdir links
ln -s ../same/save links/save
for path in same/save/ ./same/../same/save links/save; do
  rm -rf same
  expect_exit 0 run_in same --load "$path" --exit-interval 5
  expect_text err "^mtl-train: $path contains no checkpoints yet: starting from iteration 0"
  expect_exit 0 run_in same --load "$path"
  expect_text err '^mtl-train: resuming same/save/iter_0000005'
done

# A folder that contains a model, but no checkpoints of a run, is never the start of a run with random weights.
cp -r "$TESTS/golden/gpt2_model/a" model
chmod -R u+w model
expect_exit 0 mtl-convert --load model --save converted --to mtl
mv converted/iter_0000000 one
mkdir -p cache/models--own--gpt/{refs,snapshots/1}
printf 1 >cache/models--own--gpt/refs/main
cp model/* cache/models--own--gpt/snapshots/1
# expect_model FOLDER KIND: it is refused as --load and --save, and as --save alone, and stays as it is.
expect_model() {
  ls -A "$1" >before
  expect_exit 65 run_in whole --save "$1" --load "./$1"
  expect_text err "^mtl-train: --load .*$1: .*$2"
  expect_exit 65 run_in whole --save "$1"
  expect_text err "^mtl-train: --save $1: .*$2"
  ls -A "$1" | diff - before || fail "a refused run changes $1"
}
expect_model model 'contains a Hugging Face model; .*choose another folder for --save'
expect_model one 'contains a checkpoint; .*choose another folder for --save'
mkdir app
echo '{"name": "my app"}' >app/config.json
expect_model app 'contains a config.json, .*; choose another folder for --save$'
rm model/config.json
expect_model model 'has .*weights .*config.json; choose another folder for --save$'
HF_HUB_CACHE=$PWD/cache expect_exit 65 run_in whole --save own/gpt --load own/gpt
expect_text err '^mtl-train: --load own/gpt: contains a Hugging Face model; choose another folder for --save$'
[ ! -e own ] || fail 'a refused run creates its --save folder'
HF_HUB_CACHE=$PWD/cache expect_exit 0 run_in whole --save own/gpt --dry-run  # a name for a new folder
# The model of that name is where another run starts.
HF_HUB_CACHE=$PWD/cache expect_exit 0 run_in hub --load own/gpt --hidden-size 64 --max-position-embeddings 64 --dry-run

# flip NAME ITERATION [RANK]: flips one bit in the moments in that checkpoint.
flip() {
  local shard=$1/save/iter_000000$2/shard_0000${3:-0}.safetensors at old
  at=$(($(stat -c %s "$shard") - 100))
  old=$(od -An -tu1 -j $at -N 1 "$shard")
  printf "\\x$(printf %02x $((old ^ 16)))" | dd of="$shard" bs=1 seek=$at conv=notrunc status=none
}
# copy_at_9 NAME: makes the run NAME, which ended at iteration 9.
copy_at_9() {
  rm -rf "$1"
  cp -r at9 "$1"
}
# expect_names NAME NAMES: its folder contains these checkpoints.
names_in() { (cd "$1/save" && printf '%s ' iter_*); }
expect_names() { [ "$(names_in "$1")" = "$2 " ] || fail "$1/save holds $(names_in "$1")instead of $2"; }
expect_exit 0 run_in at9 --exit-interval 9
before='iter_0000003 iter_0000006 iter_0000009'
after='iter_0000003 iter_0000006 iter_0000009 iter_0000009.damaged iter_0000012'

# The newest is damaged: resumes the previous checkpoint and renames the damaged one.
copy_at_9 damaged
flip damaged 9
expect_exit 0 run_in damaged
expect_text err "^mtl-train: warning: skipping an invalid checkpoint: damaged/save/iter_0000009/shard_00000.safetensors.*\(tensor 'exp_avg_sq\.[a-z.0-9_]+'\)"
expect_text err '^mtl-train: warning: damaged/save/iter_0000009 is now damaged/save/iter_0000009.damaged$'
expect_text err '^mtl-train: resuming damaged/save/iter_0000006 at iteration 6$'
same_as_whole damaged 'a flipped bit'
expect_names damaged "$after"
# Likewise where the folder of a checkpoint cannot be renamed, and is copied and removed instead.
ways=('env MTL_FAULT=no-move:1')
mkdir probe
if on_image probe true 2>/dev/null; then ways+=('on_image image'); else echo 'SKIPPED: overlayfs' >&2; fi
for way in "${ways[@]}"; do
  copy_at_9 image
  flip image 9
  cp -r image/save/iter_0000009 flipped
  # shellcheck disable=SC2086  # words
  expect_exit 0 $way mtl-train "${MODEL[@]}" "${LENGTH[@]}" --save image/save --keep-last 2
  expect_text err '^mtl-train: warning: image/save/iter_0000009 is now image/save/iter_0000009.damaged$'
  expect_same "image/save/$LAST" "whole/save/$LAST"
  expect_names image 'iter_0000009 iter_0000009.damaged iter_0000012'
  diff -r image/save/iter_0000009.damaged flipped || fail "the copy of the damaged checkpoint differs ($way)"
  rm -r flipped
done
# Two are damaged, and a shard is missing in one of them.
copy_at_9 damaged
flip damaged 6
rm damaged/save/iter_0000009/shard_00000.safetensors
expect_exit 0 run_in damaged
expect_text err '^mtl-train: resuming damaged/save/iter_0000003 at iteration 3$'
same_as_whole damaged 'two damaged checkpoints'
expect_names damaged 'iter_0000003 iter_0000006 iter_0000006.damaged iter_0000009 iter_0000009.damaged iter_0000012'
# In a folder that is only read, a damaged checkpoint is skipped and stays.
copy_at_9 damaged
flip damaged 9
expect_exit 0 run_in elsewhere --load damaged/save
expect_text err '^mtl-train: resuming damaged/save/iter_0000006 at iteration 6$'
expect_same "elsewhere/save/$LAST" "whole/save/$LAST"
expect_names damaged "$before"
# If all are damaged, the run fails and renames none.
for iteration in 3 6; do flip damaged $iteration; done
expect_exit 65 run_in damaged
expect_text err 'damaged/save: none of the 3 checkpoints is valid'
expect_names damaged "$before"
# A Megatron-LM checkpoint with a damaged file is rejected by --load. --save rejects all Megatron-LM checkpoints.
mkdir -p megatron/iter_0000030/mp_rank_00
touch megatron/iter_0000030/mp_rank_00/model_optim_rng.pt
for path in megatron megatron/iter_0000030 'megatron --ckpt-step 30'; do
  # shellcheck disable=SC2086  # a folder, and perhaps a flag
  expect_exit 65 run_in new --load $path
  expect_text err 'megatron/iter_0000030/mp_rank_00/model_optim_rng.pt: the file is empty'
done
expect_exit 65 mtl-train "${MODEL[@]}" "${LENGTH[@]}" --save megatron
expect_text err 'megatron: the folder contains checkpoints from another program: iter_0000030 is a Megatron-LM checkpoint'
# A DeepSpeed checkpoint in the folder to load and save is not taken for an empty folder.
mkdir -p deepspeed/global_step100
touch deepspeed/global_step100/mp_rank_00_model_states.pt
expect_exit 65 mtl-train "${MODEL[@]}" "${LENGTH[@]}" --load deepspeed --save deepspeed
expect_text err '--load deepspeed: contains .* global_step100 is a DeepSpeed'
# The folder contains another program's file, with the same name as the lock.
mkdir locked
echo 5.4 >locked/lock
expect_exit 2 mtl-train "${MODEL[@]}" "${LENGTH[@]}" --save locked
expect_text err 'locked/lock is not an mtl lock file, and would be overwritten'
[ "$(<locked/lock)" = 5.4 ] || fail 'locked/lock was overwritten'
# If the requested checkpoint is damaged, the run fails.
copy_at_9 damaged
flip damaged 9
for named in '--ckpt-step 9' '--load damaged/save/iter_0000009'; do
  # shellcheck disable=SC2086  # words
  expect_exit 65 run_in damaged $named
  expect_text err "damaged/save/iter_0000009/shard_00000.safetensors.*\(tensor 'exp_avg_sq"
  expect_names damaged "$before"
done
expect_exit 65 run_in new --load damaged/save --ckpt-step 9
expect_exit 65 run_in damaged --ckpt-step 6 --load damaged/save/iter_0000009

# A checkpoint that the user may not read, or only in part, is not a damaged one. No other is loaded, and none is
# renamed.
copy_at_9 closed
chmod 711 "$WORK"
chmod -R a+rwX closed
# as_user COMMAND...: runs COMMAND without root's privileges.
as_user() {
  if [ "$(id -u)" -ne 0 ]; then "$@"; else setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; fi
}
if as_user "$BIN/mtl-train" --version >out 2>err; then
  for unreadable in closed/save/iter_0000009 closed/save/iter_0000009/shard_00000.safetensors; do
    rights=$(stat -c %a $unreadable)
    chmod 000 $unreadable
    # shellcheck disable=SC2024  # the shell writes
    as_user "$BIN/mtl-train" "${MODEL[@]}" "${LENGTH[@]}" --save closed/save >out 2>err
    code=$?
    [ $code -eq 74 ] || fail "$unreadable cannot be read: exit $code"
    expect_text err "$unreadable.*: Permission denied$"
    expect_names closed "$before"
    chmod "$rights" $unreadable
  done
else
  echo 'SKIPPED: an unreadable checkpoint: no other user can run mtl-train' >&2
fi

# Rolling back: later checkpoints are renamed, and the run continues from the earlier one.
for named in '--ckpt-step 6' '--load back/save/iter_0000006' '--ckpt-step 6 --load ./back/save/'; do
  copy_at_9 back
  # shellcheck disable=SC2086
  expect_exit 0 run_in back $named
  expect_text err '^mtl-train: warning: back/save/iter_0000009 is now back/save/iter_0000009.rolled_back$'
  expect_text err '^mtl-train: resuming back/save/iter_0000006 at iteration 6$'
  same_as_whole back "$named"
  expect_names back 'iter_0000003 iter_0000006 iter_0000009 iter_0000009.rolled_back iter_0000012'
done
# The name of an incomplete one says so.
copy_at_9 back
rm back/save/iter_0000009/shard_00000.safetensors
expect_exit 0 run_in back --ckpt-step 3
expect_names back 'iter_0000003 iter_0000006 iter_0000006.rolled_back iter_0000009 iter_0000009.damaged iter_0000012'
# If the same command is requeued, it continues. A different command rolls back again.
copy_at_9 back
expect_exit 0 run_in back --ckpt-step 6 --exit-interval 8
expect_text back/save/latest_checkpointed_iteration.txt '^8$'
expect_exit 0 run_in back --ckpt-step 6 --exit-interval 8
expect_text err '^mtl-train: an earlier start of this command rolled back to iteration 6$'
expect_text err '^mtl-train: resuming back/save/iter_0000008 at iteration 8$'
cmp -s "back/save/$LAST" "whole/save/$LAST" || fail 'rolled back and interrupted: different weights'
expect_names back 'iter_0000003 iter_0000006 iter_0000008 iter_0000009 iter_0000009.rolled_back iter_0000012'
expect_exit 0 run_in back --ckpt-step 6 --exit-interval 7 --lr 0.001 --override-opt_param-scheduler
expect_text err 'back/save/iter_0000009 is now back/save/iter_0000009.rolled_back.2$'
expect_names back 'iter_0000003 iter_0000006 iter_0000007 iter_0000008.rolled_back iter_0000009.rolled_back iter_0000009.rolled_back.2 iter_0000012.rolled_back'
# Rolling back to an impossible checkpoint changes nothing.
copy_at_9 back
expect_exit 2 run_in back --ckpt-step 7
expect_text err '^mtl-train: --ckpt-step 7: there is no iter_0000007 in back/save; choose one of iter_0000009, iter_0000006, iter_0000003$'
expect_exit 2 run_in back --load back/save/iter_0000007
expect_text err '^mtl-train: --load back/save/iter_0000007: there is no iter_0000007 in back/save; choose one of '
mkdir empty
expect_exit 2 run_in other --load empty --ckpt-step 7
expect_text err '^mtl-train: --ckpt-step 7: there is no iter_0000007 in empty, which contains no checkpoints; use another folder$'
flip back 6
expect_exit 65 run_in back --ckpt-step 6
expect_exit 65 run_in back --ckpt-step 6 --no-load-optim  # the damaged moments are not loaded
expect_exit 2 run_in back --load back/save/iter_0000003 --finetune
expect_text err '^mtl-train: --finetune cannot start at iteration 0 in back/save, which contains the checkpoint to start from; '
head -n 390 "$CORPUS" >fewer.jsonl
preprocess fewer.jsonl fewer
expect_exit 65 run_in back --ckpt-step 3 --data-path fewer_text_document
expect_text err 'trained on different data'
expect_names back "$before"
# A checkpoint's folder that is a link to nowhere is an invalid checkpoint: skipped, and set aside.
copy_at_9 linked
rm -r linked/save/iter_0000009
ln -s ../elsewhere linked/save/iter_0000009
expect_exit 0 run_in linked
expect_text err 'warning: skipping an invalid checkpoint: linked/save/iter_0000009'
expect_text err '^mtl-train: resuming linked/save/iter_0000006 at iteration 6$'
expect_text err 'linked/save/iter_0000009 is now linked/save/iter_0000009.damaged'
same_run linked whole 'a linked checkpoint that is missing'

# --ckpt-step can also select a checkpoint in another folder.
expect_exit 0 run_in other --load at9/save --ckpt-step 6
expect_text err '^mtl-train: resuming at9/save/iter_0000006 at iteration 6$'
expect_same "other/save/$LAST" "whole/save/$LAST"
expect_names at9 "$before"
# A run that has nothing left to train saves the loaded state, too.
expect_exit 0 run_in ended --load at9/save --train-iters 9 --override-opt_param-scheduler
shard=save/iter_0000009/shard_00000.safetensors
expect_same ended/$shard at9/$shard
expect_exit 2 run_in other --ckpt-step -1
expect_exit 2 mtl-train "${MODEL[@]}" --train-iters 3 --ckpt-step 3
expect_text err '--ckpt-step +needs --load PATH or --save DIR'

# Signals before anything is read: the run waits for its vocabulary.
mkfifo vocab.fifo
BPE=$TESTS/golden/tokenizer/bpe_tinyshakespeare_1000
waiting=(--tokenizer-type GPT2BPETokenizer --vocab-file vocab.fifo --merge-file "$BPE/merges.txt")
set -m  # a background job does not ignore INT
for signal in TERM INT HUP; do
  mtl-train "${MODEL[@]}" --train-iters 3 "${waiting[@]}" 2>start.err >start.out &
  job=$!
  exec 3>vocab.fifo  # waits until mtl-train reads
  kill -$signal $job
  wait $job
  code=$?
  exec 3>&-
  [ $code -eq 75 ] || fail "$signal at the start: exit $code"
  expect_text start.err '^mtl-train: ended by a signal before the first iteration; the same command starts again$'
done
set +m
# Files in --save that are no files: the run does not rely on the tracker, and refuses a run_id at once.
for kind in mkfifo mkdir; do
  rm -rf odd
  mkdir -p odd/save
  $kind odd/save/latest_checkpointed_iteration.txt
  expect_exit 0 timeout 60 mtl-train "${MODEL[@]}" --train-iters 3 --lr-decay-iters 6 --save odd/save
  expect_text err 'warning: odd/save/latest_checkpointed_iteration.txt is not a regular file, and is not updated; remove it'
  expect_exit 0 timeout 60 mtl-train "${MODEL[@]}" --train-iters 6 --lr-decay-iters 6 --save odd/save
  expect_text err 'latest_checkpointed_iteration.txt is not a regular file; using the newest valid checkpoint, iteration 3$'
  [ -d odd/save/iter_0000006 ] || fail "a tracker made by $kind: not resumed"
done
rm -rf odd
mkdir -p odd/save
mkfifo odd/save/run_id
expect_exit 74 timeout 60 mtl-train "${MODEL[@]}" --train-iters 3 --save odd/save
expect_text err 'odd/save/run_id is not a regular file; replace it with one'
# FIFOs that the user names are waited for, until a signal ends the run.
mkfifo silent.fifo
for flag in config log-jsonl; do
  mtl-train "${MODEL[@]}" --train-iters 3 --$flag silent.fifo 2>start.err >start.out &
  job=$!
  for _ in $(seq 600); do grep -q 'silent.fifo is a FIFO that no process .* yet; waiting for one' start.err && break; sleep 0.1; done
  kill -TERM $job
  wait $job
  code=$?
  [ $code -eq 75 ] || fail "TERM while --$flag waits: exit $code"
  expect_text start.err 'silent.fifo is a FIFO that no process (reads|writes to) yet; waiting for one$'
done

# wait_for_signal_mask PID: waits until the process blocks USR1, USR2, INT, TERM and perhaps HUP.
wait_for_signal_mask() {
  for _ in $(seq 100); do
    grep -q '^SigBlk:.*4a0[23]$' "/proc/$1/status" && return
    sleep 0.1
  done
}
# A signal to one rank of two: the job ends with 75.
printf '#!/bin/bash\necho $$ >rank.$OMPI_COMM_WORLD_RANK.pid\nexec "$@"\n' >as_rank
chmod +x as_rank
for rank in 0 1; do
  rm -f rank.*.pid
  mpirun --oversubscribe -n 2 ./as_rank mtl-train "${MODEL[@]}" --train-iters 3 "${waiting[@]}" </dev/null 2>start.err >start.out &
  job=$!
  for _ in $(seq 600); do [ -s rank.0.pid ] && [ -s rank.1.pid ] && break; sleep 0.1; done
  exec 3>vocab.fifo  # waits until rank 0 reads
  wait_for_signal_mask "$(<rank.$rank.pid)"
  kill -TERM "$(<rank.$rank.pid)"
  wait $job
  code=$?
  exec 3>&-
  [ $code -eq 75 ] || fail "TERM to rank $rank at the start: exit $code"
done

# Likewise while the rank connects to an mpirun that is slow to answer.
rm -f rank.*.pid
printf '#!/bin/bash\necho $$ >rank.$OMPI_COMM_WORLD_RANK.pid\n[ $OMPI_COMM_WORLD_RANK = 0 ] || sleep 0.5\nexec "$@"\n' >as_rank
mpirun --oversubscribe -n 2 ./as_rank mtl-train "${MODEL[@]}" --train-iters 3 "${waiting[@]}" </dev/null 2>start.err >start.out &
job=$!
exec 3>vocab.fifo
for _ in $(seq 600); do [ -s rank.1.pid ] && break; sleep 0.02; done
kill -STOP $job
wait_for_signal_mask "$(<rank.1.pid)"
sleep 0.3
kill -TERM "$(<rank.1.pid)"
sleep 0.2
kill -CONT $job
wait $job
code=$?
exec 3>&-
[ $code -eq 75 ] || fail "TERM to a rank that connects: exit $code"

# Only rank 0 searches. Rank 1 has a newer checkpoint in its folder, but opens the one that rank 0 found.
mkdir elsewhere2
cp -r at9 c_text_document.* elsewhere2
rm -r at9/save/iter_0000009
printf '#!/bin/bash\n[ "$OMPI_COMM_WORLD_RANK" = 0 ] || cd elsewhere2\nexec "$@"\n' >as_rank
expect_exit 0 mpirun --oversubscribe -n 2 ./as_rank mtl-train "${MODEL[@]}" "${LENGTH[@]:0:2}" --load at9/save </dev/null
expect_text err '^mtl-train: resuming at9/save/iter_0000006 at iteration 6$'

# Two ranks, and a damaged shard that only rank 1 reads: both load the previous checkpoint.
run_two() {
  local name=$1
  shift
  mpirun --oversubscribe -n 2 mtl-train "${MODEL[@]}" "${LENGTH[@]}" --use-distributed-optimizer --threads 1 \
    --save "$name/save" --log-jsonl "$name/log.jsonl" "$@" </dev/null
}
expect_exit 0 run_two whole2
expect_exit 0 run_two two --exit-interval 9
flip two 9 1
expect_exit 0 run_two two
expect_text err "^mtl-train: warning: skipping an invalid checkpoint: .*two/save/iter_0000009/shard_00001.safetensors.*\(tensor 'exp_avg_sq"
[ "$(grep -c 'warning: skipping an invalid checkpoint' err)" -eq 1 ] || fail 'not one warning from two ranks'
expect_text err '^mtl-train: resuming two/save/iter_0000006 at iteration 6$'
same_run two whole2 'a shard of rank 1 damaged'
expect_names two "$after"
finish
