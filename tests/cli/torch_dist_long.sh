#!/bin/bash
# megatron-core loads the torch_dist checkpoints that mtl-convert writes, computes transformers' logits, and continues
# with the step that mtl-train takes. Skipped without torch, transformers and megatron-core for MTL_PYTHON (default:
# python3).
source "$(dirname "$0")/lib.sh" "$1"
python=${MTL_PYTHON:-python3}
export PYTHONDONTWRITEBYTECODE=1
"$python" -c 'import torch, transformers, megatron.core.dist_checkpointing' 2>"$WORK/why" ||
  { echo "skipped: $python: $(tail -1 "$WORK/why")"; exit 77; }
cd "$WORK" || exit 1

shuf -i 0-44 -n 4000 -r --random-source="$TESTS/golden/blend/cases.jsonl" | paste -sd' ' | sed 's/.*/{"text": "&"}/' >ids.jsonl
expect_exit 0 mtl-preprocess --input ids.jsonl --output-prefix ids --tokenizer-type NullTokenizer --vocab-size 45
data=(--data-path ids_text_document --split '100,0,0' --seq-length 16 --micro-batch-size 2 --global-batch-size 4
  --train-iters 6 --eval-iters 0)
train=(mtl-train "${data[@]}" --tokenizer-type NullTokenizer --vocab-size 45 --num-layers 2 --hidden-size 32
  --num-attention-heads 4 --max-position-embeddings 16 --hidden-dropout 0 --attention-dropout 0 --lr 1e-3
  --lr-decay-style constant --weight-decay 0.1 --clip-grad 1.0 --adam-beta2 0.95)
llama=(--position-embedding-type rope --normalization RMSNorm --swiglu --disable-bias-linear --ffn-hidden-size 48
  --group-query-attention --num-query-groups 2 --untie-embeddings-and-output-weights)
to_torch_dist=(--to megatron --ckpt-format torch_dist --make-vocab-size-divisible-by 1)
expect_exit 0 mtl-data order "${data[@]}" --tokens
sed -n 17,20p out >batch  # iteration 5

for model in gpt llama; do
  flags=()
  [ $model = llama ] && flags=("${llama[@]}")
  expect_exit 0 "${train[@]}" "${flags[@]}" --save $model --exit-interval 4
  expect_exit 0 mtl-convert --load $model --save $model.hf
  expect_exit 0 mtl-convert --load $model --save $model.dist "${to_torch_dist[@]}"
  expect_exit 0 mtl-convert --load $model --save $model.bf16 "${to_torch_dist[@]}" --dtype bfloat16
  expect_exit 0 "${train[@]}" "${flags[@]}" --save $model --exit-interval 5
  expect_exit 0 mtl-convert --load $model --save $model.next
  expect_exit 0 "$python" "$TESTS/cli/torch_dist_peer.py" $model.dist $model.hf $model.next batch 1e-3 0.1
  cat out
  expect_exit 0 "$python" "$TESTS/cli/torch_dist_peer.py" $model.bf16 $model.hf
  cat out
done
finish
