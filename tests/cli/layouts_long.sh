#!/bin/bash
# The layouts that layouts_test.sh leaves out; and that all together cover every pair of choices that can be combined.
source "$(dirname "$0")/lib.sh" "$1"
source "$(dirname "$0")/layouts.sh"
cd "$WORK" || exit 1
run_layouts 16 99

awk '/^#/ { next }
  { ++lines; for (i = 1; i < 8; ++i) for (j = i + 1; j <= 8; ++j) seen[i, $i, j, $j] = 1 }
  END { for (pair in seen) ++pairs; if (lines < 40 || pairs != 187) { print lines, pairs; exit 1 } }' \
  "$TESTS/cli/layouts.txt" || fail 'pairs of choices are missing in layouts.txt'
finish
