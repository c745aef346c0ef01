#!/bin/bash
# Distributed checkpoints of Megatron-LM (torch_dist) and torchtitan, in every tool that reads models.
source "$(dirname "$0")/lib.sh" "$1"
CASES=$TESTS/golden/dist_ckpt
enter_data_folder

# The weights, as mtl-convert writes them from a Hugging Face folder.
for model in llama gpt tiny; do
  for type in fp32 bf16; do
    mkdir "given_${model}_$type"
    cp "$CASES/models/$model/config.json" "given_${model}_$type"
    cp "$CASES/models/$model/model_$type.safetensors" "given_${model}_$type/model.safetensors"
    expect_exit 0 mtl-convert --load "given_${model}_$type" --save "${model}_$type"
  done
done
expect_exit 0 mtl-convert --load "$CASES/tag_llama_tp2" --save tp2 --verify --vocab-size 45
expect_text err 'read .*iter_0000030 \(distributed Megatron-LM checkpoint, '
expect_same tp2/model.safetensors llama_fp32/model.safetensors
expect_exit 0 mtl-convert --load "$CASES/tag_gpt_pp2/iter_0000030" --save pp2 --verify --vocab-size 42
expect_same pp2/model.safetensors gpt_fp32/model.safetensors
expect_exit 0 mtl-convert --load "$CASES/titan_bf16" --save titan --verify --hf-config "$CASES/models/llama"
expect_text err 'read .*step-25 \(PyTorch distributed checkpoint, '
expect_same titan/model.safetensors llama_bf16/model.safetensors

# A checkpoint of mtl has the moments, too, and a run resumes from either.
expect_exit 0 mtl-convert --load "$CASES/tag_llama_tp2" --save mtl --to mtl --verify --vocab-size 45
expect_exit 0 mtl-convert --load mtl --save from_mtl
expect_same from_mtl/model.safetensors tp2/model.safetensors
train=(mtl-train --mock-data --tokenizer-type NullTokenizer --vocab-size 45 --seq-length 16 --micro-batch-size 1
  --global-batch-size 8 --lr 0.001 --train-iters 32 --log-interval 1)
expect_exit 0 "${train[@]}" --load "$CASES/tag_llama_tp2" --save run
expect_text err 'resuming .*iter_0000030 at iteration 30'
grep 'iteration *3[12]/' out >direct || fail 'no steps after iteration 30'
expect_exit 0 "${train[@]}" --load mtl --save run_mtl
grep 'iteration *3[12]/' out >converted || fail 'no steps after iteration 30'
[ "$(sed -E 's/.*(lm loss: [^|]*).*/\1/' direct)" = "$(sed -E 's/.*(lm loss: [^|]*).*/\1/' converted)" ] ||
  fail "a converted checkpoint resumes with other losses: $(paste direct converted)"
expect_exit 0 "${train[@]}" --load "$CASES/tag_llama_tp2" --finetune --train-iters 1 --save tuned
expect_text err 'starting from the weights of the distributed Megatron-LM checkpoint'

# torchtitan's files lack the configuration and the number of samples.
titan=(--vocab-size 13 --load "$CASES/titan_fp32" --train-iters 26 --save run_titan)
expect_exit 0 "${train[@]}" "${titan[@]}" --hf-config "$CASES/models/tiny/config.json"
expect_text err 'does not state how many samples .* assumes 200, which are 25 iterations'
expect_text err 'resuming .*step-25 at iteration 25'
expect_exit 2 mtl-convert --load "$CASES/titan_fp32" --save no
expect_text err '--num-attention-heads .*is required, because the folder has no config.json; or use --hf-config PATH'
expect_exit 0 mtl-convert --load "$CASES/titan_fp32" --save assumed --num-attention-heads 2 --vocab-size 13
expect_text err "assumes torchtitan's defaults for Llama 3: rotary base 500000"
expect_same assumed/model.safetensors tiny_fp32/model.safetensors
expect_exit 2 mtl-convert --load mtl --save no --hf-config "$CASES/models/llama"
expect_text err '--hf-config .*: has no use for the model in'

# The other tools.
expect_exit 0 mtl-generate --load "$CASES/tag_llama_tp2" --vocab-size 45 --ids --prompt '1 2 3' --max-new-tokens 4 --greedy
cp out from_dist
expect_exit 0 mtl-generate --load tp2 --ids --prompt '1 2 3' --max-new-tokens 4 --greedy
expect_same out from_dist
expect_exit 0 mtl-generate --load "$CASES/titan_bf16" --hf-config "$CASES/models/llama" --ids --prompt '1 2 3' --max-new-tokens 4

# What is not read is refused with a remedy, and leaves nothing behind.
mkdir other
cp "$CASES"/titan_bf16/step-25/* other 2>/dev/null || true
sed 's/tok_embeddings/tok_embeddingz/g' "$CASES/titan_bf16/step-25/.metadata" >other/.metadata
expect_exit 65 mtl-convert --load other --save no --num-attention-heads 4
expect_text err "has tensors '.*dcp_to_torch_save"
for bad in metadata_os_system archive_os_system stride_zero_bomb; do
  expect_exit 65 mtl-convert --load "$CASES/odd/$bad" --save no --hf-config "$CASES/models/tiny"
  [ ! -e no ] || fail "$bad left an output"
done
[ ! -e PWNED ] || fail 'a checkpoint was executed'

# Damage is found while elements are converted, and in Adam's moments, which a Hugging Face folder does not contain.
# damage NAME NUMBER: changes two bytes of the NUMBERth tensor in the file of the checkpoint NAME.
damage() {
  file=$(echo "$1"/*/__0_0.distcp)
  printf '\377\376' | dd of="$file" bs=1 conv=notrunc status=none \
    seek=$(($(LC_ALL=C grep -abo 'data/0FB' "$file" | sed -n "$2p" | cut -d: -f1) + 130))
}
expect_damage() {  # NAME FLAG...
  expect_exit 65 mtl-convert --load "$1" --save no "${@:2}"
  expect_text err "__0_0.distcp: the archive of '.*' at offset [0-9]+: zip archive: the data of entry '.*/data/0' .*CRC-32"
  [ -z "$(ls -d no* 2>/dev/null)" ] || fail "a damaged checkpoint left $(ls -d no*): ${*:2}"
}
expect_exit 0 mtl-convert --load tp2 --save damaged --to megatron --ckpt-format torch_dist
damage damaged 1
expect_damage damaged --to hf
expect_damage damaged --to hf --dtype bfloat16
expect_damage damaged --to mtl
expect_damage damaged --to megatron
expect_damage damaged --to megatron --ckpt-format torch_dist
expect_exit 0 mtl-convert --load mtl --save moments --to megatron --ckpt-format torch_dist
damage moments 3
expect_damage moments --to hf
expect_text err "the archive of 'optimizer.state.exp_avg_sq.embedding"

# A folder with models in two formats is read as one of them, with a warning that names both. A run's older checkpoints
# in another format, and a configuration beside torchtitan's tensors, are no second model.
# expect_other FOLDER TEXT FLAG...: mtl-convert warns once that FOLDER has another model, with TEXT; "": it does not.
expect_other() {
  rm -rf converted
  expect_exit 0 mtl-convert --load "$1" --save converted "${@:3}"
  [ "$(sed -n 's/.*contains more than one model: mtl reads the //p' err)" = "$2" ] ||
    fail "expected a warning '$2': $(cat err)"
}
apart='; move one of them to a folder of its own'
cp -r "$CASES/titan_fp32/step-25" mixed
chmod -R u+w mixed
cp "$CASES/models/tiny/config.json" mixed
expect_other mixed ''
cp given_tiny_fp32/model.safetensors mixed
expect_other mixed \
  "PyTorch distributed checkpoint (.metadata) and ignores the Hugging Face folder (model.safetensors)$apart"
mkdir -p several/step-9 several/iter_0000030
cp "$CASES"/titan_fp32/step-25/{.metadata,*} several/step-9
cp "$CASES"/odd/megatron_plain/{.metadata,*} several/iter_0000030
echo 30 >several/latest_checkpointed_iteration.txt
expect_other several "distributed Megatron-LM checkpoint (iter_0000030) and ignores the PyTorch distributed checkpoint \
(step-9)$apart" --vocab-size 13
rm -r several/step-9
expect_exit 0 mtl-convert --load llama_fp32 --save old --to megatron
mv old/release several/iter_0000010
expect_other several '' --vocab-size 13
cp given_llama_fp32/* several
expect_other several \
  "Hugging Face folder (config.json) and ignores the Megatron-LM checkpoint (iter_0000010)$apart"
expect_same converted/model.safetensors llama_fp32/model.safetensors

# --force replaces such a folder only if it has nothing else.
cp -r "$CASES/odd/plain_compact" replaced
chmod -R u+w replaced
expect_exit 2 mtl-convert --load tp2 --save replaced
expect_exit 0 mtl-convert --load tp2 --save replaced --force
cp -r "$CASES/odd/plain_compact" kept
chmod -R u+w kept
touch kept/notes.txt
expect_exit 2 mtl-convert --load tp2 --save kept --force
expect_text err "contains 'notes.txt', which is not part of a model"

expect_exit 0 mtl-convert --list-formats
expect_text out 'torch_dist: distributed Megatron-LM checkpoint'
finish
