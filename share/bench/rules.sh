#!/usr/bin/env bash
# Update rules: Newton-Schulz iterations against products alone; a step of Muon against one of AdamW, with the rate of its
# counted FLOPs in the difference; and the loss of both on the same text after equal numbers of tokens and after equal
# times. Usage: rules.sh BIN. MTL_BENCH_THREADS threads (2).
# MTL_BENCH_QUICK=1 runs few steps, as a smoke test.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$here/lib.sh" "$1"
threads=${MTL_BENCH_THREADS:-2}
iterations=300
[ -z "${MTL_BENCH_QUICK:-}" ] || iterations=8
echo "machine: $(machine), $threads threads; $("$bin/mtl-train" --version)"

if [ -x "$bin/mtl_bench_newton_schulz" ]; then
  echo "Newton-Schulz iterations (5), GFLOP/s | their products alone | share"
  "$bin/mtl_bench_newton_schulz" "$threads" > "$work/ns"
  sed -E 's/[{}",:]//g' "$work/ns" | awk '{printf "  %5d x %4d %-9s %7.1f %7.1f %6.2f\n", $2, $4, $6, $8, $10, $8 / $10}'
else
  echo "  Newton-Schulz iterations: not measured (no mtl_bench_newton_schulz)"
fi

make_text
"$bin/mtl-vocab" --quiet --input "$work/text.jsonl" --vocab-size 2000 --output-prefix "$work/small"
make_tokens small "$work/small-vocab.json" "$work/small-merges.txt" "$threads"
# shellcheck disable=SC2054 # the comma belongs to a flag's value
run=("$bin/mtl-train" --quiet --num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128
  --max-position-embeddings 128 --micro-batch-size 16 --global-batch-size 16
  --lr-decay-style cosine --hidden-dropout 0 --attention-dropout 0
  --weight-decay 0.1 --vocab-file "$work/small-vocab.json" --merge-file "$work/small-merges.txt"
  --data-path "$work/small_text_document" --split 95,5,0 --eval-iters 8
  --log-interval 1 --threads "$threads")
# Both have the same rate, and Muon the scale that makes its updates about as large as those of AdamW; neither is tuned.
rule_flags() {
  case $1 in
    adam) echo "--optimizer adam --lr ${MTL_BENCH_ADAM_LR:-2e-3}" ;;
    muon) echo "--optimizer muon --lr ${MTL_BENCH_MUON_LR:-2e-3} --muon-extra-scale-factor 0.2 --muon-momentum 0.95 --muon-nesterov" ;;
  esac
}
# train NAME RULE ITERATIONS: writes the time of a step and the validation losses, four in the run.
train() {
  # shellcheck disable=SC2046 # words
  "${run[@]}" $(rule_flags "$2") --train-iters "$3" --lr-warmup-iters $(($3 / 20)) --eval-interval $((($3 + 3) / 4)) \
    --log-jsonl "$work/$1.jsonl" > /dev/null
  grep '"type": "step"' "$work/$1.jsonl" | field elapsed_ms_per_iteration | tail -n +3 | median > "$work/$1.ms"
  grep '"type": "validation"' "$work/$1.jsonl" | field loss | head -4 > "$work/$1.losses"
}
train adam adam "$iterations"
train muon muon "$iterations"
# shellcheck disable=SC2046 # words
flops=$("${run[@]}" $(rule_flags muon) --train-iters 1 --dry-run | sed -nE "s/.*FLOPs of a rank's update +([0-9.e+]+).*/\1/p")
echo "$(cat "$work/adam.ms") $(cat "$work/muon.ms") $flops" | awk '{
  printf "a step: AdamW %.1f ms, Muon %.1f ms, ratio %.3f; its iterations are %.2f GFLOP: %.0f GFLOP/s in the difference\n",
    $1, $2, $2 / $1, $3 / 1e9, $3 / 1e6 / ($2 - $1)}'
fewer=$(paste "$work/adam.ms" "$work/muon.ms" | awk -v n="$iterations" '{print int(n * $1 / $2)}')
train equal muon "$fewer"
echo "validation losses: AdamW | Muon after as many tokens | Muon after as much time, in a run of $fewer steps"
paste "$work/adam.losses" "$work/muon.losses" "$work/equal.losses" | awk -v n="$iterations" '
  {printf "  %4d of %d steps  %.4f  %.4f  %.4f\n", NR * n / 4, n, $1, $2, $3}'
