#!/usr/bin/env bash
# Measures training on one GPU (`make bench-gpu`): GPT-2 124M, 355M, 1558M and a Llama of 1.2B parameters, bf16, T=1024,
# real text; the median step of 200, with loader, clipping and optimizer, alternating with PyTorch (compile, flash
# attention) if MTL_PEER_PYTHON, else python3, has torch with CUDA. Then compares the operators of each model with a
# copy and a product of 8192 rows on the same GPU, and with the bound of the roofline.
# Usage: gpu.sh BIN [OUT]: tables on stdout, results.json and profiles in OUT.
#
# MTL_BENCH_MODELS  models to measure, by the names below
# MTL_BENCH_STEPS   200; MTL_BENCH_ROUNDS 3, each of STEPS steps of every program
# MTL_BENCH_LAUNCHES=1  also measures a run without CUDA graphs
# MTL_BENCH_DEVICE  cuda; cpu rehearses the script with the model "tiny"
# MTL_BENCH_ROOFLINE=H100  without a GPU: only the prediction for that one
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$here/lib.sh" "$1"
out=${2:-$PWD/bench-gpu}
device=${MTL_BENCH_DEVICE:-cuda}
steps=${MTL_BENCH_STEPS:-200}
python=${MTL_PEER_PYTHON:-python3}
precision=(--bf16)
case $device in
  cuda) models=${MTL_BENCH_MODELS:-124m 355m 1558m llama-1b} cube=8192 ;;
  cpu) models=${MTL_BENCH_MODELS:-tiny} cube=768 ;;
  *) echo "gpu.sh: MTL_BENCH_DEVICE is '$device'; it can be cuda or cpu" >&2; exit 2 ;;
esac
[ "$steps" -ge 4 ] || { echo "gpu.sh: MTL_BENCH_STEPS is $steps; at least 4" >&2; exit 2; }

# sizes NAME: sets title, model, peer_model, batch, length and published of a model.
sizes() {
  length=1024 published=""
  case $1 in
    tiny) title="tiny" length=64 batch=4 model=(--num-layers 2 --hidden-size 64 --num-attention-heads 4)
      peer_model=(--layers 2 --width 64 --heads 4) ;;
    124m) title="GPT-2 124M" batch=32 model=(--model gpt2-124m) peer_model=(--layers 12 --width 768 --heads 12)
      published="llm.c 468,000 tok/s per H100 (8 of them), MFU A 38.0 %" ;;
    355m) title="GPT-2 355M" batch=16 model=(--model gpt2-345m) peer_model=(--layers 24 --width 1024 --heads 16)
      published="llm.c 188,000 tok/s per H100 (8 of them), MFU A 43.4 %" ;;
    1558m) title="GPT-2 1558M" batch=8 model=(--model gpt2-1558m) peer_model=(--layers 48 --width 1600 --heads 25)
      published="llm.c 46,800 to 48,500 tok/s per H100 (8 of them, ZeRO-1), MFU A 46.4 to 48.2 %" ;;
    llama-1b) title="Llama 1B" batch=8 model=(--model llama3.2-1b)
      peer_model=(--architecture llama --layers 16 --width 2048 --heads 32 --groups 8 --ffn 8192)
      published="llmq, Qwen2.5 1.5B, MFU A 56.7 % on one H100" ;;
    *) echo "gpu.sh: MTL_BENCH_MODELS names '$1'; it can be tiny, 124m, 355m, 1558m or llama-1b" >&2; exit 2 ;;
  esac
  batch=${MTL_BENCH_BATCH:-$batch}
  if [ "$1" = tiny ]; then model+=(--max-position-embeddings "$length"); fi
  flags=("${model[@]}" --seq-length "$length" --micro-batch-size "$batch" "${precision[@]}" --lr 1e-4 --weight-decay 0.1
    --hidden-dropout 0 --attention-dropout 0 --clip-grad 1 --vocab-file "$share/gpt2/vocab.json"
    --merge-file "$share/gpt2/merges.txt")
  peer_flags=("${peer_model[@]}" --length "$length" --batch "$batch" --vocab 50257 --autocast --device "$device")
}

# roofline GPU: prints the bound of its data sheet for each model.
roofline() {
  local name
  for name in $models; do
    sizes "$name"
    echo "== $title, B=$batch, T=$length, ${precision[*]}"
    "$bin/mtl-train" "${flags[@]}" --device cpu --quiet --dry-run --roofline "$1" | sed -n '/^roofline of/,/^  operator, operands/p' | sed '$d'
  done
}

# --- The GPU ---
peaks=$("$bin/mtl_bench_peaks" "$device" "$cube" 2>"$work/why") || {
  sed 's/^/gpu.sh: /' "$work/why" >&2
  if [ -n "${MTL_BENCH_ROOFLINE:-}" ]; then roofline "$MTL_BENCH_ROOFLINE"; fi
  exit 1
}
copy=$(field copy_gb_per_s <<<"$peaks") gemm=$(field gemm_tflops <<<"$peaks")
name=$(sed -nE 's/.*"name": ?"([^"]*)".*/\1/p' <<<"$peaks")
mkdir -p "$out"
driver=""
if [ "$device" = cuda ] && command -v nvidia-smi >/dev/null; then
  driver=", driver $(nvidia-smi --query-gpu=driver_version,power.limit --format=csv,noheader | head -n 1)"
fi
echo "device: $name$driver; $("$bin/mtl-train" --version | head -n 1)"
echo "a copy: $copy GB/s; a product of $cube rows in bf16: $gemm TFLOP/s"
peer=no
if "$python" -c 'import torch, sys; sys.exit(not (sys.argv[1] == "cpu" or torch.cuda.is_available()))' "$device" 2>/dev/null; then
  peer=yes
  echo "peer: PyTorch $("$python" -c 'import torch; print(torch.__version__)'), torch.compile, flash attention, autocast to bf16"
else
  echo "peer: none ($python has no torch that can use $device; set MTL_PEER_PYTHON)"
fi

if [ -f "$share/text.jsonl" ]; then cp "$share/text.jsonl" "$work/text.jsonl"; else make_text; fi
make_tokens gpt2 "$share/gpt2/vocab.json" "$share/gpt2/merges.txt" "$(nproc)"
data=(--data-path "$work/gpt2_text_document" --split "100,0,0" --eval-iters 0 --device "$device" --log-interval 1 --quiet)

# --- Training ---
# ours FLAG...: trains once; appends tokens per second and both MFUs of the median step after the first tenth to files.
ours() {
  rm -f "$work/run.jsonl"
  "$bin/mtl-train" "${flags[@]}" "${data[@]}" --train-iters "$steps" --log-jsonl "$work/run.jsonl" "$@"
  local figure
  for figure in tokens_per_second mfu_a mfu_b; do
    grep '"step"' "$work/run.jsonl" | tail -n +$((steps / 10 + 2)) | field $figure | median >>"$work/$figure"
  done
}

theirs() {
  "$python" "$here/pytorch_peer.py" "$work/gpt2_text_document.bin" "${peer_flags[@]}" --steps "$steps" --skip $((steps / 10 + 1)) \
    --compile >"$work/peer.json" 2>"$work/peer.err" || { sed 's/^/  PyTorch: /' "$work/peer.err" | tail -n 3; return 1; }
  field tokens_per_second <"$work/peer.json" >>"$work/peer"
}

# operators FILE: prints a profile's table by operator, each compared with the copy and the product.
operators() {
  awk -v copy="$copy" -v gemm="$gemm" '
    /^operator / { inside = 1; printf "  %-26s %8s %9s %7s %9s %8s %9s %9s\n", $1, "calls", "ms", "share", "GB/s", "of copy", "TFLOP/s", "of GEMM"; next }
    inside && NF < 9 { exit }
    inside { printf "  %-26s %8s %9s %7s %9.1f %7.1f%% %9.2f %8.1f%%\n", $1, $2, $3, $4, $8, 100 * $8 / copy, $7, 100 * $7 / gemm }' "$1"
}

results=()
for model_name in $models; do
  sizes "$model_name"
  echo
  echo "== $title, B=$batch, T=$length, ${precision[*]}"
  rm -f "$work"/{tokens_per_second,mfu_a,mfu_b,peer}
  profile_end=$((steps < 12 ? steps : 12))
  if ! "$bin/mtl-train" "${flags[@]}" "${data[@]}" --train-iters "$profile_end" --profile --profile-step-start $((profile_end - 2)) \
    --profile-step-end "$profile_end" --profile-dir "$out/$model_name" 2>"$work/train.err"; then
    tail -n 5 "$work/train.err"
    results+=("{\"model\": \"$model_name\", \"failed\": true}")
    continue
  fi
  peak=$(field tflops_16 <"$out/$model_name/rank0.json" | head -n 1) # from the data sheet if the GPU is known
  for _ in $(seq "$rounds"); do
    ours --peak-tflops "$peak"
    if [ $peer = yes ]; then theirs || peer=failed; fi
  done
  rate=$(median <"$work/tokens_per_second") a=$(median <"$work/mfu_a") b=$(median <"$work/mfu_b")
  awk -v rate="$rate" -v a="$a" -v b="$b" -v peak="$peak" \
    'BEGIN { printf "  mtl      %9.0f tok/s, MFU A %.1f %%, B %.1f %% of %g TFLOP/s\n", rate, 100 * a, 100 * b, peak }'
  if [ -n "${MTL_BENCH_LAUNCHES:-}" ]; then
    rm -f "$work/tokens_per_second"
    ours --peak-tflops "$peak" --no-cuda-graphs
    awk -v rate="$rate" -v launches="$(median <"$work/tokens_per_second")" \
      'BEGIN { printf "  without CUDA graphs %.0f tok/s; ratio %.3f\n", launches, launches / rate }'
  fi
  theirs_rate=null
  if [ -s "$work/peer" ]; then
    theirs_rate=$(median <"$work/peer")
    awk -v rate="$rate" -v peer="$theirs_rate" 'BEGIN { printf "  PyTorch  %9.0f tok/s; ratio %.2f\n", peer, rate / peer }'
  fi
  [ "$peer" != failed ] || peer=yes # another model may fit
  [ -z "$published" ] || echo "  published, not measured here: $published"
  operators "$out/$model_name/rank0.txt"
  results+=("{\"model\": \"$model_name\", \"batch\": $batch, \"length\": $length, \"tokens_per_second\": $rate, \"mfu_a\": $a,
    \"mfu_b\": $b, \"peak_tflops\": $peak, \"pytorch_tokens_per_second\": $theirs_rate}")
done
joined=$(printf '%s,\n  ' "${results[@]}")
printf '{"version": 1, "device": "%s", "copy_gb_per_s": %s, "gemm_tflops": %s, "steps": %s, "rounds": %s, "models": [\n  %s]}\n' \
  "$name" "$copy" "$gemm" "$steps" "$rounds" "${joined%,*}" >"$out/results.json"
echo
echo "profiles and results.json: $out"
case $joined in *'"failed": true'*) exit 1 ;; esac
