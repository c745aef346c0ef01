# shellcheck shell=bash disable=SC2154 # variables of ../run
# Measured choices (GEMM algorithms, attention), which checkpoints keep; attention by cuDNN; the profile's tables.

# second_half OF: prints the last 10 losses when OF's run is resumed from its checkpoint without a choices cache.
second_half() {
  rm -rf "$work/$1.ck/iter_0000020" && echo 10 >"$work/$1.ck/latest_checkpointed_iteration.txt" &&
    training cuda "$1_resumed" "${small_model[@]}" --bf16 --save "$work/$1.ck" --tuning-cache none
}
# has_profile DIR: the tables have operators with times, and on a GPU also kernels.
has_profile() {
  grep -qE '^gemm +[0-9.]+ +[0-9.]+' "$1/rank0.txt" && grep -q '"name": "gemm"' "$1/trace.json" || return 1
  [ "$gpu" != cuda ] || grep -q '"kernel": ' "$1/rank0.json"
}

part_choices() {
  check choices "token files" "" tokens || return
  check choices "bf16, no cache of choices" "" training cuda chosen "${small_model[@]}" --bf16 --save "$work/chosen.ck" \
    --save-interval 10 --tuning-cache none || return
  check choices "resumed, no cache of choices" "" second_half chosen &&
    near chosen chosen_resumed 10 0 "the same losses to the last digit" choices
  check choices "bf16, a cache of choices" "" training cuda cached "${small_model[@]}" --bf16 --tuning-cache "$work/choices.json" &&
    check choices "with its choices and a profile" "" training cuda profiled "${small_model[@]}" --bf16 \
      --tuning-cache "$work/choices.json" --profile --profile-dir "$work/profile" &&
    near cached profiled 20 0 "the same losses to the last digit" choices &&
    check choices "tables and trace of the profile" "" has_profile "$work/profile"
  check choices "attention by this library" "" training cuda flash "${small_model[@]}" --bf16 --attention-dropout 0 \
    --attention-backend flash || return
  check choices "attention without wgmma" "" training cuda tiles "${small_model[@]}" --bf16 --attention-dropout 0 \
    --attention-backend tiles && near flash tiles 20 2e-2 "  losses near" choices
  check choices "attention without tensor cores" "" training cuda unfused "${small_model[@]}" --bf16 --attention-dropout 0 \
    --attention-backend unfused && near flash unfused 20 2e-2 "  losses near" choices
  if training cuda fused "${small_model[@]}" --bf16 --attention-dropout 0 --attention-backend fused >"$work/log" 2>&1; then
    near flash fused 20 2e-2 "attention by cuDNN: losses near" choices
  elif grep -qE 'libcudnn|built without cuDNN' "$work/log"; then
    result choices "attention by cuDNN" skipped "cuDNN is missing"
  else
    result choices "attention by cuDNN" failed "$(tail -n 1 "$work/log")"
  fi
}
