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
  [ $code -ne 0 ] || expect_text out '^  parameters '
done
finish
