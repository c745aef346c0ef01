#!/bin/bash
# A fault of one rank ends the job on all of them: with that rank's message, within seconds, and saved, so that nothing
# of the training is repeated.
# shellcheck disable=SC2034  # LENGTH and LAST are for the files that are sourced
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/train_runs.sh"
source "$(dirname "$0")/ranks_runs.sh"
cd "$WORK" || exit 1
preprocess "$CORPUS" c
LAST=iter_0000060/shard_00000.safetensors
# Far more iterations than will be reached before the fault; the learning rate does not depend on their number.
ENDLESS=(--train-iters 20000 --lr-decay-iters 60 --save-interval 100000 --eval-interval 100000 --log-interval 10)

# own_data NAME: rank 1 of the job reads token files of its own, which can break alone.
own_data() {
  rm -rf other
  mkdir -p other "$1"
  cp ../c_text_document.* other
  ln -s "../$1" other
}

# break_tokens FILE: from now on every token is out of range.
break_tokens() {
  local size
  size=$(stat -c %s "$1")
  head -c "$size" /dev/zero | tr '\0' '\377' | dd of="$1" conv=notrunc status=none
}

# ended_saved NAME TEXT: one message, of rank 1; saved after the last step that all ranks made.
ended_saved() {
  expect_count 1 "$1.err" "^mtl-train: rank 0 \($HOST\): on rank 1: $2"
  expect_count 1 "$1.err" '^mtl-train: rank '
  expect_count 1 "$1.err" '^mtl-train: saved '
  [ "$(newest_of "$1" | wc -l)" -eq 1 ] || fail "$1: not saved"
}

# same_from_there NAME: the same command continues from the saved iteration, and ends as if nothing had happened.
same_from_there() {
  local end
  end=$(($(<"$1/save/latest_checkpointed_iteration.txt") + 7))
  LENGTH=("${ENDLESS[@]}" --exit-interval "$end")
  rm -rf whole
  expect_exit 0 run_in whole
  expect_exit 0 run_in "$1"
  LAST=$(printf 'iter_%07d/shard_00000.safetensors' "$end")
  same_run "$1" whole "$1"
}

# A token out of range in the training data.
for layout in tp pp dp; do
  enter_layout $layout
  LENGTH=("${ENDLESS[@]}")
  own_data token
  astray 1 'cd other' start_job token
  wait_until token.out ' iteration '
  break_tokens other/c_text_document.bin
  job_ends token 65 10
  ended_saved token 'c_text_document'
  same_from_there token
done

# A save takes several times the communication timeout: slow storage is named, and the save succeeds.
LENGTH=(--train-iters 4 --save-interval 2 --eval-interval 100 --log-interval 1 --distributed-timeout-minutes 0.04)
LAST=iter_0000004/shard_00000.safetensors
enter_layout dp
rm -rf whole
expect_exit 0 run_in whole --distributed-timeout-minutes 5
for rank in 0 1; do
  rm -rf slow
  began=$SECONDS
  astray $rank 'export MTL_FAULT=slow:1' expect_exit 0 run_in slow
  [ $((SECONDS - began)) -ge 10 ] || fail "slow storage took only $((SECONDS - began)) s"
  expect_text "$WORK/err" "warning: slow storage: waiting since .* for rank $rank \($HOST\) writes slow/save/iter_.*MB/s"
  cp "$WORK/err" err
  same_as_whole slow "rank $rank on slow storage"
done
finish
