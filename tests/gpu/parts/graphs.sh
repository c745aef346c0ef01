# shellcheck shell=bash disable=SC2154 # variables of ../run
# Steps that run as CUDA graphs have the same bits as steps whose kernels are launched one by one.

# graphs_against_launches NAME FLAG...
graphs_against_launches() {
  local name=$1
  shift
  check graphs "$name with graphs" "" training cuda graphs "${small_model[@]}" "$@" || return
  check graphs "$name without" "" training cuda launches "${small_model[@]}" "$@" --no-cuda-graphs || return
  losses "$work/graphs.jsonl" >"$work/a"
  losses "$work/launches.jsonl" >"$work/b"
  check graphs "$name: the same losses to the last digit" "" mtl_compare near "$work/a" "$work/b" --relative 0 --count 20
}

part_graphs() {
  check graphs "token files" "" tokens || return
  graphs_against_launches fp32
  graphs_against_launches "bf16, Llama" --bf16 "${llama_flags[@]}"
  graphs_against_launches fp16 --fp16 --initial-loss-scale 65536
  graphs_against_launches "bf16, layers computed again" --bf16 --recompute-granularity full --recompute-method uniform
}
