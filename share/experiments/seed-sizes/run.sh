#!/usr/bin/env bash
# GPT-2 models of 345M, 1.3B, 2.7B and 3.7B parameters on eight ranks: perplexity and samples/s of each size, with model
# parallelism (two tensor-parallel ranks, two stages, two data-parallel ranks) and, for 345M, without (eight data-parallel
# ranks). The flags are those of Megatron-DeepSpeed's example script.
#
#   MODEL=tiny ./run.sh --model_size all                       all sizes in miniature, in a minute on this machine
#   ./run.sh --data_path my-gpt_text_sentence --model_size 1.3B --train_iters 1000
#   ./run.sh --data_path my-gpt_text_sentence --model_size 345M_without_mp
#   ./run.sh --data_path my-gpt_text_sentence --model_size all --performance    samples/s alone, of a few iterations
#   PLAN=1 ./run.sh --model_size all                           trains nothing: parameters, memory and FLOPs of each run
#
# Without --model_size, 345M is trained. Further arguments are layouts, TENSOR x PIPELINE; the remaining ranks are
# data-parallel. Run again, every run continues where it stopped, or reports that it is complete; the table is printed
# at the end.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
share=$here/../..

# --- What to change -------------------------------------------------------------------------------------------------
MODEL=${MODEL:-full}          # full, or tiny: each size in miniature
OUT=${OUT:-run-$MODEL}        # everything is written here: token files, SIZE-LAYOUT/checkpoint, SIZE-LAYOUT/log.jsonl
PLAN=${PLAN:-}                # 1: plan the runs only
MTL_BIN=${MTL_BIN:-}          # folder of the programs; empty: on the PATH

VOCAB=${VOCAB:-$share/gpt2/vocab.json}
MERGES=${MERGES:-$share/gpt2/merges.txt}
RANKS=${RANKS:-8}
# The launcher. --oversubscribe lets more ranks than cores run, as on a laptop; drop it on real nodes. For several
# nodes add -H alpha:4,beta:4, or --hostfile FILE.
MPIRUN=${MPIRUN:-mpirun --oversubscribe}
THREADS=${THREADS:-0}         # of each rank; 0: the rank's share of its node's cores
PRECISION=${PRECISION-default} # --fp16, --bf16, or empty for fp32. default: --fp16, or fp32 for the miniatures
# Recomputes activations in backward, layer by layer. Empty: keeps them, which is faster and needs more memory.
RECOMPUTE=${RECOMPUTE---checkpoint-activations}

data_path=                    # --data_path: token files (without .bin and .idx); the demo's text when empty
model_size=345M               # --model_size: one or several of these, or all
sizes="345M 345M_without_mp 1.3B 2.7B 3.7B"
train_iters=                  # --train_iters: 500000 when empty, 100000 without model parallelism, 60 for --performance
performance=                  # --performance: neither validates nor saves
layouts=()
optimizer=(--lr 1.5e-4 --min-lr 1e-5 --lr-decay-style cosine --lr-warmup-fraction .01 --weight-decay 1e-2 --clip-grad 1)
# --------------------------------------------------------------------------------------------------------------------

stop() { echo "run.sh: $*" >&2; exit 2; }

while [ $# -gt 0 ]; do
  case $1 in
    --data_path=* | --model_size=* | --train_iters=*) name=${1%%=*} value=${1#*=} ;;
    --data_path | --model_size | --train_iters)
      [ $# -gt 1 ] || stop "$1 needs a value"
      name=$1 value=$2
      shift ;;
    --performance)
      performance=1
      shift
      continue ;;
    --*) stop "$1: unknown flag; choose --data_path, --model_size, --train_iters or --performance" ;;
    *)
      [[ $1 =~ ^[1-9][0-9]*x[1-9][0-9]*$ ]] ||
        stop "$1: not a layout; write TENSOR x PIPELINE, such as 2x2, or 1x1 for data parallelism alone"
      [ $((RANKS % (${1%x*} * ${1#*x}))) -eq 0 ] ||
        stop "$1: RANKS=$RANKS is not a multiple of $((${1%x*} * ${1#*x})) ranks of model parallelism"
      layouts+=("$1")
      shift
      continue ;;
  esac
  [ -n "$value" ] || stop "$name is empty"
  printf -v "${name#--}" %s "$value"
  shift
done
[[ $train_iters =~ ^([1-9][0-9]*)?$ ]] || stop "--train_iters $train_iters: not a number of iterations"
[ "$MODEL" = full ] || [ "$MODEL" = tiny ] || stop "MODEL=$MODEL: choose full or tiny"
[ "$model_size" != all ] || model_size=$sizes
for size in $model_size; do
  [[ " $sizes " == *" $size "* ]] || stop "--model_size $size: choose ${sizes// /, } or all"
  [[ $size != *_without_mp ]] || [ ${#layouts[@]} -eq 0 ] || stop "--model_size $size is the layout 1x1; give no other"
done
if [ "$PRECISION" = default ]; then
  PRECISION=--fp16
  [ "$MODEL" = full ] || PRECISION=
fi

# shellcheck source-path=SCRIPTDIR source=../lib.sh
. "$here/../lib.sh"

# The demo's text as token files of sentences, once, where --data_path names none.
prepare_data() {
  [ -z "$data_path" ] || return 0
  mkdir -p "$OUT"
  data_path=$OUT/my-gpt_text_sentence
  [ ! -e "$data_path.idx" ] || return 0
  write_shakespeare "$OUT/shakespeare.jsonl"
  "${mtl}preprocess" --input "$OUT/shakespeare.jsonl" --output-prefix "$OUT/my-gpt" "${tokenizer[@]}" --split-sentences \
    --append-eod
}

# model_of SIZE: the flags of the architecture, in the array `model`.
model_of() {
  model=(--model "${1,,}")
  [ "$MODEL" = tiny ] || return 0
  case $1 in
    345M) model=(--num-layers 4 --hidden-size 64 --seq-length 64) ;;
    1.3B) model=(--num-layers 4 --hidden-size 128 --seq-length 64) ;;
    2.7B) model=(--num-layers 6 --hidden-size 160 --seq-length 128) ;;
    3.7B) model=(--num-layers 6 --hidden-size 192 --seq-length 128) ;;
  esac
  model+=(--num-attention-heads 4 --max-position-embeddings "${model[-1]}")
}

# flags_of SIZE LAYOUT: the flags of mtl-train that all ranks get, in the array `flags`.
flags_of() {
  local model batch=(--micro-batch-size 4 --global-batch-size 16) iterations=500000 decay every=100 reports
  model_of "$1"
  [ "$2" != 1x1 ] || { batch=(--micro-batch-size 8 --global-batch-size 64); iterations=100000; }
  reports=(--save-interval 10000 --eval-interval 1000 --eval-iters 10)
  if [ "$MODEL" = tiny ]; then
    iterations=20 batch=(--micro-batch-size 1 --global-batch-size 16)
    reports=(--save-interval 10 --eval-interval 10 --eval-iters 1)
  fi
  [ -z "$performance" ] || { iterations=60; reports=(--eval-iters 0); }
  iterations=${train_iters:-$iterations}
  decay=$((iterations < 320000 ? iterations : 320000))
  [ "$iterations" -ge 1000 ] || every=1  # a line for each iteration of a short run
  reports+=(--log-interval "$every")
  flags=(--tensor-model-parallel-size "${2%x*}" --pipeline-model-parallel-size "${2#*x}" "${model[@]}" "${batch[@]}"
    --train-iters "$iterations" --lr-decay-iters "$decay" "${optimizer[@]}" "${reports[@]}" "${tokenizer[@]}"
    --data-path "${data_path:-$OUT/my-gpt_text_sentence}" --split "949,50,1" --threads "$THREADS")
  [ -n "$performance" ] || flags+=(--save "$OUT/$1-$2/checkpoint" --load "$OUT/$1-$2/checkpoint")
  # shellcheck disable=SC2206  # RECOMPUTE and PRECISION are flags
  flags+=($RECOMPUTE $PRECISION)
}

# each_run COMMAND: COMMAND SIZE LAYOUT for all runs: the layouts given as arguments, else that with published figures.
each_run() {
  local size layout own
  for size in $model_size; do
    own=2x2
    [[ $size != *_without_mp ]] || own=1x1
    for layout in "${layouts[@]:-$own}"; do "$1" "${size%_without_mp}" "$layout"; done
  done
}

log_of() { echo "$OUT/$1-$2/log${performance:+-performance}.jsonl"; }

describe() { echo "== $1: tensor ${2%x*}, pipeline ${2#*x}, data $((RANKS / (${2%x*} * ${2#*x}))), $MODEL"; }

plan() {
  flags_of "$1" "$2"
  describe "$1" "$2"
  "${mtl}train" "${flags[@]}" --dry-run --world-size "$RANKS"
}

train() {
  flags_of "$1" "$2"
  describe "$1" "$2"
  mkdir -p "$OUT/$1-$2"
  # shellcheck disable=SC2086  # MPIRUN is a command with flags
  $MPIRUN -n "$RANKS" "${mtl}train" "${flags[@]}" --log-jsonl "$(log_of "$1" "$2")"
}

# published SIZE LAYOUT: perplexity and samples/s on eight GPUs in fp16, the same on eight NPUs, and what that was.
published() {
  [ "$MODEL" = full ] || return 0
  case $1-$2 in
    345M-2x2) echo '26.375 37.8 26.485 59.7 V100, 500k iterations' ;;
    345M-1x1) echo '28.67 235 28.71 227 A100, 100k iterations' ;;
    1.3B-2x2) echo '- 15.71 - 21.47 V100' ;;
    2.7B-2x2) echo '- 4.125 - 5.280 V100' ;;
    3.7B-2x2) echo '- 3.120 - 4.558 V100' ;;
  esac
}

row() {
  local log rate _ iterations ppl gpu_ppl gpu npu_ppl npu what
  log=$(log_of "$1" "$2")
  read -r rate _ < <(step_figures "$log")
  if [ -n "$performance" ]; then
    iterations=${train_iters:-60} ppl=-
  else
    read -r iterations ppl < <(last_validation "$log")
  fi
  read -r gpu_ppl gpu npu_ppl npu what < <(published "$1" "$2") || true
  awk -v size="$1" -v tensor="${2%x*}" -v pipeline="${2#*x}" -v ranks="$RANKS" -v iterations="$iterations" \
    -v ppl="$ppl" -v rate="$rate" 'BEGIN {
      printf "%-5s %7d %9d %5d   %10d %10s %10.3f", size, tensor, pipeline, ranks / (tensor * pipeline), iterations,
        ppl == "-" ? ppl : sprintf("%.3f", ppl), rate }'
  [ -z "$what" ] || printf '   %7s %9s   %7s %9s   %s' "$gpu_ppl" "$gpu" "$npu_ppl" "$npu" "$what"
  echo
}

table() {
  local heads=(size tensor pipeline data iterations PPL samples/s)
  echo
  [ "$MODEL" = tiny ] || printf '%-64s   %-17s   %-17s   %s\n' '' 'published, 8 GPUs' 'published, 8 NPUs' 'the GPUs were'
  printf '%-5s %7s %9s %5s   %10s %10s %10s' "${heads[@]}"
  [ "$MODEL" = tiny ] || printf '   %7s %9s   %7s %9s' PPL samples/s PPL samples/s
  echo
  each_run row
}

if [ -n "$PLAN" ]; then
  each_run plan
  exit
fi
prepare_data
each_run train
table
