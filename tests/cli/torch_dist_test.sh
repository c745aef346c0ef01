#!/bin/bash
# mtl-convert --ckpt-format torch_dist writes weights and optimizer state, and nothing incomplete. torch_dist_long.sh
# loads such checkpoints with megatron-core.
source "$(dirname "$0")/lib.sh" "$1"
enter_data_folder
expect_exit 0 mtl-train --mock-data --tokenizer-type NullTokenizer --vocab-size 45 --num-layers 2 --hidden-size 16 \
  --num-attention-heads 2 --seq-length 8 --max-position-embeddings 8 --micro-batch-size 2 --train-iters 3 --lr 1e-3 --eval-iters 0 --save run
write=(mtl-convert --to megatron --ckpt-format torch_dist)

# With the optimizer state: the iteration's folder.
expect_exit 0 "${write[@]}" --load run --save dist --json
expect_text out '"schema": "mtl-convert/1"'
[ "$(cat dist/latest_checkpointed_iteration.txt)" = 3 ] || fail 'the tracker does not name iteration 3'
[ "$(ls -A dist/iter_0000003 | sort | paste -sd' ')" = '.metadata __0_0.distcp common.pt metadata.json' ] || fail 'other files'
expect_text dist/iter_0000003/metadata.json '"sharded_backend": "torch_dist", "sharded_backend_version": 1'
for key in 'decoder.layers.self_attention.linear_qkv.layer_norm_weight' 'optimizer.state.param.decoder.final_layernorm.bias' \
  'optimizer.state.exp_avg.embedding.word_embeddings.weight' 'optimizer.state.exp_avg_sq.decoder.layers.mlp.linear_fc1.bias' \
  'decoder.layers.mlp.linear_fc2._extra_state/shard_1_2'; do
  grep -qaF "$key" dist/iter_0000003/.metadata || fail "no tensor $key"
done
grep -qaF fully_reshardable dist/iter_0000003/common.pt || fail 'common.pt does not state the kind of optimizer state'
expect_exit 0 "${write[@]}" --load run --save again
for file in .metadata __0_0.distcp common.pt; do expect_same again/iter_0000003/$file dist/iter_0000003/$file; done

# --dtype rounds the weights, not the main weights, which are then tensors of their own.
expect_exit 0 "${write[@]}" --load run --save rounded --dtype bfloat16
[ "$(stat -c %s rounded/iter_0000003/__0_0.distcp)" -gt "$(stat -c %s dist/iter_0000003/__0_0.distcp)" ] ||
  fail 'no main weights beside rounded weights'

# Without optimizer state: a release. The tokenizer's files come along.
expect_exit 0 mtl-convert --load run --save hf
cp vocab.json merges.txt hf
expect_exit 0 "${write[@]}" --load hf --save weights
expect_exit 0 mtl-convert --load weights --save weights_back
for file in vocab.json merges.txt; do expect_same weights_back/$file hf/$file; done
[ "$(cat weights/latest_checkpointed_iteration.txt)" = release ] || fail 'the tracker does not name a release'
grep -qaF optimizer.state weights/release/.metadata && fail 'an optimizer state was invented'
grep -qaF word_embeddings weights/release/.metadata || fail 'no weights in the release'

# A checkpoint of mtl states how many rows of the token embedding are tokens: nothing else does here.
for ranks in 1 2; do
  expect_exit 0 "${write[@]}" --load run --save padded_$ranks --tensor-model-parallel-size $ranks
  expect_exit 0 mtl-convert --load padded_$ranks --save back_$ranks
  ! grep -q padding err || fail 'the number of tokens is not known'
  for file in model.safetensors config.json; do expect_same back_$ranks/$file hf/$file; done
done

# Megatron-LM's Adam settings are not in its checkpoints' states.
expect_exit 0 "${write[@]}" --load "$TESTS/golden/distrib_optim/gpt_pp2" --save from_megatron --vocab-size 45
expect_text err 'does not state Adam.s betas and epsilon; writing Megatron-LM.s defaults, 0.9, 0.999 and 1e-8'
grep -qaF optimizer.state.exp_avg from_megatron/iter_0000030/.metadata || fail "Megatron-LM's moments were lost"

# Sizes of the pipeline have no effect. --verify reads the output back.
expect_exit 0 "${write[@]}" --load hf --save no_stages --pipeline-model-parallel-size 2
expect_text err '--pipeline-model-parallel-size has no effect without --to megatron --ckpt-format torch$'
expect_exit 0 mtl-convert --to hf --load hf --save no_format --ckpt-format torch_dist
expect_text err '--ckpt-format has no effect without --to megatron$'
expect_exit 0 "${write[@]}" --load run --save verified --verify
expect_exit 0 "${write[@]}" --load run --save verified_rounded --verify --dtype bfloat16

# --force replaces such a checkpoint, and nothing else. A failed write leaves nothing behind.
expect_exit 2 "${write[@]}" --load hf --save dist
expect_exit 0 "${write[@]}" --load hf --save dist --force --json
expect_text out '"replaced": "a Megatron-LM checkpoint"'
[ ! -e dist/iter_0000003 ] || fail '--force left the old checkpoint'
touch rounded/iter_0000003/notes.txt
expect_exit 2 "${write[@]}" --load hf --save rounded --force
expect_text err "contains 'notes.txt', which is not part of a model"
at=1
while MTL_FAULT=eio:$at "${write[@]}" --load run --save faulty 2>err; [ $? -ne 0 ]; do
  [ ! -e faulty ] || fail "an incomplete checkpoint appeared (write $at failed)"
  at=$((at + 7))
  [ $at -lt 4000 ] || break
done
[ $at -gt 20 ] || fail "no write failed"
[ -z "$(find . -name 'faulty.tmp*')" ] || fail 'a failed conversion left its temporary folder'
finish
