#!/bin/bash
# If one rank has a fault, the job ends on all ranks within seconds. It prints that rank's message and saves a
# checkpoint, so that no training is lost.
# shellcheck disable=SC2034 # the sourced files use LENGTH and LAST
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/train_runs.sh"
source "$(dirname "$0")/ranks_runs.sh"
cd "$WORK" || exit 1
preprocess "$CORPUS" c
LAST=iter_0000060/shard_00000.safetensors
# Far more iterations than the job completes before the fault. The learning rate does not depend on this number.
ENDLESS=(--train-iters 20000 --lr-decay-iters 60 --save-interval 100000 --eval-interval 100000 --log-interval 10)

# prepare_other NAME: makes the folder `other` for rank 1 in the job NAME, with its own copy of the token files.
prepare_other() {
  rm -rf other
  mkdir -p other "$1"
  cp ../c_text_document.* other
  ln -s "../$1" other
}

# break_tokens FILE [PERCENT]: replaces every token after the first PERCENT of FILE, 0 by default, by an id out of
# range.
break_tokens() {
  local size begin
  size=$(stat -c %s "$1")
  begin=$((size * ${2:-0} / 100 / 2 * 2))
  head -c $((size - begin)) /dev/zero | tr '\0' '\377' | dd of="$1" bs=1M oflag=seek_bytes seek=$begin conv=notrunc status=none
}

# expect_one_save NAME TEXT: the job printed one error, from rank 1, and saved one checkpoint.
expect_one_save() {
  expect_count 1 "$1.err" "^mtl-train: rank 0 \($HOST\): on rank 1: $2"
  expect_count 1 "$1.err" '^mtl-train: rank '
  expect_count 1 "$1.err" '^mtl-train: saved '
  [ "$(newest_of "$1" | wc -l)" -eq 1 ] || fail "$1: no checkpoint was saved"
}

# continues_as_whole NAME: the same command continues from the saved iteration and ends like an uninterrupted run.
continues_as_whole() {
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
  prepare_other token
  with_rank_setup 1 'cd other' start_job token
  wait_until token.out ' iteration '
  break_tokens other/c_text_document.bin
  job_ends token 65 10
  expect_one_save token 'c_text_document'
  continues_as_whole token
done

# An allocation fails on one rank. In the middle of an update, no rank has a state to save: then again.
enter_layout tp-pp
LENGTH=("${ENDLESS[@]}")
for _ in 1 2 3; do
  rm -rf memory "$WORK/no-memory"
  with_rank_setup 1 "export LD_PRELOAD=$BIN/mtl_no_memory.so MTL_TEST_NO_MEMORY=$WORK/no-memory" start_job memory
  wait_until memory.out ' iteration '
  touch "$WORK/no-memory"
  job_ends memory 1 10
  [ -n "$(newest_of memory)" ] && break
done
expect_one_save memory 'out of memory$'
continues_as_whole memory

# A token out of range in the final validation.
for layout in tp dp; do
  enter_layout $layout
  LENGTH=(--train-iters 160 --save-interval 100000 --eval-interval 100000 --log-interval 1)
  LAST=iter_0000160/shard_00000.safetensors
  prepare_other final
  with_rank_setup 1 'cd other' start_job final
  wait_until final.out ' iteration '
  break_tokens other/c_text_document.bin 92
  job_ends final 65 60  # 160 iterations take most of the time
  expect_one_save final 'c_text_document'
  rm -rf whole
  expect_exit 0 run_in whole
  expect_exit 0 run_in final
  same_run final whole "$layout: the final validation"
done

# One rank's token files shrink.
for layout in tp dp; do
  enter_layout $layout
  LENGTH=("${ENDLESS[@]}")
  prepare_other short
  with_rank_setup 1 'cd other' start_job short
  wait_until short.out ' iteration '
  truncate -s 100 other/c_text_document.bin
  job_ends short 74 10
  expect_one_save short 'c_text_document.bin was truncated while it was in use'
  continues_as_whole short
done

# A save takes several times the communication timeout. Slow storage is reported, and the save succeeds.
LENGTH=(--train-iters 4 --save-interval 2 --eval-interval 100 --log-interval 1 --distributed-timeout-minutes 0.08)
LAST=iter_0000004/shard_00000.safetensors
enter_layout dp
rm -rf whole
expect_exit 0 run_in whole --distributed-timeout-minutes 5
above_0='[0-9.]*[1-9][0-9.]*'
for rank in 0 1; do
  rm -rf slow
  began=$SECONDS
  with_rank_setup $rank 'export MTL_FAULT=slow:1' expect_exit 0 run_in slow
  [ $((SECONDS - began)) -ge 10 ] || fail "slow storage took only $((SECONDS - began)) s"
  expect_text "$WORK/err" "warning: slow storage: waited .* so far: rank $rank \($HOST\) writes slow/save/iter_.*: $above_0 MB in [0-9]+ s \($above_0 MB/s\)$"
  cp "$WORK/err" err
  same_as_whole slow "rank $rank on slow storage"
done
finish
