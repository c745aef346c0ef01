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

# NAME DATA VOCAB MERGES SIZE LAYERS WIDTH HEADS LENGTH BATCH STEPS DROPOUT
training() {
  local name=$1 data=$2 vocab=$3 merges=$4 size=$5 layers=$6 width=$7 heads=$8 length=$9 batch=${10} steps=${11} dropout=${12}
  : > "$work/ours"; : > "$work/theirs"; : > "$work/ours_first"; : > "$work/theirs_first"
  for _ in $(seq "$rounds"); do
    rm -f "$work/run.jsonl"
    local begin
    begin=$(date +%s.%N)
    "$bin/mtl-train" --num-layers "$layers" --hidden-size "$width" --num-attention-heads "$heads" --seq-length "$length" \
      --max-position-embeddings "$length" --micro-batch-size "$batch" --train-iters "$steps" --lr 1e-4 --weight-decay 0.1 \
      --hidden-dropout "$dropout" --attention-dropout "$dropout" --eval-iters 0 --log-interval 1 --vocab-file "$vocab" \
      --merge-file "$merges" --data-path "$work/$data" --log-jsonl "$work/run.jsonl" --threads "$threads" |
      while read -r line; do
        case $line in *"iteration        1/"*) echo "$(date +%s.%N) $begin" | awk '{print $1 - $2}' >> "$work/ours_first" ;; esac
      done
    grep '"step"' "$work/run.jsonl" | tail -n +3 | field tokens_per_second | median >> "$work/ours"
    [ $peer = yes ] || continue
    "$python" "$here/pytorch_gpt2.py" "$work/$data.bin" --layers "$layers" --width "$width" --heads "$heads" --length "$length" \
      --batch "$batch" --steps "$steps" --vocab "$size" --dropout "$dropout" --threads "$threads" > "$work/peer.json"
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

training "demo: L4 C192 H6 T128 B8, dropout 0.1" small_text_document "$work/small-vocab.json" "$work/small-merges.txt" 2000 4 192 6 128 8 60 0.1
training "GPT-2 124M: L12 C768 H12 T1024 B1" gpt2_text_document "$share/gpt2/vocab.json" "$share/gpt2/merges.txt" 50257 12 768 12 1024 1 6 0

[ "$part" = one ] || for part in text data ranks; do echo; bash "$here/$part.sh" "$bin"; done
