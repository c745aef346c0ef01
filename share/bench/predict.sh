#!/usr/bin/env bash
# Compares steps of two ranks with those that mtl-topo time predicts from a profile of one rank, taken while another
# process trains on the other core. Usage: predict.sh BIN. MTL_BENCH_ROUNDS rounds (3): a profile, a prediction, a run.
# MTL_BENCH_QUICK=1 runs one round of two layouts, as a smoke test.
set -euo pipefail
quick=${MTL_BENCH_QUICK:-}
[ -z "$quick" ] || : "${MTL_BENCH_ROUNDS:=1}"
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh" "$1"
# shellcheck source-path=SCRIPTDIR source=two_ranks.sh
. "$(dirname "$0")/two_ranks.sh"
[ -x "$bin/mtl_bench_ranks" ] || { echo "predict: not measured (no $bin/mtl_bench_ranks; ninja mtl_bench_ranks builds it)" >&2; exit 0; }
echo "machine: $(machine), 2 ranks x 1 thread, each bound to a core; $(mpirun --version | head -1); $("$bin/mtl-train" --version | head -1)"

mpirun -n 2 --bind-to core --map-by core "$bin/mtl_bench_ranks" links > "$work/links"
gbs=$(field inside_gbs < "$work/links") us=$(field inside_us < "$work/links")
echo "links: $gbs GB/s, $us us, measured by all-reduces"

no_dropout=(--hidden-dropout 0 --attention-dropout 0)
run_flags=(--tokenizer-type NullTokenizer --mock-data --lr 1e-4 "${no_dropout[@]}" --eval-iters 0 --log-interval 1
  --threads 1 --peak-tflops 1)
sizes=()
set_model() {  # LAYERS WIDTH HEADS LENGTH [VOCABULARY]
  sizes=(--num-layers "$1" --hidden-size "$2" --num-attention-heads "$3" --seq-length "$4" --max-position-embeddings "$4"
    --vocab-size "${5:-2000}")
}

# profiled STEPS: flags that record all steps but the first two.
profiled() { echo --profile --profile-step-start 2 --profile-step-end "$1" --train-iters "$1"; }
# mean_ms PROFILE: milliseconds of the mean step, as the prediction is one.
mean_ms() { awk -F'[:,]' '/"steps"/ {steps = $2} /"ms"/ {print $2 / steps; exit}' "$work/$1.json"; }
# per_step FILE PHASE: milliseconds per step of a phase in a profile.
per_step() {
  awk -F'[:,]' -v phase="\"$2\"" '/"steps"/ {steps = $2} $1 ~ /"phase"/ {inside = index($2, phase)} inside && /"ms"/ {ms = $2; inside = 0}
    END {print ms / steps}' "$1"
}

# layout TITLE STEPS BATCH MICRO FLAG...: prints a row. Errors are of the predicted step in percent of the measured one,
# and of the predicted wait in percent of the measured step. Waits are those of the average rank for anything from the
# other one. The ratio compares tokens/s with those of two independent processes, as in ranks.sh.
layout() {
  local title=$1 steps=$2 batch=$3 micro=$4 each=$((($3 + 1) / 2)) alone_micro ms predicted wait predicted_wait alone
  shift 4
  alone_micro=$((each < 4 ? each : 4))
  rm -f "$work/row"
  for _ in $(seq "$rounds"); do
    rm -rf "$work"/alone* "$work"/run*
    # shellcheck disable=SC2046 # the flags are words
    on_each_core "$bin/mtl-train" "${sizes[@]}" "${run_flags[@]}" --global-batch-size $each --micro-batch-size $alone_micro \
      $(profiled "$steps") --profile-dir "$work/alone@"
    "$bin/mtl-topo" time --profile "$work/alone0/rank0.json" --world-size 2 --inside-gbs "$gbs" --inside-us "$us" \
      "${sizes[@]}" "${no_dropout[@]}" --global-batch-size "$batch" --micro-batch-size "$micro" "$@" --json > "$work/time.json"
    # shellcheck disable=SC2046
    quietly run on_two_cores "$bin/mtl-train" "${sizes[@]}" "${run_flags[@]}" --global-batch-size "$batch" \
      --micro-batch-size "$micro" $(profiled "$steps") --profile-ranks 0 1 --profile-dir "$work/run" "$@"
    ms=$(mean_ms run/rank0) predicted=$(field step_ms < "$work/time.json")
    predicted_wait=$(awk -F'[:,]' '
      /"message_wait_ms"|"idle_ms"|^ *"(data|tensor|context|embedding|pipeline)"/ {sum += $2} /"idle_ms"/ {++stages} END {print sum / stages}' "$work/time.json")
    wait=$(printf '%s\n' "$(per_step "$work/run/rank0.json" communication)" "$(per_step "$work/run/rank1.json" communication)" |
      awk '{sum += $1} END {print sum / 2}')
    alone=$({ mean_ms alone0/rank0; mean_ms alone1/rank0; } | awk -v tokens="$((each * length))" '{sum += tokens / $1 * 1e3} END {print sum}')
    awk -v ms="$ms" -v predicted="$predicted" -v wait="$wait" -v predicted_wait="$predicted_wait" -v alone="$alone" \
      -v tokens="$((batch * length))" 'BEGIN {
        print ms, predicted, 100 * (predicted / ms - 1), wait, predicted_wait, 100 * (predicted_wait - wait) / ms,
          tokens / ms * 1e3 / alone, tokens / predicted * 1e3 / alone}' >> "$work/row"
  done
  of() { cut -d' ' -f"$1" "$work/row" | "${2:-median}"; }
  printf '%-34s %9.1f %9.1f %+6.1f%% %5.0f..%-+5.0f %8.1f %9.1f %+6.1f%% %8.2f %.2f-%.2f %9.2f\n' "$title" "$(of 1)" "$(of 2)" \
    "$(of 3)" "$(of 3 least)" "$(of 3 most)" "$(of 4)" "$(of 5)" "$(of 6)" "$(of 7)" "$(of 7 least)" "$(of 7 most)" "$(of 8)"
  printf '%s\t%s\t%s\t%s\n' "$title" "$(of 7 least)" "$(of 7 most)" "$(of 8)" >> "$work/ratios"
}

heading() {
  printf '\n%-34s %9s %9s %7s %-12s %8s %9s %7s %8s %-9s %9s\n' "$1" "step, ms" predicted error "   range" "wait, ms" predicted \
    error ratio range predicted
}

pipelines() {  # STEPS
  layout "PP2 1f1b" "$1" 32 4 --pipeline-model-parallel-size 2
  [ -z "$quick" ] || return 0
  for schedule in gpipe zb-h1 zb-h2 zb-v; do
    layout "PP2 $schedule" "$1" 32 4 --pipeline-model-parallel-size 2 --pipeline-schedule $schedule
  done
  layout "PP2 interleaved" "$1" 32 4 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2
}

# Of pairs of layouts whose measured ratios differ by more than their ranges, how many are predicted in this order.
ordered() {
  awk -F'\t' '{low[NR] = $2; high[NR] = $3; predicted[NR] = $4; name[NR] = $1}
    END {
      for (a = 1; a <= NR; ++a)
        for (b = 1; b <= NR; ++b)
          if (low[a] > high[b]) {
            ++pairs
            if (predicted[a] > predicted[b]) ++right
            else wrong = wrong sprintf("  %s is faster than %s, predicted %.2f and %.2f\n", name[a], name[b], predicted[a], predicted[b])
          }
      printf "\nlayouts whose ratios differ by more than their ranges: %d pairs, %d predicted in their order\n%s", pairs, right, wrong
    }' "$work/ratios"
}

# Stages that share two cores: waits cannot be compared there, but the number of messages can, and the bubble of the
# simulation over free links with that of the schedule as mtl-topo counts it, in FLOPs.
stages() {  # STAGES FLAG...
  local count=$1
  shift
  rm -rf "$work"/shared*
  quietly shared mpirun -n "$count" --oversubscribe --bind-to none "$bin/mtl-train" "${sizes[@]}" "${run_flags[@]}" \
    --global-batch-size 16 --micro-batch-size 1 --pipeline-model-parallel-size "$count" "$@" --train-iters 2 --profile \
    --profile-step-start 1 --profile-step-end 2 --profile-ranks $(seq 0 $((count - 1))) --profile-dir "$work/shared"
  planned=(--world-size "$count" "${sizes[@]}" --global-batch-size 16 --micro-batch-size 1 --pipeline-model-parallel-size "$count" "$@")
  "$bin/mtl-topo" "${planned[@]}" --format json > "$work/layout.json"
  "$bin/mtl-topo" time --profile "$work/alone0/rank0.json" "${planned[@]}" "${no_dropout[@]}" --gpus-per-node "$count" \
    --inside-gbs 1e9 --inside-us 0 --json > "$work/time.json"
  printf '%-44s %9d %9d %12.1f%% %10.1f%%\n' "PP$count $*" "$(grep -c '"name": "send ' "$work/shared/trace.json")" \
    "$(field messages_sent < "$work/time.json" | awk '{sum += $1} END {print sum}')" \
    "$(grep -oE '"bubble": *[-+.0-9eE]+' "$work/layout.json" | head -1 | awk '{print 100 * $2}')" \
    "$(awk -F'[:,]' '/"idle_ms"/ {idle += $2; ++stages} /"compute_ms"/ {work += $2} END {print 100 * idle / work}' "$work/time.json")"
}

steps=14 length=128
set_model 8 256 4 $length
heading "7M: L8 C256 H4 T128, vocabulary 2,000"
layout "DP2" $steps 8 4
if [ -z "$quick" ]; then
  layout "TP2" $steps 8 4 --tensor-model-parallel-size 2
  layout "TP2 SP" $steps 8 4 --tensor-model-parallel-size 2 --sequence-parallel
  for stage in 1 2 3; do
    layout "DP2 ZeRO-$stage" $steps 8 4 --zero-stage $stage
    overlap=(--overlap-grad-reduce --overlap-param-gather)
    [ $stage -lt 3 ] || overlap=(--overlap-grad-reduce)
    layout "DP2 ZeRO-$stage overlapped" $steps 8 4 --zero-stage $stage "${overlap[@]}"
  done
fi
pipelines 8
if [ -z "$quick" ]; then
  length=2048
  set_model 8 256 4 $length
  heading "8M: L8 C256 H4 T2048, vocabulary 2,000"
  for kind in all_gather p2p; do
    layout "CP2 $kind" 6 1 1 --context-parallel-size 2 --cp-comm-type $kind
  done
fi
ordered
[ -z "$quick" ] || exit 0

set_model 16 256 4 128 100  # so few tokens that the last stage has no more work than the others
rm -rf "$work"/alone*
# shellcheck disable=SC2046
on_each_core "$bin/mtl-train" "${sizes[@]}" "${run_flags[@]}" --global-batch-size 8 --micro-batch-size 1 $(profiled 6) \
  --profile-dir "$work/alone@"
printf '\n%-44s %9s %9s %13s %11s\n' "16 layers, 16 micro-batches" messages predicted "bubble, FLOPs" "simulated"
for count in 4 8; do
  for schedule in 1f1b gpipe zb-h1 zb-h2 zb-v; do stages $count --pipeline-schedule $schedule; done
  stages $count --num-virtual-stages-per-pipeline-rank 2
done
