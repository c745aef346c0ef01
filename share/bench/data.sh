#!/usr/bin/env bash
# Measures the data loader: the time until the order of a run is ready, compared with one pass of its random numbers, a
# lower bound, and with NumPy and Megatron-LM's own helpers if a Python has them (MTL_PEER_PYTHON, else python3); the
# order that is computed instead of stored; blends; samples per second into batches.
# Usage: data.sh BIN. MTL_BENCH_QUICK=1 runs small sizes only, as a smoke test.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh" "$1"
python=${MTL_PEER_PYTHON:-python3}
bench=$bin/mtl_bench_data
[ -x "$bench" ] || { echo "data: not measured (no $bench; ninja mtl_bench_data builds it)" >&2; exit 0; }
million=1000000
documents=$((20 * million)) all=488281250 half=$((100 * million)) few=$((4 * million))
if [ -n "${MTL_BENCH_QUICK:-}" ]; then documents=$((documents / 100)) all=$((all / 100)) half=$((half / 100)) few=$((few / 100)); fi
echo "machine: $(machine); $("$bin/mtl-train" --version | head -1)"

value() { field "$2" <"$work/$1"; }  # FILE NAME

# SAMPLES DOCUMENTS CORES NAME
order() {
  taskset -c "$(cores "$3")" "$bench" order "$1" "$2" 2048 >"$work/order"
  printf '%-44s %7.2f s  %5.2f GiB  mt19937 alone: std %.2f s, ours %.2f s; a look-up %.1f us\n' "$4" "$(value order seconds)" \
    "$(value order peak_gib)" "$(value order mt19937_seconds)" "$(value order mt19937_blocks_seconds)" "$(value order look_up_us)"
}
# The first N processors that this process may use.
cores() { taskset -cp $$ | sed 's/.*: //' | tr , '\n' | awk -F- -v n="$1" '{for (c = $1; c <= $NF && n > 0; ++c) {printf "%s%d", s, c; s = ","; --n}}'; }

order "$half" "$few" 1 "order of $half samples, 1 core"
order "$all" "$documents" 2 "order of $all samples, 2 cores"
if "$python" -c 'import numpy' 2>/dev/null; then
  taskset -c "$(cores 1)" "$python" "$share/bench/order_peer.py" "$half" "$few" 2048 || true
else
  echo "peer: none ($python has no numpy; set MTL_PEER_PYTHON)"
fi

# The tool itself on token files of a trillion tokens, with a sparse .bin.
"$bench" files "$work/trillion" "$documents" $((all * 2048 + all / 2))
for kind in megatron feistel; do
  /usr/bin/env bash -c "TIMEFORMAT=%R; time \"$bin/mtl-data\" order --data-path \"$work/trillion\" --split 100,0,0 --seq-length 2048 \
    --train-samples $all --data-order $kind 2>/dev/null | head -1 >/dev/null" 2>"$work/seconds"
  printf '%-44s %7.2f s\n' "mtl-data order, $kind, the first sample" "$(cat "$work/seconds")"
done
"$bench" feistel "$work/trillion" "$all" >"$work/feistel"
printf '%-44s %7.3f s  %.1f MiB of memory, %.1f MiB of the .idx mapped\n' 'opening the files and the feistel order' \
  "$(value feistel seconds)" "$(value feistel memory_mib)" "$(value feistel mapped_mib)"

for datasets in 4 32; do
  "$bench" blend "$datasets" "$half" >"$work/blend"
  printf '%-44s %7.2f s  %5.2f GiB  a look-up %.1f us\n' "blend of $datasets data sets, $half samples" "$(value blend seconds)" \
    "$(value blend peak_gib)" "$(value blend look_up_us)"
done

make_text
make_tokens gpt2 "$share/gpt2/vocab.json" "$share/gpt2/merges.txt" 1
for length in 128 1024; do
  "$bench" feed "$work/gpt2_text_document" "$length" 200000 >"$work/feed"
  printf '%-44s %9.0f samples/s, %.1f M tokens/s\n' "samples of $length tokens into batches" "$(value feed samples_per_second)" \
    "$(value feed tokens_per_second | awk '{print $1 / 1e6}')"
done
