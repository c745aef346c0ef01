#!/bin/bash
# mtl-convert: converts Hugging Face models and mtl's and Megatron-LM's checkpoints in both directions, and never leaves
# partial output.
. "$(dirname "$0")/lib.sh" "$1"
MODELS=$TESTS/golden/gpt2_model

# A round trip reproduces GPT-2 model files.
for model in a b; do
  cp -r "$MODELS/$model" "$WORK/$model"
  echo '{"<|endoftext|>": 7}' >"$WORK/$model/vocab.json"
  echo '#version: 0.2' >"$WORK/$model/merges.txt"
  expect_exit 0 mtl-convert --load "$WORK/$model" --save "$WORK/$model.mtl" --to mtl --verify
  expect_text "$WORK/err" "verified: all tensors equal the source's; logits at [0-9]+ positions differ by at most 0 "
  [ -f "$WORK/$model.mtl/iter_0000000/manifest.json" ] || fail "no checkpoint of $model"
  expect_exit 0 mtl-convert --load "$WORK/$model.mtl" --save "$WORK/$model.back/" --to hf --verify
  for file in model.safetensors generation_config.json vocab.json merges.txt; do
    expect_same "$WORK/$model/$file" "$WORK/$model.back/$file"
  done
  expect_same <(tr -d ' \n' <"$WORK/$model/config.json") <(tr -d ' \n' <"$WORK/$model.back/config.json")
done

# Checks the same for all other families, from safetensors and from PyTorch files.
compact() { tr -d ' \n' <"$1"; }
for model in llama_model/{llama,mistral,qwen2,neox} family_model/{llama3,qwen3,neox_serial,gpt2_relu,gpt2_gelu,gpt2_gelu_bin,neox_serial_bin}; do
  name=${model##*/}
  golden=$TESTS/golden/$model
  expect_exit 0 mtl-convert --load "$golden" --save "$WORK/$name.mtl" --to mtl --verify
  expect_text "$WORK/err" "verified: all tensors equal the source's; logits at [0-9]+ positions differ by at most 0 "
  expect_exit 0 mtl-convert --load "$WORK/$name.mtl" --save "$WORK/$name.hf" --verify
  expect_same "${golden%_bin}/model.safetensors" "$WORK/$name.hf/model.safetensors"
  expect_same <(compact "$golden/config.json") <(compact "$WORK/$name.hf/config.json")
done
mkdir "$WORK/axial"
cp "$TESTS/golden/llama_model/llama/model.safetensors" "$WORK/axial"
sed 's/"rope_type": "default"/"rope_type": "axial"/; s/"silu"/"mish"/' "$TESTS/golden/llama_model/llama/config.json" >"$WORK/axial/config.json"
expect_exit 65 mtl-convert --load "$WORK/axial" --save "$WORK/x"
expect_text "$WORK/err" "axial/config.json: hidden_act is \"mish\", but mtl supports only .*; rope_parameters.rope_type is \"axial\""

# --json, other dtypes, shards.
expect_exit 0 mtl-convert --load "$MODELS/a" --save "$WORK/half" --dtype bfloat16 --max-shard-size 100KB --verify --json
for pattern in '"schema": "mtl-convert/1"' '"dtype": "bfloat16"' '"parameters": 136' '"verified": true' 'model-00001-of-0000[0-9].safetensors'; do
  expect_text "$WORK/out" "$pattern"
done
expect_text "$WORK/half/config.json" '"dtype": "bfloat16"'
expect_text "$WORK/half/model.safetensors.index.json" '"total_size": '
expect_exit 0 mtl-convert --load "$WORK/half" --save "$WORK/half.mtl" --to mtl --verify
expect_text "$WORK/half.mtl/iter_0000000/manifest.json" '"dtype": "BF16"'
expect_exit 0 mtl-convert --load "$WORK/half.mtl" --save "$WORK/half.back" --max-shard-size 100KB --verify
for file in "$WORK"/half/model-*.safetensors; do expect_same "$file" "$WORK/half.back/${file##*/}"; done
expect_exit 0 mtl-convert --load "$WORK/half.mtl" --save "$WORK/wide.mtl" --to mtl --dtype float32 --verify
expect_exit 0 mtl-convert --load "$WORK/half" --save "$WORK/wide" --dtype float32 --verify
expect_exit 0 mtl-convert --load "$WORK/wide.mtl" --save "$WORK/wide.back" --verify
expect_same "$WORK/wide/model.safetensors" "$WORK/wide.back/model.safetensors"
expect_exit 0 mtl-convert --load "$WORK/wide" --save "$WORK/half2" --dtype bfloat16 --max-shard-size 100KB
expect_same "$WORK/half/model-00001-of-00003.safetensors" "$WORK/half2/model-00001-of-00003.safetensors"

# Does not remove the model it reads, even if its name looks like a leftover.
cp -r "$MODELS/a" "$WORK/left.tmp.77"
ln -s "$MODELS/a" "$WORK/left.tmp.78"
for number in 77 78; do
  expect_exit 2 mtl-convert --load "$WORK/left.tmp.$number" --save "$WORK/left"
  expect_text "$WORK/err" "--save .*/left would remove .*/left.tmp.$number, which contains the model to read, as a leftover"
  [ -f "$WORK/left.tmp.$number/config.json" ] || fail "the model to read was removed: left.tmp.$number"
done
rm -rf "$WORK"/left.tmp.7?
# Does not remove other folders, even if their names look like leftovers.
mkdir "$WORK"/left.tmp.{77,78,20260131,notes}
touch "$WORK"/left.tmp.{77,78,20260131,notes}/config.json "$WORK/left.tmp.77/model.safetensors.tmp.77" "$WORK/left.tmp.78/thesis.tex"
expect_exit 0 mtl-convert --load "$MODELS/a" --save "$WORK/left"
expect_text "$WORK/err" "left.tmp.78 looks like a leftover of a killed run, but contains 'thesis.tex', which is not part of a model; it is kept"
[ "$(cd "$WORK" && echo left.tmp.*)" = 'left.tmp.20260131 left.tmp.78 left.tmp.notes' ] || fail "wrong leftovers: $(cd "$WORK" && echo left.tmp.*)"
rm -rf "$WORK"/left.tmp.* "$WORK/left"

# If it rejects another program's model, the error gives the format.
mkdir -p "$WORK/megatron/iter_0000030/mp_rank_00" "$WORK/dist/iter_0000005" "$WORK/pickled"
touch "$WORK/megatron/iter_0000030/mp_rank_00/model_optim_rng.pt" "$WORK/dist/iter_0000005/"{.metadata,__0_0.distcp,common.pt}
touch "$WORK/pickled/pytorch_model-00001-of-00002.bin"
echo 30 >"$WORK/megatron/latest_checkpointed_iteration.txt"
expect_foreign() {
  expect_exit 65 mtl-convert --load "$WORK/$1" --save "$WORK/foreign"
  expect_text "$WORK/err" "$WORK/$1(: | |/)(the folder )?$2"
}
expect_foreign megatron 'iter_0000030/mp_rank_00/model_optim_rng.pt: the file is empty'
expect_foreign dist 'iter_0000005/metadata.json is missing; copy all files'
expect_foreign dist/iter_0000005 'metadata.json is missing; copy all files'
echo '{"sharded_backend": "torch_dist", "sharded_backend_version": 1}' >"$WORK/dist/iter_0000005/metadata.json"
expect_foreign dist/iter_0000005 '.metadata: the file is empty'
mkdir -p "$WORK/zarr/iter_0000005" "$WORK/titan/step-10" "$WORK/first/release/mp_rank_00" "$WORK/first/release/mp_rank_00_000"
echo '{"sharded_backend": "zarr", "sharded_backend_version": 1}' >"$WORK/zarr/iter_0000005/metadata.json"
touch "$WORK/titan/step-10/.metadata" "$WORK/first/release/mp_rank_00/model_rng.pt"
expect_foreign zarr 'contains .* iter_0000005 is a distributed Megatron-LM checkpoint \(metadata.json\), which mtl reads only with .metadata'
expect_foreign titan 'step-10/.metadata: the file is empty'
expect_foreign first 'release/mp_rank_00/model_rng.pt: .*distributed optimizer'
for tag in global_step100 any_tag; do
  mkdir -p "$WORK/$tag/$tag" && echo $tag >"$WORK/$tag/latest"
  touch "$WORK/$tag/$tag/"{layer_00-model_00,mp_rank_00}_model_states.pt "$WORK/$tag/$tag/zero_pp_rank_0_mp_rank_00_optim_states.pt"
  expect_foreign $tag "$tag/mp_rank_00_model_states.pt: the file is empty"
  expect_foreign $tag/$tag 'mp_rank_00_model_states.pt: the file is empty'
  expect_foreign $tag/$tag/mp_rank_00_model_states.pt "is one rank's file of a DeepSpeed or GPT-NeoX checkpoint; .*folder"
  rm "$WORK/$tag/$tag/layer"* "$WORK/$tag/$tag/mp"*
  expect_foreign $tag/$tag 'the files mp_rank_\*_model_states.pt are missing'
done
expect_foreign pickled \
  'has PyTorch weights \(pytorch_model-00001-of-00002.bin\), but no config.json; add the config.json of the model'
expect_foreign pickled/pytorch_model-00001-of-00002.bin \
  'is a PyTorch file; .*pytorch_model.bin'
mkdir "$WORK/pickled_hf" && cp "$MODELS/a/config.json" "$WORK/pickled_hf" && touch "$WORK/pickled_hf/pytorch_model.bin"
expect_foreign pickled_hf 'pytorch_model.bin: the file is empty'
rm "$WORK/pickled_hf/pytorch_model.bin"
expect_foreign pickled_hf \
  'has no weights; .*model.safetensors, .*, pytorch_model.bin, pytorch_model.bin.index.json'
# Checkpoints of transformers' Trainer: the weights are still DeepSpeed's or FSDP's, which are no second model.
mkdir -p "$WORK/trainer/checkpoint-3/global_step3" "$WORK/trainer/checkpoint-20"
cp "$MODELS/a/config.json" "$WORK/trainer/checkpoint-3"
touch "$WORK/trainer/checkpoint-3/"{zero_to_fp32.py,global_step3/mp_rank_00_model_states.pt}
expect_foreign trainer/checkpoint-3 'has a config.json, but no weights .*\(zero_to_fp32.py\); merge .*python zero_to_fp32.py \. \.'
! grep -q 'more than one model' "$WORK/err" || fail 'a folder without weights is taken for a second model'
cp "$MODELS/a/"* "$WORK/trainer/checkpoint-20"
expect_exit 0 mtl-convert --load "$WORK/trainer" --save "$WORK/trained"
expect_text "$WORK/err" 'read .*trainer/checkpoint-20 \(Hugging Face folder'
cp "$MODELS/a/model.safetensors" "$WORK/tokens.bin"
expect_exit 65 mtl-convert --load "$WORK/tokens.bin" --save "$WORK/foreign"
expect_text "$WORK/err" 'tokens.bin is a file, but a model is a folder'

# Errors identify the problem and leave nothing behind.
expect_exit 2 mtl-convert --load "$MODELS/a" --save "$WORK/half"
expect_text "$WORK/err" 'is not empty; .*--save, .*--force'
expect_exit 0 mtl-convert --load "$MODELS/a" --save "$WORK/half" --force
[ -f "$WORK/half/model.safetensors.index.json" ] && fail "--force left files of the replaced folder"
expect_exit 2 mtl-convert --load "$MODELS/a" --save "$WORK/x" --to gguf --max-shard-size none
expect_text "$WORK/err" 'max-shard-size none'
expect_text "$WORK/err" 'gguf'
expect_exit 2 mtl-convert --load "$MODELS/a"
expect_exit 74 mtl-convert --load "$WORK/nowhere" --save "$WORK/x"
expect_exit 65 mtl-convert --load "$TESTS/golden" --save "$WORK/x"
expect_text "$WORK/err" 'contains no model; use a folder that contains manifest.json .* config.json .* iter_'
mkdir "$WORK/broken"
cp "$MODELS/a/config.json" "$WORK/broken"
head -c 300000 "$MODELS/a/model.safetensors" >"$WORK/broken/model.safetensors"
expect_exit 65 mtl-convert --load "$WORK/broken" --save "$WORK/x"
expect_text "$WORK/err" "model.safetensors: tensor '.*': .*download it again"

# If the disk fails, a conversion leaves nothing behind.
for at in 2 5 9 14; do
  MTL_FAULT=enospc:$at expect_exit 74 mtl-convert --load "$MODELS/a" --save "$WORK/x"
done
MTL_FAULT=enospc:12 expect_exit 74 mtl-convert --load "$MODELS/a" --save "$WORK/x" --to mtl
ls "$WORK" | grep -q '^x' && fail "a failed conversion left $(ls "$WORK" | grep '^x')"

# For a damaged checkpoint, the error gives the file and the tensor.
printf '\377' | dd of="$WORK/a.mtl/iter_0000000/shard_00000.safetensors" bs=1 seek=200000 conv=notrunc status=none
expect_exit 65 mtl-convert --load "$WORK/a.mtl" --save "$WORK/x"
expect_text "$WORK/err" "shard_00000.safetensors does not match its hash in the manifest \(tensor 'param\."

# --force replaces a model or one checkpoint, and nothing else. Errors come before any work and change nothing.
listing() { (cd "$1" && find . -print0 | LC_ALL=C sort -z | tr '\0' '\n'; find . -type f -exec cat {} + | cksum); }
# expect_untouched FOLDER PATTERN CODE ARGUMENTS...: mtl-convert fails with this message and leaves the folder
# unchanged.
expect_untouched() {
  local folder=$1 pattern=$2 code=$3 before
  before=$(listing "$folder")
  shift 3
  expect_exit "$code" mtl-convert "$@"
  expect_text "$WORK/err" "$pattern"
  [ "$(listing "$folder" 2>&1)" = "$before" ] || fail "$folder was changed: mtl-convert $*"
}
from=(--load "$MODELS/a")
mkdir "$WORK/notes"
echo keep >"$WORK/notes/diary.txt"
expect_untouched "$WORK/notes" 'does not contain a model; --force replaces a folder only if' 2 "${from[@]}" --save "$WORK/notes" --force
expect_exit 0 mtl-convert "${from[@]}" --save "$WORK/mixed"
echo keep >"$WORK/mixed/README.md"
expect_untouched "$WORK/mixed" "contains 'README.md', which is not part of a model" 2 "${from[@]}" --save "$WORK/mixed" --force
mkdir "$WORK/bert"
echo '{"model_type": "bert"}' >"$WORK/bert/config.json"
: >"$WORK/bert/model.safetensors"
expect_untouched "$WORK/bert" 'contains a config.json for a different kind of model' 2 "${from[@]}" --save "$WORK/bert" --force
mkdir "$WORK/outer"
cp -r "$MODELS/a" "$WORK/outer/model"
expect_untouched "$WORK/outer" 'is or contains the model to read' 2 --load "$WORK/outer/model" --save "$WORK/outer" --force
expect_untouched "$WORK/outer" 'is or contains the model to read' 2 --load "$WORK/outer/model" --save "$WORK/outer/model/" --force
ln -s outer "$WORK/outer_link"
expect_untouched "$WORK/outer" 'is or contains the model to read' 2 --load "$WORK/outer/model" --save "$WORK/outer_link/model" --force
mkdir "$WORK/here"
(failures=0; cd "$WORK/here" && expect_exit 2 mtl-convert "${from[@]}" --save . --force && expect_text "$WORK/err" 'is the current folder, or contains it'
  exit "$failures") || fail '--save . was not refused as it should be'
ln -s "$WORK/nowhere" "$WORK/dangling"
expect_exit 2 mtl-convert "${from[@]}" --save "$WORK/dangling"
expect_text "$WORK/err" 'dangling is a symbolic link to .*/nowhere, which does not exist'
[ -L "$WORK/dangling" ] || fail 'a dangling link was replaced'

# A single checkpoint can be replaced. Multiple checkpoints cannot, and neither can one inside a save folder.
expect_exit 0 mtl-convert "${from[@]}" --save "$WORK/ck" --to mtl
cp -r "$WORK/ck" "$WORK/two"
cp -r "$WORK/two/iter_0000000" "$WORK/two/iter_0000010"
expect_untouched "$WORK/two" 'contains 2 checkpoints of a training run' 2 "${from[@]}" --save "$WORK/two" --force
expect_untouched "$WORK/two" 'iter_0000010 is the name of a checkpoint inside a save folder' 2 "${from[@]}" --save "$WORK/two/iter_0000010" --force
expect_exit 0 mtl-convert "${from[@]}" --save "$WORK/ck" --force
expect_text "$WORK/err" "replacing .*/ck: the checkpoint iter_0000000"
[ -f "$WORK/ck/model.safetensors" ] && [ ! -e "$WORK/ck/iter_0000000" ] || fail 'a checkpoint was not replaced'
expect_exit 0 mtl-convert "${from[@]}" --save "$WORK/ck" --to mtl --force --json
expect_text "$WORK/out" '"replaced": "a Hugging Face model"'

# Respects a save folder's lock.
: >"$WORK/ck/lock"
exec 7>>"$WORK/ck/lock"
flock 7
expect_untouched "$WORK/ck" 'another job saves here' 1 "${from[@]}" --save "$WORK/ck" --force
exec 7>&-
expect_exit 0 mtl-convert "${from[@]}" --save "$WORK/ck" --force

# Only one run at a time can write to a folder.
exec 7>>"$WORK/busy.lock"
flock 7
expect_exit 1 mtl-convert "${from[@]}" --save "$WORK/busy"
expect_text "$WORK/err" 'busy: another run writes there .*choose another --save'
[ ! -e "$WORK/busy" ] || fail 'two runs wrote to one folder'
exec 7>&-
expect_exit 0 mtl-convert "${from[@]}" --save "$WORK/busy"

# Keeps a symbolic link and replaces its target.
ln -s ck "$WORK/link"
expect_exit 0 mtl-convert "${from[@]}" --save "$WORK/link" --to mtl --force
[ -L "$WORK/link" ] && [ -d "$WORK/ck/iter_0000000" ] || fail 'a link was replaced instead of its target'

# Removing the old folder is the last operation. If it fails, the error gives that folder, and the new folder is in
# place.
at=60
while MTL_FAULT=eio:$at mtl-convert "${from[@]}" --save "$WORK/ck" --force 2>"$WORK/err"; do
  at=$((at - 1))
  [ $at -gt 0 ] || break
done
expect_text "$WORK/err" "ck is complete, but the folder that it replaced .* now .*/ck\.tmp\.[0-9]+\) could not be removed: "
[ -f "$WORK/ck/model.safetensors" ] || fail 'the new folder is not in place'

# In a container, the folder to replace may be one of the image, which cannot be renamed.
ways=('env MTL_FAULT=no-move:1')
cd "$WORK" || exit 1
mkdir image
if on_image image true 2>/dev/null; then ways+=('on_image image'); else echo 'SKIPPED: overlayfs' >&2; fi
for way in "${ways[@]}"; do
  rm -rf image
  expect_exit 0 mtl-convert "${from[@]}" --save image/m --to mtl
  # shellcheck disable=SC2086  # words
  expect_exit 0 $way mtl-convert "${from[@]}" --save image/m --force
  [ "$(ls -A image)" = m ] || fail "left beside the new folder: $(ls -A image) ($way)"
  expect_same image/m/model.safetensors "$MODELS/a/model.safetensors"
  [ ! -e image/m/iter_0000000 ] || fail "the old checkpoint is still there ($way)"
done
cd - >/dev/null || exit 1

# The next run removes what killed runs left behind, whatever they wrote and whenever they ended. Signals and limits leave
# nothing.
formats=(hf mtl megatron 'megatron --ckpt-format torch_dist')
for to in "${formats[@]}"; do
  at=1
  : >"$WORK/removed"
  until { MTL_FAULT=kill:$at mtl-convert "${from[@]}" --save "$WORK/killed" --to $to 2>>"$WORK/removed"; } 2>/dev/null; do
    at=$((at + 1 + at / 2))
    [ $at -lt 10000 ] || break
  done
  [ $at -gt 20 ] || fail "a conversion to $to makes fewer than $at writes"
  expect_text "$WORK/removed" 'removed .*killed.tmp.[0-9]+, because'
  ! grep -q 'is kept' "$WORK/removed" || fail "kept after a killed conversion to $to: $(grep -m1 'is kept' "$WORK/removed")"
  left=$(cd "$WORK" && compgen -G 'killed.*')
  [ -z "$left" ] || fail "killed conversions to $to left behind: $left"
  rm -r "$WORK/killed"
done
# Likewise for the folder that a run replaced, but did not remove.
expect_exit 0 mtl-train --mock-data --tokenizer-type NullTokenizer --vocab-size 8 --num-layers 1 --hidden-size 8 \
  --num-attention-heads 1 --seq-length 4 --max-position-embeddings 4 --micro-batch-size 1 --global-batch-size 1 \
  --train-iters 1 --lr 0.1 --eval-iters 0 --save "$WORK/other_run"
mkdir "$WORK"/other_run/iter_0000003.tmp.{,old.,damaged.}77
for old in "${formats[@]}" trained; do
  if [ "$old" = trained ]; then
    mv "$WORK/other_run" "$WORK/old"
  else
    expect_exit 0 mtl-convert "${from[@]}" --save "$WORK/old" --to $old
  fi
  MTL_FAULT=no-remove:1 expect_exit 74 mtl-convert "${from[@]}" --save "$WORK/old" --force
  expect_exit 0 mtl-convert "${from[@]}" --save "$WORK/old" --force
  expect_text "$WORK/err" 'removed .*old.tmp.[0-9]+, because'
  rm -r "$WORK/old"
done
mkdir -p "$WORK/killed.tmp.78/release/mp_rank_00"
echo keep >"$WORK/killed.tmp.78/release/mp_rank_00/notes.txt"
expect_exit 0 mtl-convert "${from[@]}" --save "$WORK/killed"
expect_text "$WORK/err" "killed.tmp.78 .* contains 'notes.txt', which is not part of a model \(in mp_rank_00\) \(in release\); it is kept"
rm -r "$WORK/killed.tmp.78"
(failures=0; ulimit -f 100; expect_exit 74 mtl-convert "${from[@]}" --save "$WORK/limited"; exit "$failures") ||
  fail 'a limit on file sizes was not reported'
expect_text "$WORK/err" 'model.safetensors.*: cannot write after .* bytes: File too large'
stopped=0
for _ in $(seq 40); do
  rm -rf "$WORK/stopped"
  mtl-convert "${from[@]}" --save "$WORK/stopped" --verify 2>/dev/null &
  pid=$!
  while kill -0 $pid 2>/dev/null && ! compgen -G "$WORK/stopped.tmp.*" >/dev/null; do :; done
  kill -TERM $pid 2>/dev/null
  wait $pid
  [ $? -eq 143 ] && stopped=1 && break
done
[ $stopped -eq 1 ] || fail 'no conversion was interrupted'
left=$(cd "$WORK" && compgen -G '*.tmp.*' | grep -v "^ck\.tmp\."; cd "$WORK" && compgen -G '*.lock')
[ -z "$left" ] || fail "left behind: $left"

# Reports values that the new dtype cannot represent and values that are not finite, with tensor and count.
cp -r "$MODELS/a" "$WORK/large"
chmod -R u+w "$WORK/large"
weights=$WORK/large/model.safetensors
put_last() { printf "$1" | dd of="$weights" bs=1 seek=$(($(stat -c %s "$weights") - 4)) conv=notrunc status=none; }
put_last '\x00\x24\x74\x49'  # 1e6
expect_exit 0 mtl-convert --load "$WORK/large" --save "$WORK/l16" --dtype float16
expect_text "$WORK/err" "warning: float16 cannot represent some elements, .*: 'transformer.wte.weight' \(1 of 32,768 elements\); use --dtype bfloat16"
expect_exit 0 mtl-convert --load "$WORK/large" --save "$WORK/l16m" --dtype float16 --to mtl
expect_text "$WORK/err" "'param.embedding.tokens.weight' \(1 of 32,768 elements\)"
expect_exit 1 mtl-convert --load "$WORK/large" --save "$WORK/l16v" --dtype float16 --verify
expect_text "$WORK/err" "verification failed: float16 cannot represent all elements of 'transformer.wte.weight' .*; choose --dtype bfloat16 or float32"
expect_exit 0 mtl-convert --load "$WORK/large" --save "$WORK/lb16" --dtype bfloat16 --verify
grep -q warning "$WORK/err" && fail 'warned that bfloat16 cannot hold 1e6'
put_last '\x00\x00\xc0\x7f'  # NaN
expect_exit 0 mtl-convert --load "$WORK/large" --save "$WORK/nan"
expect_text "$WORK/err" "warning: .*/large contains NaN or infinity in 'transformer.wte.weight' \(1 of 32,768 elements\)"

# Files in a model folder: other encodings, a FIFO, a shard name with a NUL, model_max_length, a SentencePiece model.
cp -r "$MODELS/a" "$WORK/files"
chmod -R u+w "$WORK/files"
{ printf '\xEF\xBB\xBF'; cat "$MODELS/a/config.json"; } >"$WORK/files/config.json"
expect_exit 65 mtl-convert --load "$WORK/files" --save "$WORK/x"
expect_text "$WORK/err" 'files/config.json .*byte order mark.*tail -c \+4'
iconv -f UTF-8 -t UTF-16 "$MODELS/a/config.json" >"$WORK/files/config.json"
expect_exit 65 mtl-convert --load "$WORK/files" --save "$WORK/x"
expect_text "$WORK/err" 'files/config.json .*iconv -f UTF-16'
cp "$MODELS/a/config.json" "$WORK/files/config.json"
echo '{"model_max_length": 1000000000000000019884624838656, "tokenizer_class": "X"}' >"$WORK/files/tokenizer_config.json"
echo model >"$WORK/files/tokenizer.model"
echo '{{ messages }}' >"$WORK/files/chat_template.jinja"
expect_exit 0 mtl-convert --load "$WORK/files" --save "$WORK/files.mtl" --to mtl
expect_exit 0 mtl-convert --load "$WORK/files.mtl" --save "$WORK/files.hf"
expect_text "$WORK/files.hf/tokenizer_config.json" '"model_max_length": 64'
expect_text "$WORK/files.hf/tokenizer_config.json" '"tokenizer_class": "X"'
expect_same "$WORK/files/tokenizer.model" "$WORK/files.hf/tokenizer.model"
expect_same "$WORK/files/chat_template.jinja" "$WORK/files.hf/chat_template.jinja"
rm "$WORK/files/config.json"
mkfifo "$WORK/files/config.json"
expect_exit 74 timeout 60 mtl-convert --load "$WORK/files" --save "$WORK/x"
expect_text "$WORK/err" 'config.json is not a regular file'
mkdir "$WORK/sharded"
cp "$MODELS/a/config.json" "$WORK/sharded"
echo '{"weight_map": {"transformer.wte.weight": "model\u0000.safetensors"}}' >"$WORK/sharded/model.safetensors.index.json"
expect_exit 65 mtl-convert --load "$WORK/sharded" --save "$WORK/x"
expect_text "$WORK/err" 'weight_map lists "model\\u0000.safetensors", which is not the name of a file in this folder'

# A round trip through Megatron-LM's checkpoints keeps all bytes, at multiple parallel sizes and with the tensor names
# from both transformer implementations.
for model in gpt2_model/a llama_model/llama llama_model/mistral llama_model/qwen2; do
  golden=$TESTS/golden/$model
  vocabulary=$(sed -nE 's/.*"vocab_size": ([0-9]+).*/\1/p' "$golden/config.json")
  for flags in '' '--transformer-impl local' '--pipeline-model-parallel-size 2' \
    '--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --make-vocab-size-divisible-by 100'; do
    [ "${model##*/}${flags:0:8}" = mistral--tensor ] && continue  # fewer key heads than ranks
    rm -rf "$WORK"/{megatron,back}
    # shellcheck disable=SC2086 # words
    expect_exit 0 mtl-convert --load "$golden" --save "$WORK/megatron" --to megatron --verify $flags
    expect_exit 0 mtl-convert --load "$WORK/megatron" --save "$WORK/back" --vocab-size "$vocabulary"
    expect_same "$golden/model.safetensors" "$WORK/back/model.safetensors"
  done
done
[ "$(cat "$WORK/megatron/latest_checkpointed_iteration.txt")" = release ] ||
  fail 'the tracker does not name the release'
(cd "$WORK/megatron" && find . -name '*.pt' | sort | tr '\n' ' ') >"$WORK/files.pt"
expect_text "$WORK/files.pt" '^./release/mp_rank_00_000/model_optim_rng.pt ./release/mp_rank_00_001/.* ./release/mp_rank_01_001/model_optim_rng.pt $'
# Interleaved pipelines: both flags for the number of chunks write the same files, which keep all bytes.
expect_exit 0 mtl-convert --load "$TESTS/golden/megatron_chunks" --save "$WORK/chunks" --vocab-size 12 --verify
interleaved=(mtl-convert --load "$WORK/chunks" --to megatron --verify --pipeline-model-parallel-size 2)
expect_exit 0 "${interleaved[@]}" --save "$WORK/by_layers" --num-layers-per-virtual-pipeline-stage 2
expect_exit 0 "${interleaved[@]}" --save "$WORK/by_chunks" --num-virtual-stages-per-pipeline-rank 2
diff -r "$WORK/by_layers" "$WORK/by_chunks" >&2 || fail 'the two flags for the number of chunks write different files'
expect_exit 0 mtl-convert --load "$WORK/by_layers" --save "$WORK/chunks_back" --vocab-size 12
expect_same "$WORK/chunks/model.safetensors" "$WORK/chunks_back/model.safetensors"
for rank in 0 1; do
  grep -qa model1 "$WORK/by_layers/release/mp_rank_00_00$rank/model_optim_rng.pt" || fail "stage $rank has no second chunk"
done
expect_exit 2 "${interleaved[@]}" --save "$WORK/x" --num-layers-per-virtual-pipeline-stage 2 --num-virtual-stages-per-pipeline-rank 2
expect_text "$WORK/err" '^  --num-layers-per-virtual-pipeline-stage, --num-virtual-stages-per-pipeline-rank +mean the same; use only one'
expect_exit 2 "${interleaved[@]}" --save "$WORK/x" --num-virtual-stages-per-pipeline-rank 3
expect_text "$WORK/err" 'the number of layers 8 is not a multiple of --pipeline-model-parallel-size 2 x --num-virtual-stages-per-pipeline-rank 3'
expect_exit 0 mtl-convert --load "$TESTS/golden/gpt2_model/a" --save "$WORK/m16" --to megatron --dtype bfloat16 --verify
# --force replaces a Megatron-LM checkpoint, including one saved by Megatron-LM, but not a folder with other files.
mkdir "$WORK/m16/release/logs"
expect_untouched "$WORK/m16" "contains 'logs', which is not part of a model \(in release\)" 2 "${from[@]}" --save "$WORK/m16" --force
rmdir "$WORK/m16/release/logs"
echo keep >"$WORK/m16/release/mp_rank_00/notes.txt"
expect_untouched "$WORK/m16" "contains 'notes.txt', which is .* \(in mp_rank_00\) \(in release\)" 2 "${from[@]}" --save "$WORK/m16" --force
rm "$WORK/m16/release/mp_rank_00/notes.txt"
expect_exit 0 mtl-convert "${from[@]}" --save "$WORK/m16" --to megatron --force
expect_text "$WORK/err" 'replacing .*/m16: a Megatron-LM checkpoint'
cp -r "$TESTS/golden/megatron_ckpt/legacy_tp2pp2" "$WORK/saved"
chmod -R u+w "$WORK/saved"
cp -r "$WORK/saved/iter_0000030" "$WORK/saved/iter_0000040"
expect_untouched "$WORK/saved" 'contains 2 checkpoints of a training run' 2 "${from[@]}" --save "$WORK/saved" --force
rm -r "$WORK/saved/iter_0000040"
expect_exit 0 mtl-convert "${from[@]}" --save "$WORK/saved" --force
[ -f "$WORK/saved/model.safetensors" ] && [ ! -e "$WORK/saved/iter_0000030" ] || fail 'a Megatron-LM checkpoint was not replaced'
expect_exit 2 mtl-convert --load "$TESTS/golden/llama_model/neox" --save "$WORK/x" --to megatron
expect_text "$WORK/err" '^mtl-convert: --to megatron: Megatron-LM has no parallel residual'
expect_exit 2 mtl-convert --load "$TESTS/golden/llama_model/mistral" --save "$WORK/x" --to megatron --tensor-model-parallel-size 2
expect_text "$WORK/err" 'the number of query groups 1 is not a multiple of --tensor-model-parallel-size 2'
[ -e "$WORK/x" ] && fail 'a refused conversion left a folder'

for size in 5gb 2e30GB; do
  expect_exit 2 mtl-convert "${from[@]}" --save "$WORK/x" --max-shard-size $size
  expect_text "$WORK/err" "max-shard-size $size +is not a size from 1 byte to .*spelled as in 5GB"
done
# The table of formats needs no other flag.
expect_exit 0 mtl-convert --list-formats
expect_text "$WORK/out" '^megatron: Megatron-LM checkpoint$'
expect_exit 0 mtl-convert --list-formats --json
expect_text "$WORK/out" '"written_by": "--to megatron"'
finish
