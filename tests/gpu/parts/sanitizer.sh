# shellcheck shell=bash disable=SC2154 # variables of ../run
# Runs compute-sanitizer on the tests for kernel families whose threads share memory and barriers.

# sanitized TOOL FAMILY: fails if the sanitizer or the tests report anything. Skipped if the sanitizer cannot run.
sanitized() {
  local tool=$1 family=$2 code
  limited "$sanitizer" --tool "$tool" --error-exitcode 99 mtl_gpu_kernels --no-colors --test-case="$family: *" >"$work/log" 2>&1
  code=$?
  if grep -q '^=* ERROR SUMMARY: 0 errors\|RACECHECK SUMMARY: 0 hazards' "$work/log" && [ $code -eq 0 ]; then
    result sanitizer "$tool: $family" ok ""
  elif [ $code -eq 124 ] || grep -q 'SUMMARY: [1-9]\|FAILED\|FATAL' "$work/log"; then
    result sanitizer "$tool: $family" failed "exit $code"
    grep -v '^\[doctest\]' "$work/log" | tail -n 30 | sed 's/^/    /'
  else
    result sanitizer "$tool: $family" skipped "refused, exit $code: $(grep '^=' "$work/log" | grep -v 'COMPUTE-SANITIZER$' | head -n 1 | tr -d =)"
  fi
}

part_sanitizer() {
  local sanitizer family
  sanitizer=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer)
  if [ -z "$sanitizer" ]; then
    result sanitizer "compute-sanitizer" skipped "it is not installed"
    return
  fi
  cd "$here/tests" || return 1
  for family in layernorm adamw cross_entropy attention; do sanitized memcheck $family; done
  for family in layernorm cross_entropy attention; do sanitized racecheck $family; done
  for family in layernorm attention; do sanitized synccheck $family; done
  for family in embedding adamw; do sanitized initcheck $family; done
}
