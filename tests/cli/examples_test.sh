#!/bin/bash
# The examples of mtl-topo in docs/ and in its manual page print what the pages show: each command after "$ " is run. A
# line "..." stands for any lines. Numbers may differ by 3 %, because memory depends on the workspaces of the build's
# operators.
source "$(dirname "$0")/lib.sh" "$1"
cd "$WORK" || exit 1

# examples PAGE: writes each example of a page to example-N.command and example-N.shown.
examples() {
  rm -f example-*
  sed 's/\\\\$/\\/' "$1" | awk '
    /^```/ { inside = !inside; in_command = 0; shows = 0; next }
    inside && /^\$ mtl-topo / { ++n; in_command = 1; shows = 1; sub(/^\$ /, "") }
    inside && in_command {
      print > ("example-" n ".command")
      if ($0 !~ /\\$/) { in_command = 0; printf "" > ("example-" n ".shown") }
      next
    }
    inside && shows { sub(/ +$/, ""); print > ("example-" n ".shown") }'
}

# expect_shown SHOWN OUTPUT: the output has the shown lines, in order, and others only where "..." is.
expect_shown() {
  awk '
    function is_number(word) { return word ~ /^[-+]?[0-9][0-9,]*(\.[0-9]+)?(e[-+]?[0-9]+)?$/ }
    function value(word) { gsub(/,/, "", word); return word + 0 }
    function bare(word) { gsub(/[%()]/, "", word); sub(/[,.;:]$/, "", word); return word }
    function matches(a, b,   i, m, n, x, y, u, v, size) {
      m = split(a, x); n = split(b, y)
      if (m != n) return 0
      for (i = 1; i <= n; ++i) {
        if (x[i] == y[i]) continue
        if (!is_number(bare(x[i])) || !is_number(bare(y[i]))) return 0
        u = value(bare(x[i])); v = value(bare(y[i])); size = u > 0 ? u : -u
        if (u - v > 0.03 * size + 0.011 || v - u > 0.03 * size + 0.011) return 0
      }
      return 1
    }
    NR == FNR { shown[++count] = $0; next }
    { sub(/ +$/, ""); lines[++have] = $0 }
    END {
      at = 1
      for (i = 1; i <= count; ++i) {
        if (shown[i] == "...") { skips = 1; continue }
        while (at <= have && skips && !matches(shown[i], lines[at])) ++at
        if (at > have || !matches(shown[i], lines[at])) {
          printf "not printed there: %s\n", shown[i]
          if (!skips) printf "but:               %s\n", lines[at]
          exit 1
        }
        skips = 0; ++at
      }
      if (!skips && at <= have) { printf "not shown: %s\n", lines[at]; exit 1 }
    }' "$1" "$2"
}

# check PAGE LEAST: at least LEAST examples of the page are as shown.
check() {
  local page=$1 found=0 shown command locale=C.UTF-8
  [[ $page != *.scd ]] || locale=C
  examples "$page"
  for shown in example-*.shown; do
    [ -f "$shown" ] || continue
    command=${shown%.shown}.command
    LC_ALL=$locale bash "$command" >printed 2>>printed
    expect_shown "$shown" printed >why || fail "$page: $(head -1 "$command") ...: $(cat why)"
    found=$((found + 1))
  done
  [ "$found" -ge "$2" ] || fail "$page has only $found examples"
}

check "$TESTS/../docs/topo.md" 13
cmp -s step.svg "$TESTS/../docs/step.svg" || fail 'docs/step.svg is not the picture that its command draws'
check "$TESTS/../docs/parallel.md" 1
check "$TESTS/../docs/benchmarks.md" 1
check "$TESTS/../man/mtl-topo.1.scd" 3

# What must not pass: another number, another word, a line that is left out or added.
printf 'a 100 b\nc\n' >printed
for wrong in 'a 104 b\nc\n' 'a 100 d\nc\n' 'c\n' 'a 100 b\n' 'a 100 b\nx\nc\n' '...\nd\n'; do
  ! echo -ne "$wrong" | expect_shown /dev/stdin printed >why || fail "accepts $wrong"
done
printf 'a 100 b\n...\n' | expect_shown /dev/stdin printed || fail 'refuses lines that are left out'
finish
