#!/usr/bin/env bash
# The start of training GPT-2 124M, in fp32 and bf16: seconds, and user and system time of all threads, of each phase until
# the second step, beside zeros written to as much memory. Figures are medians. Usage: start.sh BIN. MTL_BENCH_THREADS
# threads (2).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$here/lib.sh" "$1"
threads=${MTL_BENCH_THREADS:-2}
if [ ! -x "$bin/mtl_bench_start" ]; then
  echo "the start of training: not measured (no mtl_bench_start)"
  exit
fi
echo "machine: $(machine), $threads threads; $("$bin/mtl-train" --version)"
make_text
make_tokens gpt2 "$share/gpt2/vocab.json" "$share/gpt2/merges.txt" "$threads"
for precision in fp32 bf16; do
  rm -f "$work/start.jsonl"
  for ((round = 0; round < rounds; ++round)); do
    # shellcheck disable=SC2046 # a word or none
    "$bin/mtl_bench_start" "$work/gpt2_text_document" "$threads" $([ $precision = fp32 ] || echo bf16) >> "$work/start.jsonl"
  done
  echo "$precision: phase, seconds | user | system"
  for phase in memset reading memory normals 'first step' 'second step'; do
    grep "\"$phase\"" "$work/start.jsonl" > "$work/phase"
    printf '%s|%s|%s|%s\n' "$phase" "$(field seconds < "$work/phase" | median)" "$(field user < "$work/phase" | median)" \
      "$(field system < "$work/phase" | median)"
  done | awk -F '|' '
    {printf "  %-12s %7.3f %7.3f %7.3f\n", $1, $2, $3, $4; user[$1] = $3; system_[$1] = $4}
    END {
      printf "  until the first step: user %.2f s, system %.2f of that of the memset\n", user["reading"] + user["memory"] + user["normals"],
        (system_["reading"] + system_["memory"] + system_["normals"]) / system_["memset"]
    }'
done
