#!/bin/bash
# Megatron-LM's checkpoints, in every tool that reads models: converted bit for bit. Damaged and hostile files are
# rejected.
source "$(dirname "$0")/lib.sh" "$1"
CASES=$TESTS/golden/megatron_ckpt
A=$TESTS/golden/gpt2_model/a
enter_data_folder

# field NAME LINE: prints a number or word from a line in cases.jsonl.
field() { sed -E "s/.*\"$1\": ?\"?([^,\"}]+).*/\1/" <<<"$2"; }

# Every case converts to its model's weights.
expect_exit 0 mtl-convert --load "$A" --save half --dtype float16
while read -r line; do
  name=$(field dir "$line")
  flags=(--vocab-size 512)
  [ "$(field args "$line")" = true ] || flags+=(--num-attention-heads 4)
  expect_exit 0 mtl-convert --load "$CASES/$name" --save "$name" --verify "${flags[@]}"
  expect_text err "read $CASES/$name/.* \(Megatron-LM checkpoint, "
  if [ "$(field dtype "$line")" = float32 ]; then
    expect_same "$name/model.safetensors" "$A/model.safetensors"
  else
    expect_same "$name/model.safetensors" half/model.safetensors
  fi
done <"$CASES/cases.jsonl"
expect_text v0_tp1/config.json '"activation_function": "gelu_new"'
expect_exit 0 mtl-convert --load "$CASES/legacy_tp2pp2" --save mtl --to mtl --vocab-size 512 --dtype float32
expect_exit 0 mtl-convert --load mtl --save back
expect_same back/model.safetensors "$A/model.safetensors"

# If a value is missing in the file, the error gives the flag for it. Without --vocab-size, the padding stays, with a
# warning.
expect_exit 2 mtl-convert --load "$CASES/v0_tp1" --save no
expect_text err '--num-attention-heads .*is required, .*the checkpoint has no args'
expect_exit 2 mtl-convert --load "$A" --save no --num-attention-heads 8
expect_text err '--num-attention-heads 8: .* has 4 heads'
expect_exit 2 mtl-convert --load "$A" --save no --vocab-size 500
expect_text err '--vocab-size 500: .* has 512 tokens'
expect_exit 2 mtl-convert --load "$CASES/v1_tp1" --save no --vocab-size 513
expect_text err "^  --vocab-size 513 +exceeds the 512 rows of the checkpoint's token embedding"
expect_exit 2 mtl-convert --load "$CASES/v1_tp1" --save no --num-attention-heads 8
expect_text err '--num-attention-heads 8: .*/v1_tp1/.* has 4 heads'
expect_exit 0 mtl-convert --load "$CASES/mcore_local_tp1pp1" --save padded
expect_text err 'keeps all 600 rows of the token embedding, .*padding; .*--vocab-size'
expect_text padded/config.json '"vocab_size": 600'

# A checkpoint of mtl states the number of tokens, and has the tokenizer's files.
cp -r "$A" with_files
chmod u+w with_files
cp vocab.json merges.txt with_files
expect_exit 0 mtl-convert --load with_files --save own --to megatron --make-vocab-size-divisible-by 100 \
  --tensor-model-parallel-size 2
expect_exit 0 mtl-convert --load own --save own_back
! grep -q padding err || fail 'the number of tokens is not known'
for file in model.safetensors vocab.json merges.txt; do expect_same own_back/$file with_files/$file; done

# Uses the newest iteration if there is no tracker.
mkdir untracked
cp -r "$CASES/v1_tp1/iter_0000030" untracked
expect_exit 0 mtl-convert --load untracked --save from_untracked --vocab-size 512
expect_text err 'warning: untracked/latest_checkpointed_iteration.txt is missing; using iter_0000030'
expect_same from_untracked/model.safetensors half/model.safetensors

# If the folder contains a tokenizer, it determines the vocabulary size.
cp -r "$CASES/mcore_local_tp1pp1" with_tokenizer
chmod -R u+w with_tokenizer
expect_exit 0 mtl-vocab --input "$TESTS/../CONTRIBUTING.md" --output-prefix small --vocab-size 512
cp small-vocab.json with_tokenizer/iter_0000030/vocab.json
cp small-merges.txt with_tokenizer/iter_0000030/merges.txt
expect_exit 0 mtl-convert --load with_tokenizer --save trimmed
expect_same trimmed/model.safetensors half/model.safetensors

# mtl-eval and mtl-generate print the same output as for the Hugging Face model.
ids=$(shuf -i 0-511 -n 400 --random-source="$CASES/cases.jsonl" | tr '\n' ' ')
for _ in $(seq 25); do printf '{"text": "%s"}\n' "${ids% }"; done >ids.jsonl
expect_exit 0 mtl-preprocess --input ids.jsonl --output-prefix ids --tokenizer-type NullTokenizer --vocab-size 512
expect_exit 0 mtl-eval --load "$A" --data-path ids_text_document --threads 1
cp out expected
for name in v0_tp2 v1_tp1 legacy_tp2pp2 mcore_te_tp2pp1; do
  expect_exit 0 mtl-eval --load "$CASES/$name" --data-path ids_text_document --vocab-size 512 --threads 1
  expect_same out expected
done
expect_exit 0 mtl-eval --load "$CASES/v0_tp1" --data-path ids_text_document --vocab-size 512 --num-attention-heads 4 --threads 1
expect_same out expected
expect_exit 2 mtl-eval --load "$A" --data-path ids_text_document --vocab-size 400
expect_exit 0 mtl-generate --load "$A" --ids --greedy --prompt '1 2 3' --max-new-tokens 8
cp out expected
expect_exit 0 mtl-generate --load "$CASES/corelegacy_tp2pp1" --ids --greedy --prompt '1 2 3' --max-new-tokens 8 --vocab-size 512
expect_same out expected
expect_exit 0 mtl-generate --load "$CASES/v0_tp1/release" --ids --greedy --prompt '1 2 3' --max-new-tokens 8 --num-attention-heads 4
expect_same out expected

# Training can start from the weights.
train=(mtl-train --seq-length 32 --micro-batch-size 2 --global-batch-size 2 --train-iters 2 --lr 1e-4 --log-interval 1
  --data-path ids_text_document --split "100,0,0" --tokenizer-type NullTokenizer --vocab-size 512 --eval-iters 0
  --hidden-dropout 0.1 --attention-dropout 0.1)
losses() { grep -oE 'lm loss: [0-9.E+-]+' "$1"; }
expect_exit 0 "${train[@]}" --load "$A" --finetune
losses out >expected
[ "$(wc -l <expected)" -eq 2 ] || fail 'training from the Hugging Face folder: not two losses'
for name in mcore_local_tp2pp2 v2names_tp1pp2; do
  expect_exit 0 "${train[@]}" --load "$CASES/$name" --finetune
  losses out | diff - expected || fail "training from $name: different losses"
done
expect_exit 0 "${train[@]}" --load "$CASES/v0_tp1" --finetune --num-attention-heads 4
losses out | diff - expected || fail 'training from v0_tp1: different losses'

expect_exit 2 "${train[@]}" --load "$CASES/v0_tp1" --finetune --model gpt2-124m
grep '^  ' err >problems
[ "$(grep -c '^  --model gpt2-124m' problems)/$(wc -l <problems)" = 1/1 ] || fail "not one problem with --model: $(cat err)"

# Training resumes with the optimizer state, from Megatron-LM's folder and from a checkpoint converted from it.
resume=("${train[@]}" --train-iters 32 --attention-dropout 0 --hidden-dropout 0)
expect_exit 0 mtl-convert --load "$CASES/legacy_tp1pp1" --save resumable --to mtl --vocab-size 512 --verify
expect_exit 0 "${resume[@]}" --load resumable
losses out >expected
[ "$(wc -l <expected)" -eq 2 ] || fail 'resuming a converted checkpoint: not two losses'
expect_exit 0 "${resume[@]}" --load "$CASES/legacy_tp1pp1" --save resumed
expect_text err 'resuming .*/legacy_tp1pp1/iter_0000030 at iteration 30'
losses out | diff - expected || fail 'resuming a Megatron-LM checkpoint: different losses'
expect_exit 2 "${resume[@]}" --load "$CASES/legacy_tp1pp1" --use-checkpoint-opt_param-scheduler
expect_text err '^  --use-checkpoint-opt_param-scheduler +cannot be used, because .*/iter_0000030 has no schedule '
expect_exit 0 "${resume[@]}" --load "$CASES/legacy_tp1pp1" --finetune
[ "$(losses out | wc -l)" -eq 32 ] || fail '--finetune resumes instead of starting at iteration 0'

# The distributed optimizer's state is in distrib_optim.pt: training continues as from the same state by parameter, from
# Megatron-LM's folder and from a checkpoint converted from it.
DISTRIBUTED=$TESTS/golden/distrib_optim
yes '1 2 3 4 5 6 7 8 9 10 11' | head -60 | sed 's/.*/{"text": "&"}/' >tiny.jsonl
expect_exit 0 mtl-preprocess --input tiny.jsonl --output-prefix tiny --tokenizer-type NullTokenizer --vocab-size 45
tiny=(mtl-train --seq-length 16 --micro-batch-size 2 --global-batch-size 8 --train-iters 32 --lr 1e-4 --log-interval 1
  --data-path tiny_text_document --split "100,0,0" --tokenizer-type NullTokenizer --vocab-size 45 --eval-iters 0)
for name in llama_tp2 gpt_pp2; do
  expect_exit 0 "${tiny[@]}" --load "$DISTRIBUTED/${name}_plain"
  losses out >expected
  [ "$(wc -l <expected)" -eq 2 ] || fail "resuming ${name}_plain: not two losses"
  expect_exit 0 "${tiny[@]}" --load "$DISTRIBUTED/$name"
  expect_text err "resuming .*/$name/iter_0000030 at iteration 30"
  losses out | diff - expected || fail "resuming $name: different losses"
  expect_exit 0 mtl-convert --load "$DISTRIBUTED/$name" --save "$name" --to mtl --vocab-size 45 --verify
  expect_exit 0 "${tiny[@]}" --load "$name"
  losses out | diff - expected || fail "resuming the converted $name: different losses"
  expect_exit 0 "${tiny[@]}" --load "$DISTRIBUTED/$name" --no-load-optim
  losses out | diff -q - expected >/dev/null && fail "the moments of $name have no effect"
done

# A distrib_optim.pt that is damaged or of another checkpoint is refused; if it is missing, training does not start
# without the moments unless told to, and conversion says that there are none.
cp -r "$DISTRIBUTED/llama_tp2" distributed
chmod -R u+w distributed
ranks=distributed/iter_0000030/mp_rank_0
cp "${ranks}1/distrib_optim.pt" other
for fault in truncated swapped one_missing; do
  case $fault in
    truncated) head -c 9000 other >"${ranks}1/distrib_optim.pt" ;;
    swapped) cp "${ranks}0/distrib_optim.pt" "${ranks}1/distrib_optim.pt" ;;
    one_missing) rm "${ranks}1/distrib_optim.pt" ;;
  esac
  for command in "${tiny[*]} --save fresh" "${tiny[*]} --finetune" 'mtl-convert --save fresh --vocab-size 45' \
    'mtl-convert --to mtl --save fresh --vocab-size 45'; do
    # shellcheck disable=SC2086  # words
    expect_exit 65 $command --load distributed
    expect_text err 'mp_rank_01/distrib_optim.pt: '
    [ ! -e fresh ] || fail "a refused run left a --save folder (distrib_optim.pt is $fault)"
  done
done
rm "${ranks}0/distrib_optim.pt"
expect_exit 65 "${tiny[@]}" --load distributed --save fresh
expect_text err 'distributed/iter_0000030/mp_rank_00/distrib_optim.pt is missing.*--no-load-optim .* iteration 30 .*--finetune'
[ ! -e fresh ] || fail 'a refused run left a --save folder (distrib_optim.pt is missing)'
expect_exit 0 "${tiny[@]}" --load distributed --no-load-optim
[ "$(losses out | wc -l)" -eq 2 ] || fail '--no-load-optim does not continue at iteration 30'
expect_text err 'moments of zero: .*distrib_optim.pt'
expect_exit 0 "${tiny[@]}" --load distributed --finetune
[ "$(losses out | wc -l)" -eq 32 ] || fail '--finetune does not start at iteration 0'
expect_exit 0 mtl-convert --load distributed --save weights_only --vocab-size 45 --verify
[ "$(grep -c 'without the optimizer state: .*distrib_optim.pt' err)" -eq 1 ] || fail 'mtl-convert is silent about distrib_optim.pt'
expect_exit 0 mtl-convert --load "$DISTRIBUTED/llama_tp2" --save rounded --vocab-size 45 --dtype bfloat16
expect_same weights_only/model.safetensors rounded/model.safetensors

# The tracker names a checkpoint that is not read: an older one does not take its place.
cp -r "$CASES/legacy_tp1pp1" newer
chmod -R u+w newer
mkdir newer/iter_0000040
echo 40 >newer/latest_checkpointed_iteration.txt
for files in '' 'common.pt metadata.json __0_0.distcp'; do
  for file in $files; do touch "newer/iter_0000040/$file"; done
  for command in "${resume[*]}" 'mtl-convert --save no'; do
    # shellcheck disable=SC2086  # words
    expect_exit 65 $command --load newer
    expect_text err 'newer/iter_0000040(: the folder contains neither mp_rank.*newer/iter_0000030|/metadata.json is not valid JSON)'
  done
done
expect_exit 0 "${resume[@]}" --load newer --ckpt-step 30
rmdir newer/iter_0000040 2>/dev/null || rm -r newer/iter_0000040
expect_exit 0 "${resume[@]}" --load newer
expect_text err 'names iter_0000040, which does not exist; using iter_0000030'

# A folder with checkpoints of both programs, which name them alike, is not guessed at.
cp -r mtl mixed
cp -r "$CASES/legacy_tp2pp2/iter_0000030" mixed
for tool in 'mtl-convert --save no' "${train[*]} --finetune" "${train[*]} --save mixed"; do
  # shellcheck disable=SC2086  # words
  expect_exit 65 $tool --load mixed
  expect_text err 'mixed: the folder contains checkpoints of mtl \(iter_0000000\) and of Megatron-LM \(iter_0000030\)'
done
for iteration in 0000000 0000030; do
  expect_exit 0 mtl-convert --load mixed/iter_$iteration --save picked_$iteration --vocab-size 512 --dtype float32
  expect_same picked_$iteration/model.safetensors "$A/model.safetensors"
done

# Conversion to any format finds a flipped bit.
cp -r "$CASES/v1_tp1" damaged
chmod -R u+w damaged
printf '\001' | dd of=damaged/iter_0000030/mp_rank_00/model_optim_rng.pt bs=1 seek=200001 conv=notrunc status=none
for to in hf mtl megatron; do
  expect_exit 65 mtl-convert --load damaged --save no --to $to --vocab-size 512
  expect_text err "damaged/iter_0000030/mp_rank_00/model_optim_rng.pt: zip archive: the data of entry 'model_optim_rng/data/[0-9]+' .*CRC-32"
done
expect_exit 65 mtl-eval --load damaged --data-path ids_text_document --vocab-size 512
expect_text err 'does not match its CRC-32'

# Hostile files are rejected immediately, with a reason, and none of their code runs.
mkdir -p bad/release/mp_rank_00
echo release >bad/latest_checkpointed_iteration.txt
for file in "$CASES"/bad/*.pt; do
  cp -f "$file" bad/release/mp_rank_00/model_optim_rng.pt
  expect_exit 65 timeout 5 mtl-convert --load bad --save no
  expect_text err 'mp_rank_00/model_optim_rng.pt: .{12}'
  expect_exit 65 timeout 5 mtl-convert --load "$file" --save no
done
[ -z "$(find . "$TESTS" -name 'PWNED*')" ] || fail 'a hostile checkpoint created a file'
[ ! -e no ] || fail 'a refused checkpoint was converted'

finish
