#!/bin/bash
# Checkpoints of DeepSpeed and GPT-NeoX, in every tool that reads models: converted bit for bit, and resumed.
source "$(dirname "$0")/lib.sh" "$1"
CASES=$TESTS/golden/deepspeed
enter_data_folder
RUN=(--tokenizer-type NullTokenizer --vocab-size 32 --mock-data --seq-length 8 --micro-batch-size 2
  --global-batch-size 4 --lr 1e-3 --eval-iters 0 --threads 1 --hidden-dropout 0 --attention-dropout 0)

# Every case has the fp32 weights of its model, and computes the same logits. A resume continues at its iteration with
# the moments: like a resume from the converted checkpoint.
for name in neox_pipeline neox_sequential megatron_tensor megatron_pipeline megatron_plain; do
  expect_exit 0 mtl-convert --load "$CASES/$name" --save "$name" --verify --vocab-size 32
  expect_exit 0 mtl-convert --load "$CASES/$name/expected/main" --save "$name.expected"
  expect_same "$name/model.safetensors" "$name.expected/model.safetensors"
  expect_exit 0 mtl-convert --load "$CASES/$name/global_step2" --save "$name.mtl" --to mtl --verify --vocab-size 32
  expect_exit 0 mtl-train "${RUN[@]}" --load "$CASES/$name" --save "$name.resumed" --train-iters 4
  expect_text err "resuming .*/$name/global_step2 at iteration 2"
  expect_exit 0 mtl-train "${RUN[@]}" --load "$name.mtl" --save "$name.again" --train-iters 4
  expect_same "$name.resumed/iter_0000004/shard_00000.safetensors" "$name.again/iter_0000004/shard_00000.safetensors"
done
expect_text neox_pipeline/config.json '"use_parallel_residual": true'
expect_text neox_sequential/config.json '"model_type": "llama"'

# Norms that differ between tensor parallel ranks are said, and so is what the files do not state.
cp -r "$CASES/neox_pipeline/global_step2" bare
chmod -R u+w bare
expect_exit 0 mtl-convert --load bare --save averaged --vocab-size 32
expect_text err 'bare: 10 of the norms and biases differ between tensor parallel ranks; mtl uses their means'
rm -r bare/configs
expect_exit 0 mtl-convert --load bare --save assumed --vocab-size 32
expect_text err 'bare: the checkpoint has no configs/\*.yml, .*mtl assumes rotary positions of whole heads'

# A part of the optimizer state is missing: a resume is refused unless the flags choose, and a conversion says why.
rm bare/bf16_zero_pp_rank_1_mp_rank_02_optim_states.pt
expect_exit 65 mtl-train "${RUN[@]}" --load bare --save lost --train-iters 4
expect_text err 'bf16_zero_pp_rank_0_mp_rank_02_optim_states.pt: the optimizer state has 2 partitions, .*--no-load-optim'
expect_exit 0 mtl-train "${RUN[@]}" --load bare --save lost --train-iters 4 --no-load-optim
expect_exit 0 mtl-convert --load bare --save weights --vocab-size 32
expect_text err 'converting the weights without the optimizer state: .*has 2 partitions'
expect_text weights/config.json '"dtype": "bfloat16"'

# What is wrong with the tracker is said, once: a tail of zeros after a power cut, a path, and a folder without files.
cp -r "$CASES/megatron_plain" tracked
chmod -R u+w tracked
mkdir tracked/global_step1
for wrong in '%s\0\0|does not name a checkpoint' './%s|does not name a checkpoint' '%.11s1|names global_step1, which is not a checkpoint' \
  '%s0|names global_step20, which does not exist'; do
  # shellcheck disable=SC2059  # a format
  printf "${wrong%|*}" global_step2 >tracked/latest
  expect_exit 0 mtl-convert --load tracked --save untracked --force --vocab-size 32
  expect_same <(grep -E 'more than one|tracked/latest' err) <(echo "mtl-convert: warning: tracked/latest ${wrong#*|}; using global_step2")
done

# Malicious files are refused, without running what they contain.
cp -r "$CASES/megatron_plain/global_step2" hostile
chmod -R u+w hostile
for bad in "$TESTS"/golden/megatron_ckpt/bad/*; do
  cp "$bad" hostile/mp_rank_00_model_states.pt
  expect_exit 65 mtl-convert --load hostile --save no --num-attention-heads 4
  [ ! -e PWNED ] || fail "$bad was executed"
done

finish
