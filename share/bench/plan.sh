#!/usr/bin/env bash
# Compares what mtl-topo time says of published runs with what was published: published.txt has the runs and their sources.
# Usage: plan.sh BIN. It needs no GPU and takes less than a minute. The residual is the planned time minus the published
# one, in percent of the published: below 0, the plan is faster. Efficiencies are those of share/hardware from kernels'
# published rates, and are not fitted to any row, so the residuals say what a plan leaves out.
#
# Then it prints both numbers of two statements about Megatron-LM's GPT-2 345M on two GPUs: tensor parallelism saves more
# memory, and the pipeline communicates less and processes more samples per second.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh" "$1"

# value FLAG WORD...: the word after FLAG.
value() {
  local flag=$1
  shift
  while [ $# -gt 1 ]; do
    [ "$1" != "$flag" ] || { echo "$2"; return; }
    shift
  done
}

# flops_per_token WORD...: as Megatron-LM counts them, in 10^12.
flops_per_token() {
  awk -v l="$(value --num-layers "$@")" -v h="$(value --hidden-size "$@")" -v s="$(value --seq-length "$@")" \
    -v v="$(value --vocab-size "$@")" 'BEGIN { print (72 * l * h * h + 6 * h * v + 12 * l * h * s) / 1e12 }'
}

# first NAME: the first number of this name in $work/timed.json.
first() { field "$1" < "$work/timed.json" | awk "NR == 1"; }

"$bin/mtl-topo" --version
printf '%-42s %10s %10s %-8s %9s %10s\n' run published planned '' residual memory
while IFS='|' read -r run published unit devices flags; do
  case $run in '#'* | '') continue ;; esac
  read -r published unit <<< "$published $unit"
  read -ra words <<< "$devices $flags"
  "$bin/mtl-topo" time "${words[@]}" --efficiency published --json > "$work/timed.json" 2> "$work/err" ||
    { echo "plan.sh: $run" >&2; cat "$work/err" >&2; exit 1; }
  rate=$(first tokens_per_second | awk -v n="$(value --world-size "${words[@]}")" '{ print $1 / n }')
  case $unit in
    tok/s) planned=$rate ;;
    ms) planned=$(first step_ms) ;;
    TFLOP/s) planned=$(flops_per_token "${words[@]}" | awk -v rate="$rate" '{ print $1 * rate }') ;;
    *) echo "plan.sh: $run: the unit '$unit' is not tok/s, ms or TFLOP/s" >&2; exit 1 ;;
  esac
  capacity=$(first device_bytes) bytes=$(sed -n '/"layout"/,$p' "$work/timed.json" | field device_bytes | awk "NR == 1")
  echo "$published $planned $capacity $bytes" | awk -v run="${run% }" -v unit="$unit" '{
    time = unit == "ms" ? $2 / $1 : $1 / $2
    number = $1 < 1000 ? "%10.1f" : "%10.0f"
    printf "%-42s " number " " number " %-8s %+8.1f%% %6.1f GiB%s\n", run, $1, $2, unit, 100 * (time - 1), $4 / 2 ^ 30,
      ($4 > $3) ? ", does not fit" : "" }'
done < "$share/bench/published.txt"

echo
echo "GPT-2 345M on 2 GPUs, 16 micro-batches of 4 samples; memory of the largest rank, bytes that a rank sends in a step:"
model=(--model gpt2-345m --world-size 2 --bf16 --micro-batch-size 4 --global-batch-size 64)
for gpu in A100-40GB A100-PCIe; do
  for kind in tensor pipeline; do
    layout=("${model[@]}" "--$kind-model-parallel-size" 2)
    "$bin/mtl-topo" time "${layout[@]}" --hardware $gpu --efficiency published --json > "$work/timed.json"
    bytes=$(sed -n '/"layout"/,$p' "$work/timed.json" | field device_bytes | awk "NR == 1")
    sent=$("$bin/mtl-topo" "${layout[@]}" --format json | grep -oE '"sent_bytes_per_step": \{[^}]*\}' |
      sed -E 's/[^0-9.:]//g; s/:/ /g' | awk '{ sum = 0; for (i = 1; i <= NF; ++i) sum += $i; print sum }' | most)
    echo "$bytes $sent $(first step_ms)" | awk -v kind="$gpu, $kind 2" '{
      printf "%-42s %6.2f GiB %8.1f MiB sent %6.1f samples/s\n", kind, $1 / 2 ^ 30, $2 / 2 ^ 20, 64 / ($3 * 1e-3) }'
  done
done
