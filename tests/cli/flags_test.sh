#!/bin/bash
# Every tool's command line: help and version appear on stdout. Misuse is reported on stderr with exit code 2. A dumped
# configuration can be read again.
. "$(dirname "$0")/lib.sh" "$1"

# check_dump TOOL: a configuration printed by --dump-config is unchanged after --config reads it.
check_dump() {
  local tool=$1
  expect_exit 0 "$tool" --dump-config
  cp "$WORK/out" "$WORK/first.conf"
  expect_exit 0 "$tool" --config "$WORK/first.conf" --dump-config
  # Ignores the value's origin, which comes after the last " # ".
  sed 's/ *# [^#]*$//' "$WORK/first.conf" >"$WORK/first"
  sed 's/ *# [^#]*$//' "$WORK/out" >"$WORK/second"
  cmp -s "$WORK/first" "$WORK/second" ||
    fail "$tool: --config changes the dumped configuration: $(diff "$WORK/first" "$WORK/second")"
}

# check_empty TOOL [COMMAND]: every flag with a value refuses an empty one, which a script's unset variable leaves, in the
# same words. Only a prompt may be empty.
check_empty() {
  local flags
  expect_exit 0 "$@" --list-flags
  awk '$2 !~ /^switch/ && $1 != "--prompt" { print $1 }' "$WORK/out" | sort >"$WORK/valued"
  mapfile -t flags <"$WORK/valued"
  expect_exit 2 "$@" "${flags[@]/%/=}" --dump-config
  sed -nE 's/^  (--[A-Za-z0-9-]+) +is empty; add a value(, or leave the flag out)?$/\1/p' "$WORK/err" | sort >"$WORK/refused"
  diff "$WORK/valued" "$WORK/refused" >&2 || fail "$*: not every flag refuses an empty value in the same words"
}

for path in "$BIN"/mtl-*; do
  [ -x "$path" ] || continue
  tool=$(basename "$path")
  expect_exit 0 "$tool" --help
  expect_text "$WORK/out" "^usage: $tool"
  [ -s "$WORK/err" ] && fail "$tool --help writes to stderr"
  grep 'required.*\[' "$WORK/out" >&2 && fail "$tool --help: a required flag shows a default"
  expect_exit 0 "$tool" --version
  expect_text "$WORK/out" "^$tool [0-9]+\.[0-9]+"
  expect_exit 0 "$tool" --version --verbose
  for topic in compiler CPU GPU MPI 'share files' oneDNN 'Open MPI' zstd; do expect_text "$WORK/out" "^$topic  *[^ ]"; done
  expect_exit 2 "$tool" --no-such-flag
  [ -s "$WORK/out" ] && fail "$tool: misuse writes to stdout"
  expect_text "$WORK/err" "no-such-flag"
  "$tool" --help | grep -q -- '--dump-config' && check_dump "$tool"
  [ "$tool" = mtl-data ] || check_empty "$tool"
done
while read -r command _; do check_empty mtl-data "$command"; done < <(mtl-data --help | sed -n 's/^  \([a-z]\)/\1/p')
for command in plan time; do check_empty mtl-topo "$command"; done

# A NUL byte in a configuration file is an error, and does not end the message.
printf 'min-lr = x\n\0\nsave = x\0y\nmax-lr = 1\n' >"$WORK/nul.conf"
expect_exit 2 mtl-train --config "$WORK/nul.conf" --dry-run
expect_text "$WORK/err" '^  --\\0 +unknown flag; .*nul.conf:2\)$'
expect_text "$WORK/err" '^  --save +the value has a NUL byte; .*nul.conf:3\)$'
expect_text "$WORK/err" '^  --max-lr .*nul.conf:4\)$'

# In tools that compute, waiting threads do not spin for long unless OMP_WAIT_POLICY is set.
for tool in mtl-train mtl-eval mtl-generate mtl-convert; do
  env -u OMP_WAIT_POLICY OMP_DISPLAY_ENV=verbose "$tool" --version >"$WORK/out" 2>"$WORK/err"
  tail -n 30 "$WORK/err" | grep -q "GOMP_SPINCOUNT = '1000'" || fail "$tool: waiting threads spin"
  OMP_WAIT_POLICY=active OMP_DISPLAY_ENV=verbose "$tool" --version >"$WORK/out" 2>"$WORK/err"
  grep -q "GOMP_SPINCOUNT = '1000'" "$WORK/err" && fail "$tool: overrules OMP_WAIT_POLICY"
done

# It is not an error if a reader closes the pipe early. A full disk is an error.
mtl-plot --help | head -1 >/dev/null
[ "${PIPESTATUS[0]}" -eq 74 ] && fail "a closed pipe is reported as an I/O error"
if [ -e /dev/full ]; then
  mtl-plot --help >/dev/full 2>"$WORK/err"
  [ $? -eq 74 ] || fail "not exit 74 when stdout is a full disk"
fi
finish
