#!/usr/bin/env bash
# What --rerun-mode costs a run of GPT-2 124M (T 1024, fp32): the median iteration in each mode, of one sample, which is
# the least that digests of all gradients, weights and states can be compared with. Usage: rerun.sh BIN.
# MTL_BENCH_THREADS threads (2); MTL_BENCH_ROUNDS rounds (3), in which the modes alternate. MTL_BENCH_QUICK=1 makes few
# iterations of a small model, as a smoke test.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$here/lib.sh" "$1"
trap 'rm -rf "$work"' EXIT
threads=${MTL_BENCH_THREADS:-2}
iterations=7 layers=12 width=768 heads=12 length=1024
[ -z "${MTL_BENCH_QUICK:-}" ] || iterations=4 layers=2 width=64 heads=2 length=64 rounds=1
echo "machine: $(machine), $threads threads; $("$bin/mtl-train" --version | head -1)"
make_text
make_tokens gpt2 "$share/gpt2/vocab.json" "$share/gpt2/merges.txt" "$threads"
modes=(disabled validate_results report_determinism_stats)
for _ in $(seq "$rounds"); do
  for mode in "${modes[@]}"; do
    "$bin/mtl-train" --num-layers "$layers" --hidden-size "$width" --num-attention-heads "$heads" \
      --seq-length "$length" --max-position-embeddings "$length" --micro-batch-size 1 --global-batch-size 1 \
      --train-iters "$iterations" --lr 1e-4 --hidden-dropout 0 --attention-dropout 0 --eval-iters 0 --log-interval 1 \
      --peak-tflops 1 --threads "$threads" --vocab-file "$share/gpt2/vocab.json" --merge-file "$share/gpt2/merges.txt" \
      --data-path "$work/gpt2_text_document" --rerun-mode "$mode" 2> "$work/messages" |
      sed -n 's/.*elapsed time per iteration (ms): \([0-9.]*\).*/\1/p' | tail -n +3 | median >> "$work/$mode" ||
      { cat "$work/messages" >&2 && exit 1; }
  done
done
for mode in "${modes[@]}"; do
  paste "$work/$mode" "$work/disabled" | awk '{print $1 / $2}' > "$work/ratio"
  printf '%-26s %8.0f ms, %.3f of disabled\n' "$mode" "$(median < "$work/$mode")" \
    "$(median < "$work/ratio")"
done
