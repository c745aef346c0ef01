#!/bin/bash
# A loaded model continues with longer sequences, another scaling of its rotary frequencies, and more tokens, when told
# so; its checkpoints and conversions have the new values. Every layout adds the same rows.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/train_runs.sh"
cd "$WORK" || exit 1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_WAIT_POLICY=passive
mpi=(mpirun --oversubscribe)
preprocess "$CORPUS" c
# expect_lines COUNT PATTERN: that many lines in err match.
expect_lines() {
  [ "$(grep -cE -- "$2" err)" -eq "$1" ] || { fail "'$2' is not printed $1 times:"; sed 's/^/    /' err >&2; }
}
# shellcheck disable=SC2054  # the comma belongs to a flag's value
common=(--tokenizer-type NullTokenizer --vocab-size 512 --data-path c_text_document --split 100,0,0 --eval-iters 0
  --micro-batch-size 2 --global-batch-size 4 --peak-tflops 0.1 --log-interval 1 --threads 1)
start=(mtl-train "${common[@]}" --seq-length 32 --lr 1e-3 --train-iters 1 --finetune)
# loss COMMAND...: prints the loss of the run's first step.
loss() {
  rm -f run.jsonl
  expect_exit 0 "$@" --log-jsonl run.jsonl
  grep -o '"lm_loss": [^,]*' run.jsonl | head -1
}
LLAMA=$TESTS/golden/llama_model/llama # 64 positions, base 10000
ROTARY=$TESTS/golden/rotary_model

# --- YaRN: the run, its checkpoint, and what it converts to ---
yarn=(--position-embedding-type yarn --rotary-scaling-factor 4)
longer=("${start[@]}" --seq-length 96 --max-position-embeddings 256 --load "$LLAMA" "${yarn[@]}")
expect_exit 0 "${longer[@]}" --save yarn
expect_lines 1 '^mtl-train: warning: .*/llama continues with --max-position-embeddings 64, now 256; rotary scaling none, now yarn by 4 from 64 positions, attention factor 1.138629[0-9]*, betas 32 and 1$'
expect_exit 0 "${longer[@]}" --save yarn --train-iters 2 --override-opt_param-scheduler
expect_lines 0 'continues with -'
expect_text err 'resuming yarn/iter_0000001'
expect_exit 0 mtl-convert --load yarn --save yarn_hf --verify
for text in '"max_position_embeddings": 256' '"rope_type": "yarn"' '"factor": 4' '"original_max_position_embeddings": 64'; do
  expect_text yarn_hf/config.json "$text"
done
expect_exit 0 mtl-convert --load yarn --save yarn_megatron --to megatron --verify
again=("${start[@]}" --seq-length 96)
want=$(loss "${again[@]}" --load yarn)
expect_lines 0 'continues with'
for model in yarn_hf yarn_megatron; do
  [ "$(loss "${again[@]}" --load $model)" = "$want" ] || fail "$model: another loss than the checkpoint's"
  expect_lines 0 'continues with'
done
# A model with YaRN keeps what no flag changes.
expect_exit 0 "${again[@]}" --load yarn --rotary-scaling-factor 8 --yarn-beta-fast 16
expect_lines 1 'rotary scaling yarn by 4 from 64 positions, attention factor 1.138[0-9]*, betas 32 and 1, now yarn by 8 from 64 positions, attention factor 1.207[0-9]*, betas 16 and 1$'
expect_exit 0 "${again[@]}" --load yarn_megatron --mscale 0.5 --mscale-all-dim 0.5
expect_lines 1 'now yarn by 4 from 64 positions, attention factor 1, betas'
expect_exit 2 "${start[@]}" --load "$LLAMA" --yarn-beta-fast 16
expect_lines 1 '^  --yarn-beta-fast 16 +needs --position-embedding-type yarn, because the loaded model has no yarn scaling'
expect_lines 1 '^  [^ ]'

# --- Other scalings ---
declare -A seen=()
# expect_scaling TEXT FLAG...: the run says that the scaling is now TEXT, and has another first loss than all others.
expect_scaling() {
  local got
  got=$(loss "${start[@]}" --load "$LLAMA" "${@:2}")
  expect_lines 1 "^mtl-train: warning: .*/llama continues with .*rotary scaling none, now $1\$"
  [ -z "${seen[$got]:-}" ] || fail "${*:2} has the loss of ${seen[$got]}"
  seen[$got]=${*:2}
}
factors='1, 1.1, 1.5, 2, 3, 4.5, 6, 8'
expect_scaling 'linear by 2' --rotary-seq-len-interpolation-factor 2
expect_scaling 'llama3 by 8 from 8192 positions, low and high frequency factors 1 and 4' --use-rope-scaling --rotary-base 100000
expect_scaling 'llama3 by 2 from 16 positions, low .*' --rope-parameters \
  '{"rope_type": "llama3", "factor": 2, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 16}'
expect_scaling 'yarn by 4 from 16 positions, attention factor 1.3, betas 4 and 1, not rounded' --rope-parameters \
  '{"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 16, "beta_fast": 4, "attention_factor": 1.3, "truncate": false}'
expect_scaling 'longrope from 16 positions, attention factor 1.224[0-9]*' --rope-parameters \
  "{\"rope_type\": \"longrope\", \"short_factor\": [$factors], \"long_factor\": [$factors], \"original_max_position_embeddings\": 16}"
expect_lines 1 'continues with other longrope factors'
expect_scaling 'dynamic by up to 4' --rope-parameters '{"rope_type": "dynamic", "factor": 4}' --max-position-embeddings 24
own=(mtl-train --tokenizer-type NullTokenizer --vocab-size 200 --mock-data --eval-iters 0 --micro-batch-size 2
  --peak-tflops 0.1 --threads 1 --seq-length 32 --lr 1e-3 --train-iters 1 --finetune --load)
expect_exit 0 "${own[@]}" "$ROTARY/yarn" --rope-parameters '{"rope_type": "default"}' --save plain
expect_lines 1 'rotary scaling yarn by 4 .*, now none$'
grep -q scaling plain/iter_0000001/manifest.json && fail 'the checkpoint still has a scaling'
# Frequencies depend on the length of the run's sequences, and with dynamic scaling these exceed the positions.
for model in longrope dynamic_above; do
  expect_exit 0 "${own[@]}" "$ROTARY/$model" --seq-length 40 --save $model
  expect_exit 0 mtl-convert --load $model --save ${model}_hf --verify
  expect_exit 0 mtl-convert --load ${model}_hf --save ${model}_mtl --to mtl --verify
  expect_exit 2 mtl-convert --load $model --save none --to megatron
  expect_text err 'Megatron-LM has no rotary frequencies that depend on the length of the sequence'
done
# Context-parallel ranks, each with a part of every sequence, have the frequencies of the whole length.
for model in yarn longrope dynamic_above; do
  whole=$(loss "${own[@]}" "$ROTARY/$model" --seq-length 40) parts=$(loss "${mpi[@]}" -n 2 "${own[@]}" "$ROTARY/$model" \
    --seq-length 40 --context-parallel-size 2)
  expect_near "${parts#*: }" "${whole#*: }" 1e-6
done
expect_exit 2 "${own[@]}" "$ROTARY/dynamic_above" --seq-length 97
expect_text err '^  --seq-length 97 +is longer than the 96 positions of the model'
expect_exit 0 mtl-generate --load dynamic_above_hf --ids --prompt '1 2 3' --greedy --max-new-tokens 60
expect_exit 2 mtl-eval --load dynamic_above_hf --input none.bin --seq-length 97
expect_text err '^  --seq-length 97 +is longer than the 96 positions of the model; use at most 96'

# --- What is refused: one mistake is one problem ---
# refused TEXT FLAG...
refused() {
  expect_exit 2 "${start[@]}" "${@:2}"
  expect_text err "^  $1"
  expect_lines 1 '^  [^ ]'
}
for flags in '--position-embedding-type yarn' '--rotary-seq-len-interpolation-factor 2' --use-rope-scaling \
  '--rope-parameters {"rope_type":"linear","factor":2}'; do
  # shellcheck disable=SC2086
  refused "${flags%%\{*}.*the loaded model has learned positions; leave the flag out" --load "$TESTS/golden/gpt2_model/a" $flags
done
refused '--max-position-embeddings 128 +the loaded model has 64 learned positions, and nothing to derive more of them from; leave' \
  --load "$TESTS/golden/gpt2_model/a" --max-position-embeddings 128
refused '--use-rope-scaling, --position-embedding-type yarn +scale rotary frequencies in different ways' \
  --load "$LLAMA" --use-rope-scaling "${yarn[@]}"
refused '--use-rotary-position-embeddings +contradicts --position-embedding-type yarn' \
  --load "$LLAMA" --use-rotary-position-embeddings "${yarn[@]}"
refused '--no-yarn-correction-range-round-to-int +contradicts' --load "$LLAMA" "${yarn[@]}" \
  --yarn-correction-range-round-to-int --no-yarn-correction-range-round-to-int
refused '--rope-parameters +is not JSON \(' --load "$LLAMA" --rope-parameters '{"factor"'
refused '--rope-parameters +must be a JSON object' --load "$LLAMA" --rope-parameters '[4]'
refused '--rope-parameters +rope_parameters has no factor; add it' --load "$LLAMA" --rope-parameters '{"rope_type": "linear"}'
refused '--rope-parameters +rope_parameters.partial_rotary_factor is 0.5, but the loaded model has 1; leave it out' --load "$LLAMA" \
  --rope-parameters '{"rope_type": "linear", "factor": 2, "partial_rotary_factor": 0.5}'
refused 'model +short_factor of longrope has -1; all must be positive' --load "$LLAMA" --rope-parameters \
  '{"rope_type": "longrope", "short_factor": [1, 1, 1, 1, 1, 1, 1, -1], "long_factor": [1, 1, 1, 1, 1, 1, 1, 1],
    "original_max_position_embeddings": 16}'
refused '--rotary-base 500 +excludes --rope-parameters' --load "$LLAMA" --rotary-base 500 \
  --rope-parameters '{"rope_type": "linear", "factor": 2}'
refused '--rope-type yarn +chooses the positions of latent attention' --load "$LLAMA" --rope-type yarn

# --- More tokens ---
for i in $(seq 1 40); do echo "{\"text\": \"$(seq -s ' ' $((500 + i)) 4 599) $i\"}"; done >more.jsonl
expect_exit 0 mtl-preprocess --input more.jsonl --output-prefix m --tokenizer-type NullTokenizer --vocab-size 600
more=("${start[@]}" --vocab-size 600 --data-path m_text_document)
expect_exit 65 "${more[@]}" --load "$LLAMA"
expect_text err 'the token id 5[0-9]+, .* is not in the vocabulary of 512; .* --new-token-rows'
mean=$(loss "${more[@]}" --load "$LLAMA" --new-token-rows mean --save mean)
expect_lines 1 '^mtl-train: warning: .*/llama continues with tokens 512, now 600$'
init=$(loss "${more[@]}" --load "$LLAMA" --new-token-rows init)
other=$(loss "${more[@]}" --load "$LLAMA" --new-token-rows init --seed 7)
[ "$mean" != "$init" ] && [ "$init" != "$other" ] || fail "losses do not depend on the rows: $mean, $init, $other"
expect_exit 0 "${more[@]}" --load "$LLAMA" --new-token-rows mean --save mean --train-iters 2 --override-opt_param-scheduler
expect_lines 0 ' tokens? (have|has|is)|--new-token-rows'
expect_exit 0 mtl-convert --load mean --save mean_hf --verify
expect_text mean_hf/config.json '"vocab_size": 600'
expect_exit 0 "${more[@]}" --load mean_hf --new-token-rows mean
expect_lines 1 '^mtl-train: warning: --new-token-rows mean adds nothing to mean_hf, which has 600 tokens'
# Optimizer moments do not exist for new tokens.
expect_exit 0 "${start[@]}" --load "$LLAMA" --save trained
resume=(mtl-train "${common[@]}" --seq-length 32 --lr 1e-3 --train-iters 2 --vocab-size 600 --new-token-rows mean
  --data-path m_text_document --allow-data-change --override-opt_param-scheduler)
expect_exit 2 "${resume[@]}" --load trained
expect_lines 1 '^  --new-token-rows mean +cannot resume trained/iter_0000001, whose optimizer has no moments for new tokens; add --finetune '
expect_exit 2 "${resume[@]}" --load "$LLAMA" --save trained
expect_lines 1 '^  --new-token-rows mean +cannot extend a run that resumes trained/iter_0000001'
expect_exit 0 "${resume[@]}" --load trained --no-load-optim
expect_lines 1 'continues with tokens 512, now 600$'
expect_exit 2 mtl-train "${common[@]}" --num-layers 1 --new-token-rows mean --dry-run
expect_text err '^  --new-token-rows +needs --load PATH'

# Every layout has the same rows, in an untied model and in a tied one (qwen2, 256 tokens). A learning rate of almost 0
# keeps them.
declare -A layouts=([llama]='tensor-model-parallel-size:2 zero-stage:3' [qwen2]='tensor-model-parallel-size:2 pipeline-model-parallel-size:2')
for model in llama qwen2; do
  for rows in mean init; do
    run=("${more[@]}" --load "$TESTS/golden/llama_model/$model" --new-token-rows $rows --lr 1e-38 --weight-decay 0)
    expect_exit 0 "${run[@]}" --save one
    for layout in ${layouts[$model]}; do
      flags="--${layout/:/ }"
      # shellcheck disable=SC2086
      expect_exit 0 "${mpi[@]}" -n 2 "${run[@]}" --save two $flags </dev/null
      same=$(mtl_compare_checkpoints one/iter_0000001 two/iter_0000001)
      [[ $same == 'same 0.0e+00 '* ]] || fail "$model, $rows, $flags: other weights than one process: $same"
      rm -rf two
    done
    rm -rf one
  done
done
finish
