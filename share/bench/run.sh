#!/usr/bin/env bash
# Measured figures: training speed, start-up, tokenisation; beside PyTorch where a Python with torch is found
# (MTL_PEER_PYTHON, else python3). Usage: run.sh BIN. Each figure is the median of runs in turn with the peer's.
# Text (text.sh), the data loader (data.sh) and parallel layouts (ranks.sh) follow; MTL_BENCH=one leaves them out,
# MTL_BENCH=text, data or ranks measures nothing else.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
part=${MTL_BENCH:-all}
case $part in
  all | one) ;;
  text) exec bash "$here/text.sh" "$@" ;;
  ranks) exec bash "$here/ranks.sh" "$@" ;;
  data) exec bash "$here/data.sh" "$@" ;;
  *) echo "run.sh: MTL_BENCH is '$part'; it can be all, one, text, data or ranks" >&2; exit 2 ;;
esac
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$here/lib.sh" "$1"
threads=${MTL_BENCH_THREADS:-2}
python=${MTL_PEER_PYTHON:-python3}

echo "machine: $(machine), $threads threads; $("$bin/mtl-train" --version)"
peer=yes
"$python" -c 'import torch' 2>/dev/null || peer=no
[ $peer = yes ] && echo "peer: PyTorch $("$python" -c 'import torch; print(torch.__version__)'), eager"
[ $peer = no ] && echo "peer: none ($python has no torch; set MTL_PEER_PYTHON)"

make_text
"$bin/mtl-vocab" --quiet --input "$work/text.jsonl" --vocab-size 2000 --output-prefix "$work/small"
make_tokens gpt2 "$share/gpt2/vocab.json" "$share/gpt2/merges.txt" "$threads"
make_tokens small "$work/small-vocab.json" "$work/small-merges.txt" "$threads"

# parameters FLAG...: of the model that mtl-train builds with these flags.
parameters() { "$bin/mtl-train" "$@" --quiet --dry-run --json | field parameters | head -n 1; }

# training NAME DATA VOCAB MERGES BATCH STEPS DROPOUT: the model of mtl-train's flags in `model` and the peer's in `peer_model`.
training() {
  local name=$1 data=$2 vocab=$3 merges=$4 batch=$5 steps=$6 dropout=$7
  local flags=("${model[@]}" --micro-batch-size "$batch" --train-iters "$steps" --lr 1e-4 --weight-decay 0.1
    --hidden-dropout "$dropout" --attention-dropout "$dropout" --eval-iters 0 --log-interval 1 --vocab-file "$vocab"
    --merge-file "$merges" --data-path "$work/$data" --threads "$threads")
  : > "$work/ours"; : > "$work/theirs"; : > "$work/ours_first"; : > "$work/theirs_first"
  for _ in $(seq "$rounds"); do
    rm -f "$work/run.jsonl"
    local begin
    begin=$(date +%s.%N)
    "$bin/mtl-train" "${flags[@]}" --log-jsonl "$work/run.jsonl" |
      while read -r line; do
        case $line in *"iteration        1/"*) echo "$(date +%s.%N) $begin" | awk '{print $1 - $2}' >> "$work/ours_first" ;; esac
      done
    grep '"step"' "$work/run.jsonl" | tail -n +3 | field tokens_per_second | median >> "$work/ours"
    [ $peer = yes ] || continue
    "$python" "$here/pytorch_peer.py" "$work/$data.bin" "${peer_model[@]}" --batch "$batch" --steps "$steps" \
      --dropout "$dropout" --threads "$threads" > "$work/peer.json"
    [ "$(field parameters < "$work/peer.json")" = "$(parameters "${flags[@]}")" ] ||
      { echo "run.sh: $name: the peer's model has another number of parameters" >&2; exit 1; }
    field tokens_per_second < "$work/peer.json" >> "$work/theirs"
    field first_loss_s < "$work/peer.json" >> "$work/theirs_first"
  done
  if [ $peer = yes ]; then
    printf '%-42s mtl %8.0f tok/s   PyTorch %8.0f tok/s   ratio %.2f\n' "$name" "$(median < "$work/ours")" "$(median < "$work/theirs")" \
      "$(paste "$work/ours" "$work/theirs" | awk '{print $1 / $2}' | median)"
    printf '%-42s mtl %8.2f s       PyTorch %8.2f s       ratio %.1f\n' "  first update | first loss" "$(median < "$work/ours_first")" \
      "$(median < "$work/theirs_first")" "$(paste "$work/theirs_first" "$work/ours_first" | awk '{print $1 / $2}' | median)"
  else
    printf '%-42s mtl %8.0f tok/s\n' "$name" "$(median < "$work/ours")"
    printf '%-42s mtl %8.2f s\n' "  first update" "$(median < "$work/ours_first")"
  fi
}

# gpt2_sizes LAYERS WIDTH HEADS LENGTH VOCABULARY: sets model and peer_model.
gpt2_sizes() {
  model=(--num-layers "$1" --hidden-size "$2" --num-attention-heads "$3" --seq-length "$4" --max-position-embeddings "$4")
  peer_model=(--layers "$1" --width "$2" --heads "$3" --length "$4" --vocab "$5")
}

gpt2_sizes 4 192 6 128 2000
training "demo: L4 C192 H6 T128 B8, dropout 0.1" small_text_document "$work/small-vocab.json" "$work/small-merges.txt" 8 60 0.1
gpt2=(gpt2_text_document "$share/gpt2/vocab.json" "$share/gpt2/merges.txt")
gpt2_sizes 12 768 12 1024 50257
training "GPT-2 124M: L12 C768 H12 T1024 B1" "${gpt2[@]}" 1 6 0
model=(--model llama-30m)
peer_model=(--architecture llama --layers 6 --width 384 --heads 6 --groups 2 --ffn 1024 --length 512)
training "Llama 30M: L6 C384 H6 G2 T512 B4" "${gpt2[@]}" 4 8 0

[ "$part" = one ] || for part in text data ranks; do echo; bash "$here/$part.sh" "$bin"; done
