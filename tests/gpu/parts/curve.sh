# shellcheck shell=bash disable=SC2154 # variables of ../run
# GPT-2 124M with dropout, one 1,024-token sequence per step. Compares the losses with those stored for the same command
# on a CPU: curve/README.md. Weights are initialized on the host, and dropout draws the same bits everywhere.

# curve_near STEPS BOUND: compares the first STEPS losses on the GPU in fp32.
curve_near() {
  losses "$here/curve/cpu.jsonl" | head -n "$1" >"$work/expected"
  losses "$work/curve.jsonl" | head -n "$1" >"$work/actual"
  check curve "fp32: $1 losses as the CPU's" "largest difference $(mtl_compare difference "$work/expected" "$work/actual" 2>&1 | head -n 1)" \
    mtl_compare near "$work/expected" "$work/actual" --relative "$2" --count "$1"
}
# mean_difference FILE OTHER: prints the mean loss difference. Rejects values that are not finite.
mean_difference() {
  mtl_compare difference "$1" "$2" >/dev/null &&
    paste "$1" "$2" | awk '{sum += $4 - $2} END {mean = sum / NR; print mean < 0 ? -mean : mean}'
}

part_curve() {
  local steps mean model=(--model gpt2-124m --seq-length 1024 --micro-batch-size 1 --global-batch-size 1 --train-iters 200
    --lr-warmup-iters 20)
  steps=$(losses "$here/curve/cpu.jsonl" | wc -l)
  [ "${MTL_GPU_TEST_STEPS:-$steps}" -ge "$steps" ] || steps=$MTL_GPU_TEST_STEPS
  model+=(--exit-interval "$steps")
  check curve "token files" "" tokens || return
  if check curve "fp32, $steps steps" "" training cuda curve "${model[@]}"; then
    curve_near $((steps < 20 ? steps : 20)) 1e-5
    # Rounding errors grow from step to step: on a CPU, two tensor-parallel ranks differ from one by up to 1e-3 in 100
    # steps, and by up to 4.6e-3 in 200.
    [ "$steps" -le 20 ] || curve_near $((steps < 100 ? steps : 100)) 1e-3
    [ "$steps" -le 100 ] || curve_near "$steps" 1e-2
  fi
  check curve "bf16, $steps steps" "" training cuda curve_bf16 "${model[@]}" --bf16 || return
  losses "$here/curve/cpu.jsonl" | head -n "$steps" >"$work/expected"
  losses "$work/curve_bf16.jsonl" >"$work/actual"
  mean=$(mean_difference "$work/expected" "$work/actual" 2>&1)
  check curve "bf16: mean difference under 0.01" "$mean" mtl_compare below "$mean" 0.01
}
