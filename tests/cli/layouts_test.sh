#!/bin/bash
# Fifteen layouts on up to 8 ranks give the loss of one process; one of them gives the same bits twice.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/layouts.sh"
cd "$WORK" || exit 1
run_layouts 1 15

set_layout 2 1 2 1f1b 2 1 1 2
for name in first second; do train_layout "$ranks" "$name" "${flags[@]}"; done
expect_same <(figures first.jsonl) <(figures second.jsonl)
[ "$(mtl_compare_checkpoints first.ck second.ck)" = 'same 0.0e+00 - 0.0e+00 -' ] || fail 'the same layout, other bits'
finish
