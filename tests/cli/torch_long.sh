#!/bin/bash
# PyTorch can read the Megatron-LM checkpoints that mtl-convert writes. Combined by megatron-core's rules, the ranks'
# files contain every element in the model. Skipped without torch and safetensors for MTL_PYTHON (default: python3).
source "$(dirname "$0")/lib.sh" "$1"
python=${MTL_PYTHON:-python3}
"$python" -c 'import torch, safetensors.torch' 2>"$WORK/why" || { echo "skipped: $python: $(tail -1 "$WORK/why")"; exit 77; }
for model in gpt2_model/a llama_model/llama llama_model/qwen2 megatron_chunks; do
  hf=$WORK/hf.${model##*/}
  expect_exit 0 mtl-convert --load "$TESTS/golden/$model" --save "$hf"
  layouts=('1 1 1' '2 1 1' '1 2 1' '2 2 1')
  [ $model = megatron_chunks ] && layouts=('1 2 2' '2 2 4' '2 4 2')  # the other models have fewer layers
  for layout in "${layouts[@]}"; do
    read -r tensor pipeline chunks <<<"$layout"
    for implementation in transformer_engine local; do
      converted=$WORK/megatron
      rm -rf "$converted"
      expect_exit 0 mtl-convert --load "$hf" --save "$converted" --to megatron --tensor-model-parallel-size "$tensor" \
        --pipeline-model-parallel-size "$pipeline" --num-virtual-stages-per-pipeline-rank "$chunks" \
        --transformer-impl $implementation --make-vocab-size-divisible-by 100
      "$python" "$TESTS/cli/torch_peer.py" "$hf" "$converted" 2>"$WORK/err" ||
        fail "$model, TP $tensor, PP $pipeline x $chunks, $implementation: $(tail -3 "$WORK/err")"
    done
  done
done
finish
