#!/bin/bash
# Runs the layouts that layouts_test.sh skips, other architectures and precisions in every layout that can divide them,
# and recomputation in various layouts. Together, the layouts cover every pair of choices that can be combined.
source "$(dirname "$0")/lib.sh" "$1"
STEPS=10
source "$(dirname "$0")/layouts.sh"
cd "$WORK" || exit 1
run_layouts 25 199
run_layouts 1 199 llama 2
run_layouts 1 199 qwen 2
run_layouts 1 199 neox
run_layouts 1 199 gpt-bf16
run_layouts 1 199 gpt-fp16
run_layouts 1 199 llama-bf16 2

for name in gpt llama; do
  set_architecture $name
  for layout in '2 1 1 1f1b 1 0 0 2 1 - 0 adam' '1 0 2 1f1b 1 0 0 2 1 - 0 adam' \
    '1 0 1 1f1b 2 1 1 2 1 - 0 adam' '2 1 2 gpipe 2 1 1 1 1 - 0 adam'; do
    # shellcheck disable=SC2086 # words
    set_layout $layout
    title="$name $title"
    train_layout "$ranks" kept "${flags[@]}"
    check_recompute kept --recompute-granularity selective
    check_recompute kept --recompute-granularity full --recompute-method uniform
    check_recompute kept --recompute-granularity full --recompute-method uniform --recompute-num-layers 2
    check_recompute kept --recompute-granularity full --recompute-method block --recompute-num-layers 2
    rm -rf kept.*
  done
done
set_architecture gpt

# layouts.txt is complete.
[ -z "$(awk -f "$TESTS/cli/layouts_make.awk" "$TESTS/cli/layouts.txt")" ] || fail 'pairs of choices are missing in layouts.txt'
finish
