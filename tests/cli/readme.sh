# Runs README.md's lines as a newcomer would who installed mtl into ~/.local. Source it after lib.sh.

# readme_lines HEADING ITERATIONS: prints the last code block of a section, with another number of iterations.
readme_lines() {
  awk -v heading="## $1" '
    /^## / { inside = $0 == heading }
    inside && /^```/ { code = !code; if (code) lines = ""; next }
    inside && code { lines = lines $0 "\n" }
    END { printf "%s", lines }' "$TESTS/../README.md" | sed -E "s/--train-iters [0-9]+/--train-iters $2/"
}

# run_readme HEADING ITERATIONS COMMANDS: runs the lines in $WORK, whose corpus stands there, and expects that many.
run_readme() {
  readme_lines "$1" "$2" >lines
  [ "$(grep -c '^[a-z]' lines)" -eq "$3" ] || fail "$1: $(grep -c '^[a-z]' lines) commands instead of $3"
  mkdir -p "$WORK/.local/share"
  ln -sfn "$(cd "$SHARE" && pwd)" "$WORK/.local/share/mtl"
  HOME=$WORK expect_exit 0 bash -eux -o pipefail lines
}
