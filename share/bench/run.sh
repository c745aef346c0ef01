#!/usr/bin/env bash
# Measures training speed in fp32 and bf16, start-up and tokenization, compared with PyTorch if a Python has torch
# (MTL_PEER_PYTHON, else python3). Usage: run.sh BIN. Each figure is the median of runs that alternate with the peer's.
# Text (text.sh), the data loader (data.sh), parallel layouts (ranks.sh), predictions of them (predict.sh), state in
# files (offload.sh), conversions (convert.sh), plans of published runs (plan.sh), update rules (rules.sh), the phases of
# a start (start.sh), saves behind iterations (async_save.sh) and steps that are computed again (rerun.sh) follow;
# MTL_BENCH=one leaves them out, MTL_BENCH=text, data, ranks, predict, offload, convert, plan, rules, start, async_save or
# rerun does nothing else.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
part=${MTL_BENCH:-all}
case $part in
  all | one) ;;
  text | data | ranks | predict | offload | convert | plan | rules | start | async_save | rerun) exec bash "$here/$part.sh" "$@" ;;
  *)
    echo "run.sh: MTL_BENCH is '$part'; it can be all, one, text, data, ranks, predict, offload, convert, plan, rules, start, async_save or rerun" >&2
    exit 2
    ;;
esac
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$here/lib.sh" "$1"
threads=${MTL_BENCH_THREADS:-2}
python=${MTL_PEER_PYTHON:-python3}

echo "machine: $(machine), $threads threads; $("$bin/mtl-train" --version)"
# The CPU's largest instruction set below bf16's: it widens products of bf16, and leaves those of fp32 unchanged.
widening_isa=AVX2
grep -qm1 avx512dq /proc/cpuinfo && widening_isa=AVX512_CORE
peer=yes
"$python" -c 'import torch' 2>/dev/null || peer=no
[ $peer = yes ] && echo "peer: PyTorch $("$python" -c 'import torch; print(torch.__version__)'), eager"
[ $peer = no ] && echo "peer: none ($python has no torch; set MTL_PEER_PYTHON)"

make_text
"$bin/mtl-vocab" --quiet --input "$work/text.jsonl" --vocab-size 2000 --output-prefix "$work/small"
make_tokens gpt2 "$share/gpt2/vocab.json" "$share/gpt2/merges.txt" "$threads"
make_tokens small "$work/small-vocab.json" "$work/small-merges.txt" "$threads"

# parameters FLAG...: the number of parameters of the model that mtl-train builds with these flags.
parameters() { "$bin/mtl-train" "$@" --quiet --dry-run --json | field parameters | head -n 1; }

# ours FILE COMMAND...: trains once and adds the tokens per second of the median step after the first two to FILE, and the
# seconds to the first update to FILE_first. COMMAND is mtl-train with its flags, or env and it.
ours() {
  local file=$1 begin
  shift
  rm -f "$work/run.jsonl"
  begin=$(date +%s.%N)
  "$@" --log-jsonl "$work/run.jsonl" |
    while read -r line; do
      case $line in *"iteration        1/"*) echo "$(date +%s.%N) $begin" | awk '{print $1 - $2}' >> "${file}_first" ;; esac
    done
  grep '"step"' "$work/run.jsonl" | tail -n +3 | field tokens_per_second | median >> "$file"
}

# theirs FILE PARAMETERS FLAG...: the same for the peer, whose model must have as many parameters.
theirs() {
  local file=$1 parameters=$2
  shift 2
  "$python" "$here/pytorch_peer.py" "$@" --threads "$threads" > "$work/peer.json"
  [ "$(field parameters < "$work/peer.json")" = "$parameters" ] ||
    { echo "run.sh: the peer's model has another number of parameters: $*" >&2; exit 1; }
  field tokens_per_second < "$work/peer.json" >> "$file"
  field first_loss_s < "$work/peer.json" >> "${file}_first"
}

# ratio A B: the median of A / B, run by run.
ratio() { paste "$1" "$2" | awk '{print $1 / $2}' | median; }

# training NAME DATA VOCAB MERGES BATCH STEPS DROPOUT: the model of mtl-train's flags in `model` and the peer's in
# `peer_model`, in fp32, in bf16, and in bf16 as on a CPU without instructions for it (against fp32 alone).
training() {
  local name=$1 data=$2 vocab=$3 merges=$4 batch=$5 steps=$6 dropout=$7 mode
  local flags=("${model[@]}" --micro-batch-size "$batch" --train-iters "$steps" --lr 1e-4 --weight-decay 0.1
    --hidden-dropout "$dropout" --attention-dropout "$dropout" --eval-iters 0 --log-interval 1 --vocab-file "$vocab"
    --merge-file "$merges" --data-path "$work/$data" --threads "$threads")
  local peer_flags=("$work/$data.bin" "${peer_model[@]}" --batch "$batch" --steps "$steps" --dropout "$dropout") count
  count=$(parameters "${flags[@]}")
  for mode in ours theirs ours_bf16 theirs_bf16 ours_widened; do rm -f "$work/$mode" "$work/${mode}_first"; done
  for _ in $(seq "$rounds"); do
    ours "$work/ours" "$bin/mtl-train" "${flags[@]}"
    ours "$work/ours_bf16" "$bin/mtl-train" "${flags[@]}" --bf16
    ours "$work/ours_widened" env ONEDNN_MAX_CPU_ISA="$widening_isa" "$bin/mtl-train" "${flags[@]}" --bf16
    [ $peer = yes ] || continue
    theirs "$work/theirs" "$count" "${peer_flags[@]}"
    theirs "$work/theirs_bf16" "$count" "${peer_flags[@]}" --autocast
  done
  row "$name, fp32" ours theirs "tok/s" 0
  row "  bf16 | autocast to bf16" ours_bf16 theirs_bf16 "tok/s" 0
  printf '%-42s %.2f times fp32; widened in cache %.2f times\n' "  bf16 against fp32" \
    "$(ratio "$work/ours_bf16" "$work/ours")" "$(ratio "$work/ours_widened" "$work/ours")"
  row "  first update | first loss, fp32" ours_first theirs_first s 2
}

# row NAME OURS THEIRS UNIT DECIMALS: a line of the report; of rates the ratio is ours / theirs, of seconds theirs / ours.
row() {
  local name=$1 ours=$work/$2 theirs=$work/$3 unit=$4 decimals=$5
  printf '%-42s mtl %8.*f %-6s' "$name" "$decimals" "$(median < "$ours")" "$unit"
  if [ $peer = yes ]; then
    printf ' PyTorch %8.*f %-6s ratio %.2f' "$decimals" "$(median < "$theirs")" "$unit" \
      "$(if [ "$unit" = s ]; then ratio "$theirs" "$ours"; else ratio "$ours" "$theirs"; fi)"
  fi
  echo
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

echo
echo "memory of GPT-2 124M (T=1024, B=1), MB:"
gpt2_sizes 12 768 12 1024 50257
for precision in "" --bf16 "--bf16 --grad-reduce-in-bf16"; do
  # shellcheck disable=SC2086 # words
  "$bin/mtl-train" "${model[@]}" --micro-batch-size 1 --train-iters 6 --lr 1e-4 --eval-iters 0 --vocab-file "$share/gpt2/vocab.json" \
    --merge-file "$share/gpt2/merges.txt" --data-path "$work/gpt2_text_document" --quiet --dry-run --json $precision > "$work/plan.json"
  printf '  %-30s' "${precision:-fp32}"
  for role in parameters gradients optimizer main_weights activations total; do
    sed -n '/"memory_bytes"/,/}/p' "$work/plan.json" | field "$role" | head -n 1 | awk -v role=$role '{printf " %s %.0f", role, $1 / 1e6}'
  done
  echo
done

[ "$part" = one ] || for part in text data ranks offload convert plan rules start async_save rerun; do echo; bash "$here/$part.sh" "$bin"; done
