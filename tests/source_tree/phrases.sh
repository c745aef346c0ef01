#!/usr/bin/env bash
# Rejects phrases that make a reader stop (phrases.txt, next to this file) anywhere in the repository's text.
set -euo pipefail
cd "$(dirname "$0")/../.."
list=tests/source_tree/phrases.txt
mapfile -t files < <(git ls-files | grep -E '\.(h|cpp|cu|inc|sh|sbatch|txt|cmake|md|scd|py|awk)$|(^|/)(Makefile|run)$' |
  grep -vE '^(tests/golden/.*[^d]$|tests/fuzz/corpus/|share/gpt2/)')
[ ${#files[@]} -gt 100 ] || { echo "phrases.sh: found ${#files[@]} files; run it in a checkout" >&2; exit 1; }
found=0
while IFS=$'\t' read -r pattern instead; do
  case $pattern in '' | '#'* | except) continue ;; esac
  while IFS= read -r hit; do
    file=${hit%%:*}
    line=${hit#*:*:}
    while IFS=$'\t' read -r word path expression; do
      [ "$word" = except ] && [ "$path" = "$file" ] && grep -qP -- "$expression" <<<"$line" && continue 2
    done <"$list"
    echo "$hit"
    echo "    instead: $instead"
    found=1
  done < <(grep -nPi -- "$pattern" "${files[@]}" || true)
done <"$list"
exit $found
