#!/bin/bash
# Every tool's command line: help and version on stdout, misuse on stderr with exit 2, and a dumped configuration that
# reads back.
. "$(dirname "$0")/lib.sh" "$1"

check_dump() {
  local tool=$1
  expect_exit 0 "$tool" --dump-config
  cp "$WORK/out" "$WORK/first.conf"
  expect_exit 0 "$tool" --config "$WORK/first.conf" --dump-config
  # The origin after the last " # " differs.
  sed 's/ *# [^#]*$//' "$WORK/first.conf" >"$WORK/first"
  sed 's/ *# [^#]*$//' "$WORK/out" >"$WORK/second"
  cmp -s "$WORK/first" "$WORK/second" || fail "$tool: the dumped configuration does not read back: $(diff "$WORK/first" "$WORK/second")"
}

for path in "$BIN"/mtl-*; do
  [ -x "$path" ] || continue
  tool=$(basename "$path")
  expect_exit 0 "$tool" --help
  expect_text "$WORK/out" "^usage: $tool"
  [ -s "$WORK/err" ] && fail "$tool --help writes on stderr"
  grep 'required.*\[' "$WORK/out" >&2 && fail "$tool --help: a required flag shows a default"
  expect_exit 0 "$tool" --version
  expect_text "$WORK/out" "^$tool [0-9]+\.[0-9]+"
  expect_exit 2 "$tool" --no-such-flag
  [ -s "$WORK/out" ] && fail "$tool: misuse writes on stdout"
  expect_text "$WORK/err" "no-such-flag"
  "$tool" --help | grep -q -- '--dump-config' && check_dump "$tool"
done

# Tools that compute do not let waiting threads spin for long, unless the user configures it.
for tool in mtl-train mtl-eval mtl-generate mtl-convert; do
  env -u OMP_WAIT_POLICY OMP_DISPLAY_ENV=verbose "$tool" --version >"$WORK/out" 2>"$WORK/err"
  tail -n 30 "$WORK/err" | grep -q "GOMP_SPINCOUNT = '1000'" || fail "$tool: waiting threads spin"
  OMP_WAIT_POLICY=active OMP_DISPLAY_ENV=verbose "$tool" --version >"$WORK/out" 2>"$WORK/err"
  grep -q "GOMP_SPINCOUNT = '1000'" "$WORK/err" && fail "$tool: overrules OMP_WAIT_POLICY"
done

# A reader that closes early is not an error, a full disk is.
mtl-plot --help | head -1 >/dev/null
[ "${PIPESTATUS[0]}" -eq 74 ] && fail "a closed pipe is reported as an I/O error"
if [ -e /dev/full ]; then
  mtl-plot --help >/dev/full 2>"$WORK/err"
  [ $? -eq 74 ] || fail "a full disk under stdout is not exit 74"
fi
finish
