# shellcheck shell=bash disable=SC2154 # variables of ../run
# Complete models compared with PyTorch's and transformers' float64, in one process per test: gpt2_model, llama_model,
# family_model and train_trajectory, in fp32, bf16 and fp16. The tolerances are in tests/engine/golden_bounds.h.
part_goldens() {
  local program=mtl_gpu_goldens test tests filter=--source-file='*golden_test.cpp,*trajectory_test.cpp'
  [ "$gpu" = cuda ] || program=mtl_test_engine
  if ! command -v $program >/dev/null; then
    result goldens "$program" skipped "not in PATH"
    return
  fi
  cd "$here/tests" || return 1
  tests=$($program --list-test-cases --no-colors "$filter" | grep -v '^\[doctest\]\|^==')
  [ -n "$tests" ] || result goldens "$program --list-test-cases" failed "lists no test"
  while read -r test; do # a comma would separate filters
    [ -z "$test" ] || check goldens "$test" "" limited $program --no-colors "$filter" --test-case="${test//,/?}" </dev/null
  done <<<"$tests"
}
