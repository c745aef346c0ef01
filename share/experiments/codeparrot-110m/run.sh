#!/usr/bin/env bash
# CodeParrot, 110 million parameters: code in JSON lines to a model that completes `def hello_world():`, on eight
# data-parallel ranks. Token files, training, a Hugging Face folder, and what the model writes. The command lines are
# those that Megatron-LM's users of this experiment have, with fp16 and its dynamic loss scale.
#
#   MODEL=tiny ./run.sh     all steps in about a minute, on this machine and on mtl's own code
#   PLAN=1 ./run.sh         trains nothing: parameters, memory and FLOPs
#   ./run.sh                the real model; DATA or DATA_PATH must name its text
#
# Run again, it continues where it stopped.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
share=$here/../..

# --- What to change -------------------------------------------------------------------------------------------------
MODEL=${MODEL:-110m}          # 110m, or tiny
OUT=${OUT:-run-$MODEL}        # everything is written here: token files, checkpoint, tensorboard, hf
PLAN=${PLAN:-}                # 1: plan the run only
MTL_BIN=${MTL_BIN:-}          # folder of the programs; empty: on the PATH

DATA=${DATA:-codeparrot_data.json}  # JSON lines with "content"; the tiny run makes its own from SOURCES
SOURCES=${SOURCES:-}          # folders of code, separated by colons; empty: mtl's sources or, installed, its scripts
DATA_PATH=${DATA_PATH:-}      # token files that exist already (without .bin and .idx), instead of DATA
VOCAB=${VOCAB:-$share/gpt2/vocab.json}  # one of your own: mtl-vocab --json-keys content
MERGES=${MERGES:-$share/gpt2/merges.txt}
WORKERS=${WORKERS:-32}        # of preprocessing

RANKS=${RANKS:-8}
# The launcher. --oversubscribe lets more ranks than cores run, as on a laptop; drop it on real nodes. For several
# nodes add -H alpha:4,beta:4, or --hostfile FILE.
MPIRUN=${MPIRUN:-mpirun --oversubscribe}

if [ "$MODEL" = 110m ]; then
  model=(--num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024 --max-position-embeddings 1024)
  batch=(--micro-batch-size 12 --global-batch-size 192)
  length=(--train-iters 150000 --lr-decay-iters 150000 --lr-warmup-iters 2000)
  reports=(--log-interval 10 --save-interval 2000 --eval-interval 200 --eval-iters 10)
  machine=()
elif [ "$MODEL" = tiny ]; then
  model=(--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64)
  batch=(--micro-batch-size 2 --global-batch-size 32)
  length=(--train-iters "${ITERATIONS:-30}" --lr-decay-iters "${ITERATIONS:-30}" --lr-warmup-iters 3)
  reports=(--log-interval 5 --save-interval 15 --eval-interval 15 --eval-iters 1 --split "80,10,10")
  machine=(--threads 1 --initial-loss-scale 65536)  # a scale that falls would skip too many of a few iterations
  WORKERS=2
else
  echo "run.sh: MODEL=$MODEL: choose 110m or tiny" >&2
  exit 2
fi
optimizer=(--lr 0.0005 --lr-decay-style cosine --weight-decay .1 --adam-beta2 .999 --fp16)
# --------------------------------------------------------------------------------------------------------------------

mtl=${MTL_BIN:+$MTL_BIN/}mtl-

# A JSON line {"content": ...} of each source file, so that the tiny run needs nothing from elsewhere.
collect_sources() {
  local folders=("$share")
  [ ! -d "$share/../libcore" ] || folders=("$share/../libcore" "$share/../apps" "$share/../kernels")
  [ -z "$SOURCES" ] || IFS=: read -ra folders <<<"$SOURCES"
  find "${folders[@]}" \( -name '*.cpp' -o -name '*.h' -o -name '*.py' -o -name '*.sh' -o -name '*.awk' \) -type f |
    LC_ALL=C sort | while read -r file; do
    awk 'BEGIN { printf "{\"content\": \"" }
         { gsub(/\\/, "&&"); gsub(/"/, "\\\""); gsub(/\t/, "\\t"); printf "%s\\n", $0 }
         END { print "\"}" }' "$file"
  done
}

prepare_data() {
  [ -z "$DATA_PATH" ] || return 0
  mkdir -p "$OUT"
  DATA_PATH=$OUT/codeparrot_content_document
  [ ! -e "$DATA_PATH.idx" ] || return 0
  if [ "$MODEL" = tiny ]; then
    DATA=$OUT/sources.jsonl
    collect_sources >"$DATA"
  fi
  echo "== token files"
  "${mtl}preprocess" --input "$DATA" --output-prefix "$OUT/codeparrot" --vocab "$VOCAB" --dataset-impl mmap \
    --tokenizer-type GPT2BPETokenizer --merge-file "$MERGES" --json-keys content --workers "$WORKERS" --chunk-size 25 \
    --append-eod
}

[ -n "$PLAN" ] || prepare_data
checkpoint=$OUT/checkpoint
train=("${mtl}train" --tensor-model-parallel-size 1 --pipeline-model-parallel-size 1 "${model[@]}" "${batch[@]}"
  "${length[@]}" "${optimizer[@]}" "${reports[@]}" --vocab-file "$VOCAB" --merge-file "$MERGES"
  --save "$checkpoint" --load "$checkpoint" --data-path "${DATA_PATH:-$OUT/codeparrot_content_document}"
  --tensorboard-dir "$OUT/tensorboard" --log-jsonl "$OUT/log.jsonl" "${machine[@]}")
if [ -n "$PLAN" ]; then
  "${train[@]}" --dry-run --world-size "$RANKS"
  exit
fi

echo "== training on $RANKS ranks"
# shellcheck disable=SC2086  # MPIRUN is a command with flags
$MPIRUN -n "$RANKS" "${train[@]}"

echo "== Hugging Face folder"
rm -rf "$OUT/hf"
"${mtl}convert" --load "$checkpoint" --save "$OUT/hf" --to hf --verify

echo "== generation"
"${mtl}generate" --load "$OUT/hf" --prompt 'def hello_world():' --max-new-tokens 40 --seed 1
