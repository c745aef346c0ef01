#!/usr/bin/env bash
# The effect of the precision of weights on the loss: one model trained in three modes at two learning rates, the second
# four times the first. The modes: bf16 with fp32 main weights (DeepSpeed's), bf16 alone (FSDP without mixed precision),
# and bf16 alone with stochastic rounding. Six curves in one picture, with the updates that each run lost, and a table.
#
#   ./run.sh                      GPT of 1.1 million parameters on the demo's text; under five minutes on two cores
#   MODEL=tiny ./run.sh           the same in miniature, in seconds
#   ./run.sh 5e-5 2e-4 8e-4       other learning rates
#   PLAN=1 ./run.sh               trains nothing: the dtypes of each mode, bytes per parameter, memory
#
# Run again, every run continues where it stopped, or reports that it is complete; the table is printed at the end.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
share=$here/../..

# --- What to change -------------------------------------------------------------------------------------------------
MODEL=${MODEL:-full}          # full, or tiny
OUT=${OUT:-run-$MODEL}        # everything is written here: token files, MODE-RATE/checkpoint, MODE-RATE/log.jsonl
PLAN=${PLAN:-}                # 1: plan the runs only
MTL_BIN=${MTL_BIN:-}          # folder of the programs; empty: on the PATH
THREADS=${THREADS:-0}         # 0: all cores
VOCAB=${VOCAB:-$OUT/shakespeare-vocab.json} # made from the text if absent
MERGES=${MERGES:-$OUT/shakespeare-merges.txt}

if [ "$MODEL" = full ]; then
  model=(--num-layers 4 --hidden-size 128 --num-attention-heads 4 --seq-length 128 --max-position-embeddings 128)
  batch=(--micro-batch-size 8 --global-batch-size 8)
  length=(--train-iters "${ITERATIONS:-1000}" --lr-warmup-iters 50)
  reports=(--log-interval 20 --save-interval 500 --eval-interval 1000 --eval-iters 20)
elif [ "$MODEL" = tiny ]; then
  model=(--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32)
  batch=(--micro-batch-size 4 --global-batch-size 4)
  length=(--train-iters "${ITERATIONS:-20}" --lr-warmup-iters 2)
  reports=(--log-interval 5 --save-interval 20 --eval-interval 20 --eval-iters 2)
else
  echo "run.sh: MODEL=$MODEL: choose full or tiny" >&2
  exit 2
fi
# The rate stays constant, so that the share of lost updates does not follow a schedule. --adam-beta2 .95 moves second
# moments by 5 % a step, which bf16 holds; the 0.1 % of .999 would be lost there, a second effect in the same picture.
optimizer=(--lr-decay-style constant --weight-decay .1 --adam-beta2 .95 --clip-grad 1 --seed 1234)
modes=(main-weights bf16-alone stochastic)
rates=("$@")
[ $# -gt 0 ] || rates=(1e-4 4e-4)
# --------------------------------------------------------------------------------------------------------------------

for rate in "${rates[@]}"; do
  [[ $rate =~ ^[0-9]*\.?[0-9]+(e-?[0-9]+)?$ ]] ||
    { echo "run.sh: $rate: not a learning rate; write 1e-4 or 0.0001" >&2; exit 2; }
done

# shellcheck source-path=SCRIPTDIR source=../lib.sh
. "$here/../lib.sh"

# The demo's text, its vocabulary of 2,000 tokens, and token files, once.
prepare_data() {
  mkdir -p "$OUT"
  [ ! -e "$OUT/shakespeare_text_document.idx" ] || return 0
  write_shakespeare "$OUT/shakespeare.jsonl"
  [ -e "$VOCAB" ] ||
    "${mtl}vocab" --input "$OUT/shakespeare.jsonl" --vocab-size 2000 --output-prefix "$OUT/shakespeare"
  "${mtl}preprocess" --input "$OUT/shakespeare.jsonl" --output-prefix "$OUT/shakespeare" "${tokenizer[@]}" --append-eod
}

# precision_of MODE: its flags, in the array `precision`.
precision_of() {
  case $1 in
    main-weights) precision=(--precision deepspeed) ;;
    bf16-alone) precision=(--precision fsdp-low) ;;
    stochastic) precision=(--precision fsdp-low --stochastic-rounding) ;;
  esac
}

# name_of MODE: its name in the picture and the table.
name_of() {
  case $1 in
    main-weights) echo 'fp32 main weights' ;;
    bf16-alone) echo 'bf16 alone' ;;
    stochastic) echo 'bf16 stochastic' ;;
  esac
}

# flags_of MODE RATE: the flags of mtl-train, in the array `flags`.
flags_of() {
  local precision
  precision_of "$1"
  flags=("${model[@]}" "${batch[@]}" "${length[@]}" "${optimizer[@]}" "${reports[@]}" "${precision[@]}" --lr "$2"
    "${tokenizer[@]}" --data-path "$OUT/shakespeare_text_document" --split "95,5,0" --threads "$THREADS"
    --save "$OUT/$1-$2/checkpoint")
}

# each_run COMMAND: COMMAND MODE RATE for all runs.
each_run() {
  local rate mode
  for rate in "${rates[@]}"; do
    for mode in "${modes[@]}"; do "$1" "$mode" "$rate"; done
  done
}

train() {
  flags_of "$1" "$2"
  mkdir -p "$OUT/$1-$2"
  echo "== $(name_of "$1"), learning rate $2"
  "${mtl}train" "${flags[@]}" --log-jsonl "$OUT/$1-$2/log.jsonl"
}

# plan MODE: mtl-train's plan, the same for every learning rate. Needs no text, only the size of its vocabulary.
plan() {
  local precision
  precision_of "$1"
  echo "== $(name_of "$1")"
  "${mtl}train" "${model[@]}" "${batch[@]}" "${precision[@]}" --tokenizer-type NullTokenizer --vocab-size 2000 \
    --threads "$THREADS" --dry-run
}

add_log() {
  logs+=("$OUT/$1-$2/log.jsonl")
  names+=",$(name_of "$1") $2"
}

picture() {
  local logs=() names=""
  each_run add_log
  "${mtl}plot" "${logs[@]}" --names "${names#,}" --y lm_loss,lost_updates \
    --title "Main weights and lost updates at two learning rates" -o "$OUT/precision.svg"
  echo "the picture: $OUT/precision.svg"
}

# mean_of LOG FIGURE: its mean over the log's step lines, in percent; - when none has it.
mean_of() {
  grep '"type": "step"' "$1" | sed -nE "s/.*\"$2\": ([^,}]+).*/\1/p" |
    awk '{ sum += $1 } END { if (NR) printf "%.3g%%", 100 * sum / NR; else print "-" }'
}

row() {
  local log=$OUT/$1-$2/log.jsonl loss ppl bytes
  flags_of "$1" "$2"
  read -r _ loss < <(step_figures "$log")
  read -r _ ppl < <(last_validation "$log")
  bytes=$("${mtl}train" "${flags[@]}" --quiet --dry-run --json |
    awk '$1 == "\"bytes_per_parameter\":" { bytes = $2 } END { print bytes + 0 }')
  printf '%-18s %8s   %8.4f %11.3f   %13s %12s   %19s\n' "$(name_of "$1")" "$2" "$loss" "$ppl" \
    "$(mean_of "$log" lost_updates)" "$(mean_of "$log" lost_updates_copy)" "$bytes"
}

table() {
  echo
  printf '%-18s %8s   %8s %11s   %13s %12s   %19s\n' mode lr loss 'PPL' 'lost updates' 'of the copy' \
    'bytes per parameter'
  each_run row
}

if [ -n "$PLAN" ]; then
  for mode in "${modes[@]}"; do plan "$mode"; done
  exit
fi
prepare_data
each_run train
table
picture
