#!/bin/bash
# Flags that need other flags, or have no effect with or without them: if a condition in --list-flags is not met, the
# tool reports it once.
# shellcheck disable=SC2034
source "$(dirname "$0")/lib.sh" "$1"
enter_data_folder
MODEL=$TESTS/golden/gpt2_model/b
printf 'plain text\n' >plain.txt
# The 256 bytes as a file of ranks, each byte in base64.
awk 'BEGIN { digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
  for (byte = 0; byte < 256; ++byte) print substr(digits, int(byte / 4) + 1, 1) substr(digits, byte % 4 * 16 + 1, 1) "== " byte }' >ranks.tiktoken

# A valid command for each tool.
gpt2=(--vocab-file vocab.json --merge-file merges.txt)
sizes=(--num-layers 4 --hidden-size 16 --num-attention-heads 2 --max-position-embeddings 32 --seq-length 16)
mtl_train=(mtl-train "${sizes[@]}" "${gpt2[@]}" --lr 1e-3 --dry-run --train-iters 2)
mtl_topo=(mtl-topo "${sizes[@]}" --world-size 1 --vocab-size 100)
mtl_preprocess=(mtl-preprocess --input plain.txt --output-prefix out "${gpt2[@]}")
mtl_vocab=(mtl-vocab --input plain.txt --vocab-size 260 --output-prefix out)
mtl_eval=(mtl-eval --load "$MODEL" --input plain.txt "${gpt2[@]}")
mtl_generate=(mtl-generate --load "$MODEL" --ids --prompt 1 --max-new-tokens 1 "${gpt2[@]}")
mtl_convert=(mtl-convert --load "$MODEL" --save converted)
mtl_plot=(mtl-plot plain.txt)

# command_for NAME FLAG PHRASE: sets $chosen to mtl-NAME's command, adapted to the flag and the phrase.
command_for() {
  local -n command=mtl_$1
  chosen=("${command[@]}")
  [ "$1" = train ] || return
  case $2 in *-samples) chosen=("${chosen[@]:0:${#chosen[@]}-2}" --train-samples 16) ;; esac
  case $3 in
    'needs --dry-run'*) chosen=("${chosen[@]/--dry-run/--quiet}") ;;
    *'a model that is loaded') chosen=(mtl-train --load "$MODEL" --seq-length 16 --tokenizer-type NullTokenizer --vocab-size 1000 --dry-run) ;;
  esac
}

# The flags that make a phrase true. If there is no entry, a flag must be absent.
declare -A triggers=(["with --lr-decay-style constant"]="--lr-decay-style constant"
  ["with --eval-iters 0"]="--eval-iters 0" ["needs validation: --eval-iters above 0, or --full-validation"]="--eval-iters 0" ["needs replicas: a --zero-stage below 3"]="--zero-stage 3" ["with --optimizer sgd"]="--optimizer sgd" ["with --mock-data"]="--mock-data"
  ["with a --save-interval that divides it"]="--save saved --save-interval 1"
  ["with rotary positions"]="--position-embedding-type rope"
  ["with a dynamic loss scale, which always goes on"]="--fp16"
  ["with --weight-decay-incr-style linear or cosine"]="--weight-decay-incr-style linear --start-weight-decay 0 --end-weight-decay 1"
  ["on the CPU, whose memory is the host's"]="--device cpu" ["with --loss-scale"]="--fp16 --loss-scale 128" ["with --greedy"]="--greedy" ["with --to mtl or megatron"]="--to mtl"
  ["with --format text"]="--format text"
  ["with --tiktoken-num-special-tokens 0"]="--tokenizer-type TikTokenizer --tokenizer-model ranks.tiktoken --tiktoken-num-special-tokens 0"
  ["with --tokenizer-type HuggingFaceTokenizer, which always finds its tokens"]="--tokenizer-type HuggingFaceTokenizer --tokenizer-model $MODEL"
  ["without --device cuda or auto"]="--device cpu" ["without --tokenizer-type GPT2BPETokenizer"]="--tokenizer-type NullTokenizer --vocab-size 1000")
# Values for flags that have choices or a format. All others accept any text.
declare -A value=([--lr-warmup-init]=5e-4 [--min-lr]=1e-4 [--lr-wsd-decay-style]=linear [--muon-scale-mode]=spectral [--muon-coefficient-type]=simple [--muon-fp32-matmul-prec]=high [--pipeline-schedule]=gpipe [--pipeline-split]=balanced [--cp-comm-type]=p2p [--roofline]=H100 [--window-size]=15,0 [--attention-backend]=flash [--tiktoken-pattern]=v1 [--lang]=english [--max-shard-size]=5GB [--recompute-method]=block [--zero-stage]=1 [--fsdp]=full_shard [--data-parallel-sharding-strategy]=optim [--transformer-impl]=local [--ckpt-format]=torch_dist
  [--rope-parameters]='{}' [--new-token-rows]=mean [--vocab-file]=vocab.json [--merge-file]=merges.txt [--tokenizer-model]=vocab.json)
# These flags are rejected without the flags given here.
declare -A required=([--overlap-param-gather]="--overlap-grad-reduce --use-distributed-optimizer" [--data-parallel-sharding-strategy]=--use-megatron-fsdp)

conditions=0
for name in train topo preprocess vocab eval generate convert plot; do
  expect_exit 0 "mtl-$name" --list-flags
  grep ';' out >listed
  while IFS=';' read -r declaration phrase_list; do
    read -r flag kind low _ <<<"$declaration"
    case $kind in
      switch) words=("$flag") ;;
      whole | real)
        above=$(awk -v low="${low#?}" -v kind="$kind" 'BEGIN { print low + (kind == "whole" ? 2 : 0.25) }')
        words=("$flag" "${value[$flag]:-$above}") ;;
      *) words=("$flag" "${value[$flag]:-x}") ;;
    esac
    IFS=';' read -ra phrases <<<"$phrase_list"
    for phrase in "${phrases[@]}"; do
      phrase=${phrase# }
      extra=${triggers[${phrase#has no effect }]:-}
      [ "${phrase#needs }" = "$phrase" ] && extra+=" ${required[$flag]:-}"
      command_for "$name" "$flag" "$phrase"
      # shellcheck disable=SC2086
      timeout 60 "${chosen[@]}" $extra "${words[@]}" >out 2>err </dev/null
      status=$?
      case $phrase in
        needs\ *) message="  $flag  *(.*, and )?$phrase(, and .*)?" ;;
        *) message="mtl-$name: $flag $phrase" ;;
      esac
      [ "$(grep -cE -- "^$message\$" err)" -eq 1 ] || fail "not printed once: '$message': $(cat err)"
      case $name,$phrase in
        train,has* | topo,has*) [ $status -eq 0 ] || fail "exit $status although it says '$message': $(cat err)" ;;
      esac
      conditions=$((conditions + 1))
    done
  done <listed
done
[ "$conditions" -ge 60 ] || fail "only $conditions conditions were tried"
finish
