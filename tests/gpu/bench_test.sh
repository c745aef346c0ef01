#!/usr/bin/env bash
# The programs with which measure.sh times kernels, in tiny sizes on the emulated GPU: every line has positive numbers.
# Usage: bench_test.sh BUILD
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
lines=(83 8) # of the two programs
for program in kernels attention; do
  "$1/bin/mtl_cuda_on_cpu_bench_$program" cuda all tiny >"$work/out"
  awk -v expected="${lines[0]}" '
    / us( |$)/ {
      lines++
      for (i = 2; i <= NF; i++)
        if ($i ~ /^(us|GB\/s|TFLOP\/s|%)$/) {
          numbers++
          if ($(i - 1) !~ /^[0-9.]+(e-[0-9]+)?$/ || $(i - 1) <= 0) failed = 1
        }
    }
    END { exit failed || lines != expected || numbers < 2 * lines - 1 }' "$work/out" ||
    { cat "$work/out"; echo "bench_test.sh: a line is missing or not a number, expected ${lines[0]} lines"; exit 1; }
  lines=("${lines[@]:1}")
done
