#!/bin/bash
# Both JSON parsers agree on 900,000 mutated lines, in addition to those in the unit test.
source "$(dirname "$0")/lib.sh" "$1"
cd "$TESTS" || exit 1
MTL_TEST_JSON_LINES=900000 expect_exit 0 "$BIN/mtl_test_text" --test-case='json parsers: they agree on mutated lines'
expect_text "$WORK/out" 'test cases: +1 \| +1 passed'
finish
