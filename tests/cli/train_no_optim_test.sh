#!/bin/bash
# --no-save-optim: checkpoints of weights alone. They have the weights of whole checkpoints, and every program reads
# them; a run resumes them only if it is told to start the optimizer's states at zero.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/train_runs.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cd "$WORK" || exit 1
preprocess "$CORPUS" c
LENGTH=(--train-iters 6 --save-interval 2 --eval-interval 100 --log-interval 1 --threads 1 --lr-decay-style constant)
PARAMETERS=42880

# tensors NAME: prints which kinds of tensors the run's newest checkpoint has.
tensors() { grep -oE '"[a-z_]+\.embedding\.tokens\.weight"' "$1/save/iter_0000006/manifest.json" | sed -E 's/"([a-z_]+).*/\1/' | sort -u | tr '\n' ' '; }
# same_weights NAME OTHER [ITERATION]: both have the same weights then, or at the end.
same_weights() {
  local at=iter_000000${3:-6} name
  for name in "$1" "$2"; do
    rm -rf "hf.$name"
    expect_exit 0 mtl-convert --load "$name/save/$at" --save "hf.$name" --to hf
  done
  expect_same "hf.$1/model.safetensors" "hf.$2/model.safetensors"
}

# Every rule, in one rank, in two with each stage of ZeRO, with the states in files, and saved behind the iterations.
mkdir states
for rule in adam sgd muon; do
  expect_exit 0 run_in "$rule" --optimizer "$rule"
  expect_exit 0 run_in "$rule.weights" --optimizer "$rule" --no-save-optim
  [ "$(tensors "$rule.weights")" = 'param ' ] || fail "$rule: saved $(tensors "$rule.weights")"
  [ "$(tensors "$rule")" != 'param ' ] || fail "$rule: saved no states without the flag"
  for iteration in 2 4 6; do same_weights "$rule.weights" "$rule" $iteration; done
done
for layout in '--async-save' '--zero-stage 0' '--zero-stage 1' '--zero-stage 2 --offload-optimizer states' '--zero-stage 3 --async-save'; do
  ranks=1
  [[ $layout = *zero* ]] && ranks=2
  for save in with without; do
    rm -rf "$save"
    # shellcheck disable=SC2046,SC2086 # words
    expect_exit 0 mpirun -n $ranks --oversubscribe mtl-train "${MODEL[@]}" "${LENGTH[@]}" --save $save/save $layout \
      $([ $save = with ] || echo --no-save-optim)
  done
  [ "$(tensors without)" = 'param ' ] || fail "$layout: saved $(tensors without)"
  same_weights without with
done

# What a dry run plans is what is written, and what it copies.
expect_exit 0 run_in adam.weights --no-save-optim --async-save --train-iters 7 --no-load-optim --dry-run --json
expect_text out "\"checkpoint_bytes\": $((4 * PARAMETERS)),"
copied=$(sed -nE 's/.*"save_copy": ([0-9]+).*/\1/p' out | head -1)
[ "$copied" -ge $((4 * PARAMETERS)) ] && [ "$copied" -lt $((6 * PARAMETERS)) ] || fail "copies $copied bytes"
written=$(stat -c %s adam.weights/save/iter_0000006/shard_00000.safetensors)
[ "$written" -lt $((5 * PARAMETERS)) ] || fail "a checkpoint takes $written bytes"

# The same command is complete without states, but resumes only with --no-load-optim, which is then that of --load.
expect_exit 0 run_in adam.weights --no-save-optim
expect_text err 'already complete: 6 of 6 iterations are done$'
expect_exit 0 run_in cut --no-save-optim --exit-interval 4
expect_text err '^mtl-train: warning: --no-save-optim: a resume will need --no-load-optim, and start with moments of zero$'
expect_text err '^mtl-train: --exit-interval after iteration 4; the same command with --no-load-optim continues$'
expect_exit 2 run_in cut --no-save-optim
expect_text err '^mtl-train: cut/save/iter_0000004: the model has no optimizer state; use --no-load-optim to continue at iteration 4 with moments of zero, or use another --save folder$'
expect_exit 2 run_in other --load cut/save
expect_text err '; use --no-load-optim to continue at iteration 4 with moments of zero, or use --finetune to start at iteration 0 from the weights alone$'
[ ! -e other/save/iter_0000006 ] || fail 'trains before it refuses'
expect_exit 0 run_in other --load cut/save --no-load-optim
expect_text err '^mtl-train: warning: starting with moments of zero: cut/save/iter_0000004: the model has no optimizer state$'
grep -q '"optimizer_steps": 2[,}]' other/save/iter_0000006/manifest.json || fail 'keeps the count of updates'
expect_exit 0 run_in whole --load adam/save --ckpt-step 4 --no-load-optim
LAST=iter_0000006/shard_00000.safetensors
expect_same "other/save/$LAST" "whole/save/$LAST"
for ranks in 1 2; do # the other rank is told what the first one found
  cp -r cut "cut$ranks"
  expect_exit 0 mpirun -n $ranks --oversubscribe mtl-train "${MODEL[@]}" "${LENGTH[@]}" --save "cut$ranks/save" --no-load-optim \
    --use-distributed-optimizer
  expect_text err "^mtl-train: resuming cut$ranks/save/iter_0000004 at iteration 4$"
done
expect_same "cut1/save/$LAST" "whole/save/$LAST"
read -r _ rms _ <<<"$(mtl_compare_checkpoints whole/save/iter_0000006 cut2/save/iter_0000006)"
below "$rms" 1e-5 || fail "two ranks differ by $rms"
# A checkpoint with states is resumed with them: the flags only say what this run saves. A rollback needs those of its
# own checkpoint, not of the newest.
expect_exit 0 run_in mixed --exit-interval 2
expect_exit 0 run_in mixed --no-save-optim --no-load-optim
expect_text err '^mtl-train: --no-load-optim has no effect on the newest checkpoint in --save: its moments are resumed$'
same_weights mixed adam
expect_exit 2 run_in mixed --ckpt-step 4
expect_text err '/iter_0000004: the model has no optimizer state; use --no-load-optim to continue at iteration 4'
expect_exit 0 run_in mixed --ckpt-step 2
expect_same "mixed/save/$LAST" "adam/save/$LAST"

# The other programs, and runs that need only weights.
for folder in adam adam.weights; do
  expect_exit 0 mtl-eval --load $folder/save --data-path c_text_document --seq-length 32 --json
  sed -E 's/adam(.weights)?//; /seconds|per_second/d' out >$folder.eval
  expect_exit 0 mtl-generate --load $folder/save --ids --prompt '1 2 3' --max-new-tokens 8 --greedy
  cp out $folder.generated
  expect_exit 0 run_in $folder.tuned --load $folder/save --finetune
  expect_exit 0 run_in $folder.read --load $folder/save --skip-train
  sed -n '/ validation loss/p' out >$folder.losses
  [ -s $folder.losses ] || fail "$folder: --skip-train prints no loss"
done
expect_same adam.weights.eval adam.eval
expect_same adam.weights.generated adam.generated
expect_same adam.weights.losses adam.losses
expect_same "adam.weights.tuned/save/$LAST" "adam.tuned/save/$LAST"
expect_exit 0 mtl-convert --load adam.weights/save --save megatron --to megatron --ckpt-format torch_dist
[ -d megatron/release ] || fail 'weights alone are not a release'

# Old checkpoints go, and the best one stays, as with states.
expect_exit 0 run_in rotated --no-save-optim --keep-last 2 --keep-best --full-validation --eval-interval 2 --lr 10
[ "$(find rotated/save -maxdepth 1 -name 'iter_*' | wc -l)" -eq 3 ] || fail "keeps $(ls rotated/save)"
[ -e "$(printf 'rotated/save/iter_%07d' "$(<rotated/save/best_checkpointed_iteration.txt)")" ] || fail 'the best checkpoint is lost'
finish
