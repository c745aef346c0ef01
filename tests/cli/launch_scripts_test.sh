#!/bin/bash
# The flags of public launch scripts: each acts, has no effect, or is refused for a reason that names the way out.
# launch_scripts_test.sh BUILD --write writes the expected answers anew; read them before you keep them.
source "$(dirname "$0")/lib.sh" "$1"
scripts=$TESTS/golden/launch_scripts
cd "$WORK" || exit 1
export FIRST=first SECOND=second SAVE=checkpoints VOCAB=$TESTS/../share/gpt2/vocab.json
export MERGES=$TESTS/../share/gpt2/merges.txt HF=$TESTS/golden/tokenizer/hf_saved_tinyshakespeare_1000
export SENTENCEPIECE=$TESTS/golden/tokenizer/sentencepiece_bpe.model
for args in "$scripts"/*.args; do
  plan=${args%.args}.plan
  ranks=$(head -n 1 "$plan" 2>/dev/null || echo 16)
  eval "mtl-train $(cat "$args") --dry-run --world-size $ranks" >out 2>err
  code=$?
  { echo "$ranks"; grep '^  --' err | sed "s|$TESTS|TESTS|g; s/   */  /g"; } >answers
  if [ "${2:-}" = --write ]; then cp answers "$plan"; fi
  expect_same answers "$plan"
  [ $code -eq $(($(wc -l <answers) > 1 ? 2 : 0)) ] || fail "$(basename "$args"): exit $code"
  [ $code -eq 0 ] || continue
  expect_text out '^  parameters '
  # The planner takes the whole command.
  eval "expect_exit 0 mtl-topo time $(cat "$args") --vocab-size 32000 --hardware H100 --world-size $ranks"
  expect_text err '^mtl-topo time: .*--lr, .* are set aside, because a plan chooses them, has their defaults or does not depend on'
done
# shellcheck disable=SC2046 # words
expect_exit 0 mtl-topo plan $(cat "$scripts/hfblog_codeparrot.args") --vocab-size 32000 --hardware A100 --world-size 16 \
  --recompute-activations --nproc_per_node 8 --output plan.sh
expect_text err '^mtl-topo plan: --load .SAVE is set aside, because it has no config.json that describes the model$'
expect_text out '^ 1\. .* micro-batch 12, recompute selective$'
grep -q -- --load plan.sh && fail 'a script that loads what was set aside'
# shellcheck disable=SC2046 # words
expect_exit 2 mtl-topo plan $(cat "$scripts/hfblog_codeparrot.args") --hardware A100 --world-size 16
expect_text err '^  --vocab-size +is required, '
# shellcheck disable=SC2046 # words
expect_exit 2 mtl-topo plan $(cat "$scripts/hfblog_codeparrot.args") --hardware A100 --world-size 16 --num-experts 8 --rope-theta 1e6
expect_text err '^  --num-experts .*mixtures of experts are not supported'
expect_text err '^  --rope-theta 1e6 +is spelled --rotary-base '
# A config.json describes the model, which flags must not contradict.
llama=$TESTS/golden/family_model/llama3
expect_exit 0 mtl-topo plan --load "$llama" --global-batch-size 8 --seq-length 16 --hardware H100 --world-size 2
expect_exit 2 mtl-topo plan --load "$llama" --global-batch-size 8 --hardware H100 --world-size 2
expect_text err '^  --seq-length +is required: '
expect_exit 2 mtl-topo time --load "$llama" --global-batch-size 8 --seq-length 16 --hardware H100 --world-size 1 --num-layers 99
expect_text err '^  --num-layers 99 '
expect_exit 2 mtl-topo plan --load "$llama/config.json" --global-batch-size 8 --seq-length 16 --hardware H100 --world-size 2 -o run.sh
expect_text err '^  --load .*config.json +describes a model that mtl-train cannot load, so there is no script; '
finish
