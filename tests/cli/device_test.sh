#!/bin/bash
# --device: cpu computes on the CPU, auto reports its choice, and cuda fails with a reason if no GPU can be used.
source "$(dirname "$0")/lib.sh" "$1"
export OMP_WAIT_POLICY=passive
MODEL=$TESTS/golden/gpt2_model/a
cd "$WORK" || exit 1
echo '{"text": "1 2 3 4 5 6 7 8"}' >ids.jsonl
expect_exit 0 mtl-preprocess --input ids.jsonl --output-prefix ids --tokenizer-type NullTokenizer --vocab-size 512 --append-eod
eval_ids=(mtl-eval --load "$MODEL" --data-path ids_text_document --seq-length 8)
train=(mtl-train --num-layers 2 --hidden-size 32 --num-attention-heads 4 --max-position-embeddings 8 --seq-length 8
  --tokenizer-type NullTokenizer --vocab-size 512 --data-path ids_text_document --split '1,0,0' --micro-batch-size 2 --train-iters 2
  --lr 0.001 --eval-iters 0 --peak-tflops 1)

# Kernels are compiled for the GPUs of the machine that builds. For plain 90, the wgmma kernels would compile to
# nothing, and nvcc refuses GPUs that are too old.
cat >choose.cmake <<END
include($TESTS/../cmake/cuda_support.cmake)
architectures_of_machine(found)
check_architectures("\${found}")
message("found \${found}")
END
while read -r expected capabilities; do
  printf '#!/bin/sh\nprintf "%s"\n' "${capabilities// /\\n}\\n" >nvidia-smi
  chmod +x nvidia-smi
  expect_exit 0 cmake -DMTL_NVIDIA_SMI="$PWD/nvidia-smi" -P choose.cmake
  expect_text err "^found ${expected/none/}\$"
done <<END
80;90a 8.0 8.0 9.0
100 10.0
86 7.0 8.6
none 7.5
none No devices were found
END
for archs in 90 '80;90' '90;100' 75 '80;70'; do
  expect_exit 1 cmake "-DMTL_CUDA_ARCHS=$archs" -P "$TESTS/../cmake/cuda.cmake"
  expect_text err "MTL_CUDA_ARCHS contains (90; write 90a|7[05]; mtl's kernels need 80)"
done
for release in 9.2 12.9 13.0 14.1; do
  printf '#!/bin/sh\necho "Cuda compilation tools, release %s, V%s.131"\n' $release $release >nvcc
  chmod +x nvcc
  cat >choose.cmake <<END
include($TESTS/../cmake/cuda_support.cmake)
describe_old_nvcc($PWD/nvcc reason)
message("reason: \${reason}")
END
  expect_exit 0 cmake -P choose.cmake
  case $release in
    9.2 | 12.9) expect_text err "^reason: .*nvcc is of CUDA $release, and mtl needs CUDA 13 or newer" ;;
    *) expect_text err '^reason: $' ;;
  esac
done

expect_exit 0 "${eval_ids[@]}" --device cpu
cp out cpu
expect_exit 0 "${eval_ids[@]}"
expect_same out cpu
expect_exit 2 "${eval_ids[@]}" --device gpu
expect_text err '^  --device gpu +is unknown; choose one of auto, cpu, cuda'
expect_exit 0 "${train[@]}" --device cpu
expect_exit 0 mpirun --oversubscribe -n 2 "$(command -v mtl-train)" "${train[@]:1}" --gpus-per-node 1
grep -q computing err && ! grep -q "because of rank" err && fail "ranks without a GPU report a choice of device: $(cat err)"
expect_exit 2 "${train[@]}" --device cpu --tf32
expect_text err '^  --tf32 +needs a GPU, and fp32: the CPU multiplies in fp32'
expect_exit 0 "${train[@]}" --device cpu --attention-backend fused --log-jsonl backend.jsonl
expect_text err 'attention-backend has no effect on the CPU'
grep -q '"attention_backend": "fused"' backend.jsonl || fail 'the start record lacks --attention-backend'
expect_exit 2 "${train[@]}" --device cpu --attention-backend fast
expect_text err '^  --attention-backend fast +is unknown; choose one of auto, flash, tiles, fused, unfused, local'
expect_exit 0 "${train[@]}" --device cpu --tuning-cache choices.json
expect_text err 'tuning-cache has no effect on the CPU'
[ ! -e choices.json ] || fail 'the CPU wrote --tuning-cache'

# On a machine with a usable GPU, tests/gpu covers the rest.
if "${eval_ids[@]}" --device cuda >out 2>err; then
  expect_exit 0 "${eval_ids[@]}"
  expect_text err 'computing on .*sm_[0-9]+'
  finish
  exit
fi
reason=$(sed -nE 's/^  --device cuda +(.*); to compute without a GPU, use --device cpu$/\1/p' err)
[ -n "$reason" ] || fail "no reason why cuda cannot be used: $(cat err)"
for program in "${eval_ids[*]}" "mtl-generate --load $MODEL --prompt 1 --ids" "${train[*]}" \
  "mtl-convert --load $MODEL --save hf --verify"; do
  # shellcheck disable=SC2086 # words
  expect_exit 2 $program --device cuda
  grep -qF -- "$reason" err || fail "$program reports a different reason: $(cat err)"
done
expect_exit 0 "${train[@]}"
case $reason in
  'this program was built without CUDA' | 'no NVIDIA driver is installed on this machine')
    grep -q computing err && fail "auto reports a choice on a machine without a GPU: $(cat err)"
    ;;
  *) grep -qF "computing on the CPU: $reason" err || fail "auto does not report its choice: $(cat err)" ;;
esac
if [ "$reason" = 'this program was built without CUDA' ]; then
  expect_exit 2 "${train[@]}" --dry-run --device cuda
else
  expect_exit 0 "${train[@]}" --dry-run --json --device cuda  # a plan needs no GPU
  cp out with_graphs
  expect_exit 0 "${train[@]}" --dry-run --json --device cuda --no-cuda-graphs
  cmp -s out with_graphs && fail 'the plan is the same with --no-cuda-graphs'
  for backend in auto flash tiles unfused local; do
    expect_exit 0 "${train[@]}" --dry-run --device cuda --attention-backend $backend
    [ -s err ] && fail "--attention-backend $backend prints notices: $(cat err)"
  done
  expect_exit 0 "${train[@]}" --dry-run --device cuda --attention-backend fused --bf16 --attention-dropout 0
  expect_exit 2 "${train[@]}" --dry-run --device cuda --attention-backend fused --attention-dropout 0.1 --reset-attention-mask
  expect_text err "^  --attention-backend fused +needs --bf16 or --fp16"
  expect_text err '^  --attention-backend fused +is not supported with dropout on attention; add --attention-dropout 0'
  expect_text err '^  --attention-backend fused +is not supported with --reset-attention-mask'
  expect_exit 0 "${train[@]}" --dry-run --device cuda --tf32
  bound=(mtl-train --model gpt2-124m --micro-batch-size 8 --seq-length 1024 --tokenizer-type NullTokenizer --vocab-size 50257 --lr 1e-3
    --dry-run --json --device cuda --roofline H100)
  for flag in '' --tf32; do
    # shellcheck disable=SC2086 # no word without the flag
    expect_exit 0 "${bound[@]}" $flag
    sed -nE 's/^ *"bound_ms": ([0-9.]+),?$/\1/p' out | head -n 1 >bound$flag
  done
  awk 'NR == FNR { plain = $1; next } END { exit !($1 > 0 && plain > 3 * $1) }' bound bound--tf32 ||
    fail "the bound is $(cat bound) ms in fp32, and $(cat bound--tf32) ms with --tf32"
  expect_exit 2 "${train[@]}" --dry-run --device cuda --tf32 --bf16
  expect_text err '^  --tf32 +needs a GPU, and fp32'
  expect_exit 0 "${train[@]}" --dry-run --device cuda # a plan needs no GPU
  expect_text out '^pinned memory of the host in bytes$'
  plan=(mtl-train --dry-run --device cuda --model gpt2-124m --seq-length 1024 --tokenizer-type NullTokenizer --vocab-size 50257
    --micro-batch-size 16 --global-batch-size 16 --train-iters 2 --lr 0.001 --bf16 --threads 1)
  expect_exit 0 "${plan[@]}" --gpu-memory 80
  expect_exit 2 "${plan[@]}" --gpu-memory 6
  expect_text out '^memory of the GPU in bytes$'
  expect_text err 'not enough memory: the run needs [0-9.]+ GiB on a GPU, but only 5.2 GiB is available \(of 6.0 GiB, about 768.0 MiB are for CUDA and its libraries\); the largest part is activations, '
  sed -nE 's/^  (--.*): [0-9.]+ [MG]iB of GPU memory, .*/\1/p' err >advice
  [ "$(wc -l <advice)" -eq 3 ] || fail "$(wc -l <advice) suggestions instead of 3: $(cat err)"
  while read -r flags; do
    # shellcheck disable=SC2086 # words
    expect_exit 0 "${plan[@]}" --gpu-memory 6 $flags
  done <advice
  grep -q -- '--recompute-granularity' advice || fail "no recomputation: $(cat advice)"
  # gpu_bytes PART FLAG...: prints a part's size in the plan with these flags.
  gpu_bytes() {
    local part=$1
    shift
    expect_exit 0 "${plan[@]}" --json "$@"
    tr -d '\n' <out | grep -oE '"gpu_memory_bytes": *\{[^}]*\}' | grep -oE "\"$part\": *[0-9]+" | grep -oE '[0-9]+'
  }
  [ "$(gpu_bytes main_weights)" -gt 0 ] || fail 'bf16 without main weights'
  [ -z "$(gpu_bytes main_weights --optimizer-cpu-offload)" ] || fail '--optimizer-cpu-offload leaves main weights on the GPU'
  [ "$(gpu_bytes optimizer --optimizer-cpu-offload)" -lt $(($(gpu_bytes optimizer) / 8)) ] || fail '--optimizer-cpu-offload leaves moments on the GPU'
  kept=$(gpu_bytes activations) one=$(gpu_bytes activations --cpu-offloading-num-layers 1) all=$(gpu_bytes activations --cpu-offloading)
  [ "$one" -lt "$kept" ] && [ $((kept - all)) -eq $((10 * (kept - one))) ] || fail "activations: $kept, with one layer offloaded $one, with 10 $all"
  expect_exit 2 "${plan[@]}" --cpu-offloading-num-layers 11
  expect_text err '--cpu-offloading-num-layers 11 +needs at least 13 layers in each stage, .*one stage has 12;'
  expect_exit 2 "${plan[@]}" --cpu-offloading --recompute-granularity full --recompute-method uniform
  expect_text err '--cpu-offloading +cannot be combined with recomputing whole layers'
fi
expect_exit 2 mpirun --oversubscribe -n 2 "$(command -v mtl-train)" "${train[@]:1}" --device cuda
grep -qF -- "$reason" err || fail "ranks report a different reason: $(cat err)"
finish
