#!/usr/bin/env bash
# GPT-2 345M in the layouts of model parallelism, and what each costs: tensor parallelism on two ranks, a pipeline of
# two, and both on two nodes of two ranks. Without data parallelism, from random weights; all flags of Megatron-LM's
# example script for this model except --fp16: the figures are compared in fp32.
#
#   MODEL=tiny ./run.sh                    all steps in about a minute, on this machine
#   ./run.sh                               the real model; DATA_PATH or TEXT should name real text then
#   PLAN=1 ./run.sh                        trains nothing: parameters, memory and FLOPs of each layout
#   HOSTS=alpha,beta ./run.sh 2x2          one layout, the nodes of the pipeline on two hosts
#
# Arguments are layouts, TENSOR x PIPELINE; default: 1x1 2x1 1x2 2x2. Run again, every run continues where
# it stopped, or reports that it is complete; the table is printed at the end.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
share=$here/../..

# --- What to change -------------------------------------------------------------------------------------------------
MODEL=${MODEL:-345m}          # 345m, or tiny
OUT=${OUT:-run-$MODEL}        # everything is written here: token files, NAME/checkpoint, NAME/log.jsonl
PLAN=${PLAN:-}                # 1: plan the runs only
MTL_BIN=${MTL_BIN:-}          # folder of the programs; empty: on the PATH

# Text: JSON lines with "text", plain or compressed (oscar-1GB.jsonl.xz); the demo's when empty.
TEXT=${TEXT:-}
# Token files that exist already (without .bin and .idx), instead of TEXT.
DATA_PATH=${DATA_PATH:-}
VOCAB=${VOCAB:-$share/gpt2/vocab.json}
MERGES=${MERGES:-$share/gpt2/merges.txt}

# The machines. HOSTS=alpha,beta puts RANKS_PER_NODE ranks on each of them; every host needs the programs, the data and
# OUT under the same path. Empty: all ranks run here, and a "node" is two of them.
NNODES=${NNODES:-2}
HOSTS=${HOSTS:-}
RANKS_PER_NODE=${RANKS_PER_NODE:-2}
# The launcher. --oversubscribe lets more ranks than cores run, as on a laptop; drop it on real nodes. A network is
# chosen with --mca btl_tcp_if_include eth1, NCCL_SOCKET_IFNAME's place.
MPIRUN=${MPIRUN:-mpirun --oversubscribe}
THREADS=${THREADS:-0}         # of each rank; 0: the rank's share of its node's cores

if [ "$MODEL" = 345m ]; then
  model=(--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024)
  batch=(--micro-batch-size 4 --global-batch-size 16)
  length=(--train-iters "${ITERATIONS:-500000}" --lr-decay-iters 320000 --lr-warmup-fraction .01)
  reports=(--log-interval "${LOG_INTERVAL:-100}" --save-interval "${SAVE_INTERVAL:-1000}" --eval-interval 1000
    --eval-iters 10)
elif [ "$MODEL" = tiny ]; then
  model=(--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64)
  batch=(--micro-batch-size 2 --global-batch-size 8)
  length=(--train-iters "${ITERATIONS:-20}" --lr-decay-iters "${ITERATIONS:-20}" --lr-warmup-fraction .1)
  reports=(--log-interval "${LOG_INTERVAL:-1}" --save-interval "${SAVE_INTERVAL:-10}" --eval-interval 10 --eval-iters 1)
else
  echo "run.sh: MODEL=$MODEL: choose 345m or tiny" >&2
  exit 2
fi
optimizer=(--lr 1.5e-4 --min-lr 1e-5 --lr-decay-style cosine --weight-decay 1e-2 --clip-grad 1)
# --------------------------------------------------------------------------------------------------------------------

# shellcheck source-path=SCRIPTDIR source=../lib.sh
. "$here/../lib.sh"

# Text to token files, once.
prepare_data() {
  [ -z "$DATA_PATH" ] || return 0
  mkdir -p "$OUT"
  DATA_PATH=$OUT/my-gpt2_text_document
  [ ! -e "$DATA_PATH.idx" ] || return 0
  if [ -z "$TEXT" ]; then
    TEXT=$OUT/shakespeare.jsonl
    write_shakespeare "$TEXT"
  fi
  "${mtl}preprocess" --input "$TEXT" --output-prefix "$OUT/my-gpt2" --dataset-impl mmap "${tokenizer[@]}" --append-eod
}

# flags_of LAYOUT: the flags of mtl-train that all ranks get, in the array `flags`.
flags_of() {
  flags=(--tensor-model-parallel-size "${1%x*}" --pipeline-model-parallel-size "${1#*x}" --sequence-parallel
    "${model[@]}" "${batch[@]}" "${length[@]}" "${reports[@]}" "${optimizer[@]}" "${tokenizer[@]}"
    --data-path "$DATA_PATH" --split "949,50,1" --threads "$THREADS" --save "$OUT/$1/checkpoint")
}

# place RANKS: mpirun's flags for where the ranks run, in the array `places`.
place() {
  places=(-n "$1")
  [ -n "$HOSTS" ] || return 0
  local nodes=$((($1 + RANKS_PER_NODE - 1) / RANKS_PER_NODE)) slots
  [ "$nodes" -le "$NNODES" ] || { echo "run.sh: $1 ranks need $nodes nodes; NNODES is $NNODES" >&2; exit 2; }
  slots=$(cut -d, -f1-"$nodes" <<<"$HOSTS" | sed "s/,/:$RANKS_PER_NODE,/g; s/\$/:$RANKS_PER_NODE/")
  places+=(-H "$slots")
}

train() {
  local ranks=$((${1%x*} * ${1#*x}))
  flags_of "$1"
  place "$ranks"
  mkdir -p "$OUT/$1"
  echo "== $1: tensor ${1%x*}, pipeline ${1#*x}, ranks $ranks"
  # shellcheck disable=SC2086  # MPIRUN is a command with flags
  $MPIRUN "${places[@]}" "${mtl}train" "${flags[@]}" --log-jsonl "$OUT/$1/log.jsonl"
}

# plan LAYOUT: mtl-train's plan; needs no text.
plan() {
  DATA_PATH=${DATA_PATH:-$OUT/my-gpt2_text_document}
  flags_of "$1"
  echo "== $1: tensor ${1%x*}, pipeline ${1#*x}"
  "${mtl}train" "${flags[@]}" --dry-run --world-size $((${1%x*} * ${1#*x}))
}

# Memory and speed of each layout, compared with the first one.
table() {
  local layout rate loss memory first_rate="" first_memory="" first_loss=""
  printf '\n%-8s %6s %8s %6s   %12s %10s   %9s %10s   %11s %10s\n' \
    layout tensor pipeline ranks 'MiB per rank' "of $1" samples/s "of $1" 'loss at end' difference
  for layout in "$@"; do
    flags_of "$layout"
    memory=$(largest_memory "${flags[@]}" --world-size $((${layout%x*} * ${layout#*x})))
    read -r rate loss < <(step_figures "$OUT/$layout/log.jsonl")
    : "${first_rate:=$rate}" "${first_memory:=$memory}" "${first_loss:=$loss}"
    awk -v layout="$layout" -v tensor="${layout%x*}" -v pipeline="${layout#*x}" -v memory="$memory" -v rate="$rate" \
      -v loss="$loss" -v of_memory="$first_memory" -v of_rate="$first_rate" -v of_loss="$first_loss" 'BEGIN {
        printf "%-8s %6d %8d %6d   %12.1f %9.0f%%   %9.2f %9.0f%%   %11.6f %10.1e\n", layout, tensor, pipeline,
          tensor * pipeline, memory, 100 * memory / of_memory, rate, 100 * rate / of_rate, loss, loss - of_loss }'
  done
}

[ $# -gt 0 ] || set -- 1x1 2x1 1x2 2x2
for layout in "$@"; do
  [[ $layout =~ ^[1-9][0-9]*x[1-9][0-9]*$ ]] ||
    { echo "run.sh: $layout: not a layout; write TENSOR x PIPELINE, such as 1x1, 2x1, 1x2 or 2x2" >&2; exit 2; }
done
if [ -n "$PLAN" ]; then
  for layout in "$@"; do plan "$layout"; done
  exit
fi
prepare_data
for layout in "$@"; do train "$layout"; done
table "$@"
