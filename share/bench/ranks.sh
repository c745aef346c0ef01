#!/usr/bin/env bash
# Measures parallel layouts: two ranks of one thread compared with two independent processes, the share of
# communication hidden behind computation, the start of many ranks, and loading a checkpoint in another layout.
# Usage: ranks.sh BIN [--json]. MTL_BENCH_ROUNDS rounds (3), each figure alternating with its comparison;
# MTL_BENCH_QUICK=1 runs one round of the small model only, as a smoke test.
set -euo pipefail
quick=${MTL_BENCH_QUICK:-}
[ -z "$quick" ] || : "${MTL_BENCH_ROUNDS:=1}"
json=""
[ "${2:-}" != --json ] || json=yes
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh" "$1"
# shellcheck source-path=SCRIPTDIR source=two_ranks.sh
. "$(dirname "$0")/two_ranks.sh"

# shellcheck disable=SC2059 # takes a format, as printf does
show() { [ -n "$json" ] || printf "$@"; }  # not with --json
# shellcheck disable=SC2059
record() { printf "$2\n" "${@:3}" >> "$work/rows.$1"; }  # LIST FORMAT ARGUMENT...: a JSON object
rows() { touch "$work/rows.$1"; paste -sd, "$work/rows.$1" | sed 's/},{/},\n    {/g'; }
ratio_of() { awk -v a="$1" -v b="$2" 'BEGIN {printf "%.4f\n", a / b}'; }

machine=$(machine)
version=$("$bin/mtl-train" --version | head -1)
mpi=$(mpirun --version | head -1)
show 'machine: %s, 2 ranks x 1 thread, each bound to a core; %s; %s\n' "$machine" "$mpi" "$version"

make_text
make_tokens gpt2 "$share/gpt2/vocab.json" "$share/gpt2/merges.txt" 1
"$bin/mtl-vocab" --quiet --input "$work/text.jsonl" --vocab-size 2000 --output-prefix "$work/small"
make_tokens small "$work/small-vocab.json" "$work/small-merges.txt" 1

# Flags that all runs share. --peak-tflops spares them the measurement at the start.
run_flags=(--lr 1e-4 --weight-decay 0.1 --hidden-dropout 0 --attention-dropout 0 --eval-iters 0 --log-interval 1
  --threads 1 --peak-tflops 1)
common=()
use_tokens() {  # PREFIX VOCAB MERGES
  common=(--vocab-file "$2" --merge-file "$3" --data-path "$work/$1_text_document" "${run_flags[@]}")
}
model=()  # of mtl-train, set by set_model
set_model() {  # LAYERS WIDTH HEADS LENGTH
  model=("${common[@]}" --num-layers "$1" --hidden-size "$2" --num-attention-heads "$3" --seq-length "$4" --max-position-embeddings "$4")
}

two_ranks() { on_two_cores "$bin/mtl-train" "$@"; }

# independent STEPS BATCH: tokens/s of two processes at the same time, each with half of the batch, at most 4 sequences at
# a time. With a batch of one sequence, each has a sequence of its own.
independent() {
  local micro each=$((($2 + 1) / 2))
  micro=$((each < 4 ? each : 4))
  rm -f "$work"/alone[01].jsonl
  on_each_core "$bin/mtl-train" "${model[@]}" --train-iters "$1" --global-batch-size $each --micro-batch-size $micro \
    --log-jsonl "$work/alone@.jsonl" || return 1
  { steady alone0 tokens_per_second; steady alone1 tokens_per_second; } | awk '{sum += $1} END {print sum}'
}

# layout MODEL TITLE STEPS BATCH MICRO FLAG...: prints a row; writes the waits for other ranks, in ms per step, to
# $work/wait.TITLE. The bound of a pipeline is the ratio that its stages' FLOPs and its schedule allow. What is missing to
# the bound is communication that the schedule cannot hide, and stages whose time is not in proportion to their FLOPs. The
# wait is the part of a step for gradient sums, norms and weights. "sent" is what a rank sends in a step, as planned.
layout() {
  local name=$1 title=$2 steps=$3 batch=$4 micro=$5 ours theirs ratio low high bound wait sent
  shift 5
  "$bin/mtl-train" "${model[@]}" --dry-run --json --world-size 2 --global-batch-size "$batch" --micro-batch-size "$micro" \
    "$@" > "$work/plan.json"
  bound=$(field busy < "$work/plan.json" | head -1)
  sent=$(sed -n '/"sent_bytes_per_step"/,/}/p' "$work/plan.json" |
    awk -F': ' '/\}/ {exit} NF == 2 && $2 + 0 > 0 {sum += $2} END {print sum + 0}')
  : > "$work/ours"; : > "$work/theirs"; : > "$work/ratios"; : > "$work/wait.$title"
  for _ in $(seq "$rounds"); do
    rm -f "$work/run.jsonl"
    independent "$steps" "$batch" >> "$work/theirs"
    quietly run two_ranks "${model[@]}" --train-iters "$steps" --global-batch-size "$batch" --micro-batch-size "$micro" \
      --log-jsonl "$work/run.jsonl" "$@"
    steady run tokens_per_second >> "$work/ours"
    steady run communication_wait_ms | sed '/^$/d' >> "$work/wait.$title"
    ratio_of "$(tail -n 1 "$work/ours")" "$(tail -n 1 "$work/theirs")" >> "$work/ratios"
  done
  ours=$(median < "$work/ours") theirs=$(median < "$work/theirs")
  ratio=$(median < "$work/ratios") low=$(least < "$work/ratios") high=$(most < "$work/ratios")
  wait=$(median < "$work/wait.$title")
  show '%-36s %5d %10.0f %12.0f %8.2f   %.2f-%.2f  %6s %8s %8.1f %9.2f\n' "$title" "$batch" "$ours" "$theirs" "$ratio" "$low" \
    "$high" "${bound:+$(printf %.2f "$bound")}" "${bound:+$(awk -v r="$ratio" -v b="$bound" 'BEGIN {printf "%.2f", r / b}')}" "$wait" \
    "$(awk -v b="$sent" 'BEGIN {print b / 1e6}')"
  record layouts '{"model": "%s", "layout": "%s", "batch": %d, "micro_batch": %d, "steps": %d, "tokens_per_second": %.1f, '\
'"independent_tokens_per_second": %.1f, "ratio": %s, "ratio_min": %s, "ratio_max": %s, "bound": %s, "wait_ms": %.2f, "sent_bytes": %.0f}' \
    "$name" "$title" "$batch" "$micro" "$steps" "$ours" "$theirs" "$ratio" "$low" "$high" "${bound:-null}" "$wait" "$sent"
}

# The share of a step's wait for communication that overlapping hides, in one layout.
hidden() {  # MODEL
  local plain overlapped part
  [ -s "$work/wait.DP2 ZeRO-1" ] || return 0
  plain=$(median < "$work/wait.DP2 ZeRO-1") overlapped=$(median < "$work/wait.DP2 ZeRO-1 overlapped")
  part=$(awk -v a="$overlapped" -v b="$plain" 'BEGIN {printf "%.3f", (b ? 1 - a / b : 0)}')
  show 'communication hidden: %.0f %% (DP2 ZeRO-1 waits %.1f ms a step, overlapped %.1f ms; 1 - overlapped / not)\n' \
    "$(awk -v s="$part" 'BEGIN {print 100 * s}')" "$plain" "$overlapped"
  record hidden '{"model": "%s", "layout": "DP2 ZeRO-1", "wait_ms": %.2f, "wait_overlapped_ms": %.2f, "hidden_share": %s}' \
    "$1" "$plain" "$overlapped" "$part"
}

heading() {
  show '\n%s\n%-36s %5s %10s %12s %8s   %-9s  %6s %8s %8s %9s\n' "$1" "two ranks x 1 thread" batch "tok/s" "independent" ratio \
    spread bound "of bound" "wait, ms" "sent, MB"
}

# Eight micro-batches of 4, in fewer steps. Two stages idle for 1/9 of them.
pipeline() {  # MODEL STEPS [TITLE FLAG...]
  layout "$1" "${3:-PP2 1F1B}, 8 micro-batches" $(($2 / 4 + 2)) 32 4 --pipeline-model-parallel-size 2 "${@:4}"
}

# Stages that can be balanced: by hand, and by --pipeline-split.
balanced_pipelines() {
  local schedule name="8M: L9 C256 H4 T128, vocabulary 2,000" split=(--num-layers-in-first-pipeline-stage 5)
  use_tokens small "$work/small-vocab.json" "$work/small-merges.txt"
  set_model 9 256 4 128
  heading "$name"
  pipeline "$name" $steps "PP2 1F1B 5+4" "${split[@]}"
  pipeline "$name" $steps "PP2 zb-h1 5+4" "${split[@]}" --pipeline-schedule zb-h1
  pipeline "$name" $steps "PP2 zb-v balanced" --pipeline-split balanced --pipeline-schedule zb-v
  name="14M: L6 C384 H6 T128, vocabulary 8,192"
  common=(--tokenizer-type NullTokenizer --vocab-size 8192 --mock-data "${run_flags[@]}")
  set_model 6 384 6 128
  heading "$name"
  pipeline "$name" $steps "PP2 1F1B"
  pipeline "$name" $steps "PP2 1F1B balanced" --pipeline-split balanced
  for schedule in gpipe zb-h1 zb-h2 zb-v; do
    pipeline "$name" $steps "PP2 $schedule balanced" --pipeline-split balanced --pipeline-schedule $schedule
  done
  pipeline "$name" $steps "PP2 interleaved balanced" --pipeline-split balanced --num-virtual-stages-per-pipeline-rank 3
}

# A batch is 8 sequences, 4 per rank, as for the independent processes, or four times as many in four micro-batches.
zero() {  # MODEL STEPS
  local stage bucket=(--ddp-bucket-size 1000000) overlap=(--overlap-grad-reduce --overlap-param-gather)
  layout "$1" "DP2 ZeRO-1" "$2" 8 4 --use-distributed-optimizer "${bucket[@]}"
  layout "$1" "DP2 ZeRO-1 overlapped" "$2" 8 4 --use-distributed-optimizer "${bucket[@]}" "${overlap[@]}"
  layout "$1" "DP2 ZeRO-2" "$2" 8 4 --zero-stage 2
  layout "$1" "DP2 ZeRO-2 overlapped" "$2" 8 4 --zero-stage 2 "${overlap[@]}"
  layout "$1" "DP2 ZeRO-3" "$2" 8 4 --zero-stage 3
  layout "$1" "DP2 ZeRO-3 overlapped" "$2" 8 4 --zero-stage 3 --overlap-grad-reduce
  layout "$1" "DP2, 4 micro-batches" "$2" 32 4
  layout "$1" "DP2 ZeRO-1, 4 micro-batches" "$2" 32 4 --use-distributed-optimizer "${bucket[@]}"
  for stage in 2 3; do
    layout "$1" "DP2 ZeRO-$stage, 4 micro-batches" "$2" 32 4 --zero-stage $stage
  done
  hidden "$1"
}

layouts() {  # MODEL STEPS
  heading "$1"
  layout "$1" "TP2" "$2" 8 8 --tensor-model-parallel-size 2
  layout "$1" "TP2 SP" "$2" 8 8 --tensor-model-parallel-size 2 --sequence-parallel
  pipeline "$1" "$2"
  layout "$1" "DP2" "$2" 8 4
  zero "$1" "$2"
}

# stamped COMMAND...: writes its output to $work/stamped, each line after its time of arrival; the first is the start.
stamped() {
  local line
  {
    echo "$EPOCHREALTIME start"
    "$@" 2>&1 < /dev/null | while IFS= read -r line; do echo "$EPOCHREALTIME $line"; done
  } > "$work/stamped" || { echo "ranks: failed: $*" >&2; cat "$work/stamped" >&2; return 1; }
}
# between TEXT TEXT: seconds between the first lines that contain them.
between() {
  awk -v from="$1" -v to="$2" '!a && index($0, from) {a = $1} !b && index($0, to) {b = $1}
    END {if (!a || !b) exit 1; printf "%.4f\n", b - a}' "$work/stamped"
}

start() {
  local one eight batch=(--train-iters 1 --global-batch-size 4 --micro-batch-size 1)
  set_model 4 64 4 64
  : > "$work/one"; : > "$work/eight"
  for _ in $(seq "$rounds"); do
    stamped "$bin/mtl-train" "${model[@]}" "${batch[@]}"
    between start 'iteration        1/' >> "$work/one"
    stamped mpirun -n 8 --oversubscribe --bind-to none "$bin/mtl-train" "${model[@]}" "${batch[@]}" \
      --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2
    between start 'iteration        1/' >> "$work/eight"
  done
  one=$(median < "$work/one") eight=$(median < "$work/eight")
  show '\n%-48s %6.2f s   one process %.2f s\n' "start to first loss, 8 ranks, TP2 PP2 DP2" "$eight" "$one"
  record start '{"ranks": 8, "layout": "TP2 PP2 DP2", "cpus": %d, "seconds": %s, "one_process_seconds": %s}' \
    "$(wc -l < "$work/allowed")" "$eight" "$one"
}

# save_one NAME LAYERS WIDTH HEADS: one iteration in TP2, saved as $work/NAME.
save_one() {
  set_model "$2" "$3" "$4" 128
  quietly save two_ranks "${model[@]}" --train-iters 1 --global-batch-size 2 --micro-batch-size 2 --tensor-model-parallel-size 2 --save "$work/$1"
}

# resume_seconds NAME: seconds until two ranks with ZeRO-1 have read $work/NAME and report that the run is complete.
resume_seconds() {
  stamped two_ranks "${model[@]}" --train-iters 1 --global-batch-size 2 --micro-batch-size 1 --use-distributed-optimizer --load "$work/$1"
  between start "already complete"
}

# This time includes the start of a job (MPI, comparing the flags of the ranks), which takes as long for a tiny model
# and is subtracted. Both runs and the reading alternate, with the files in memory.
load() {
  local bytes seconds reading ratio
  save_one tiny 1 16 2
  local tiny=("${model[@]}")
  save_one large 4 256 4
  local large=("${model[@]}")
  bytes=$(cat "$work"/large/iter_*/*.safetensors | wc -c)
  : > "$work/tiny_s"; : > "$work/large_s"; : > "$work/reading_s"
  for _ in $(seq $((rounds + 2))); do
    model=("${tiny[@]}")
    resume_seconds tiny >> "$work/tiny_s"
    model=("${large[@]}")
    resume_seconds large >> "$work/large_s"
    local begin=$EPOCHREALTIME
    cat "$work"/large/iter_*/*.safetensors > /dev/null
    echo "$EPOCHREALTIME $begin" | awk '{print $1 - $2}' >> "$work/reading_s"
  done
  seconds=$(paste "$work/large_s" "$work/tiny_s" | awk '{print $1 - $2}' | median) reading=$(median < "$work/reading_s")
  ratio=$(ratio_of "$seconds" "$reading")
  show '%-48s %6.2f s   reading them %.2f s   ratio %.1f\n' "load of TP2 as DP2 ZeRO-1, $((bytes / 1000000)) MB" "$seconds" "$reading" "$ratio"
  record load '{"saved": "TP2", "loaded": "DP2 ZeRO-1", "bytes": %d, "seconds": %s, "read_seconds": %s, "ratio": %s}' \
    "$bytes" "$seconds" "$reading" "$ratio"
}

steps=24
[ -z "$quick" ] || steps=6
# With GPT-2's vocabulary most of a small model is the token embedding: one stage has all of its work, and its gradient
# is the last of a step, with no computation left to hide it. So pipelines and overlapping use a small vocabulary.
use_tokens small "$work/small-vocab.json" "$work/small-merges.txt"
set_model 8 256 4 128
heading "7M: L8 C256 H4 T128, vocabulary 2,000"
pipeline "7M: L8 C256 H4 T128, vocabulary 2,000" $steps
if [ -z "$quick" ]; then
  layout "7M: L8 C256 H4 T128, vocabulary 2,000" "DP2" $steps 8 4
  zero "7M: L8 C256 H4 T128, vocabulary 2,000" $steps
  set_model 6 384 6 128
  heading "11M: L6 C384 H6 T128, vocabulary 2,000"
  layout "11M: L6 C384 H6 T128, vocabulary 2,000" "DP2" $steps 8 4
  zero "11M: L6 C384 H6 T128, vocabulary 2,000" $steps
  set_model 8 256 4 4096
  heading "8M: L8 C256 H4 T4096, vocabulary 2,000"
  for kind in all_gather p2p; do
    layout "8M: L8 C256 H4 T4096, vocabulary 2,000" "CP2 $kind" 8 1 1 --context-parallel-size 2 --cp-comm-type $kind
  done
  balanced_pipelines
fi
use_tokens gpt2 "$share/gpt2/vocab.json" "$share/gpt2/merges.txt"
set_model 4 128 4 128
layouts "7M: L4 C128 H4 T128" $steps
if [ -z "$quick" ]; then
  set_model 6 384 6 256
  layouts "30M: L6 C384 H6 T256" 8
fi
start
load

if [ -n "$json" ]; then
  printf '{"machine": "%s", "mpi": "%s", "version": "%s", "threads_per_rank": 1, "rounds": %d,\n  "layouts": [\n    %s],\n  "hidden": [%s],\n  "start": %s,\n  "load": %s}\n' \
    "$machine" "$mpi" "$version" "$rounds" "$(rows layouts)" "$(rows hidden)" "$(rows start)" "$(rows load)"
fi
