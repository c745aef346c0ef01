# Shared by all tool tests. Source it with the build folder as $1.
set -u
BIN=$(cd "$1/bin" && pwd)
TESTS=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
SHARE=$TESTS/../share
PATH=$BIN:$PATH
WORK=$(mktemp -d)
failures=0
trap end_test EXIT

# end_test: fails if a check has failed, also in a script that does not call finish.
end_test() {
  rm -rf --one-file-system "$WORK"
  [ "$failures" -eq 0 ] || exit 1
}

# If FAIL_FAST is set, a test ends at its first failure.
fail() {
  echo "FAILED: $*" >&2
  failures=$((failures + 1))
  [ -z "${FAIL_FAST:-}" ] || exit 1
}

# enter_data_folder: enters $WORK and puts token files and GPT-2's vocabulary there. Waiting OpenMP threads will sleep.
enter_data_folder() {
  export OMP_WAIT_POLICY=passive
  cd "$WORK" || exit 1
  cp "$TESTS"/golden/indexed/merged_text_document.* "$SHARE"/gpt2/{vocab.json,merges.txt} .
}

# expect_exit CODE COMMAND...: COMMAND exits with CODE. Its output is in $WORK/out and $WORK/err.
expect_exit() {
  local want=$1 got
  shift
  "$@" >"$WORK/out" 2>"$WORK/err"
  got=$?
  if [ "$got" -ne "$want" ]; then
    fail "exit $got instead of $want: $*"
    sed 's/^/    /' "$WORK/err" >&2
  fi
}

# expect_text FILE PATTERN: a line in FILE matches the extended regular expression.
expect_text() {
  grep -qE -- "$2" "$1" || { fail "no line like '$2' in $1:"; sed 's/^/    /' "$1" >&2; }
}

# expect_clean_end FILE COMMAND...: SIGTERM while COMMAND writes FILE kills COMMAND and leaves no part of FILE behind.
expect_clean_end() {
  local file=$1 pid code
  shift
  MTL_FAULT=slow:1 "$@" >"$WORK/out" 2>"$WORK/err" &
  pid=$!
  until compgen -G "$file.tmp.*" >/dev/null || ! kill -0 $pid 2>/dev/null; do sleep 0.01; done
  kill -TERM $pid || fail "ended before the signal: $*"
  wait $pid 2>/dev/null
  code=$?
  [ $code -eq 143 ] || fail "exit $code instead of 143: $*"
  ! compgen -G "$file*" >/dev/null || fail "left behind: $(compgen -G "$file*")"
}

# on_image FOLDER COMMAND...: runs COMMAND as in a container whose image contains FOLDER: overlayfs cannot rename the
# folders in it. Afterwards, FOLDER is as COMMAND left it. Fails if this user cannot mount file systems.
on_image() {
  local folder=$1 code
  shift
  # shellcheck disable=SC2016 # the inner shell's words
  unshare -m bash -c '
    folder=$1 layers=$1.layers
    shift
    mkdir "$layers" && mount -t tmpfs tmpfs "$layers" && mkdir "$layers/upper" "$layers/work" &&
      mount -t overlay overlay -o "lowerdir=$folder,upperdir=$layers/upper,workdir=$layers/work" "$folder" || exit 125
    "$@"
    code=$?
    cp -a "$folder" "$folder.after" && exit $code' bash "$PWD/$folder" "$@"
  code=$?
  rmdir "$folder.layers"
  [ ! -d "$folder.after" ] || { rm -r "$folder" && mv "$folder.after" "$folder"; }
  return $code
}

# expect_same FILE FILE: both have the same bytes.
expect_same() {
  cmp -s "$1" "$2" || fail "$1 and $2 differ: $(cmp "$1" "$2" 2>&1 | head -1)"
}

# mtl_compare compares numbers, never awk: in mawk, NaN equals every number.
# below VALUE LIMIT: both are finite, and VALUE <= LIMIT.
below() { mtl_compare below "$1" "$2"; }

# expect_near A B TOLERANCE: the numbers A and B are equal within a relative TOLERANCE.
expect_near() { mtl_compare near <(echo "$1") <(echo "$2") --relative "$3" || fail "$1 is not near $2"; }

# expect_near_lines FILE FILE WHAT [TOLERANCE [COUNT]]: both files have COUNT lines, each with a number after the same
# words. The numbers are equal within a relative TOLERANCE, 1e-6 by default.
expect_near_lines() {
  mtl_compare near "$1" "$2" --relative "${4:-1e-6}" ${5:+--count "$5"} || fail "$3: $1 and $2 differ"
}

# make_null_corpus: writes null.jsonl and the token files that Megatron-LM makes from it, null_expected.bin and .idx.
# The text is golden/indexed's NullTokenizer corpus without line 9. The id in that line, -1, is outside the vocabulary.
# Megatron-LM writes it, and mtl rejects it.
make_null_corpus() {
  sed 9d "$TESTS/golden/indexed/null.jsonl" >null.jsonl
  mtl-data split "$TESTS/golden/indexed/null70000_text_document" --counts 8,1 --names expected,outside \
    --output-prefix null --quiet ||
    fail 'cannot make null_expected from the golden token files'
}

# is_sanitized TOOL: true if TOOL was built with a sanitizer. It then needs more memory than planned.
is_sanitized() { nm -D "$(command -v "$1")" | grep -qE '__[at]san'; }

finish() {
  [ "$failures" -eq 0 ] || { echo "$failures checks failed" >&2; exit 1; }
  echo "all checks passed"
}
