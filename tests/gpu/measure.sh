#!/usr/bin/env bash
# Measures kernels and training on a GPU, from the unpacked archive, for a machine that is available for 15 minutes:
#   measure.sh first     checks of the kernels, then rows and attention: 300 s at most
#   measure.sh second    cross-entropy, memory, matrix products, training and its profile: 310 s at most
#   measure.sh PART      one part, without a limit, on stdout
# Each part has its own limit, and is cut when that is over. Its output is in OUT/PART.txt and OUT/PART.err (OUT: the
# current folder) before the next one starts. A line for each part at the end; exit 0 if every part ran to its end.
# MTL_GPU_TEST_DEVICE=cpu rehearses: the CPU takes the GPU's place, and sizes are tiny. README.md says what parts print.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-$PWD}
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 1
# shellcheck source-path=SCRIPTDIR source=environment.sh
. "$here/environment.sh"
gpu=${MTL_GPU_TEST_DEVICE:-cuda}
size=() cube=8192 models="124m 1558m" steps=40
[ "$gpu" = cuda ] || { size=(tiny) cube=256 models=tiny steps=4; }

# measure PART
measure() {
  case $1 in
    checks)
      local families failed=0
      for families in 'norm|residual|cross_entropy' gemm attention; do  # attention takes longest
        MTL_GPU_TEST_FAMILIES=$families OUT=$out "$here/run" kernels || failed=1
      done
      return $failed ;;
    rows | cross_entropy | gemm) mtl_bench_kernels "$gpu" "$1" "${size[@]}" ;;
    attention) mtl_bench_attention "$gpu" attention "${size[@]}" ;;
    memory)
      if command -v nvidia-smi >/dev/null; then nvidia-smi -q -d CLOCK,POWER,TEMPERATURE,PERFORMANCE; fi
      mtl_bench_kernels "$gpu" memory "${size[@]}" && mtl_bench_peaks "$gpu" "$cube" ;;
    training)
      MTL_BENCH_DEVICE=$gpu MTL_BENCH_MODELS=$models MTL_BENCH_STEPS=$steps MTL_BENCH_ROUNDS=1 MTL_BENCH_LAUNCHES=1 \
        MTL_PEER_PYTHON=none bash "$here/share/bench/gpu.sh" "$here/bin" "$out/training" ;;
    *)
      echo "measure.sh: '$1' is not a part; choose first, second, checks, rows, attention, cross_entropy, memory, gemm or training" >&2
      return 2 ;;
  esac
}

# What each file begins with.
header() {
  echo "commit $(cat "$here/COMMIT"), $(mtl-train --version | head -n 1), $(date -u +%FT%TZ)"
  if command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,power.draw,power.limit,temperature.gpu --format=csv
  else
    echo "device $gpu, no nvidia-smi"
  fi
  echo
}
summary=()
incomplete=0
# part NAME SECONDS: runs a part for at most so long.
part() {
  local name=$1 seconds=$2 begin=$SECONDS code outcome=complete
  header >"$out/$name.txt" 2>&1
  timeout -k 5 "$seconds" bash "$here/measure.sh" "$name" >>"$out/$name.txt" 2>"$out/$name.err"
  code=$?
  case $code in
    0) ;;
    124 | 137) outcome="cut after $seconds s" ;;
    *) outcome="failed, exit $code: $(tail -n 1 "$out/$name.err")" ;;
  esac
  [ $code -eq 0 ] || incomplete=1
  summary+=("$(printf '%-14s %4d s  %s' "$name" $((SECONDS - begin)) "$outcome")")
}

case ${1:-} in
  first)
    part checks 60
    part rows 90
    part attention 150
    ;;
  second)
    part cross_entropy 30
    part memory 30
    part gemm 60
    part training 190
    ;;
  *)
    measure "${1:-}"
    exit
    ;;
esac
printf '%s\n' "${summary[@]}"
echo "files: $out"
exit $incomplete
