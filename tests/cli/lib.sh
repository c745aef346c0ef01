# What every test of the tools needs: source it with the build folder as $1.
set -u
BIN=$(cd "$1/bin" && pwd)
TESTS=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
SHARE=$TESTS/../share
PATH=$BIN:$PATH
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
failures=0

fail() {
  echo "FAILED: $*" >&2
  failures=$((failures + 1))
}

# expect_exit CODE COMMAND...: output goes to $WORK/out and $WORK/err.
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

# expect_text FILE PATTERN: FILE has a line that matches the extended regular expression.
expect_text() {
  grep -qE -- "$2" "$1" || { fail "no line like '$2' in $1:"; sed 's/^/    /' "$1" >&2; }
}

# expect_same FILE FILE
expect_same() {
  cmp -s "$1" "$2" || fail "$1 and $2 differ: $(cmp "$1" "$2" 2>&1 | head -1)"
}

# is_sanitized TOOL: then it needs more memory than it is asked for.
is_sanitized() { nm -D "$(command -v "$1")" | grep -qE '__[at]san'; }

finish() {
  [ "$failures" -eq 0 ] || { echo "$failures checks failed" >&2; exit 1; }
  echo "all checks passed"
}
